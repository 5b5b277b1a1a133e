package show

import (
	"fmt"
	"net/netip"

	"tapir/nic/cm"
	"tapir/nic/roce"
	"tapir/nic/roce/ibcm"
	"tapir/nic/verbs"
	"tapir/nic/view"
)

// roceCounters are those of the RoCE engine: with the names of Linux's rxe where it has
// them, in rdma(8), and with mlx5's for adaptive retransmission.
func roceCounters(s *roce.Stats) []view.Counter {
	return []view.Counter{
		view.Count("roce_sent_pkts", s.PacketsOut), view.Count("roce_rcvd_pkts", s.PacketsIn),
		view.Count("roce_sent_frames", s.FramesOut),
		view.Count("roce_sent_bytes", s.OctetsOut), view.Count("roce_rcvd_bytes", s.OctetsIn),
		view.Count("roce_acks_out", s.AcksOut), view.Count("roce_acks_in", s.AcksIn),
		view.Count("roce_naks_out", s.NaksOut), view.Count("roce_naks_in", s.NaksIn),
		view.Count("roce_send_rnr_err", s.RNRNaksOut), view.Count("roce_rcvd_rnr_err", s.RNRNaksIn),
		view.Count("roce_duplicate_request", s.Duplicates), view.Count("roce_out_of_seq_request", s.OutOfSequence),
		view.Count("roce_ack_timeouts", s.Timeouts), view.Count("roce_completer_retry_err", s.Retries),
		view.Count("roce_adp_retrans", s.Adaptive), view.Count("roce_packets_again", s.PacketsAgain),
		view.Count("roce_icrc_errors", s.BadICRC), view.Count("roce_bad_qkeys", s.BadQKeys),
		view.Count("np_cnp_sent", s.CNPsOut), view.Count("np_ecn_marked_roce_packets", s.ECNMarked),
		view.Count("rp_cnp_handled", s.CNPsHandled), view.Count("rp_cnp_ignored", s.CNPsIgnored),
	}
}

// cmCounters are those of connection management, with the names of the kernel's
// directories cm_tx_msgs and so on, all messages together.
func cmCounters(s *ibcm.Stats) []view.Counter {
	sum := func(list []uint64) (n uint64) {
		for _, v := range list {
			n += v
		}
		return n
	}
	return []view.Counter{
		view.Count("cm_tx_msgs", sum(s.Sent[:])), view.Count("cm_rx_msgs", sum(s.Received[:])),
		view.Count("cm_tx_retries", sum(s.Again[:])), view.Count("cm_rx_duplicates", sum(s.Duplicates[:])),
		view.Count("cm_rx_unmatched", s.Unmatched), view.Count("cm_rx_malformed", s.Malformed),
		view.Count("cm_stale", s.Stale),
	}
}

// RoCEQPInfo describes a queue pair of RoCE for display.
type RoCEQPInfo struct {
	Num          uint32     `json:"qp"` // on the wire
	Type         string     `json:"type"`
	State        string     `json:"state"`
	PD           uint32     `json:"pd"`
	SendCQ       uint32     `json:"send_cq"`
	RecvCQ       uint32     `json:"recv_cq"`
	Local        netip.Addr `json:"local,omitzero"`
	Remote       netip.Addr `json:"remote,omitzero"`
	DestQP       uint32     `json:"dest_qp"`
	GIDType      string     `json:"gid_type,omitempty"`
	VLAN         uint16     `json:"vlan,omitempty"` // 0: untagged
	SL           uint8      `json:"sl"`             // priority of tagged frames
	PKey         string     `json:"pkey"`           // partition key of its packets
	PathMTU      int        `json:"path_mtu"`
	SourcePort   uint16     `json:"source_port"` // UDP
	SendsPending int        `json:"sends_pending"`
	RecvsPending int        `json:"recvs_pending"`
	NextPSN      uint32     `json:"next_psn"`
	UnackedPSN   uint32     `json:"unacked_psn"`
	ExpectedPSN  uint32     `json:"expected_psn"`
	MSN          uint32     `json:"msn"`
	InFlight     int        `json:"in_flight"` // packets sent and not acknowledged
	RetriesLeft  int        `json:"retries_left"`
	ReadsOut     int        `json:"reads_out"`
	// Of the rate limiter of DCQCN: what the queue pair may send, what the rate recovers to, in
	// Mb/s, and the estimate of congestion. Absent: the queue pair has no limiter.
	Rate   float64 `json:"rate_mbps,omitzero"`
	Target float64 `json:"target_mbps,omitzero"`
	Alpha  float64 `json:"alpha,omitzero"`
	// Stuck: a packet waits for its acknowledgement, and the ACK timeout is without end.
	Stuck bool `json:"stuck"`
	roce.Counters
}

