package em

import (
	"fmt"

	"tapir/opa/mad"
	"tapir/wire/frame"
)

// traffic are the counters of a virtual port, as its agent last told them.
type traffic struct {
	next    frame.Time // when to read them again
	at      frame.Time // when they were read; 0: never
	half    bool       // summary is newer than errors
	summary mad.SummaryCounters
	errors  mad.ErrorCounters
}

// TrafficRecord is what a virtual port has counted.
type TrafficRecord struct {
	VESW      uint16     `json:"vesw"`
	Node      string     `json:"node"`
	Num       uint8      `json:"vport"`
	At        frame.Time `json:"at_ns"`
	TxPackets uint64     `json:"tx_packets"`
	RxPackets uint64     `json:"rx_packets"`
	TxBytes   uint64     `json:"tx_bytes"`
	RxBytes   uint64     `json:"rx_bytes"`
	TxErrors  uint64     `json:"tx_errors"`
	RxErrors  uint64     `json:"rx_errors"`

	TxMcastBcast uint64 `json:"tx_mcastbcast"`
	RxMcastBcast uint64 `json:"rx_mcastbcast"`
	TxSourceMAC  uint64 `json:"tx_smac_filt"`
	TxDLIDZero   uint64 `json:"tx_dlid_zero"`
	TxLogic      uint64 `json:"tx_logic"`
	TxDropState  uint64 `json:"tx_drop_state"`
	RxBadVESW    uint64 `json:"rx_bad_veswid"`
	RxRunt       uint64 `json:"rx_runt"`
	RxOversize   uint64 `json:"rx_oversize"`
	RxDropState  uint64 `json:"rx_drop_state"`
	RxLogic      uint64 `json:"rx_logic"`
}

// stepTraffic is the next request that reads counters: when there is nothing
// else to do for p.
func (m *Manager) stepTraffic(p *port) *request {
	for _, v := range p.list {
		if v.member == nil || v.info.VESW == 0 {
			continue
		}
		if m.now >= v.traffic.next {
			return m.askTraffic(p, v)
		}
		m.by(v.traffic.next)
	}
	return nil
}

// askTraffic reads one of the two sets of counters, then the other.
func (m *Manager) askTraffic(p *port, v *vport) *request {
	t := &v.traffic
	r := request{what: fmt.Sprintf("counters of vport %d", v.num), attr: mad.AttrSummaryCounters,
		modifier: uint32(v.num),
		took:     func(data []byte) { t.summary, t.half = mad.ParseSummaryCounters(data), true },
		refused:  func() { t.half, t.next, v.poll = false, m.now.Add(longPolls*m.t.Poll), m.now }}
	if t.half {
		r.attr, r.took = mad.AttrErrorCounters, func(data []byte) {
			t.errors = mad.ParseErrorCounters(data)
			t.half, t.at, t.next = false, m.now, m.now.Add(longPolls*m.t.Poll)
		}
	}
	return m.askAgent(p, r)
}

// Traffic returns the counters of the members of all vESWs that have been
// read, in the order of VPorts.
func (m *Manager) Traffic() (list []TrafficRecord) {
	for _, v := range m.vesws {
		for _, b := range v.members {
			if b.vport == nil || b.vport.traffic.at == 0 {
				continue
			}
			t := &b.vport.traffic
			s, e := &t.summary, &t.errors
			list = append(list, TrafficRecord{
				VESW: b.vesw.cfg.ID, Node: b.cfg.Node.String(), Num: b.vport.num, At: t.at,
				TxPackets: s.TxPackets, RxPackets: s.RxPackets, TxBytes: s.TxBytes, RxBytes: s.RxBytes,
				TxErrors: s.TxErrors, RxErrors: s.RxErrors,
				TxMcastBcast: s.Tx.McastBcast, RxMcastBcast: s.Rx.McastBcast,
				TxSourceMAC: e.TxSourceMAC, TxDLIDZero: e.TxDLIDZero, TxLogic: e.TxLogic, TxDropState: e.TxDropState,
				RxBadVESW: e.RxBadVESW, RxRunt: e.RxRunt, RxOversize: e.RxOversize, RxDropState: e.RxDropState,
				RxLogic: e.RxLogic,
			})
		}
	}
	return list
}
