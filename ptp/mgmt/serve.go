package mgmt

import (
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// serve answers a request whose management TLV has value v.
func (s *Server) serve(m *request, v []byte) {
	id, raw, err := msg.ParseManagement(v)
	if err != nil {
		s.drop(DropMalformed)
		return
	}
	if !id.OfPort() {
		s.answer(m, id, raw, 0, uint16(m.port+1))
		return
	}
	for port := range s.cfg.Ports {
		number := uint16(port + 1)
		if m.Port.Port == 0xffff || m.Port.Port == number {
			s.answer(m, id, raw, port, number)
		}
	}
}

// answer does what m asks of one port, or of the clock, and answers in the
// name of the port with that number. Nobody but local clients and those on
// the wire that the configuration allows can change anything.
func (s *Server) answer(m *request, id msg.ManagementID, raw []byte, port int, number uint16) {
	action, data, e := msg.Response, any(nil), msg.ManagementError(0)
	switch {
	case m.Action == msg.Get && isCommand(id):
		e = msg.ErrorNotSupported
	case m.Action == msg.Get:
		data, e = s.get(m, id, port)
	case !m.isLocal() && !s.cfg.SetFromWire && id != msg.IDNullManagement:
		e = msg.ErrorNotSupported
	case m.Action == msg.Command:
		action, e = msg.Acknowledge, s.command(m, id, raw, port)
	default:
		if e = s.set(m, id, raw, port); e == 0 {
			data, e = s.get(m, id, port)
		}
	}
	if e == 0 {
		s.tlvs = msg.AppendManagement(s.tlvs[:0], id, data)
		if msg.Management.Len()+len(s.tlvs) > maxMessage {
			e = msg.ErrorResponseTooBig
		}
	}
	if e != 0 {
		status := msg.ErrorStatus{Error: e, ID: id}
		action, s.tlvs = msg.Response, status.Append(s.tlvs[:0])
		s.stats.Errors++
	}
	s.respond(m, action, number)
}

// respond sends s.tlvs as the answer to m. It may take as many hops as the
// request has (section 15.3.2).
func (s *Server) respond(m *request, action msg.Action, number uint16) {
	r := s.message(m.Source, number)
	r.SdoID, r.MinorVersion, r.Domain, r.Sequence = m.SdoID, m.MinorVersion, m.Domain, m.Sequence
	r.Action, r.TLVs = action, s.tlvs
	if m.StartingBoundaryHops > m.BoundaryHops {
		r.StartingBoundaryHops = m.StartingBoundaryHops - m.BoundaryHops
	}
	r.BoundaryHops = r.StartingBoundaryHops
	if s.transmit(&r, m.origin) {
		s.stats.Responses++
	}
}

// message is a management message of a port, or of the clock (0), to target.
func (s *Server) message(target msg.PortIdentity, number uint16) msg.Message {
	return msg.Message{Header: msg.Header{
		Type: msg.Management, Source: msg.PortIdentity{Clock: s.identity, Port: number},
		Control: msg.Management.Control(), LogInterval: msg.IntervalUnspecified,
	}, Port: target}
}

// transmit sends m to where o came from.
func (s *Server) transmit(m *msg.Message, o origin) bool {
	if o.isLocal() {
		s.buf = m.Append(s.buf[:0])
		s.local.Send(o.client, s.buf)
		return true
	}
	if o.reply != (transport.Addr{}) {
		m.Flags |= msg.FlagUnicast
	}
	if !s.inst.SendManagement(o.port, m, o.reply) {
		s.drop(DropFull)
		return false
	}
	return true
}

func isCommand(id msg.ManagementID) bool { return id == msg.IDEnablePort || id == msg.IDDisablePort }

// get is what an id has, from the instance or from its host.
func (s *Server) get(m *request, id msg.ManagementID, port int) (any, msg.ManagementError) {
	switch id {
	case msg.IDSubscribeEvents:
		return s.subscription(m), 0
	case msg.IDClockDescription:
		return s.description(port), 0
	case msg.IDPortProperties:
		return s.properties(port), 0
	case msg.IDPortHWClock:
		return &msg.PortHWClock{Identity: s.portIdentity(port), PHCIndex: s.cfg.Ports[port].PHCIndex}, 0
	}
	data, e := s.inst.Get(id, port)
	if e == msg.ErrorNotSupported && !known(id) {
		e = msg.ErrorNoSuchID
	}
	return data, e
}

// set writes an id.
func (s *Server) set(m *request, id msg.ManagementID, raw []byte, port int) msg.ManagementError {
	if id == msg.IDNullManagement {
		return 0
	}
	data, err := msg.ParseData(id, raw)
	switch {
	case err == msg.ErrManagementID && known(id), isCommand(id):
		return msg.ErrorNotSupported
	case err == msg.ErrManagementID:
		return msg.ErrorNoSuchID
	}
	switch id {
	case msg.IDClockDescription, msg.IDPortProperties, msg.IDPortHWClock, msg.IDUnicastMasterTable:
		return msg.ErrorNotSetable
	}
	if err != nil {
		return msg.ErrorWrongLength
	}
	if events, ok := data.(*msg.SubscribeEvents); ok {
		return s.subscribe(m, events)
	}
	return s.inst.Set(id, port, data, m.now)
}

// command does what an id orders.
func (s *Server) command(m *request, id msg.ManagementID, raw []byte, port int) msg.ManagementError {
	switch {
	case id == msg.IDNullManagement:
		return 0
	case !isCommand(id) && known(id):
		return msg.ErrorNotSupported
	case !isCommand(id):
		return msg.ErrorNoSuchID
	case len(raw) != 0:
		return msg.ErrorWrongLength
	}
	return s.inst.Set(id, port, nil, m.now)
}

// known reports whether id is one of the standard (table 59) or of linuxptp,
// served here or not.
func known(id msg.ManagementID) bool {
	for _, r := range [...][2]msg.ManagementID{{0x0000, 0x0007}, {0x2000, 0x2021}, {0x3000, 0x3004}, {0x4000, 0x4002},
		{0x6000, 0x6001}, {0xc000, 0xc00b}} {
		if id >= r[0] && id <= r[1] {
			return true
		}
	}
	return false
}

func (s *Server) portIdentity(port int) msg.PortIdentity {
	return msg.PortIdentity{Clock: s.identity, Port: uint16(port + 1)}
}

func (s *Server) properties(port int) *msg.PortProperties {
	info := s.cfg.Ports[port]
	p := &msg.PortProperties{Identity: s.portIdentity(port), Timestamping: info.Timestamping, Interface: info.Interface}
	data, _ := s.inst.Get(msg.IDPortDataSet, port)
	if ds, ok := data.(*msg.PortDataSet); ok {
		p.State = ds.State
	}
	return p
}

func (s *Server) description(port int) *msg.ClockDescription {
	info := s.cfg.Ports[port]
	d := &msg.ClockDescription{
		Type: s.cfg.ClockType, PhysicalProtocol: "IEEE 802.3", PhysicalAddress: info.MAC[:],
		Manufacturer: s.cfg.Manufacturer, Product: s.cfg.Product, Revision: s.cfg.Revision, Profile: s.cfg.Profile,
	}
	if d.Type == 0 {
		d.Type = msg.ClockOrdinary
		if len(s.cfg.Ports) > 1 {
			d.Type = msg.ClockBoundary
		}
	}
	at := info.Address
	if at == (transport.Addr{}) {
		at.MAC = info.MAC
	}
	d.ProtocolAddress = at.PortAddress()
	data, _ := s.inst.Get(msg.IDUserDescription, port)
	if u, ok := data.(*msg.UserDescription); ok {
		d.User = u.Text
	}
	return d
}
