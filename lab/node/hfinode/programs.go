package hfinode

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"tapir/lab/tool/ctl"
	"tapir/nic/al"
	"tapir/opa"
	"tapir/opa/mad"
	"tapir/opa/sma"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// programs is the agent for programs under tapir run. It belongs to the loop's
// thread.
type programs struct {
	list []*session
	last uint16
}

// session is one supervisor with its programs.
type session struct {
	id   uint16 // of the transactions that it begins
	tell func(ctl.MADEvent)
}

// Poll has nothing to do.
func (p *programs) Poll(frame.Time, mad.Send) frame.Time { return frame.Never }

// Receive passes on responses to what a program has asked, and requests of classes
// that the port has no agents for.
func (p *programs) Receive(b []byte, from mad.Address, _ frame.Time, _ mad.Send) {
	if len(p.list) == 0 || len(b) < mad.HeaderLen || from.LID > 0xffff && from.LID != opa.Permissive {
		return
	}
	response := ib.IsResponse(b) || b[1] == ib.ClassSA // RMPP's acknowledgements are requests by their method
	if !response && ours(b[0], b[1]) {
		return
	}
	m := &ctl.MAD{QP: from.QP, LID: sma.LID(from.LID), SL: from.SL, Octets: slices.Clone(b)}
	for _, s := range p.list {
		if !response || binary.BigEndian.Uint16(b[8:]) == s.id {
			s.tell(ctl.MADEvent{MAD: m})
		}
	}
}

// raise tells of an event of the port.
func (p *programs) raise(e al.EventType) {
	for _, s := range p.list {
		s.tell(ctl.MADEvent{Event: uint32(e)})
	}
}

// ours tells whether the port's own agents answer requests of a class.
func ours(version, class uint8) bool {
	switch class {
	case ib.ClassSubnLID, ib.ClassSubnDirected, ib.ClassPerf:
		return true
	}
	return version == mad.BaseVersion && class == mad.ClassVEMA
}

// begin adds a session. ids follow each other, so that late responses find none.
func (p *programs) begin(tell func(ctl.MADEvent)) *session {
	taken := func(s *session) bool { return s.id == p.last }
	for p.last++; p.last == 0 || slices.ContainsFunc(p.list, taken); p.last++ {
	}
	s := &session{p.last, tell}
	p.list = append(p.list, s)
	tell(ctl.MADEvent{Session: s.id})
	return s
}

func (p *programs) end(s *session) {
	p.list = slices.DeleteFunc(p.list, func(o *session) bool { return o == s })
}

// madPort describes the port to programs.
func (n *Node) madPort() ctl.MADPort {
	i := n.engine.Info()
	keys := n.engine.PKeys()
	for len(keys) > 0 && keys[len(keys)-1] == 0 {
		keys = keys[:len(keys)-1]
	}
	return ctl.MADPort{GUID: i.GUID, Name: i.Name, LID: uint32(i.LID), SMLID: uint32(i.SMLID), SMSL: i.SMSL,
		State: uint8(i.State), PKeys: slices.Clone(keys)}
}

// sendMAD sends a program's MAD. What is for the port itself never leaves it.
func (n *Node) sendMAD(m ctl.MAD, now frame.Time) error {
	e := n.engine
	directed := len(m.Octets) >= mad.HeaderLen && m.Octets[1] == ib.ClassSubnDirected
	if len(m.Octets) < mad.HeaderLen || len(m.Octets) > mad.MaxLen || m.QP > opa.QPGeneral ||
		directed && len(m.Octets) < mad.DirectedHeaderLen {
		return &ctl.Error{What: "not a MAD"}
	}
	e.now = now
	if directed && ib.Hops(m.Octets) == 0 || !directed && m.LID != 0 && opa.LID(m.LID) == e.port.LID() {
		e.deliver(m, now)
	} else if !directed { // no switch of the fabric forwards on a directed route
		e.port.SendMAD(mad.Address{LID: opa.LID(m.LID), QP: m.QP, SL: m.SL, PKey: n.pkeyFor(m)}, m.Octets)
	}
	return nil
}

// deliver gives a MAD to the agents of the port, and their answers to programs.
func (e *engine) deliver(m ctl.MAD, now frame.Time) {
	answer := func(to mad.Address, b []byte) bool {
		if b[0] == mad.BaseVersion {
			mad.EndHere(b)
		}
		e.programs.Receive(b, mad.Address{LID: e.port.LID(), QP: m.QP}, now, nil)
		return true
	}
	e.port.DeliverMAD(m.QP, m.Octets, answer)
	if !e.cfg.Managed { // its agent hears nobody else
		e.sma.Receive(m.Octets, mad.Address{LID: opa.Permissive, QP: m.QP}, now, answer)
	}
}

// pkeyFor is the P_Key at the index that a program names. Two limited members of
// a partition cannot talk to each other (InfiniBand Architecture 1.3, section 10.9.3),
// and programs name index 0, which is the limited membership in management: except to
// the fabric manager they get the first full membership of the table.
func (n *Node) pkeyFor(m ctl.MAD) uint16 {
	table, key := n.engine.PKeys(), uint16(0)
	if int(m.PKey) < len(table) {
		key = table[m.PKey]
	}
	if key&opa.PKeyFull != 0 || opa.LID(m.LID) == n.engine.Info().SMLID {
		return key
	}
	if i := slices.IndexFunc(table, func(k uint16) bool { return k&opa.PKeyFull != 0 }); i >= 0 {
		return table[i]
	}
	return key
}

// madCommand answers the commands about MADs.
func (s *Control) madCommand(name string, args json.RawMessage) (answer any, known bool, err error) {
	switch name {
	case ctl.MADPortCommand:
		var p ctl.MADPort
		err = s.hfi.DoWait(func(frame.Time) { p = s.hfi.madPort() })
		return p, true, err
	case ctl.MADSendCommand:
		var m ctl.MAD
		if err := json.Unmarshal(args, &m); err != nil {
			return nil, true, ctl.BadRequest(err)
		}
		var refused error
		err = s.hfi.DoWait(func(now frame.Time) { refused = s.hfi.sendMAD(m, now) })
		if err == nil {
			err = refused
		}
		return struct{}{}, true, err
	}
	return nil, false, nil
}

// followMADs runs the job ctl.MADOp.
func (s *Control) followMADs(progress func(any)) (cancel func(), err error) {
	var begun *session
	err = s.hfi.DoWait(func(frame.Time) {
		begun = s.hfi.engine.programs.begin(func(e ctl.MADEvent) { progress(e) })
	})
	if err != nil {
		return nil, err
	}
	return func() {
		_ = s.hfi.DoWait(func(frame.Time) { s.hfi.engine.programs.end(begun) }) // after the loop's end there is none
	}, nil
}
