package ptp

import (
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/ptp/unicast"
	"tapir/wire/frame"
)

// Unicast describes a port's unicast negotiation (IEEE 1588 section 16.1).
type Unicast struct {
	// Masters is the unicast master table: these are asked for service.
	Masters  []transport.Addr
	Duration uint32 // asked for, in s; 0 is 300
	LogQuery int8   // between requests that are not answered
	// Listen grants what others ask for, within Limits.
	Listen bool
	Limits unicast.Limits
}

func (u *Unicast) requester(p *PortConfig) unicast.RequesterConfig {
	return unicast.RequesterConfig{
		Masters: u.Masters, Duration: u.Duration, LogQuery: u.LogQuery,
		Log: [4]int8{p.LogAnnounceInterval, p.LogSyncInterval, p.LogMinDelayReqInterval, p.LogMinPdelayReqInterval},
	}
}

func (u *Unicast) validate(p *PortConfig) error {
	if u.Listen {
		if err := u.Limits.Validate(); err != nil {
			return err
		}
	}
	cfg := u.requester(p)
	return cfg.Validate()
}

// negotiation is the unicast negotiation of one port, of which either side may
// be missing.
type negotiation struct {
	port      *port
	requester *unicast.Requester
	grantor   *unicast.Grantor
	seqs      map[unicast.Client]*[2]uint16 // sequenceIds of Announce and Sync
	next      frame.Time
}

// Signal implements unicast.Lower.
func (n *negotiation) Signal(dst transport.Addr, target msg.PortIdentity, tlvs msg.TLVs) {
	p := n.port
	m := msg.Message{
		Header: msg.Header{Type: msg.Signaling, Sequence: p.nextSeq(msg.Signaling), LogInterval: msg.IntervalUnspecified},
		Port:   target, TLVs: tlvs,
	}
	p.transmit(&m, Outgoing{Dst: dst})
}

// begin starts the negotiation anew. The configuration was checked by New.
func (n *negotiation) begin(p *port) {
	u := &p.cfg.Unicast
	*n = negotiation{port: p, next: frame.Never, seqs: map[unicast.Client]*[2]uint16{}}
	if len(u.Masters) > 0 {
		n.requester, _ = unicast.NewRequester(u.requester(&p.cfg), n)
	}
	if u.Listen {
		n.grantor, _ = unicast.NewGrantor(u.Limits, 0, n)
	}
}

// stateChanged offers and asks for what the port's state lets it give and use.
func (n *negotiation) stateChanged() {
	p := n.port
	if n.grantor != nil {
		offer := unicast.Services(0)
		if p.cfg.DelayMechanism == msg.DelayP2P {
			offer = unicast.PdelayResp
		}
		if p.state == msg.StateMaster {
			offer |= unicast.Announce | unicast.Sync
			if p.cfg.DelayMechanism == msg.DelayE2E {
				offer |= unicast.DelayResp
			}
		}
		n.grantor.Offer(offer)
	}
	n.want()
}

// want asks all masters for Announces and the parent for the rest.
func (n *negotiation) want() {
	p := n.port
	if n.requester == nil {
		return
	}
	following := p.state == msg.StateUncalibrated || p.state == msg.StateSlave
	parent := n.requester.Find(p.parentAddr)
	for i := range n.requester.Len() {
		services := unicast.Announce
		if following && i == parent {
			services |= unicast.Sync
			if p.cfg.DelayMechanism == msg.DelayE2E {
				services |= unicast.DelayResp
			}
		}
		n.requester.Want(i, services)
	}
}

// poll sends what is due to clients, and the negotiation's own messages.
func (n *negotiation) poll(now frame.Time) {
	n.next = frame.Never
	if n.port.state < msg.StateListening {
		return
	}
	if n.grantor != nil {
		for to, t, log, ok := n.grantor.Due(now); ok; to, t, log, ok = n.grantor.Due(now) {
			n.serve(to, t, log)
		}
		n.next = n.grantor.Poll(now)
	}
	if n.requester != nil {
		n.next = min(n.next, n.requester.Poll(now))
		if i := n.requester.Find(n.port.parentAddr); i >= 0 && n.requester.Lost(i)&(unicast.Announce|unicast.Sync) != 0 {
			n.port.stats.UnicastServiceTimeout++
		}
	}
}

// serve sends a client the Announce or Sync that is due.
func (n *negotiation) serve(to unicast.Client, t msg.Type, log int8) {
	s := n.seqs[to]
	if s == nil {
		if len(n.seqs) > 2*n.port.cfg.Unicast.Limits.Clients {
			clear(n.seqs) // of clients long gone, most of them
		}
		s = new([2]uint16)
		n.seqs[to] = s
	}
	if t == msg.Announce {
		s[0]++
		n.port.sendAnnounce(to.Addr, s[0], log)
		return
	}
	s[1]++
	n.port.sendSync(to.Addr, s[1], log)
}

// signaling serves the unicast TLVs; false if there are none.
func (n *negotiation) signaling(m *msg.Message, meta *Meta) bool {
	any := false
	for t, rest, ok := m.TLVs.Next(); ok; t, rest, ok = rest.Next() {
		any = any || t.Type >= msg.TLVRequestUnicast && t.Type <= msg.TLVAckCancelUnicast
	}
	switch {
	case !any:
		return false
	case n.requester != nil && n.requester.Find(meta.Src) >= 0:
		n.requester.Signaling(meta.Src, m.Source, m.TLVs, meta.Now)
	case n.grantor != nil:
		n.grantor.Signaling(meta.Src, m.Source, m.TLVs, meta.Now)
	default:
		return false
	}
	return true
}

// refused tells that a unicast message of a master was not granted.
func (n *negotiation) refused(m *msg.Message, src transport.Addr) bool {
	return n.requester != nil && m.Flags.Has(msg.FlagUnicast) && !n.requester.Accepts(src, m.Type)
}

// answers tells whether a unicast request is answered: by a grant, or without
// one to hybrid slaves and where nothing is negotiated.
func (n *negotiation) answers(m *msg.Message, src transport.Addr, with msg.Type, now frame.Time) bool {
	if n.grantor == nil || !m.Flags.Has(msg.FlagUnicast) {
		return true
	}
	_, ok := n.grantor.Answer(src, m.Source, with, now)
	return ok || n.port.cfg.HybridE2E
}

// table is the unicast master table as linuxptp tells it.
func (n *negotiation) table() *msg.UnicastMasterTable {
	t := &msg.UnicastMasterTable{}
	if n.requester == nil {
		return t
	}
	for _, m := range n.requester.Masters() {
		row := msg.UnicastMaster{Identity: m.Identity, Address: m.Addr.PortAddress()}
		if f := n.port.foreign.Find(m.Identity); f != nil {
			row.Quality, row.Priority1, row.Priority2 = f.Quality, f.Priority1, f.Priority2
		}
		row.Selected = n.port.slavePort == n.port && m.Addr == n.port.parentAddr
		switch {
		case m.Granted&unicast.Sync != 0:
			row.State = 3
		case m.Wanted&unicast.Sync != 0:
			row.State = 2
		case m.Granted&unicast.Announce != 0:
			row.State = 1
		}
		t.Masters = append(t.Masters, row)
	}
	return t
}
