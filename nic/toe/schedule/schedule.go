// Package schedule says which of many connections is to be looked at next: by
// deadline, or because it may have something to send.
package schedule

import "tapir/wire/frame"

// Entry is a connection's place. Owner and ID do not change.
type Entry[T any] struct {
	Owner T
	ID    uint64 // ties between deadlines go to the lower one

	next   *Entry[T]
	idx    int32 // in the heap, one up; 0: not in it
	queued bool
}

// Timers is a binary heap of entries by deadline. An item may be earlier than
// its connection's deadline: moving a deadline back, as every acknowledgement
// does, costs nothing until then.
type Timers[T any] struct{ heap []item[T] }

type item[T any] struct {
	at frame.Time
	e  *Entry[T]
}

func (t *Timers[T]) less(i, j int) bool {
	if t.heap[i].at != t.heap[j].at {
		return t.heap[i].at < t.heap[j].at
	}
	return t.heap[i].e.ID < t.heap[j].e.ID
}

func (t *Timers[T]) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].e.idx, t.heap[j].e.idx = int32(i+1), int32(j+1)
}

func (t *Timers[T]) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !t.less(i, p) {
			return
		}
		t.swap(i, p)
		i = p
	}
}

func (t *Timers[T]) down(i int) {
	for {
		m := 2*i + 1
		if m >= len(t.heap) {
			return
		}
		if m+1 < len(t.heap) && t.less(m+1, m) {
			m++
		}
		if !t.less(m, i) {
			return
		}
		t.swap(i, m)
		i = m
	}
}

// Remove takes e out.
func (t *Timers[T]) Remove(e *Entry[T]) {
	i := int(e.idx) - 1
	if i < 0 {
		return
	}
	last := len(t.heap) - 1
	if i != last {
		t.swap(i, last)
	}
	t.heap[last] = item[T]{}
	t.heap = t.heap[:last]
	e.idx = 0
	if i < last {
		t.up(i)
		t.down(i)
	}
}

// Set makes sure that e is looked at by at; frame.Never takes it out.
func (t *Timers[T]) Set(e *Entry[T], at frame.Time) {
	switch {
	case at == frame.Never:
		t.Remove(e)
	case e.idx == 0:
		t.heap = append(t.heap, item[T]{at, e})
		e.idx = int32(len(t.heap))
		t.up(len(t.heap) - 1)
	case at < t.heap[e.idx-1].at:
		t.heap[e.idx-1].at = at
		t.up(int(e.idx) - 1)
	}
}

// Next is the earliest deadline, frame.Never if there is none.
func (t *Timers[T]) Next() frame.Time {
	if len(t.heap) == 0 {
		return frame.Never
	}
	return t.heap[0].at
}

// Pop takes out the first entry if its deadline is not after now. It returns
// false if there is none.
func (t *Timers[T]) Pop(now frame.Time) (first T, ok bool) {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return first, false
	}
	e := t.heap[0].e
	t.Remove(e)
	return e.Owner, true
}

// Len is how many entries are in t.
func (t *Timers[T]) Len() int { return len(t.heap) }

// Ready is the queue of those that may have something to send. An entry is in
// it at most once.
type Ready[T any] struct{ head, tail *Entry[T] }

// Push puts e at the end.
func (r *Ready[T]) Push(e *Entry[T]) {
	if e.queued {
		return
	}
	e.queued = true
	if r.tail != nil {
		r.tail.next = e
	} else {
		r.head = e
	}
	r.tail = e
}

// Empty reports whether r is.
func (r *Ready[T]) Empty() bool { return r.head == nil }

// Pop takes the first out. There must be one.
func (r *Ready[T]) Pop() T {
	e := r.head
	if r.head = e.next; r.head == nil {
		r.tail = nil
	}
	e.next, e.queued = nil, false
	return e.Owner
}
