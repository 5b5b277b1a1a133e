package sw

import (
	"encoding/binary"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// The agent of a switch on a fabric of Omni-Path. It has no LID and no port of its own:
// subnet management packets for everybody, which the switch forwards as any others, also
// ask the switch, if they take a directed route to everybody or to its GUID. The answer
// leaves by the port that the question came by.

// marking is when a port sets FECN, as a Config says.
type marking struct{ threshold, octets, rate int }

// agent is what management has set.
type agent struct {
	guid    uint64
	setting mad.SwitchCongestionSetting
	ports   []mad.SwitchPortCongestion
}

// newAgent is the agent of a switch that marks as its configuration says.
func newAgent(s *Switch) agent {
	c := &s.cfg
	mac := c.MAC(0)
	eui := []byte{mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
	a := agent{guid: binary.BigEndian.Uint64(eui), ports: make([]mad.SwitchPortCongestion, len(c.Ports))}
	a.setting = mad.SwitchCongestionSetting{
		ControlMap: mad.SwitchThresholdValid | mad.SwitchMarkingValid, Threshold: uint8(c.FECNThreshold << 4),
		PacketSize:  uint8(min(255, (c.FECNSize+mad.SwitchPacketUnit-1)/mad.SwitchPacketUnit)),
		MarkingRate: uint16(c.FECNRate)}
	return a
}

// asks tells whether a frame may hold a packet for everybody's agents.
func asks(b []byte) bool { return ether.Addr(b[:6]) == opa.Permissive.Outer() }

// manage looks at such a frame (borrowed), and answers it.
func (s *Switch) manage(in int, f *frame.Frame, now frame.Time) {
	tunnel := binary.BigEndian.Uint16(f.Bytes()[12:]) == ether.TypeIPv4
	q := s.copyOf(f)
	if q == nil {
		return
	}
	defer q.Release()
	format, why := opa.Unwrap(q)
	if why != frame.DropNone {
		return
	}
	var from opa.LID
	var payload []byte
	if format == opa.Format9B {
		p, r := opa.Parse9B(q.Bytes(), opa.ICRCv1)
		if r != frame.DropNone || p.DestQP() != opa.QPSubnet || p.SC() != opa.SCManagement {
			return
		}
		from, payload = p.SLID(), p.Payload()
	} else {
		p, r := opa.ParseMAD(q.Bytes(), opa.ICRCv1)
		if r != frame.DropNone || p.DestQP() != opa.QPSubnet || p.SC() != opa.SCManagement {
			return
		}
		from, payload = p.SLID(), p.Payload()
	}
	m, data, err := mad.ParseSMP(payload)
	if err != nil || m.GUID != s.agent.guid && (m.GUID != 0 || m.Attr != mad.AttrNodeInfo) {
		return
	}
	var b [mad.DirectedHeaderLen + mad.SwitchCongestionLen]byte
	n, status := s.attribute(&m, data, b[m.Len():])
	if n < 0 {
		return
	}
	m.Method, m.Status, m.GUID = mad.MethodGetResp, status, s.agent.guid
	m.Put(b[:])
	s.respond(in, b[:m.Len()+n], from, tunnel, now)
}

// attribute does what a packet asks for, writes the attribute into b and returns its
// length; negative: the packet is no question.
func (s *Switch) attribute(m *mad.SMP, data, b []byte) (n int, status mad.Status) {
	a := &s.agent
	if m.Method != mad.MethodGet && m.Method != mad.MethodSet {
		return -1, 0
	}
	set := m.Method == mad.MethodSet
	port := int(m.Modifier&0xff) - 1
	switch {
	case m.Attr == mad.AttrNodeInfo && !set:
		info := mad.NodeInfo{Type: mad.NodeSwitch, Ports: uint8(min(255, len(s.ports))), SystemGUID: a.guid,
			NodeGUID: a.guid, PortGUID: a.guid, VendorID: uint32(a.guid >> 40)}
		info.Put(b)
		return mad.NodeInfoLen, mad.StatusOK
	case m.Attr == mad.AttrNodeDescription && !set:
		mad.PutNodeDescription(b, s.cfg.Name)
		return mad.NodeDescriptionLen, mad.StatusOK
	case m.Attr == mad.AttrSwitchCongestionSetting:
		if m.Modifier != 0 {
			return 0, mad.StatusBadValue
		}
		if set {
			a.set(mad.ParseSwitchCongestion(data))
			mark(s)
		}
		a.setting.Put(b)
		return mad.SwitchCongestionLen, mad.StatusOK
	case m.Attr == mad.AttrSwitchPortCongestion:
		if port < 0 || port >= len(a.ports) || m.Modifier != mad.SwitchPort(uint8(port+1)) {
			return 0, mad.StatusBadValue
		}
		if set {
			a.ports[port] = mad.ParseSwitchPortCongestion(data)
			mark(s)
		}
		a.ports[port].Put(b)
		return mad.SwitchPortCongestionLen, mad.StatusOK
	}
	return 0, mad.StatusBadAttribute
}

// set takes what counts of a setting.
func (a *agent) set(c mad.SwitchCongestionSetting) {
	if c.ControlMap&mad.SwitchThresholdValid != 0 {
		a.setting.Threshold, a.setting.PacketSize = c.Threshold&0xf0, c.PacketSize
	}
	if c.ControlMap&mad.SwitchMarkingValid != 0 {
		a.setting.MarkingRate = c.MarkingRate
	}
}

// mark has the ports mark as management says.
func mark(s *Switch) {
	for i := range s.ports {
		c, own := &s.agent.setting, &s.agent.ports[i]
		m := marking{int(c.Threshold >> 4), int(c.PacketSize) * mad.SwitchPacketUnit, int(c.MarkingRate)}
		if own.Threshold&mad.SwitchPortValid != 0 {
			m = marking{int(own.Threshold & 15), int(own.PacketSize) * mad.SwitchPacketUnit, int(own.MarkingRate)}
		}
		s.ports[i].marking = m
	}
}

// respond sends a MAD by a port. Who has no LID reaches one beyond those of 9B packets
// only as everybody.
func (s *Switch) respond(out int, b []byte, to opa.LID, tunnel bool, now frame.Time) {
	const more = opa.HeaderLen9B + opa.MaxOverhead
	f := s.env.Pool.Get(more + opa.Size9B(len(b)))
	if f == nil {
		return
	}
	f.Extend(more)
	f.TrimFront(more)
	f.Append(b)
	if _, short := to.To9B(); !short {
		to = opa.Permissive
	}
	framing := opa.FramingNSH // management is bare in it
	if tunnel {
		framing = opa.FramingGeneve
	}
	h := opa.Header9B{SLID: opa.Permissive, DLID: to, SC: opa.SCManagement, PKey: opa.PKeyManagement,
		DestQP: opa.QPSubnet, SrcQP: opa.QPSubnet}
	if opa.Encapsulate9B(f, &h, opa.ICRCv1) != frame.DropNone || framing.Wrap9B(f) != frame.DropNone {
		f.Release()
		return
	}
	s.enqueue(out, out, f, tag{}, now)
}
