package scsi

import (
	"encoding/binary"
	"slices"
)

// Types of persistent reservations (SPC-4 table 54). Those of registrants only, and of all
// registrants, do not bind who has registered.
const (
	writeExclusive            = 1
	exclusiveAccess           = 3
	writeExclusiveRegistrants = 5
	exclusiveRegistrants      = 6
	writeExclusiveAll         = 7
	exclusiveAll              = 8
)

// Causes that reservations have.
var (
	invalidRelease         = Sense{Key: IllegalRequest, Code: 0x2604}
	reservationsPreempted  = Sense{Key: UnitAttention, Code: 0x2a03}
	reservationsReleased   = Sense{Key: UnitAttention, Code: 0x2a04}
	registrationsPreempted = Sense{Key: UnitAttention, Code: 0x2a05}
)

// persistent are the persistent reservations of a unit (SPC-4 section 5.9). They belong to
// initiator ports, and outlive their nexuses, but not the unit.
type persistent struct {
	generation uint32
	registered []registration
	kind       byte   // of the reservation; 0: there is none
	holder     string // its port; of all registrants: nobody
}

type registration struct {
	port string
	key  uint64
}

func (p *persistent) find(port string) int {
	return slices.IndexFunc(p.registered, func(r registration) bool { return r.port == port })
}

// all tells whether every registrant holds the reservation.
func (p *persistent) all() bool { return p.kind >= writeExclusiveAll }

// holds tells whether a port holds the reservation.
func (p *persistent) holds(port string) bool {
	return p.kind != 0 && (p.holder == port || p.all() && p.find(port) >= 0)
}

// forbids tells whether a reservation keeps a port from a command.
func (p *persistent) forbids(port string, k *kind) bool {
	if p.kind == 0 || p.holds(port) || p.kind >= writeExclusiveRegistrants && p.find(port) >= 0 {
		return false
	}
	switch p.kind {
	case writeExclusive, writeExclusiveRegistrants, writeExclusiveAll:
		return k.changes()
	}
	return k.changes() || k.slow || k.op == 0x1a || k.op == 0x5a || k.op == 0x34 || k.op == 0x90
}

// changes tells whether a command changes the medium or the unit.
func (k *kind) changes() bool {
	switch k.op {
	case 0x15, 0x55, opStartStop, 0x35, 0x91:
		return true
	}
	return k.writes
}

// tellPorts has the unit owe an attention to registrants, but one.
func (u *Unit) tellPorts(list []registration, but string, s Sense) {
	for _, n := range u.nexus {
		if n.port != but && slices.ContainsFunc(list, func(r registration) bool { return r.port == n.port }) {
			*n.attentionOf(u) = s
		}
	}
}

// persistIn is PERSISTENT RESERVE IN (SPC-4 section 6.15).
func persistIn(c *Command) performer {
	p, allocation := &c.unit.persist, u16(c.cdb[7:])
	b := binary.BigEndian.AppendUint32(nil, p.generation)
	b = append(b, 0, 0, 0, 0)
	switch c.cdb[1] & 0x1f {
	case 0: // READ KEYS
		for _, r := range p.registered {
			b = binary.BigEndian.AppendUint64(b, r.key)
		}
	case 1: // READ RESERVATION
		if p.kind != 0 {
			var key uint64
			if i := p.find(p.holder); i >= 0 && !p.all() {
				key = p.registered[i].key
			}
			b = binary.BigEndian.AppendUint64(b, key)
			b = append(b, 0, 0, 0, 0, 0, p.kind, 0, 0)
		}
	case 2: // REPORT CAPABILITIES: all types, nothing else
		return c.give([]byte{0, 8, 0, 0x80, 0xea, 0x01, 0, 0}, allocation)
	case 3: // READ FULL STATUS
		for _, r := range p.registered {
			b = p.status(b, r)
		}
	}
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-8))
	return c.give(b, allocation)
}

// fcpName is the length of a name of FCP; those of iSCSI are longer.
const fcpName = 8

// FCPPort is the name of an initiator port of Fibre Channel.
func FCPPort(name uint64) string { return string(binary.BigEndian.AppendUint64(nil, name)) }

