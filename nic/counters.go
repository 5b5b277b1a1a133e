package nic

import (
	"strings"

	"tapir/nic/iwarp"
	"tapir/nic/nicdrop"
	"tapir/rdmap"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Counter is one named value, as ethtool -S prints them.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// outboundDrop tells the reasons for which frames are dropped on the way out.
func outboundDrop(r frame.DropReason) bool {
	switch r {
	case drop.Neighbor, drop.NoRoute, drop.TxQueue, drop.Link:
		return true
	}
	return false
}

// dropName is the counter for reason r: "rx_drop_ip_checksum".
func dropName(r frame.DropReason) string {
	dir := "rx_drop_"
	if outboundDrop(r) {
		dir = "tx_drop_"
	}
	return dir + strings.ReplaceAll(strings.ToLower(r.String()), " ", "_")
}

// dropper is a link that counts what it had to drop itself.
type dropper interface{ Drops() frame.Drops }

// allDrops counts the drops of the NIC, its TCP engine and its links.
func (d *Device) allDrops() frame.Drops {
	sum := d.drops
	add := func(more frame.Drops) { sum.Add(&more) }
	add(d.toe.Stats().Drops)
	d.coupled.look(func(e *Engine) {
		add(e.drops)
		if l, ok := e.host.(dropper); ok && d.coupled.apart {
			add(l.Drops())
		}
	})
	for _, l := range [...]frame.Link{d.wire.link, d.host.link} {
		if l, ok := l.(dropper); ok {
			add(l.Drops())
		}
	}
	return sum
}

// rdmaOps names the RDMAP opcodes in counters.
var rdmaOps = [rdmap.NumOpcodes]string{"write", "read_request", "read_response", "send", "send_inv", "send_se", "send_se_inv",
	"terminate", "immediate", "immediate_se", "atomic_request", "atomic_response"}

// Counters returns all counters, always in the same order.
func (d *Device) Counters() []Counter {
	t, r := d.toe.Stats(), d.iwarp.Totals()
	list := []Counter{
		{"rx_packets", d.wire.rxFrames}, {"rx_bytes", d.wire.rxBytes},
		{"tx_packets", d.wire.txFrames}, {"tx_bytes", d.wire.txBytes},
		{"tx_stamps", d.wire.stamped},
	}
	list = append(list, d.ptpCounters()...)
	if d.host.link != nil {
		list = append(list,
			Counter{"host_rx_packets", d.host.rxFrames}, Counter{"host_rx_bytes", d.host.rxBytes},
			Counter{"host_tx_packets", d.host.txFrames}, Counter{"host_tx_bytes", d.host.txBytes})
		d.coupled.addHost(list[len(list)-4:])
	}
	list = append(list, d.coupled.counters()...)
	drops := d.allDrops()
	for reason := range nicdrop.All() {
		list = append(list, Counter{dropName(reason), drops[reason]})
	}
	list = append(list,
		Counter{"icmp_in", d.icmpIn}, Counter{"icmp_out", d.icmpOut},
		Counter{"neighbors", uint64(len(d.neighbors.list))}, Counter{"neighbors_lost", d.neighborsLost},
		Counter{"address_conflicts", d.conflicts}, Counter{"loopback_packets", d.looped.packets},
		Counter{"tcp_segments_in", t.SegsIn}, Counter{"tcp_segments_out", t.SegsOut},
		Counter{"tcp_frames_in", t.FramesIn}, Counter{"tcp_frames_out", t.FramesOut},
		Counter{"tcp_bytes_in", t.BytesIn}, Counter{"tcp_bytes_out", t.BytesOut},
		Counter{"tcp_retransmits", t.Retransmits}, Counter{"tcp_timeouts", t.Timeouts},
		Counter{"tcp_tail_probes", t.TailProbes}, Counter{"tcp_fast_recoveries", t.FastRecoveries},
		Counter{"tcp_recoveries_undone", t.Undone}, Counter{"tcp_out_of_order", t.OutOfOrder},
		Counter{"tcp_bytes_held", t.BytesHeld},
		Counter{"tcp_black_holes", t.BlackHoles}, Counter{"tcp_challenge_acks", t.ChallengeAcks},
		Counter{"tcp_ce_marks", t.CEMarks}, Counter{"tcp_ecn_reductions", t.ECNReductions},
		Counter{"tcp_cookies_sent", t.CookiesSent}, Counter{"tcp_cookies_taken", t.CookiesTaken},
		Counter{"tcp_resets_in", t.ResetsIn}, Counter{"tcp_resets_out", t.ResetsOut},
		Counter{"tcp_active_opens", t.ActiveOpens}, Counter{"tcp_passive_opens", t.PassiveOpens},
		Counter{"tcp_failures", t.Failures}, Counter{"tcp_open", uint64(t.Open)},
		Counter{"tcp_time_wait", uint64(t.TimeWait)}, Counter{"tcp_time_wait_overflows", t.TimeWaitOverflows},
		Counter{"rdma_fpdus_in", r.RxFPDUs}, Counter{"rdma_fpdus_out", r.TxFPDUs},
		Counter{"rdma_bytes_in", r.RxBytes}, Counter{"rdma_bytes_out", r.TxBytes},
		Counter{"rdma_crc_errors", r.CRCErrors}, Counter{"rdma_terminates", r.Terminates}, Counter{"rdma_nudges", r.Nudges})
	list = append(list, Counter{"rdma_early_placed", r.OOOPlaced}, Counter{"rdma_early_held", r.OOOHeld})
	for i, name := range iwarp.RefusalNames {
		list = append(list, Counter{"rdma_early_refused_" + name, r.OOORefused[i]})
	}
	for op, name := range rdmaOps {
		list = append(list, Counter{"rdma_" + name + "_in", r.RxMessages[op]}, Counter{"rdma_" + name + "_out", r.TxMessages[op]})
	}
	return list
}
