package ptp

import (
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/ptp/unicast"
)

// negotiator is a port as its unicast negotiation sees it.
type negotiator struct{ p *port }

// Signal implements unicast.Lower.
func (n negotiator) Signal(dst transport.Addr, target msg.PortIdentity, tlvs msg.TLVs) {
	m := msg.Message{
		Header: msg.Header{Type: msg.Signaling, Sequence: n.p.nextSeq(msg.Signaling),
			LogInterval: msg.IntervalUnspecified},
		Port: target, TLVs: tlvs,
	}
	if n.p.unicast.Asks() {
		n.p.stats.UnicastRequestTimeout++
	}
	n.p.transmit(&m, Outgoing{Dst: dst})
}

// Announce implements unicast.Port.
func (n negotiator) Announce(dst transport.Addr, seq uint16, log int8) {
	n.p.stats.UnicastServiceTimeout++
	n.p.sendAnnounce(dst, seq, log)
}

// Sync implements unicast.Port.
func (n negotiator) Sync(dst transport.Addr, seq uint16, log int8) {
	n.p.stats.UnicastServiceTimeout++
	n.p.sendSync(dst, seq, log)
}

// beginUnicast starts the negotiation anew. Its configuration was checked by
// New.
func (p *port) beginUnicast() {
	c := &p.cfg
	log := [4]int8{c.LogAnnounceInterval, c.LogSyncInterval, c.LogMinDelayReqInterval, c.LogMinPdelayReqInterval}
	p.unicast, _ = unicast.NewNegotiation(&c.Unicast, log, negotiator{p})
}

// offerUnicast offers and asks for what the port's state lets it give and use.
func (p *port) offerUnicast() {
	offer, want := unicast.Services(0), unicast.Services(0)
	if p.cfg.DelayMechanism == msg.DelayP2P {
		offer = unicast.PdelayResp
	}
	e2e := unicast.Services(0)
	if p.cfg.DelayMechanism == msg.DelayE2E {
		e2e = unicast.DelayResp
	}
	switch p.state {
	case msg.StateMaster:
		offer |= unicast.Announce | unicast.Sync | e2e
	case msg.StateUncalibrated, msg.StateSlave:
		want = unicast.Sync | e2e
	}
	p.unicast.Offer(offer)
	p.unicast.Follow(p.parentAddr, want)
}

// pollUnicast sends what unicast clients and masters are to have.
func (p *port) pollUnicast() {
	if p.state < msg.StateListening {
		return
	}
	p.unicast.Poll(p.now)
}

// unicastTable is the unicast master table as linuxptp tells it.
func (p *port) unicastTable() *msg.UnicastMasterTable {
	t := &msg.UnicastMasterTable{}
	for _, m := range p.unicast.Masters() {
		row := msg.UnicastMaster{Identity: m.Identity, Address: m.Addr.PortAddress()}
		if f := p.foreign.Find(m.Identity); f != nil {
			row.Quality, row.Priority1, row.Priority2 = f.Quality, f.Priority1, f.Priority2
		}
		row.Selected = p.slavePort == p && m.Addr == p.parentAddr
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
