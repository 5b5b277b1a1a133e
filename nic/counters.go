package nic

import (
	"strings"

	"tapir/nic/iwarp"
	"tapir/nic/nicdrop"
	"tapir/nic/port"
	"tapir/rdmap"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Counter is one named value, as ethtool -S prints them.
type Counter = port.Counter

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
	sum := d.common.Drops
	add := func(more frame.Drops) { sum.Add(&more) }
	add(d.tcp.engine.Stats().Drops)
	d.coupled.look(func(e *Engine) {
		add(e.drops)
		if l, ok := e.host.(dropper); ok && d.coupled.apart {
			add(l.Drops())
		}
	})
	for _, l := range [...]frame.Link{d.wire.External(), d.host.External()} {
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
	t, r := d.tcp.engine.Stats(), d.iwarp.Totals()
	list := append(d.wire.Counters(""), Counter{Name: "tx_stamps", Value: d.wire.Stamped})
	list = append(list, d.PTP.Counters()...)
	if d.host.Exists() {
		list = append(list, d.host.Counters("host_")...)
		d.coupled.addHost(list[len(list)-4:])
	}
	list = append(list, d.coupled.counters()...)
	drops := d.allDrops()
	for reason := range nicdrop.All() {
		list = append(list, Counter{Name: dropName(reason), Value: drops[reason]})
	}
	list = append(list, d.IP.Counters()...)
	list = append(list,
		Counter{Name: "tcp_segments_in", Value: t.SegsIn}, Counter{Name: "tcp_segments_out", Value: t.SegsOut},
		Counter{Name: "tcp_frames_in", Value: t.FramesIn}, Counter{Name: "tcp_frames_out", Value: t.FramesOut},
		Counter{Name: "tcp_bytes_in", Value: t.BytesIn}, Counter{Name: "tcp_bytes_out", Value: t.BytesOut},
		Counter{Name: "tcp_retransmits", Value: t.Retransmits}, Counter{Name: "tcp_timeouts", Value: t.Timeouts},
		Counter{Name: "tcp_tail_probes", Value: t.TailProbes}, Counter{Name: "tcp_fast_recoveries", Value: t.FastRecoveries},
		Counter{Name: "tcp_recoveries_undone", Value: t.Undone}, Counter{Name: "tcp_out_of_order", Value: t.OutOfOrder},
		Counter{Name: "tcp_bytes_held", Value: t.BytesHeld},
		Counter{Name: "tcp_black_holes", Value: t.BlackHoles}, Counter{Name: "tcp_challenge_acks", Value: t.ChallengeAcks},
		Counter{Name: "tcp_ce_marks", Value: t.CEMarks}, Counter{Name: "tcp_ecn_reductions", Value: t.ECNReductions},
		Counter{Name: "tcp_cookies_sent", Value: t.CookiesSent}, Counter{Name: "tcp_cookies_taken", Value: t.CookiesTaken},
		Counter{Name: "tcp_resets_in", Value: t.ResetsIn}, Counter{Name: "tcp_resets_out", Value: t.ResetsOut},
		Counter{Name: "tcp_active_opens", Value: t.ActiveOpens}, Counter{Name: "tcp_passive_opens", Value: t.PassiveOpens},
		Counter{Name: "tcp_failures", Value: t.Failures}, Counter{Name: "tcp_open", Value: uint64(t.Open)},
		Counter{Name: "tcp_time_wait", Value: uint64(t.TimeWait)}, Counter{Name: "tcp_time_wait_overflows", Value: t.TimeWaitOverflows},
		Counter{Name: "rdma_fpdus_in", Value: r.RxFPDUs}, Counter{Name: "rdma_fpdus_out", Value: r.TxFPDUs},
		Counter{Name: "rdma_bytes_in", Value: r.RxBytes}, Counter{Name: "rdma_bytes_out", Value: r.TxBytes},
		Counter{Name: "rdma_crc_errors", Value: r.CRCErrors}, Counter{Name: "rdma_terminates", Value: r.Terminates}, Counter{Name: "rdma_nudges", Value: r.Nudges})
	list = append(list, Counter{Name: "rdma_early_placed", Value: r.OOOPlaced}, Counter{Name: "rdma_early_held", Value: r.OOOHeld})
	for i, name := range iwarp.RefusalNames {
		list = append(list, Counter{Name: "rdma_early_refused_" + name, Value: r.OOORefused[i]})
	}
	for op, name := range rdmaOps {
		list = append(list, Counter{Name: "rdma_" + name + "_in", Value: r.RxMessages[op]}, Counter{Name: "rdma_" + name + "_out", Value: r.TxMessages[op]})
	}
	return list
}
