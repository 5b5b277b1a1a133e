package nic

import (
	"tapir/nic/msglog"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// queueFrames bounds the frames that wait in a port for its link.
const queueFrames = 256

// port is one attachment of the NIC with its counters and the frames that
// wait for the link.
type port struct {
	name  frame.Port
	link  frame.Link
	queue []outgoing // first is at head
	head  int
	// gathers: the link takes frames with attached memory.
	gathers bool
	// closed: the port is not active; nothing passes.
	closed bool
	// looped: the PHY turns frames back; those in turned are on their way.
	looped bool
	turned []*frame.Frame

	rxID, txID                 uint64
	rxFrames, rxBytes          uint64
	txFrames, txBytes, stamped uint64
	rx, tx                     macStats   // of the wire
	lastSent                   frame.Time // as reported by TxDone
}

// outgoing is a frame on its way out and what is to be said about it.
type outgoing struct {
	f     *frame.Frame
	notes []frame.Note // borrowed, but for a frame that waits
	// Of a PTP message: its number, if its stamp is wanted, and whether the
	// stamp, or the time since another, is written into it.
	message uint64
	oneStep bool
	// offloaded: the TCP engine's, not a frame of the Ethernet queue.
	offloaded bool
	since     frame.Stamp
}

// kept is o in a form that may wait.
func (o outgoing) kept() outgoing {
	o.f.Linearize()
	o.notes = frame.KeepNotes(o.notes)
	return o
}

func (p *port) waiting() int { return len(p.queue) - p.head }

// send takes o.f: it goes to the link at once while Poll runs and nothing
// waits, else into the queue.
func (d *Device) send(p *port, o outgoing) {
	switch {
	case p.closed:
		d.dropOut(p, o, drop.Link)
	case d.polling && p.waiting() == 0 && p.link.Room() > 0:
		d.transmit(p, o)
	case p.waiting() < queueFrames:
		p.queue = append(p.queue, o.kept())
	default:
		d.dropOut(p, o, drop.TxQueue)
	}
}

// flush sends what waits while the link has room.
func (d *Device) flush(p *port) {
	for p.waiting() > 0 && (p.closed || p.link.Room() > 0) {
		o := p.queue[p.head]
		p.queue[p.head] = outgoing{}
		p.head++
		if p.closed {
			d.dropOut(p, o, drop.Link)
		} else {
			d.transmit(p, o)
		}
	}
	if p.waiting() == 0 {
		p.queue, p.head = p.queue[:0], 0
	}
}

// transmit numbers, stamps, counts and records the frame and hands it to the
// link.
func (d *Device) transmit(p *port, o outgoing) {
	p.txID++
	p.txFrames++
	p.txBytes += uint64(o.f.Len())
	if p.name == frame.Wire {
		p.tx.count(o.f)
		if !o.offloaded && d.function == nil {
			d.interrupts.sent++
		}
	}
	o.f.ID, o.f.Stamp = p.txID, d.stamping.phc.At(d.now)
	later := false
	if d.stamping.on && p.name == frame.Wire {
		if o.oneStep {
			d.oneStep(&o)
		}
		later = d.expect(&o)
	}
	if !p.gathers || d.tracer != nil {
		o.f.Linearize()
	}
	if !later {
		d.trace(p, frame.Outbound, o.f, o.notes, frame.DropNone)
	}
	if p.looped {
		d.turn(p, o.f)
		return
	}
	p.link.Transmit(o.f)
}

// turn takes a frame that the PHY turns back.
func (d *Device) turn(p *port, f *frame.Frame) {
	if len(p.turned) >= queueFrames {
		d.drops.Count(drop.TxQueue)
		f.Release()
		return
	}
	f.Linearize()
	p.turned = append(p.turned, f)
}

// turnBackPort hands the frames that the PHY has turned back to the receiving
// side and reports whether there were any.
func (d *Device) turnBackPort(p *port) bool {
	frames := p.turned
	p.turned = nil
	for _, f := range frames {
		d.receiveWire(f)
	}
	return len(frames) > 0
}

// dropOut counts, records and releases a frame that cannot be sent.
func (d *Device) dropOut(p *port, o outgoing, r frame.DropReason) {
	d.drops.Count(r)
	o.f.Linearize()
	o.f.Stamp = d.stamping.phc.At(d.now)
	d.trace(p, frame.Outbound, o.f, o.notes, r)
	o.f.Release()
}

// trace hands a frame that passes or fails to pass a port to the tracer.
func (d *Device) trace(p *port, dir frame.Direction, f *frame.Frame, notes []frame.Note, drop frame.DropReason) {
	if drop != frame.DropNone && d.log.On(msglog.Drop) {
		d.logDrop(p, dir, f.Bytes(), drop)
	}
	if d.tracer == nil {
		return
	}
	at := d.passedAt(f)
	if at == frame.Never {
		at = d.now
	}
	d.record = frame.Record{
		Port: p.name, Dir: dir, Data: f.Bytes(), Offload: f.Offload,
		Stamp: f.Stamp, System: d.system.At(at), ID: f.ID, Queue: f.Queue, Drop: drop, Notes: notes,
	}
	d.tracer.Trace(&d.record)
	d.record.Data, d.record.Notes = nil, nil
}
