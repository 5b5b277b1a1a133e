package sw

import (
	"tapir/nic/dcbx"
	"tapir/nic/lldp"
	"tapir/wire/drop"
	"tapir/wire/frame"
	lldpdu "tapir/wire/lldp"
)

// Each port has LLDP agents of its own if the configuration has any, and DCBX by that of
// the nearest bridge. LLDPDUs end at the port, and go before all other frames.

// discover makes the agents of a port.
func (s *Switch) discover(i int) {
	c := &s.cfg.LLDP
	if c.Agents == 0 {
		return
	}
	p, mac := &s.ports[i], s.cfg.MAC(i)
	p.dcbx = dcbx.New(mac)
	p.dcbx.Set(mac, c.DCBX, c.Static, s.cfg.Administered())
	p.dcbx.Update(nil)
	p.dcbx.News()
	p.lldp = lldp.New(mac, lldp.Env{
		Local: func(scope lldp.Scope) *lldpdu.PDU { return s.local(i, scope) },
		Send:  func(b []byte, now frame.Time) bool { return s.tell(i, b, now) },
		Changed: func(scope lldp.Scope, now frame.Time) {
			if scope == lldp.NearestBridge {
				s.negotiated(i, now)
			}
		}})
	p.lldp.SetLink(true, s.now)
	for scope := range lldp.Scopes {
		p.lldp.SetParams(scope, c.Params(scope), s.now)
	}
}

// local is what an agent of a port tells.
func (s *Switch) local(i int, scope lldp.Scope) *lldpdu.PDU {
	p := &lldpdu.PDU{Chassis: lldpdu.MACID(lldpdu.ChassisMAC, s.cfg.MAC(0)),
		Port:       lldpdu.ID{Subtype: lldpdu.PortLocal, Value: s.cfg.Ports[i].Name},
		SystemName: s.cfg.Name, SystemDesc: "Tapir fabric switch",
		Capabilities: &lldpdu.Capabilities{Has: lldpdu.CapBridge, Enabled: lldpdu.CapBridge}}
	if scope == lldp.NearestBridge {
		s.ports[i].dcbx.AddTo(p)
	}
	return p
}

// tell sends a frame of an agent; false: not now.
func (s *Switch) tell(out int, b []byte, _ frame.Time) bool {
	p := &s.ports[out]
	if p.down || p.link.Room() == 0 {
		return false
	}
	f := s.env.Pool.Get(len(b))
	if f == nil {
		return false
	}
	f.Append(b)
	s.transmit(out, f)
	return true
}

// hear takes a frame with EtherType 0x88CC; false: no agent of the port listens to it.
func (s *Switch) hear(in int, f *frame.Frame, now frame.Time) (taken bool) {
	taken, err := s.ports[in].lldp.Receive(f.Bytes(), now)
	switch {
	case err != nil:
		s.drop(in, f, drop.Malformed)
	case taken:
		f.Release()
	}
	s.talk = now
	return taken
}

// negotiated has a port act on what DCBX has come to with the neighbors.
func (s *Switch) negotiated(i int, now frame.Time) {
	p := &s.ports[i]
	var peers []dcbx.Peer
	for _, n := range p.lldp.Neighbors(lldp.NearestBridge) {
		peers = append(peers, dcbx.Peer{MAC: n.Source, PDU: n.PDU})
	}
	p.dcbx.Update(peers)
	if p.dcbx.News() {
		p.lldp.LocalChanged(lldp.NearestBridge)
	}
	s.reclassify(i, p.dcbx.Operational().Config, now)
}

// converse polls the agents when that is due.
func (s *Switch) converse(now frame.Time) (next frame.Time) {
	if s.cfg.LLDP.Agents == 0 {
		return frame.Never
	}
	if now >= s.talk {
		s.talk = frame.Never
		for i := range s.ports {
			s.talk = min(s.talk, s.ports[i].lldp.Poll(now))
		}
	}
	return s.talk
}

// Discovery is the agents of a port and its DCBX; both are nil without agents, and borrowed.
func (s *Switch) Discovery(port int) (*lldp.Port, *dcbx.Machine) {
	return s.ports[port].lldp, s.ports[port].dcbx
}

// SetLink tells whether there is somebody at the other end of a port. Without, its neighbors
// are forgotten, and its logins to the FCF end.
func (s *Switch) SetLink(port int, up bool, now frame.Time) {
	p := &s.ports[port]
	if p.lldp != nil {
		p.lldp.SetLink(up && !p.down, now)
		s.talk = now
	}
	s.forwarder.setLink(port, up && !p.down, now)
}

// Leave has the neighbors forget the switch, and end nodes their logins.
func (s *Switch) Leave(now frame.Time) {
	if s.forwarder != nil {
		s.forwarder.Leave(now)
		s.Poll(now) // what it says leaves, too
	}
	for i := range s.ports {
		if p := &s.ports[i]; p.lldp != nil {
			for scope := range lldp.Scopes {
				p.lldp.SetParams(scope, lldp.Default, now)
			}
			p.lldp.Poll(now)
		}
	}
}

// lldpCounters appends those of the agents of a port.
func (p *port) lldpCounters(list []Counter, prefix string) []Counter {
	if p.lldp == nil {
		return list
	}
	var all lldp.Stats
	var neighbors uint64
	for scope := range lldp.Scopes {
		st := p.lldp.Stats(scope)
		all.TxFrames += st.TxFrames
		all.RxFrames += st.RxFrames
		all.RxErrors += st.RxErrors
		all.RxTooMany += st.RxTooMany
		all.Ageouts += st.Ageouts
		neighbors += uint64(len(p.lldp.Neighbors(scope)))
	}
	return append(list, Counter{prefix + "tx_lldp_frames", all.TxFrames},
		Counter{prefix + "rx_lldp_frames", all.RxFrames}, Counter{prefix + "rx_lldp_errors", all.RxErrors},
		Counter{prefix + "rx_lldp_too_many", all.RxTooMany}, Counter{prefix + "lldp_ageouts", all.Ageouts},
		Counter{prefix + "lldp_neighbors", neighbors})
}
