// Package npar puts several functions of a device on its ports (NIC partitioning).
// Each function is one NIC, and all run on one thread. A port tells the functions on
// it apart by station address (NPAR) or by an outer VLAN tag (OVLAN, UFP):
//
//   - By address, a frame for the station of a function is its own; groups, and
//     stations that nobody is, come to all, whose filters decide. A function that
//     sends to a neighbor on its port does so inside of the device.
//   - By tag, every frame of a function has its tag on the wire, and a frame that
//     comes in loses it. Neighbors meet in a switch behind the port.
package npar

import (
	"encoding/binary"

	"tapir/nic/nicdrop"
	"tapir/nic/port"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// Parts are what the port uses of a NIC.
type Parts struct {
	Station *ether.Addr // its MAC address
	// Owns tells whether the function has other stations, of VFs or FCoE; nil: it has none.
	Owns func(ether.Addr) bool
	// Wire drops frames that are nobody's.
	Wire *port.Port
}

// is tells whether a station is the function's.
func (p *Parts) is(a ether.Addr) bool { return *p.Station == a || p.Owns != nil && p.Owns(a) }

// Card drives the functions of a device as if they were one NIC.
type Card struct {
	pool  frame.Pool
	ports []*physical
	slots []*Slot // by function
	first int     // whose turn it is to be polled first
}

// physical is a port with those on it.
type physical struct {
	*port.Line
	link  frame.Link
	slots []*Slot
}

// Slot is a function's place on a port: its link to the wire.
type Slot struct {
	card  *Card
	on    *physical
	index int
	fn    port.Engine // nil: nobody is there
	parts Parts
	tag   ether.Tag
	inner bool           // a frame's own tag decides on the priority in that one
	batch []*frame.Frame // of the wire
	// in are frames from neighbors, late those of them that found no room, and done
	// the numbers of frames that went to neighbors, until the next Poll.
	in, late []*frame.Frame
	done     []uint64
	free     frame.Time // when neighbors may be heard again
}

// slotFrames bounds the frames that wait for a function.
const slotFrames = 256

// HostPort is the first of the card's ports that are host functions; those before it
// are the wire's.
const HostPort = 8

// vfPorts is how many ports there are for the host TAPs of a function's VFs.
const vfPorts = 0x100

// VFPort is the first of the card's ports that are host TAPs of a function's VFs. The
// function gets their frames by ports from VFPort(0) on.
func VFPort(fn int) frame.Port { return frame.Port(fn+1) * vfPorts }

// fnShift is where a frame's number has its function.
const fnShift = 48

// New returns a card whose functions are on these ports, by number. Its frames are
// lent by pool.
func New(pool frame.Pool, ports int, on []int) *Card {
	c := &Card{pool: pool}
	for range ports {
		c.ports = append(c.ports, &physical{Line: port.NewLine()})
	}
	for i, at := range on {
		s := &Slot{card: c, on: c.ports[at], index: i}
		c.slots, s.on.slots = append(c.slots, s), append(s.on.slots, s)
	}
	return c
}

// Connect gives a port its link.
func (c *Card) Connect(port int, l frame.Link) { c.ports[port].link = l }

// Slot is the place of a function.
func (c *Card) Slot(fn int) *Slot { return c.slots[fn] }

// Line is the transmitter of the slot's port.
func (s *Slot) Line() *port.Line { return s.on.Line }

// Enter puts a function into the slot.
func (s *Slot) Enter(fn port.Engine, p Parts) { s.fn, s.parts = fn, p }

// Leave takes it out.
func (s *Slot) Leave() {
	for _, f := range append(s.in, s.late...) {
		f.Release()
	}
	s.fn, s.parts, s.in, s.late, s.done = nil, Parts{}, nil, nil, nil
}

// SetTag says which outer tag the function's frames have, TPID 0: none. With inner the
// priority in a frame's own VLAN tag goes into it.
func (s *Slot) SetTag(t ether.Tag, inner bool) { s.tag, s.inner = t, inner }

// outer is the outer tag of a frame.
func (s *Slot) outer(b []byte) ether.Tag {
	const priority = 7 << 13
	t := s.tag
	if s.inner && len(b) >= ether.HeaderLen+ether.TagLen && binary.BigEndian.Uint16(b[12:]) == ether.TypeVLAN {
		t.TCI = t.TCI&^priority | binary.BigEndian.Uint16(b[14:])&priority
	}
	return t
}

// Room implements frame.Link: that of the port, and of the neighbors.
func (s *Slot) Room() int {
	room := s.on.link.Room()
	for _, o := range s.on.slots {
		if o != s {
			room = min(room, slotFrames-len(o.in))
		}
	}
	return room
}

// Transmit implements frame.Link: a frame of the function leaves, or goes to a
// neighbor.
func (s *Slot) Transmit(f *frame.Frame) {
	if s.tag.TPID != 0 {
		if f = s.card.push(f, s.outer(f.Bytes())); f == nil {
			return // as a frame is lost on a wire
		}
	} else if len(s.on.slots) > 1 {
		if s.switched(f) {
			return
		}
	}
	if f.ID != 0 {
		f.ID |= uint64(s.index) << fnShift
	}
	s.on.link.Transmit(f)
}

// switched takes a frame for a neighbor, and copies one for all.
func (s *Slot) switched(f *frame.Frame) bool {
	dst := ether.Addr(f.Bytes()[:6])
	if ether.IsMACControl(f.Bytes()) {
		return false
	}
	for _, o := range s.on.slots {
		switch {
		case o == s || o.fn == nil || o.tag.TPID != 0:
		case dst.IsMulticast():
			o.wait(s.card.copy(f))
		case o.parts.is(dst):
			if f.ID != 0 {
				s.done = append(s.done, f.ID)
			}
			f.ID, f.Queue, f.Seen = 0, 0, 0
			o.wait(f)
			return true
		}
	}
	return false
}

// wait keeps a frame (taken) until the function is called; nil is none.
func (s *Slot) wait(f *frame.Frame) {
	switch {
	case f == nil:
	case len(s.in) >= slotFrames:
		s.late = append(s.late, f)
	default:
		s.in = append(s.in, f)
	}
}

// copy is another frame with the same content, nil without a buffer.
func (c *Card) copy(f *frame.Frame) *frame.Frame {
	g := c.pool.Get(f.Len())
	if g != nil {
		g.Append(f.Bytes())
		g.Offload = f.Offload
	}
	return g
}

// push puts a tag on a frame; nil: there was no buffer.
func (c *Card) push(f *frame.Frame, t ether.Tag) *frame.Frame {
	if f.Headroom() < ether.TagLen+virtio.HeaderLen {
		g := c.copy(f)
		if g != nil {
			g.ID, g.Queue = f.ID, f.Queue
		}
		f.Release()
		if f = g; f == nil {
			return nil
		}
	}
	f.Prepend(ether.TagLen)
	b := f.Bytes()
	copy(b[:12], b[ether.TagLen:])
	binary.BigEndian.PutUint16(b[12:], t.TPID)
	binary.BigEndian.PutUint16(b[14:], t.TCI)
	shift(&f.Offload, ether.TagLen)
	return f
}

// shift moves what is to be done on a frame with its octets.
func shift(o *frame.Offload, by int) {
	if o.NeedsCsum {
		o.CsumStart += uint16(by)
	}
	if o.GSO != frame.GSONone {
		o.HdrLen += uint16(by)
	}
}

// Receive takes frames of a port of the wire, or of the host function HostPort and
// its number.
func (c *Card) Receive(p frame.Port, frames []*frame.Frame, now frame.Time) {
	if p >= HostPort {
		fn, to := int(p-HostPort), frame.Host
		if p >= vfPorts {
			fn, to = int(p/vfPorts)-1, VFPort(0)+p%vfPorts
		}
		s := c.slots[fn]
		if s.fn == nil {
			for _, f := range frames {
				f.Release()
			}
			return
		}
		s.fn.Receive(to, frames, now)
		return
	}
	on := c.ports[p]
	for _, f := range frames {
		on.classify(f, now)
	}
	for _, s := range on.slots {
		if len(s.batch) > 0 {
			s.fn.Receive(frame.Wire, s.batch, now)
			clear(s.batch)
			s.batch = s.batch[:0]
		}
	}
}

// classify finds those whom a frame of the wire is for.
func (p *physical) classify(f *frame.Frame, now frame.Time) {
	b := f.Bytes()
	var first *Slot // that is there
	others := 0     // those without a tag
	for _, s := range p.slots {
		switch {
		case s.fn == nil:
			continue
		case s.tag.TPID != 0:
			if carries(b, s.tag) {
				copy(b[ether.TagLen:], b[:12])
				f.TrimFront(ether.TagLen)
				shift(&f.Offload, -ether.TagLen)
				s.batch = append(s.batch, f)
				return
			}
		case len(b) >= ether.HeaderLen && s.parts.is(ether.Addr(b[:6])):
			s.batch = append(s.batch, f)
			return
		default:
			others++
		}
		if first == nil {
			first = s
		}
	}
	switch {
	case first == nil:
		f.Release() // as at a port that nobody has opened
	case ether.IsMACControl(b): // the port's own
		first.batch = append(first.batch, f)
	case others == 0:
		first.refuse(f, nicdrop.OuterTag, now)
	default:
		p.flood(f, others)
	}
}

// refuse drops a frame that came in by the port, in the name of the function.
func (s *Slot) refuse(f *frame.Frame, r frame.DropReason, now frame.Time) {
	s.parts.Wire.Arrived(f, now)
	s.parts.Wire.Refuse(f, r, now)
}

// flood gives a frame to all functions without a tag, of which there are so many.
func (p *physical) flood(f *frame.Frame, others int) {
	for _, s := range p.slots {
		if s.fn == nil || s.tag.TPID != 0 {
			continue
		}
		g := f
		if others--; others > 0 {
			g = s.card.copy(f)
		}
		if g != nil {
			s.batch = append(s.batch, g)
		}
	}
}

// carries tells whether the outer tag of a frame is of that VLAN.
func carries(b []byte, t ether.Tag) bool {
	return len(b) >= ether.HeaderLen+ether.TagLen && binary.BigEndian.Uint16(b[12:]) == t.TPID &&
		ether.Tag{TCI: binary.BigEndian.Uint16(b[14:])}.VID() == t.VID()
}

// Dispatch runs the handlers of all.
func (c *Card) Dispatch(now frame.Time) (any bool) {
	for _, s := range c.slots {
		if s.fn != nil && s.fn.Dispatch(now) {
			any = true
		}
	}
	return any
}

// Poll has all send, each first in its turn, and returns the next deadline.
func (c *Card) Poll(now frame.Time) frame.Time {
	for _, p := range c.ports {
		p.Begin(now)
	}
	next, n := frame.Never, len(c.slots)
	for i := range n {
		if s := c.slots[(c.first+i)%n]; s.fn != nil {
			next = min(next, s.fn.Poll(now))
		}
	}
	c.first = (c.first + 1) % n
	for _, s := range c.slots {
		if s.fn == nil {
			continue
		}
		next = min(next, s.neighbors(now), s.fn.NextTimer())
	}
	return next
}

// neighborOctet is how long an octet of a neighbor takes, in picoseconds: 100 Gb/s. In
// virtual time two functions without a speed would not let it go on.
const neighborOctet = 80

// neighbors takes in what neighbors have sent, and tells of what has gone to them. It
// returns when the card is to be polled again.
func (s *Slot) neighbors(now frame.Time) (next frame.Time) {
	next = frame.Never
	for _, id := range s.done {
		s.fn.TxDone(id, now, now)
		next = now
	}
	s.done = s.done[:0]
	for _, f := range s.late {
		s.refuse(f, nicdrop.Switch, now)
	}
	clear(s.late)
	s.late = s.late[:0]
	if len(s.in) == 0 {
		return next
	}
	if now < s.free {
		return min(next, s.free)
	}
	octets := 0
	for _, f := range s.in {
		octets += f.Len()
	}
	s.free = now + frame.Time(octets*neighborOctet/1000)
	s.fn.Receive(frame.Wire, s.in, now)
	clear(s.in)
	s.in = s.in[:0]
	return now
}

// TxDone reports when a frame left.
func (c *Card) TxDone(id uint64, at, now frame.Time) bool {
	s := c.slots[id>>fnShift]
	return s.fn != nil && s.fn.TxDone(id&(1<<fnShift-1), at, now)
}
