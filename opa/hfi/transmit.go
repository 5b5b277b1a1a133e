package hfi

import (
	"math/bits"

	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// enqueue takes f, ready to be sent, unless the lane has no room: then it
// returns DropTxQueue and f is still the caller's.
func (p *Port) enqueue(f *frame.Frame, vl uint8, engine uint16) frame.DropReason {
	vl &= lanes - 1
	f.Queue = engine
	if !p.queues[vl].Push(f, p.cfg.QueueFrames) {
		return drop.TxQueue
	}
	p.busy |= 1 << vl
	return frame.DropNone
}

// Poll sends what waits while the fabric link has room: notifications of congestion
// and subnet management first, then a frame of each lane in turn. It returns the time at
// which it wants to be called again, by its agents or for a frame that has to wait;
// while frames wait it must be called as soon as there is room.
func (p *Port) Poll(now frame.Time) frame.Time {
	p.now, p.held = now, frame.Never
	next := p.cca.Poll(now)
	for range p.looped.Len() {
		p.receive(p.looped.Pop(), true)
	}
	for _, a := range p.agents {
		next = min(next, a.Poll(now, p.sender))
	}
	for p.urgent.Len() > 0 && p.wire.Room() > 0 {
		p.emit(p.urgent.Pop())
	}
	for p.busy != 0 && p.wire.Room() > 0 {
		vl := p.next()
		if vl < 0 {
			break
		}
		p.send(vl)
	}
	if p.looped.Len() > 0 {
		return now
	}
	return min(next, p.held)
}

// next is the lane whose turn it is, -1 if all have to wait; some lane has frames.
func (p *Port) next() int {
	if p.busy&(1<<managementVL) != 0 {
		return managementVL
	}
	for left := p.busy; left != 0; {
		vl := (p.turn + bits.TrailingZeros32(bits.RotateLeft32(left, -p.turn))) % lanes
		if !p.delayed(vl) {
			p.turn = (vl + 1) % lanes
			return vl
		}
		left &^= 1 << vl
	}
	return -1
}

func (p *Port) send(vl int) {
	f := p.queues[vl].Pop()
	if p.queues[vl].Len() == 0 {
		p.busy &^= 1 << vl
	}
	if p.cca.Active() && vl != managementVL {
		if sc, octets, ok := opa.ServiceClass(f.Bytes()); ok {
			p.cca.Sent(sc, octets, p.now)
		}
	}
	p.counts.TxLane[vl]++
	p.emit(f)
}

// emit hands f to the link.
func (p *Port) emit(f *frame.Frame) {
	p.txID++
	f.ID = p.txID
	p.counts.TxPackets++
	p.counts.TxBytes += uint64(f.Len())
	p.traceOut(f, frame.DropNone)
	p.wire.Transmit(f)
}

func (p *Port) traceOut(f *frame.Frame, r frame.DropReason) {
	if p.tracer != nil {
		p.tracer.Trace(&frame.Record{Port: frame.Wire, Dir: frame.Outbound, Data: f.Bytes(), Stamp: frame.Stamp(p.now),
			ID: f.ID, Queue: f.Queue, Drop: r})
	}
}

// traceIn records the frame in p.scratch, which came at a time.
func (p *Port) traceIn(id uint64, at frame.Time, r frame.DropReason) {
	if p.tracer != nil {
		p.tracer.Trace(&frame.Record{Port: frame.Wire, Dir: frame.Inbound, Data: p.scratch, Stamp: frame.Stamp(at),
			ID: id, Drop: r})
	}
}
