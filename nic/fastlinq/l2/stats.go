package l2

import (
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Statistics are what the driver reads: the counters of a vport and, for the
// whole function, of frames that no vport took, since they were reset.
type Statistics struct {
	VportStats
	MACFilterDiscards uint64 // no filter, mode or VLAN accepts them
	Undersize         uint64 // with nothing behind the header
}

func (fn *Function) statistics(v *vport) Statistics {
	d := &fn.drops[rx]
	return Statistics{
		VportStats:        v.stats,
		MACFilterDiscards: d[drop.NotOurMAC] + d[drop.WrongVLAN],
		Undersize:         d[drop.Truncated],
	}
}

// Filters are the numbers of address and VLAN filters in use.
func (fn *Function) Filters() (macs, vlans int) { return fn.macs, fn.vlans }

// Stats are the statistics of a vport since ResetStats.
func (fn *Function) Stats(id int) (Statistics, error) {
	v, err := fn.peekVport(id)
	if err != nil {
		return Statistics{}, err
	}
	return since(fn.statistics(v), v.base), nil
}

// ResetStats takes what a vport has counted so far as its zero.
func (fn *Function) ResetStats(id int) error {
	v, err := fn.peekVport(id)
	if err != nil {
		return err
	}
	v.base = fn.statistics(v)
	return nil
}

// VportStats are the counters of one vport.
type VportStats struct {
	RxUcastBytes, RxMcastBytes, RxBcastBytes uint64
	RxUcastPkts, RxMcastPkts, RxBcastPkts    uint64
	TxUcastBytes, TxMcastBytes, TxBcastBytes uint64
	TxUcastPkts, TxMcastPkts, TxBcastPkts    uint64
	NoBuffDiscards, GFTFilterDrop            uint64
	TxErrDropPkts, TTL0Discard               uint64
	PacketTooBigDiscard                      uint64
	CoalescedPkts, CoalescedEvents           uint64
	CoalescedAborts, CoalescedBytes          uint64
	NonCoalescedPkts                         uint64
}

// RxQueueStats are the counters of a receive queue.
type RxQueueStats struct {
	Received    uint64 // rcv_pkts
	HWErrors    uint64 // rx_hw_errors: the checksum was wrong
	AllocErrors uint64 // rx_alloc_errors: no memory to put segments together
	IPFragments uint64 // rx_ip_frags
	Discarded   uint64 // for want of buffers
}

// TxQueueStats are the counters of a transmit queue.
type TxQueueStats struct {
	Sent      uint64 // xmit_pkts
	Stopped   uint64 // stopped_cnt: the queue was full
	MemErrors uint64 // tx_mem_alloc_err
}

// cast adds a frame of n octets to the three kinds of counters.
func cast(dst ether.Addr, n int, ub, mb, bb, up, mp, bp *uint64) {
	switch {
	case dst.IsBroadcast():
		*bb += uint64(n)
		*bp++
	case dst.IsMulticast():
		*mb += uint64(n)
		*mp++
	default:
		*ub += uint64(n)
		*up++
	}
}

func (s *VportStats) received(dst ether.Addr, n int) {
	cast(dst, n, &s.RxUcastBytes, &s.RxMcastBytes, &s.RxBcastBytes, &s.RxUcastPkts, &s.RxMcastPkts, &s.RxBcastPkts)
}

func (s *VportStats) sent(dst ether.Addr, n int) {
	cast(dst, n, &s.TxUcastBytes, &s.TxMcastBytes, &s.TxBcastBytes, &s.TxUcastPkts, &s.TxMcastPkts, &s.TxBcastPkts)
}

// VportDrops counts the frames that a vport accepted and then dropped, or did not
// send, by reason.
func (fn *Function) VportDrops(id int) (in, out frame.Drops, err error) {
	v, err := fn.peekVport(id)
	if err != nil {
		return in, out, err
	}
	return v.drops[rx], v.drops[tx], nil
}

// counters are all counters of s, in the order of their declaration.
func (s *Statistics) counters() []*uint64 {
	return []*uint64{
		&s.RxUcastBytes, &s.RxMcastBytes, &s.RxBcastBytes, &s.RxUcastPkts,
		&s.RxMcastPkts, &s.RxBcastPkts, &s.TxUcastBytes, &s.TxMcastBytes,
		&s.TxBcastBytes, &s.TxUcastPkts, &s.TxMcastPkts, &s.TxBcastPkts,
		&s.NoBuffDiscards, &s.GFTFilterDrop, &s.TxErrDropPkts, &s.TTL0Discard,
		&s.PacketTooBigDiscard, &s.CoalescedPkts, &s.CoalescedEvents, &s.CoalescedAborts,
		&s.CoalescedBytes, &s.NonCoalescedPkts,
		&s.MACFilterDiscards, &s.Undersize,
	}
}

// Add adds the counters of another vport.
func (s *Statistics) Add(more *VportStats) {
	other := (&Statistics{VportStats: *more}).counters()
	for i, c := range s.counters() {
		*c += *other[i]
	}
}

// since is what a counts beyond b.
func since(a, b Statistics) Statistics {
	base := b.counters()
	for i, c := range a.counters() {
		*c -= *base[i]
	}
	return a
}