// ShowRoCEQP describes the queue pairs of a NIC with RoCE in order of creation.
func (v *View) ShowRoCEQP() []RoCEQPInfo {
	return each(v.Verbs.QPs(), func(q *verbs.QP) RoCEQPInfo {
		t, _ := roce.InfoOf(q)
		a, cfg := q.Attr(), q.Config()
		i := RoCEQPInfo{Num: q.QPN(), Type: q.Type().String(), State: q.State().String(), PD: q.PD().Num(),
			DestQP: a.DestQPN, PKey: fmt.Sprintf("%#04x", v.Verbs.PKeys()[a.PKeyIndex]), PathMTU: a.PathMTU,
			SourcePort: t.SourcePort, SendsPending: q.SendsPending(), RecvsPending: q.RecvsPending(),
			NextPSN: t.NextPSN, UnackedPSN: t.UnackedPSN, ExpectedPSN: t.ExpectedPSN,
			MSN: t.MSN, InFlight: t.InFlight, RetriesLeft: t.RetriesLeft, ReadsOut: t.ReadsOut, Stuck: t.Stuck,
			Counters: t.Counters}
		if l := t.Limiter; l != nil {
			i.Rate, i.Target, i.Alpha = float64(l.Rate)/1e6, float64(l.Target)/1e6, float64(l.Alpha)/1e6
		}
		if cfg.SendCQ != nil {
			i.SendCQ = cfg.SendCQ.Num()
		}
		if cfg.RecvCQ != nil {
			i.RecvCQ = cfg.RecvCQ.Num()
		}
		if a.Path.DGID != [16]byte{} {
			i.Remote, i.SL = netip.AddrFrom16(a.Path.DGID).Unmap(), a.Path.SL
			if e, ok := v.GIDs.Entry(int(a.Path.SGIDIndex)); ok {
				i.Local, i.GIDType, i.VLAN = e.Addr, e.Type.String(), e.VLAN
			}
		}
		return i
	})
}

// fabricQPs describes the queue pairs of RoCE as those of iWARP, as far as they have the
// same.
func (v *View) fabricQPs() []QPInfo {
	return each(v.ShowRoCEQP(), func(q RoCEQPInfo) QPInfo {
		return QPInfo{Num: q.Num, State: q.State, PD: q.PD, SendCQ: q.SendCQ, RecvCQ: q.RecvCQ,
			Local: netip.AddrPortFrom(q.Local, 0), Remote: netip.AddrPortFrom(q.Remote, 0),
			SendsPending: q.SendsPending, RecvsPending: q.RecvsPending}
	})
}

// cmPhases are the phases of iWARP that the states of a connection of RoCE are like.
var cmPhases = map[cm.State]string{cm.Idle: "connecting", cm.Connecting: "wait reply", cm.Requested: "offered",
	cm.Accepting: "offered", cm.Connected: "full operation", cm.Closing: "closing", cm.Closed: "ended"}

// fabricCEPs describes the listeners and connections of RoCE as those of iWARP.
func (v *View) fabricCEPs() (list []CEPInfo) {
	for _, l := range v.CM.Listeners() {
		list = append(list, CEPInfo{State: "LISTEN", Phase: "listening", Local: l.Local()})
	}
	for _, id := range v.CM.IDs() {
		i := CEPInfo{ID: id.Num(), State: id.State().String(), Phase: cmPhases[id.State()], Local: id.Local(),
			Remote: id.Remote(), IRD: id.IRD(), ORD: id.ORD()}
		if q := id.QP(); q != nil {
			i.QP = q.QPN()
		}
		list = append(list, i)
	}
	return list
}

// GIDInfo describes an entry of the GID table for display.
type GIDInfo struct {
	Index  int    `json:"gid_index"`
	GID    string `json:"gid"`
	Type   string `json:"type"`
	VLAN   uint16 `json:"vlan,omitempty"`   // 0: untagged
	Netdev string `json:"netdev,omitempty"` // of the VLAN
}

// ShowGID describes the used entries of the GID table.
func (v *View) ShowGID() (list []GIDInfo) {
	for i, g := range v.Verbs.GIDs() {
		if g != (verbs.GID{}) {
			e := v.Verbs.GIDEntry(i)
			list = append(list, GIDInfo{i, g.String(), e.Type.String(), e.VLAN, e.Netdev})
		}
	}
	return list
}

// AHInfo describes an address handle for display.
type AHInfo struct {
	Num       uint32     `json:"ah"`
	PD        uint32     `json:"pd"`
	Dst       netip.Addr `json:"dst"`
	MAC       string     `json:"mac,omitempty"` // of the next hop; empty: not known
	SGIDIndex uint8      `json:"sgid_index"`
	HopLimit  uint8      `json:"hop_limit"`
	TClass    uint8      `json:"tclass"`
	FlowLabel uint32     `json:"flow_label"`
	SL        uint8      `json:"sl"`
}

// ShowAH describes the address handles in order of creation.
func (v *View) ShowAH() []AHInfo {
	return each(verbs.AHs(v.Verbs), func(a *verbs.AH) AHInfo {
		p := a.Path()
		i := AHInfo{Num: a.Num(), PD: a.PD().Num(), Dst: netip.AddrFrom16(p.DGID).Unmap(), SGIDIndex: p.SGIDIndex,
			HopLimit: p.HopLimit, TClass: p.TClass, FlowLabel: p.FlowLabel, SL: p.SL}
		if l := v.IP.On(v.Verbs.GIDEntry(int(p.SGIDIndex)).VLAN); l != nil {
			if mac := l.Station(i.Dst); !mac.IsZero() {
				i.MAC = mac.String()
			}
		}
		return i
	})
}
