package hfi

import (
	"math/bits"

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

// Poll sends what waits while the fabric link has room: subnet management
// first, then a frame of each lane in turn. It returns the time at which it
// wants to be called again, by its agents; while frames wait it must be called
// as soon as there is room.
func (p *Port) Poll(now frame.Time) frame.Time {
	p.now = now
	next := frame.Never
	for range p.looped.Len() {
		p.receive(p.looped.Pop(), true)
	}
	for _, a := range p.agents {
		next = min(next, a.Poll(now, p.SendMAD))
	}
	for p.busy != 0 && p.wire.Room() > 0 {
		p.send(p.next())
	}
	if p.looped.Len() > 0 {
		return now
	}
	return next
}

// next is the lane whose turn it is; some lane has frames.
func (p *Port) next() int {
	if p.busy&(1<<managementVL) != 0 {
		return managementVL
	}
	vl := (p.turn + bits.TrailingZeros32(bits.RotateLeft32(p.busy, -p.turn))) % lanes
	p.turn = (vl + 1) % lanes
	return vl
}

func (p *Port) send(vl int) {
	f := p.queues[vl].Pop()
	if p.queues[vl].Len() == 0 {
		p.busy &^= 1 << vl
	}
	p.txID++
	f.ID = p.txID
	p.counts.TxPackets++
	p.counts.TxLane[vl]++
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
