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
	return e.Deadline.Owner
}
