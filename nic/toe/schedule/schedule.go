// Package schedule queues the connections that may have something to send.
package schedule

import "tapir/wire/timer"

// Entry is a connection's place here and among the deadlines.
type Entry[T any] struct {
	Deadline timer.Entry[T]

	next   *Entry[T]
	queued bool
}

// Ready is the queue of those that may have something to send. An entry is in
// it at most once.
type Ready[T any] struct {
	head, tail *Entry[T]
	parked     *Entry[T] // the one last; each leads to the one before
}

// Park keeps e, which was taken out, until Unpark.
func (r *Ready[T]) Park(e *Entry[T]) {
	if !e.queued {
		e.queued, e.next, r.parked = true, r.parked, e
	}
}

// Unpark puts at the end what was parked.
func (r *Ready[T]) Unpark() {
	if r.parked != nil {
		r.unpark()
	}
}

func (r *Ready[T]) unpark() {
	var first *Entry[T]
	for e := r.parked; e != nil; {
		before := e.next
		e.next, first, e = first, e, before
	}
	r.parked = nil
	for e := first; e != nil; {
		next := e.next
		e.queued, e.next = false, nil
		r.Push(e)
		e = next
	}
}

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
	return e.Deadline.Owner
}
