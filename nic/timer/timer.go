// Package timer runs functions at their times, and pollers once per event.
package timer

import (
	"slices"

	"tapir/wire/frame"
	"tapir/wire/timer"
)

// scheduled is a function to be run at a time. Those due at the same time run in
// the order in which they were set.
type scheduled struct {
	timer.Entry[*scheduled]
	at frame.Time
	fn func(now frame.Time)
}

// Queue holds timers and pollers.
type Queue struct {
	heap    timer.Heap[*scheduled]
	next    uint64 // the ID of the next one
	pollers []*poller
}

// Schedule runs fn in the first RunTimers at or after time at, unless cancel is
// called before.
func (q *Queue) Schedule(at frame.Time, fn func(now frame.Time)) (cancel func()) {
	s := &scheduled{at: at, fn: fn}
	s.Owner, s.ID = s, q.next
	q.next++
	q.heap.Set(&s.Entry, at)
	return func() { q.heap.Remove(&s.Entry) }
}

// RunTimers runs the timers that are due; those that they set wait for the next
// call, so that a timer set again for now cannot hold the loop.
func (q *Queue) RunTimers(now frame.Time) {
	if q.heap.Next() <= now {
		q.runTimers(now)
	}
}

func (q *Queue) runTimers(now frame.Time) {
	for end := q.next; ; {
		s, ok := q.heap.Pop(now)
		switch {
		case !ok:
			return
		case s.ID >= end:
			q.heap.Set(&s.Entry, s.at)
			return
		}
		s.fn(now)
	}
}

// NextTimer is when the next timer is due.
func (q *Queue) NextTimer() frame.Time { return q.heap.Next() }

// poller is a function that RunPollers runs.
type poller struct{ fn func(now frame.Time) }

// AddPoller runs fn in every RunPollers, that is once after each batch of frames
// and each event: how a workload polls memory without a busy loop.
func (q *Queue) AddPoller(fn func(now frame.Time)) (cancel func()) {
	p := &poller{fn}
	q.pollers = append(q.pollers, p)
	return func() {
		if i := slices.Index(q.pollers, p); i >= 0 {
			// A copy, because RunPollers may be ranging over the slice.
			q.pollers = slices.Delete(slices.Clone(q.pollers), i, i+1)
		}
	}
}

// RunPollers runs the pollers.
func (q *Queue) RunPollers(now frame.Time) {
	for _, p := range q.pollers {
		p.fn(now)
	}
}
