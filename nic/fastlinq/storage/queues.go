package storage

import (
	"bytes"
	"fmt"
	"slices"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Core is what a function needs of the driver core; C is the type of its ramrods.
type Core[C any] struct {
	// Vectors is how many completion queues can have one of their own.
	Vectors int
	// FunctionCID is the connection id for ramrods of the function. AcquireCID takes one for a
	// connection, ReleaseCID gives it back.
	FunctionCID int
	AcquireCID  func() (cid int, err error)
	ReleaseCID  func(cid int) error
	// Post sends a ramrod and returns when it is answered.
	Post func(cid int, c C, data any) error
	// Send sends a ramrod; failed hears if it could not be done, now or later.
	Send func(cid int, c C, data any, failed func(error))
}

// Completion is an element of a CQ, with a header H: who takes it, and its octets.
type Completion[H any] struct {
	CID     int
	Header  H
	Data    []byte
	Buffer  bool // the octets are in a receive buffer
	Command bool // it is in the queue of commands, too
	Take    func(h *H, data []byte, now frame.Time)
}

// Full is a queue that has no room.
type Full uint8

// The queues.
const (
	Room Full = iota // all have
	NoCQ
	NoRQ
	NoCmdQ
)

// Queues are those of a function, as its driver sees them.
type Queues[H any] struct {
	// Global is the address of their list (glbl_q_params_addr).
	Global uint64
	notify func(queue int)
	list   []queue[H]
}

// queue is a completion queue with what waits in it.
type queue[H any] struct {
	rings   [PerQueue]*Ring
	waiting []Completion[H]
	serving bool
}

// NewQueues puts the queues of a function into the memory. notify tells that a completion
// queue has something. INVAL: there are not enough vectors for them.
func NewQueues[H any](m *Memory, p *Params, vectors int, name string, notify func(queue int)) (*Queues[H], error) {
	if p.Queues > vectors {
		return nil, status.Inval.Errorf("%s %d: there are vectors for %d", name, p.Queues, vectors)
	}
	q := &Queues[H]{notify: notify, list: make([]queue[H], p.Queues)}
	var addrs []uint64
	for i := range q.list {
		for k := range PerQueue {
			r := NewRing(k, p.size(k))
			q.list[i].rings[k] = r
			addrs = append(addrs, m.Put(r))
		}
	}
	q.Global = m.Put(addrs)
	return q, nil
}

// TakeQueues tells whether the list at an address is that of queues of these sizes, as the
// firmware wants it.
func (m *Memory) TakeQueues(global uint64, p *Params) bool {
	list := m.List(global)
	if len(list) != p.Queues*int(PerQueue) {
		return false
	}
	for i, addr := range list {
		if k := Kind(i) % PerQueue; m.Ring(addr, k, p.size(k)) == nil {
			return false
		}
	}
	return true
}

// Serve takes what a completion queue has.
func (q *Queues[H]) Serve(queue int, now frame.Time) {
	at := &q.list[queue]
	if at.serving {
		return
	}
	at.serving = true
	for len(at.waiting) > 0 {
		w := at.waiting[0]
		at.waiting = at.waiting[1:]
		at.consume(&w)
		w.Take(&w.Header, w.Data, now)
	}
	at.waiting, at.serving = nil, false
}

// Complete puts an element into a completion queue, its data into a receive buffer and a
// command into the queue of commands. It returns the queue that has no room for that.
func (q *Queues[H]) Complete(queue int, w Completion[H]) Full {
	at := &q.list[queue]
	switch {
	case at.rings[CQ].Used() == at.rings[CQ].Size:
		return NoCQ
	case w.Command && at.rings[CmdQ].Used() == at.rings[CmdQ].Size:
		return NoCmdQ
	case w.Buffer && !at.rings[RQ].Produce(uint64(w.CID)):
		return NoRQ
	case w.Command:
		at.rings[CmdQ].Produce(uint64(w.CID))
	}
	at.rings[CQ].Produce(uint64(w.CID))
	at.waiting = append(at.waiting, w)
	n := len(at.waiting)
	q.notify(queue)
	if len(at.waiting) >= n { // nobody has looked: the octets that were lent are kept
		last := &at.waiting[len(at.waiting)-1]
		last.Data = bytes.Clone(last.Data)
	}
	return Room
}

// Drop takes what a connection has out of a completion queue.
func (q *Queues[H]) Drop(queue, cid int) {
	at := &q.list[queue]
	at.waiting = slices.DeleteFunc(at.waiting, func(w Completion[H]) bool {
		if w.CID == cid {
			at.consume(&w)
		}
		return w.CID == cid
	})
}

// consume takes an element out of the rings.
func (at *queue[H]) consume(w *Completion[H]) {
	at.rings[CQ].Consume()
	if w.Buffer {
		at.rings[RQ].Consume()
	}
	if w.Command {
		at.rings[CmdQ].Consume()
	}
}

// Named is a ring of the function.
type Named struct {
	Name string
	Ring *Ring
}

// Rings are the rings of the function: cq 0, rq 0, cmdq 0, cq 1, ...
func (q *Queues[H]) Rings() (list []Named) {
	for i := range q.list {
		for k, name := range [PerQueue]string{"cq", "rq", "cmdq"} {
			list = append(list, Named{fmt.Sprint(name, " ", i), q.list[i].rings[k]})
		}
	}
	return list
}
