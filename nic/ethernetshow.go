package nic

import (
	"slices"

	"tapir/nic/l2"
)

// vportStats are the counters of the vport that the port does not have, with
// qede's names.
var vportStats = []string{"gft_filter_drop", "tx_err_drop_pkts", "ttl0_discard"}

// tpaStats are those of segments that were put together.
var tpaStats = []string{"coalesced_pkts", "coalesced_events", "coalesced_aborts_num", "non_coalesced_pkts", "coalesced_bytes"}

// describe adds what the host function has to e: in the driver's order the
// counters of its queues come first, those of the vport among the port's.
func (f *function) describe(e *EthtoolInfo, queues int) {
	s := f.Settings()
	e.Rings = EthtoolRings{RxMax: l2.MaxRing, TxMax: l2.MaxRing, Rx: s.RxRing, Tx: s.TxRing}
	e.Channels = EthtoolChannels{MaxCombined: queues, Combined: s.Queues}

	table := f.Table()
	e.RSS = &EthtoolRSS{Table: table[:], Key: s.Key[:], Hashes: s.Hashes}
	e.Rules, e.MaxRules = s.Rules, f.Function().Share().Rules

	e.Stats = slices.Insert(e.Stats, after(e.Stats, "mac_filter_discards"), f.counters(vportStats)...)
	e.Stats = slices.Insert(e.Stats, after(e.Stats, "packet_too_big_discard"), f.counters(tpaStats)...)
	var all []Counter
	for _, q := range f.QueueStats() {
		all = append(all, Counter{q.Name, q.Value})
	}
	e.Stats = append(all, e.Stats...)
}

// counters are those of the vport with these names.
func (f *function) counters(names []string) (list []Counter) {
	for _, s := range f.Stats() {
		if slices.Contains(names, s.Name) {
			list = append(list, Counter{s.Name, s.Value})
		}
	}
	return list
}

// after is the place behind a counter.
func after(list []Counter, name string) int {
	return slices.IndexFunc(list, func(c Counter) bool { return c.Name == name }) + 1
}
