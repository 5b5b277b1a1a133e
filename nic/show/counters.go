package show

import (
	"strings"

	"tapir/nic/iwarp"
	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/rdmap"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// outboundDrop tells the reasons for which frames are dropped on the way out.
func outboundDrop(r frame.DropReason) bool {
	switch r {
	case drop.Neighbor, drop.NoRoute, drop.TxQueue, drop.Link, nicdrop.Storm, nicdrop.AntiSpoofing, nicdrop.Control,
		nicdrop.Offload:
		return true
	}
	return false
}

// DropName is the counter for reason r: "rx_drop_ip_checksum", "tx_drop_anti-spoofing".
func DropName(r frame.DropReason) string {
	dir := "rx_drop_"
	if outboundDrop(r) {
		dir = "tx_drop_"
	}
	return dir + strings.ReplaceAll(strings.ToLower(r.String()), " ", "_")
}

// dropper is a link that counts what it had to drop itself.
type dropper interface{ Drops() frame.Drops }

// Drops counts the drops of the NIC, its TCP engine and its links.
func (v *View) Drops() frame.Drops {
	sum := v.Common.Drops
	add := func(more frame.Drops) { sum.Add(&more) }
	add(v.TCPEngine.Stats().Drops)
	if v.RoCE != nil {
		add(v.RoCE.Stats().Drops)
	}
	add(v.Hardware.Drops())
	for _, l := range [...]frame.Link{v.Wire.External(), v.Host.External()} {
		if l, ok := l.(dropper); ok {
			add(l.Drops())
		}
	}
	return sum
}

// rdmaOps names the RDMAP opcodes in counters.
var rdmaOps = [rdmap.NumOpcodes]string{"write", "read_request", "read_response", "send", "send_inv", "send_se",
	"send_se_inv", "terminate", "immediate", "immediate_se", "atomic_request", "atomic_response"}

// Counters returns all counters, always in the same order.
func (v *View) Counters() []view.Counter {
	t := v.TCPEngine.Stats()
	list := append(v.Wire.Counters(""), view.Count("tx_stamps", v.Wire.Stamped))
	list = append(list, v.PTP.Counters()...)
	if v.Host.Exists() {
		list = append(list, v.Host.Counters("host_")...)
		for i, n := range v.Hardware.HostTraffic() {
			list[len(list)-4+i].Value += n
		}
	}
	list = append(list, v.Hardware.Counters()...)
	drops := v.Drops()
	for reason := range nicdrop.All() {
		list = append(list, view.Count(DropName(reason), drops[reason]))
	}
	list = append(list, v.IP.Counters()...)
	list = append(list,
		view.Count("tcp_segments_in", t.SegsIn), view.Count("tcp_segments_out", t.SegsOut),
		view.Count("tcp_frames_in", t.FramesIn), view.Count("tcp_frames_out", t.FramesOut),
		view.Count("tcp_bytes_in", t.BytesIn), view.Count("tcp_bytes_out", t.BytesOut),
		view.Count("tcp_retransmits", t.Retransmits), view.Count("tcp_timeouts", t.Timeouts),
		view.Count("tcp_keepalive_probes", t.KeepAliveProbes), view.Count("tcp_keepalive_ends", t.KeepAliveEnds),
		view.Count("tcp_tail_probes", t.TailProbes), view.Count("tcp_fast_recoveries", t.FastRecoveries),
		view.Count("tcp_recoveries_undone", t.Undone), view.Count("tcp_out_of_order", t.OutOfOrder),
		view.Count("tcp_bytes_held", t.BytesHeld),
		view.Count("tcp_black_holes", t.BlackHoles), view.Count("tcp_challenge_acks", t.ChallengeAcks),
		view.Count("tcp_ce_marks", t.CEMarks), view.Count("tcp_ecn_reductions", t.ECNReductions),
		view.Count("tcp_cookies_sent", t.CookiesSent), view.Count("tcp_cookies_taken", t.CookiesTaken),
		view.Count("tcp_resets_in", t.ResetsIn), view.Count("tcp_resets_out", t.ResetsOut),
		view.Count("tcp_active_opens", t.ActiveOpens), view.Count("tcp_passive_opens", t.PassiveOpens),
		view.Count("tcp_failures", t.Failures), view.Count("tcp_open", uint64(t.Open)),
		view.Count("tcp_time_wait", uint64(t.TimeWait)), view.Count("tcp_time_wait_overflows", t.TimeWaitOverflows))
	list = append(list, v.FCoE.Counters()...)
	switch {
	case v.IWARP != nil:
		list = append(list, iwarpCounters(v.IWARP.Totals())...)
	case v.RoCE != nil:
		list = append(list, roceCounters(v.RoCE.Stats())...)
		list = append(list, cmCounters(v.RoCECM.Stats())...)
	}
	return list
}

// iwarpCounters are those of the iWARP engine.
func iwarpCounters(r iwarp.Totals) []view.Counter {
	list := []view.Counter{
		view.Count("rdma_fpdus_in", r.RxFPDUs), view.Count("rdma_fpdus_out", r.TxFPDUs),
		view.Count("rdma_bytes_in", r.RxBytes), view.Count("rdma_bytes_out", r.TxBytes),
		view.Count("rdma_crc_errors", r.CRCErrors), view.Count("rdma_terminates", r.Terminates),
		view.Count("rdma_nudges", r.Nudges), view.Count("rdma_silent_evicted", r.Evicted),
		view.Count("rdma_early_placed", r.OOOPlaced), view.Count("rdma_early_held", r.OOOHeld),
	}
	for i, name := range iwarp.RefusalNames {
		list = append(list, view.Count("rdma_early_refused_"+name, r.OOORefused[i]))
	}
	for op, name := range rdmaOps {
		list = append(list, view.Count("rdma_"+name+"_in", r.RxMessages[op]),
			view.Count("rdma_"+name+"_out", r.TxMessages[op]))
	}
	return list
}

// PortCounters are those of the wire port as InfiniBand counts, for its agent of
// performance management.
func (v *View) PortCounters() (c ib.PortCounters) {
	out, in := &v.Wire.MAC[frame.Outbound], &v.Wire.MAC[frame.Inbound]
	c.UnicastXmit, c.MulticastXmit, c.XmitData = out.Totals()
	c.UnicastRcv, c.MulticastRcv, c.RcvData = in.Totals()
	c.XmitPkts, c.RcvPkts = c.UnicastXmit+c.MulticastXmit, c.UnicastRcv+c.MulticastRcv
	c.XmitData, c.RcvData = c.XmitData/4, c.RcvData/4
	drops := v.Drops()
	for reason := range nicdrop.All() {
		if outboundDrop(reason) {
			c.XmitDiscards += drops[reason]
		}
	}
	c.RcvErrors = drops[drop.Malformed] + drops[drop.Oversize]
	c.RcvErrors += drops[nicdrop.ICRC]
	c.Downed = v.Verbs.Raised(verbs.EventPortError)
	return c
}

// MACStats are the counters that ethtool -S shows, with qede's names.
func (v *View) MACStats() []view.Counter {
	drops := v.Drops()
	flow := &v.Wire.Flow
	return append(v.Wire.MACCounters(),
		view.Count("rx_mac_crtl_frames",
			flow.Received+drops[nicdrop.Pause]+drops[nicdrop.PauseOff]+drops[nicdrop.MACControl]),
		view.Count("tx_mac_ctrl_frames", flow.Sent), view.Count("tx_lpi_entry_count", v.Wire.Sched.LPIEntries()),
		view.Count("rx_pause_frames", flow.Received), view.Count("tx_pause_frames", flow.Sent),
		view.Count("no_buff_discards", drops[drop.NoBuffer]),
		view.Count("mac_filter_discards", drops[drop.NotOurMAC]),
		view.Count("packet_too_big_discard", drops[drop.Oversize]),
		view.Count("link_change_count", v.LinkChanges),
		view.Count("ptp_skip_txts", v.PTP.Unit().Stats().TxSkipped))
}
