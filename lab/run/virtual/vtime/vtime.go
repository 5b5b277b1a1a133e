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

	now   frame.Time
	nodes []*Place
	turns []turn  // a heap
	acts  []event // of turns, and free ones
	free  []uint32
	made  uint64
	done  uint64
}

// Place is a node's place in the world.
type Place struct {
	engine Engine
	index  int32
	wake   frame.Time // the earliest wake-up in the queue
	turns  uint64
	batch  [1]*frame.Frame
}

// Turns counts what happened to the node: it grows with each of its turns, and when it is touched.
func (p *Place) Turns() uint64 { return p.turns }

// turn is when an event comes. The heap holds no pointers, and little is moved in it.
type turn struct {
	at    frame.Time
	order uint64 // of equal times: a node, and which event was made first
	event uint32 // one up in World.acts; 0: a wake-up of the node
}

// madeBits are those of turn.order that count events.
const madeBits = 40

// event is an arrival (f), or something that is done (act).
type event struct {
	f    *frame.Frame
	act  func()
	port frame.Port
}

// At equal times, the scenario acts before the nodes, and samples are taken after
// them.
const (
	ScenarioFirst = -1
	LookLast      = 1<<(64-madeBits) - 2
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
func (w *World) Touch(p *Place) {
	p.turns++
	w.WakeUp(p, w.now)
}

// WakeUp polls a node at the given time at the latest.
func (w *World) WakeUp(p *Place, at frame.Time) {
	if at < p.wake {
		p.wake = max(at, w.now)
		w.push(p.wake, p.index, 0)
	}
}

// Schedule calls act at time t, before or after the nodes (ScenarioFirst,
// LookLast).
func (w *World) Schedule(t frame.Time, order int32, act func()) {
	w.push(t, order, w.keep(event{act: act}))
}

// Turn calls act at time t in a node's turn: the node is polled afterwards.
func (w *World) Turn(p *Place, t frame.Time, act func()) {
	w.push(max(t, w.now), p.index, w.keep(event{act: act}))
}

// Arrive lets a frame (taken) reach a node's port at time t.
func (w *World) Arrive(p *Place, port frame.Port, f *frame.Frame, t frame.Time) {
	w.push(t, p.index, w.keep(event{port: port, f: f}))
}

// Next is the time of the next event, frame.Never if there is none.
func (w *World) Next() frame.Time {
	if len(w.turns) == 0 {
		return frame.Never
	}
	return w.turns[0].at
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
	t := w.pop()
	w.now = t.at
	node := t.node()
	if node < 0 || int(node) >= len(w.nodes) {
		w.take(t.event).act()
		return
	}
	p := w.nodes[node]
	p.turns++
	for {
		if t.event == 0 {
			if t.at == p.wake {
				p.wake = frame.Never
			}
		} else if e := w.take(t.event); e.f != nil {
			p.batch[0] = e.f
			p.engine.Receive(e.port, p.batch[:], w.now)
		} else {
			e.act()
		}
		if len(w.turns) == 0 || w.turns[0].at != t.at || w.turns[0].node() != node {
			break
		}
		t = w.pop()
	}
	w.WakeUp(p, p.engine.Poll(w.now))
}

// node is whose turn it is, or one of ScenarioFirst and LookLast.
func (t *turn) node() int32 { return int32(t.order>>madeBits) + ScenarioFirst }

func (t *turn) before(o *turn) bool {
	return t.at < o.at || t.at == o.at && t.order < o.order
}

// keep stores an event until its turn.
func (w *World) keep(e event) uint32 {
	if n := len(w.free); n > 0 {
		i := w.free[n-1]
		w.free = w.free[:n-1]
		w.acts[i-1] = e
		return i
	}
	w.acts = append(w.acts, e)
	return uint32(len(w.acts))
}

// take gives an event back.
func (w *World) take(i uint32) event {
	e := w.acts[i-1]
	w.acts[i-1] = event{}
	w.free = append(w.free, i)
	return e
}

func (w *World) push(at frame.Time, node int32, event uint32) {
	w.made++
	t := turn{at, uint64(node-ScenarioFirst)<<madeBits | w.made, event}
	h := append(w.turns, t)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = t
	w.turns = h
}

func (w *World) pop() turn {
	w.done++
	h := w.turns
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	w.turns = h
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
	for i := range w.acts {
		if f := w.acts[i].f; f != nil {
			f.Release()
		}
	}
	w.turns, w.acts, w.free = nil, nil, nil
}
