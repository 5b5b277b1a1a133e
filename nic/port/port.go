// Package port is where frames enter and leave a NIC. A port numbers, stamps,
// counts and records every frame, holds what its link has no room for, and
// drops what cannot leave.
//
// A NIC has wire ports and ports of the operating system's side; all of one NIC
// share a Common.
package port

import (
	"tapir/nic/dcb"
	"tapir/nic/msglog"
	"tapir/nic/pacing"
	"tapir/nic/view"
	"tapir/ptp/clock"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// QueueFrames bounds the frames that wait in a port for its link.
const QueueFrames = 256

// Common is what the ports of a NIC share.
type Common struct {
	PHC    *clock.PHC  // stamps every frame
	System frame.Clock // the system's time of day, for captures
	Drops  frame.Drops
	Notes  frame.Notes // about the frame in hand, for the capture
	Log    msglog.Log
	// Polling: the NIC is inside Poll, and frames may leave at once.
	Polling bool
	tracer  frame.Tracer
	record  frame.Record
}

// SetTracer hands every frame that passes a port to t from now on; nil stops.
func (c *Common) SetTracer(t frame.Tracer) {
	c.tracer = t
	c.Notes.On = t != nil
	c.Notes.Take()
}

// Tracer is the present one, nil without a capture.
func (c *Common) Tracer() frame.Tracer { return c.tracer }

// Engine is one NIC, for those that put several NICs on a port.
type Engine interface {
	Receive(port frame.Port, frames []*frame.Frame, now frame.Time)
	Dispatch(now frame.Time) bool
	Poll(now frame.Time) frame.Time
	TxDone(id uint64, at, now frame.Time) bool
	// NextTimer is when the next timer is due, which neighbors may set.
	NextTimer() frame.Time
}

// Line is the transmitter of a cable, which functions of one port of a device share.
type Line struct {
	// Sched paces what leaves, to the speed that SetLink tells; Flow is what PAUSE
	// frames do.
	Sched pacing.Tree
	Flow  pacing.Flow
	// received paces what the port hands to its functions; if they share it, to the
	// speed of the link. nil: nothing does.
	received *pacing.Tree
	fills    map[*Port]int // of the queues of each port that shares it; nil: nobody does
}

// NewLine is a line that functions share: rounds of its trees begin elsewhere, and the
// fullest queue of all functions decides about PAUSE frames.
func NewLine() *Line { return &Line{received: new(pacing.Tree), fills: map[*Port]int{}} }

// Shared tells whether functions share the line.
func (l *Line) Shared() bool { return l.fills != nil }

// Begin begins a round of both directions.
func (l *Line) Begin(now frame.Time) {
	l.Sched.Begin(now)
	if l.received != nil {
		l.received.Begin(now)
	}
}

// Begin begins a round of a line that is the port's own.
func (p *Port) Begin(now frame.Time) {
	if !p.Shared() {
		p.Line.Begin(now)
	}
}

// NextRound is when to begin the next round; frame.Never: nobody was refused.
func (p *Port) NextRound() frame.Time {
	if p.classes != nil {
		return min(p.Sched.Next(), p.classes.next, p.classes.tree.Next())
	}
	if p.received == nil {
		return p.Sched.Next()
	}
	return min(p.Sched.Next(), p.received.Next())
}

// Leave takes the port from its line: nothing waits for it any more.
func (p *Port) Leave() {
	delete(p.fills, p)
	if p.inlet != nil {
		p.inlet.leave()
	}
}

// fullest takes in how full the port's queues are, and returns that of the fullest on
// the line.
func (p *Port) fullest(fill int) int {
	if !p.Shared() {
		return fill
	}
	p.fills[p] = fill
	for _, of := range p.fills {
		fill = max(fill, of)
	}
	return fill
}

// Port is one attachment of the NIC with its counters and the frames that
// wait for the link.
type Port struct {
	*Common
	// Closed: the port is not active; nothing passes.
	Closed bool
	looped LoopReason
	name   frame.Port
	// Stamper sees every frame that leaves; nil: nobody wants to.
	Stamper Stamper

	Frames   [2]Traffic // by direction
	MAC      [2]MACStats
	Stamped  uint64     // frames whose leaving was reported
	LastSent frame.Time // of those

	*Line

	external   frame.Link // nil: the NIC has no such port
	link       frame.Link // external, or loop while the port is in loopback
	loop       Loop
	queue      []Out // first is at head
	head       int
	unreported int        // see TakeSent
	dcb        *dcb.State // nil: see DCB
	fixed      *dcb.Port  // of SetClasses, nil: none
	classes    *classes   // in use, nil: none
	agreed     Link       // of SetLink
	own        Line
	inlet      *inlet // nil: nothing limits what is received
}

// Counter is one named value, as ethtool -S prints them.
type Counter = view.Counter

// Traffic counts frames and their octets.
type Traffic struct{ Packets, Bytes uint64 }

// Stamper takes the stamps of event messages.
type Stamper interface {
	// Leaving sees a frame on its way to the link, and may change it. True: it
	// will give the frame to the capture itself, when its stamp is known.
	Leaving(o *Out, now frame.Time) (traced bool)
}

// New returns a port on link, which is nil for one that the NIC does not have. The
// line is its own unless others share it.
func New(c *Common, name frame.Port, link frame.Link, line *Line) *Port {
	p := &Port{Common: c, Line: line, name: name, external: link, link: link}
	if line == nil {
		p.Line = &p.own
	}
	return p
}

// Exists tells whether the NIC has the port.
func (p *Port) Exists() bool { return p.external != nil }

// External is the link that the port was made with.
func (p *Port) External() frame.Link { return p.external }

// LoopReason is who wants a port in loopback.
type LoopReason uint8

// The reasons.
const (
	LoopPHY LoopReason = 1 << iota
	LoopSelftest
)

// Loopback turns the frames of the port back for a reason, or ends that. When
// nobody wants it any more, the frames that are on their way are dropped.
func (p *Port) Loopback(why LoopReason, on bool) {
	if p.looped &^= why; on {
		p.looped |= why
	}
	switch {
	case p.looped != 0:
		p.link = &p.loop
	case p.link != p.external:
		p.link = p.external
		for range p.loop.discard() {
			p.Drops.Count(drop.Link)
		}
	}
}

// Deaf tells whether the port's PHY hears only its own transmitter.
func (p *Port) Deaf() bool { return p.looped&LoopPHY != 0 }

// TurnBack hands the frames that loopback has turned back to receive, and tells
// whether there were any.
func (p *Port) TurnBack(receive func(f *frame.Frame)) bool { return p.loop.Drain(receive) }

// Arrived counts, numbers and stamps a frame that came in by the port.
func (p *Port) Arrived(f *frame.Frame, now frame.Time) {
	p.pass(frame.Inbound, f)
	f.Stamp = p.PHC.At(StampedAt(f, now))
}

// pass counts and numbers a frame.
func (p *Port) pass(dir frame.Direction, f *frame.Frame) {
	t := &p.Frames[dir]
	t.Packets++
	t.Bytes += uint64(f.Len())
	if p.name == frame.Wire {
		p.MAC[dir].count(f)
	}
	f.ID = t.Packets
}

// Out is a frame on its way out and what is to be said about it.
type Out struct {
	Frame *frame.Frame
	Notes []frame.Note // borrowed, but for a frame that waits
	// Of a PTP message: its number, if its stamp is wanted, and whether the
	// stamp, or the time since another, is written into it.
	Message uint64
	OneStep bool
	// Offloaded: the TCP engine's, not a frame of the Ethernet queue.
	Offloaded bool
	Priority  uint8      // 0 to 7, of a tagged frame
	AddTag    bool       // an untagged frame with a priority gets a tag with VLAN 0
	Type      uint16     // EtherType of a packet that is not one of IP; 0: it is
	Station   ether.Addr // of the next hop, if it answers; zero: that which it has said
	Since     frame.Stamp
}

// Retained is o in a form that may wait.
func (o Out) Retained() Out {
	o.Notes = frame.KeepNotes(o.Notes)
	return o
}

// Waiting is the number of frames that wait for the link.
func (p *Port) Waiting() int {
	if p.classes != nil {
		return p.classes.waiting
	}
	return len(p.queue) - p.head
}

// Room is how many frames the port takes without queueing: while frames wait,
// nothing may overtake them.
func (p *Port) Room() int {
	switch {
	case p.classes != nil:
		return p.roomByClass(false)
	case p.Closed:
		return QueueFrames // all are dropped at once
	case !p.paces():
		return max(0, p.link.Room()-p.Waiting())
	case p.Waiting() > 0 || !p.Sched.Port().Ready():
		return 0
	}
	return min(1, p.link.Room())
}

// Send takes o.Frame: it goes to the link at once while Poll runs and nothing
// waits, else into the queue.
func (p *Port) Send(o Out, now frame.Time) {
	switch {
	case p.classes != nil:
		p.sendByClass(o, now)
	case p.Closed:
		p.Drop(o, drop.Link, now)
	case p.Polling && p.Waiting() == 0 && p.link.Room() > 0 && p.departs(o.Frame):
		p.Transmit(o, now)
	case p.Waiting() < QueueFrames:
		p.queue = append(p.queue, o.Retained())
	default:
		p.Drop(o, drop.TxQueue, now)
	}
}

// Flush sends what waits while the link has room.
func (p *Port) Flush(now frame.Time) {
	switch {
	case p.classes != nil:
		p.flushClasses(now)
	case p.Waiting() > 0:
		p.flush(now)
	}
}

func (p *Port) flush(now frame.Time) {
	for p.Waiting() > 0 && (p.Closed || p.link.Room() > 0) {
		o := p.queue[p.head]
		if !p.Closed && !p.departs(o.Frame) {
			break
		}
		p.queue[p.head] = Out{}
		p.head++
		if p.Closed {
			p.Drop(o, drop.Link, now)
		} else {
			p.Transmit(o, now)
		}
	}
	if p.Waiting() == 0 {
		p.queue, p.head = p.queue[:0], 0
	}
}

// Transmit numbers, stamps, counts and records the frame and hands it to the
// link, which must have room.
func (p *Port) Transmit(o Out, now frame.Time) {
	f := o.Frame
	p.pass(frame.Outbound, f)
	p.spend(f)
	if !o.Offloaded {
		p.unreported++
	}
	f.Stamp = p.PHC.At(now)
	traced := p.Stamper != nil && p.leaving(o, now)
	if !traced {
		p.Trace(frame.Outbound, f, o.Notes, frame.DropNone, now)
	}
	p.link.Transmit(f)
}

// leaving shows o to the Stamper. Only here it is on the heap.
func (p *Port) leaving(o Out, now frame.Time) (traced bool) { return p.Stamper.Leaving(&o, now) }

// TakeSent is how many frames have left since the last call, but for the TCP
// engine's.
func (p *Port) TakeSent() (n int) {
	n, p.unreported = p.unreported, 0
	return n
}

// Drop counts, records and releases a frame that cannot be sent.
func (p *Port) Drop(o Out, r frame.DropReason, now frame.Time) {
	p.Drops.Count(r)
	o.Frame.Stamp = p.PHC.At(now)
	p.Trace(frame.Outbound, o.Frame, o.Notes, r, now)
	o.Frame.Release()
}

// Finish records and releases a frame that came in and was used, or with a reason
// refused.
func (p *Port) Finish(f *frame.Frame, r frame.DropReason, now frame.Time) {
	if r != frame.DropNone {
		p.Refuse(f, r, now)
		return
	}
	p.Trace(frame.Inbound, f, nil, r, now)
	f.Release()
}

// Refuse counts, records and releases a frame that came in and goes no further.
func (p *Port) Refuse(f *frame.Frame, r frame.DropReason, now frame.Time) {
	p.Drops.Count(r)
	p.Trace(frame.Inbound, f, nil, r, now)
	f.Release()
}
