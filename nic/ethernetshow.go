package nic

import (
	"slices"

	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
)

// vportStats are the counters of the vport that the port does not have, with
// qede's names.
var vportStats = []string{"gft_filter_drop", "tx_err_drop_pkts", "ttl0_discard"}

// tpaStats are those of segments that were put together.
var tpaStats = []string{"coalesced_pkts", "coalesced_events", "coalesced_aborts_num", "non_coalesced_pkts", "coalesced_bytes"}

// describe adds what the host function has to e: in the driver's order the
// counters of its queues come first, those of the vport among the port's.
func (f *function) describe(e *EthtoolInfo, most int, c *engines) {
	s := f.Settings()
	e.Rings = EthtoolRings{RxMax: l2.MaxRing, TxMax: l2.MaxRing, Rx: s.RxRing, Tx: s.TxRing}
	e.Channels = EthtoolChannels{MaxCombined: most, Combined: s.Queues}

	table := f.Table()
	e.RSS = &EthtoolRSS{Table: table[:], Key: s.Key[:], Hashes: s.Hashes}
	e.Rules, e.MaxRules = s.Rules, f.Function().Share().Rules

	vport, queues := f.Stats(), f.QueueStats()
	c.look(func(second *Engine) {
		vport, queues = sum(vport, second.netdev.Stats()), sum(queues, second.netdev.QueueStats())
	})
	e.Stats = slices.Insert(e.Stats, after(e.Stats, "mac_filter_discards"), counters(vport, vportStats)...)
	e.Stats = slices.Insert(e.Stats, after(e.Stats, "packet_too_big_discard"), counters(vport, tpaStats)...)
	var all []Counter
	for _, q := range queues {
		all = append(all, Counter{Name: q.Name, Value: q.Value})
	}
	e.Stats = append(all, e.Stats...)
}

// sum adds the counters of two engines; one that has failed has no queues.
func sum(a, b []qede.Stat) []qede.Stat {
	if len(a) < len(b) {
		a, b = b, a
	}
	a = slices.Clone(a)
	for i := range b {
		a[i].Value += b[i].Value
	}
	return a
}

// counters are those of a vport with these names.
func counters(vport []qede.Stat, names []string) (list []Counter) {
	for _, s := range vport {
		if slices.Contains(names, s.Name) {
			list = append(list, Counter{Name: s.Name, Value: s.Value})
		}
	}
	return list
}

// after is the place behind a counter.
func after(list []Counter, name string) int {
	return slices.IndexFunc(list, func(c Counter) bool { return c.Name == name }) + 1
}
