// Package timer runs functions at their times, and pollers once per event.
package timer

import (
	"container/heap"
	"slices"

	"tapir/wire/frame"
)

// timer is a function to be run at a time. Timers due at the same time run in
// the order in which they were set.
type timer struct {
	at    frame.Time
	seq   uint64
	fn    func(now frame.Time)
	index int // in the heap, -1 when not in it
}

// timers is a heap, the earliest first.
type timers []*timer

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push is for container/heap.
func (t *timers) Push(x any) {
	x.(*timer).index = len(*t)
	*t = append(*t, x.(*timer))
}

// Pop is for container/heap.
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	(*t)[len(*t)-1] = nil
	*t = (*t)[:len(*t)-1]
	last.index = -1
	return last
}

// Queue holds timers and pollers.
type Queue struct {
	heap    timers
	seq     uint64
	pollers []*poller
}

// Schedule runs fn in the first RunTimers at or after time at, unless cancel is
// called before.
func (q *Queue) Schedule(at frame.Time, fn func(now frame.Time)) (cancel func()) {
	t := &timer{at: at, seq: q.seq, fn: fn}
	q.seq++
	heap.Push(&q.heap, t)
	return func() {
		if t.index >= 0 {
			heap.Remove(&q.heap, t.index)
		}
	}
}

// RunTimers runs the timers that are due; those that they set wait for the next
// call, so that a timer set again for now cannot hold the loop.
func (q *Queue) RunTimers(now frame.Time) {
	limit := q.seq
	for len(q.heap) > 0 && q.heap[0].at <= now && q.heap[0].seq < limit {
		heap.Pop(&q.heap).(*timer).fn(now)
	}
}

// NextTimer is when the next timer is due.
func (q *Queue) NextTimer() frame.Time {
	if len(q.heap) == 0 {
		return frame.Never
	}
	return q.heap[0].at
}

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
