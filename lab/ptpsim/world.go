package ptpsim

import (
	"tapir/nic/buf"
	"tapir/wire/frame"
)

// engine is what a node of a world runs: a clock's ports or a switch. Frames
// leave it through the links it was given, in Poll only.
type engine interface {
	// Receive takes the frames that arrived on a port at now.
	Receive(port frame.Port, frames []*frame.Frame, now frame.Time)
	// Poll does what is due and returns the next deadline.
	Poll(now frame.Time) frame.Time
	// TxDone tells when the frame with that ID passed the time-stamp point. True
	// asks for Poll.
	TxDone(id uint64, at frame.Time) (again bool)
}

// world is the queue of what will happen. Ties in time are broken by node,
// then by the order in which the events were made.
type world struct {
	now    frame.Time
	pool   *buf.Pool
	nodes  []*place
	events []event // a heap
	made   uint64
}

// place is a node's place in the world.
type place struct {
	engine engine
	index  int
	wake   frame.Time // the earliest wake-up in the queue
	batch  [1]*frame.Frame
}

// event is an arrival, a wake-up (f is nil) or something that the scenario
// does (act).
type event struct {
	at   frame.Time
	node int
	seq  uint64
	port frame.Port
	f    *frame.Frame
	act  func()
}

// What the scenario does comes before what nodes do at the same time; a look
// at them comes after it.
const (
	scenarioFirst = -1
	lookLast      = 1 << 30
)

// maxFrames bounds the frames on their way.
const maxFrames = 1 << 20

func newWorld() *world { return &world{pool: buf.NewPool(maxFrames, 2048)} }

// add gives e a place; it is polled for the first time at once.
func (w *world) add(e engine) *place {
	p := &place{engine: e, index: len(w.nodes), wake: frame.Never}
	w.nodes = append(w.nodes, p)
	w.wakeUp(p, w.now)
	return p
}

func (w *world) wakeUp(p *place, at frame.Time) {
	if at < p.wake {
		p.wake = max(at, w.now)
		w.push(event{at: p.wake, node: p.index})
	}
}

// at calls act at time t, before or after the nodes.
func (w *world) at(t frame.Time, order int, act func()) { w.push(event{at: t, node: order, act: act}) }

// arrive lets a frame (taken) reach a node's port at time t.
func (w *world) arrive(p *place, port frame.Port, f *frame.Frame, t frame.Time) {
	w.push(event{at: t, node: p.index, port: port, f: f})
}

// run lets everything happen up to and including time end.
func (w *world) run(end frame.Time) {
	for len(w.events) > 0 && w.events[0].at <= end {
		w.step()
	}
	w.now = max(w.now, end)
}

// step takes the next event, and those of the same node at the same time.
func (w *world) step() {
	e := w.pop()
	w.now = e.at
	if e.act != nil {
		e.act()
		return
	}
	p := w.nodes[e.node]
	for {
		switch {
		case e.f != nil:
			p.batch[0] = e.f
			p.engine.Receive(e.port, p.batch[:], w.now)
		case e.at == p.wake:
			p.wake = frame.Never
		}
		if len(w.events) == 0 || w.events[0].at != e.at || w.events[0].node != e.node {
			break
		}
		e = w.pop()
	}
	w.wakeUp(p, p.engine.Poll(w.now))
}

// touch polls a node after the scenario changed something about it.
func (w *world) touch(p *place) { w.wakeUp(p, w.now) }

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.node != o.node {
		return e.node < o.node
	}
	return e.seq < o.seq
}

func (w *world) push(e event) {
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

func (w *world) pop() event {
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

// close releases the frames on their way.
func (w *world) close() {
	for i := range w.events {
		if f := w.events[i].f; f != nil {
			f.Release()
		}
	}
	w.events = nil
}