// status appends the full status of a registrant, with its TransportID: that of iSCSI, or of FCP
// for a name of eight octets (SPC-4 section 7.6.4).
func (p *persistent) status(b []byte, r registration) []byte {
	b = binary.BigEndian.AppendUint64(b, r.key)
	holder, kind := byte(0), byte(0)
	if p.holds(r.port) {
		holder, kind = 1, p.kind
	}
	b = append(b, 0, 0, 0, 0, holder, kind, 0, 0, 0, 0, 0, 1)
	if len(r.port) == fcpName {
		b = append(binary.BigEndian.AppendUint32(b, 24), make([]byte, 8)...)
		return append(append(b, r.port...), make([]byte, 8)...)
	}
	name := append([]byte(r.port), 0)
	name = append(name, make([]byte, -len(name)&3)...)
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(name)))
	b = binary.BigEndian.AppendUint16(append(b, 0x45, 0), uint16(len(name)))
	return append(b, name...)
}

// persistOut is PERSISTENT RESERVE OUT (SPC-4 section 6.16), all service actions but those
// that abort or move.
func persistOut(c *Command) performer {
	action, scope, kind := c.cdb[1]&0x1f, c.cdb[2]>>4, c.cdb[2]&0xf
	known := kind != 0 && kind != 2 && kind != 4 && kind <= exclusiveAll
	if reserves := action == 1 || action == 2 || action == 4; reserves && (scope != 0 || !known) {
		return nil
	}
	if c.Out = u32(c.cdb[5:]); c.Out != 24 {
		c.Fail(wrongListLength)
		return nil
	}
	return func(c *Command, b []byte) []byte {
		switch {
		case len(b) < 24:
			c.Fail(wrongListLength)
		case b[20]&0x0d != 0: // for other ports, or beyond the loss of power
			c.Fail(invalidParameter)
		default:
			c.persist(action, kind, binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]))
		}
		return nil
	}
}

// persist does a service action; key is the port's own, other the action's.
func (c *Command) persist(action, kind byte, key, other uint64) {
	u, p, port := c.unit, &c.unit.persist, c.nexus.port
	at := p.find(port)
	var mine uint64
	if at >= 0 {
		mine = p.registered[at].key
	}
	if action != 6 && key != mine || action != 0 && action != 6 && at < 0 {
		c.Status = ReservationConflict
		return
	}
	switch action {
	case 0, 6: // REGISTER
		p.register(u, port, at, other)
	case 1: // RESERVE
		if p.kind != 0 && (!p.holds(port) || p.kind != kind) {
			c.Status = ReservationConflict
			return
		}
		p.kind, p.holder = kind, port
	case 2: // RELEASE
		switch {
		case !p.holds(port):
		case p.kind != kind:
			c.Fail(invalidRelease)
		default:
			p.release(u, port)
		}
	case 3: // CLEAR
		u.tellPorts(p.registered, port, reservationsPreempted)
		*p = persistent{generation: p.generation + 1}
	case 4: // PREEMPT
		c.preempt(kind, other)
	}
}

// register makes, changes or ends a registration.
func (p *persistent) register(u *Unit, port string, at int, key uint64) {
	p.generation++
	switch {
	case at >= 0 && key == 0:
		last := len(p.registered) == 1
		p.registered = slices.Delete(p.registered, at, at+1)
		if p.kind != 0 && (p.holder == port && !p.all() || last) {
			p.release(u, port)
		}
	case at >= 0:
		p.registered[at].key = key
	case key != 0:
		p.registered = append(p.registered, registration{port, key})
	}
}

// release ends the reservation. Registrants that it did not bind hear of it.
func (p *persistent) release(u *Unit, port string) {
	if p.kind >= writeExclusiveRegistrants {
		u.tellPorts(p.registered, port, reservationsReleased)
	}
	p.kind, p.holder = 0, ""
}

// preempt removes the registrations with a key, and takes their reservation.
func (c *Command) preempt(kind byte, key uint64) {
	u, p, port := c.unit, &c.unit.persist, c.nexus.port
	holds := slices.Contains(p.registered, registration{p.holder, key})
	takes := p.kind != 0 && (p.all() && key == 0 || !p.all() && holds)
	if key == 0 && !takes {
		c.Fail(invalidParameter)
		return
	}
	var gone []registration
	left := slices.DeleteFunc(slices.Clone(p.registered), func(r registration) bool {
		out := r.port != port && (r.key == key || takes && p.all())
		if out {
			gone = append(gone, r)
		}
		return out
	})
	if !takes && !slices.ContainsFunc(p.registered, func(r registration) bool { return r.key == key }) {
		c.Status = ReservationConflict
		return
	}
	p.generation++
	u.tellPorts(gone, port, registrationsPreempted)
	if takes {
		if p.kind != kind {
			u.tellPorts(left, port, reservationsReleased)
		}
		p.kind, p.holder = kind, port
	}
	p.registered = left
}
