package l2

import "tapir/wire/frame"

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
	AllocErrors uint64 // rx_alloc_errors
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
func cast(p *packet, n int, ub, mb, bb, up, mp, bp *uint64) {
	switch {
	case p.dst.IsBroadcast():
		*bb += uint64(n)
		*bp++
	case p.dst.IsMulticast():
		*mb += uint64(n)
		*mp++
	default:
		*ub += uint64(n)
		*up++
	}
}

func (s *VportStats) received(p *packet, n int) {
	cast(p, n, &s.RxUcastBytes, &s.RxMcastBytes, &s.RxBcastBytes, &s.RxUcastPkts, &s.RxMcastPkts, &s.RxBcastPkts)
}

func (s *VportStats) sent(p *packet, n int) {
	cast(p, n, &s.TxUcastBytes, &s.TxMcastBytes, &s.TxBcastBytes, &s.TxUcastPkts, &s.TxMcastPkts, &s.TxBcastPkts)
}

// Drops counts the frames that a vport accepted and then dropped, or did not
// send, by reason.
func (fn *Function) VportDrops(id int) (in, out frame.Drops, err error) {
	v, err := fn.vport(id)
	if err != nil {
		return in, out, err
	}
	return v.drops[rx], v.drops[tx], nil
}
