// Package vtime is virtual time: the event queue of a world of engines that
// exchange frames. A world is one goroutine; the same calls give
// the same order of events, to the last tie.
package vtime

import (
	"tapir/nic/buf"
	"tapir/wire/frame"
)

// Epoch is what system clocks show when a world begins: 2026-01-01 TAI.
const Epoch = frame.Stamp(1_767_225_600_000_000_000)

// Engine is what a node of a world runs: a NIC, a clock's ports or a switch.
// Frames leave it in Poll only.
type Engine interface {
	// Receive takes the frames that arrived on a port at now.
	Receive(port frame.Port, frames []*frame.Frame, now frame.Time)
	// Poll does what is due and returns the next deadline.
	Poll(now frame.Time) frame.Time
}

// World is the event queue. Ties in time are broken by node,
// then by the order in which the events were made.
type World struct {
	// Pool lends the frames of all nodes.
	Pool *buf.Pool

	now    frame.Time
	nodes  []*Place
	events []event // a heap
	made   uint64
	done   uint64
}

// Place is a node's place in the world.
type Place struct {
	engine Engine
	index  int32
	wake   frame.Time // the earliest wake-up in the queue
	batch  [1]*frame.Frame
}

// event is an arrival (f), something that is done (act), or else a wake-up.
type event struct {
	at   frame.Time
	seq  uint64
	node int32
	port frame.Port
	f    *frame.Frame
	act  func()
}

// At equal times, the scenario acts before the nodes, and samples are taken after
// them.
const (
	ScenarioFirst = -1
	LookLast      = 1 << 30
)

// maxFrames bounds the frames on their way.
const maxFrames = 1 << 22

// New returns a world at time 0 with frames of at most size octets.
func New(size int) *World { return &World{Pool: buf.NewPool(maxFrames, size)} }

// Now is the time.
func (w *World) Now() frame.Time { return w.now }

// At implements frame.Clock: the time of day in the world.
func (w *World) At(now frame.Time) frame.Stamp { return Epoch + frame.Stamp(now) }

// Done is the number of events that have happened.
func (w *World) Done() uint64 { return w.done }

// Add gives e a place; it is polled for the first time at once.
func (w *World) Add(e Engine) *Place {
	p := &Place{engine: e, index: int32(len(w.nodes)), wake: frame.Never}
	w.nodes = append(w.nodes, p)
	w.Touch(p)
	return p
}

// Touch polls a node after somebody else changed something about it.
func (w *World) Touch(p *Place) { w.WakeUp(p, w.now) }

// WakeUp polls a node at the given time at the latest.
func (w *World) WakeUp(p *Place, at frame.Time) {
	if at < p.wake {
		p.wake = max(at, w.now)
		w.push(event{at: p.wake, node: p.index})
	}
}

// Schedule calls act at time t, before or after the nodes (ScenarioFirst,
// LookLast).
func (w *World) Schedule(t frame.Time, order int32, act func()) {
	w.push(event{at: t, node: order, act: act})
}

// Turn calls act at time t in a node's turn: the node is polled afterwards.
func (w *World) Turn(p *Place, t frame.Time, act func()) {
	w.push(event{at: max(t, w.now), node: p.index, act: act})
}

// Arrive lets a frame (taken) reach a node's port at time t.
func (w *World) Arrive(p *Place, port frame.Port, f *frame.Frame, t frame.Time) {
	w.push(event{at: t, node: p.index, port: port, f: f})
}

// Next is the time of the next event, frame.Never if there is none.
func (w *World) Next() frame.Time {
	if len(w.events) == 0 {
		return frame.Never
	}
	return w.events[0].at
}

// Run lets everything happen up to and including time end.
func (w *World) Run(end frame.Time) {
	for w.Next() <= end && w.Next() != frame.Never {
		w.Step()
	}
	w.now = max(w.now, end)
}

// Step takes the next event, and those of the same node at the same time.
// There must be one.
func (w *World) Step() {
	e := w.pop()
	w.now = e.at
	if e.node < 0 || int(e.node) >= len(w.nodes) {
		e.act()
		return
	}
	p := w.nodes[e.node]
	for {
		switch {
		case e.f != nil:
			p.batch[0] = e.f
			p.engine.Receive(e.port, p.batch[:], w.now)
		case e.act != nil:
			e.act()
		case e.at == p.wake:
			p.wake = frame.Never
		}
		if len(w.events) == 0 || w.events[0].at != e.at || w.events[0].node != e.node {
			break
		}
		e = w.pop()
	}
	w.WakeUp(p, p.engine.Poll(w.now))
}

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.node != o.node {
		return e.node < o.node
	}
	return e.seq < o.seq
}

func (w *World) push(e event) {
	w.made++
	e.seq = w.made
	h := append(w.events, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	w.events = h
}

func (w *World) pop() event {
	w.done++
	h := w.events
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	w.events = h
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	return first
}

// Close releases the frames on their way.
func (w *World) Close() {
	for i := range w.events {
		if f := w.events[i].f; f != nil {
			f.Release()
		}
	}
	w.events = nil
}
