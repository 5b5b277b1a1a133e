package nic

import (
	"container/heap"

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

// timers is a heap of timers, the earliest first.
type timers struct {
	heap []*timer
	seq  uint64
}

func (t *timers) Len() int { return len(t.heap) }

func (t *timers) Less(i, j int) bool {
	a, b := t.heap[i], t.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (t *timers) Swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].index, t.heap[j].index = i, j
}

// Push is for container/heap.
func (t *timers) Push(x any) {
	x.(*timer).index = len(t.heap)
	t.heap = append(t.heap, x.(*timer))
}

// Pop is for container/heap.
func (t *timers) Pop() any {
	last := t.heap[len(t.heap)-1]
	t.heap[len(t.heap)-1] = nil
	t.heap = t.heap[:len(t.heap)-1]
	last.index = -1
	return last
}

// Schedule runs fn in the first Poll at or after time at, unless cancel is
// called before.
func (d *Device) Schedule(at frame.Time, fn func(now frame.Time)) (cancel func()) {
	t := &timer{at: at, seq: d.timers.seq, fn: fn}
	d.timers.seq++
	heap.Push(&d.timers, t)
	return func() {
		if t.index >= 0 {
			heap.Remove(&d.timers, t.index)
		}
	}
}

// run runs the timers that are due; those that they set wait for the next
// call, so that a timer set again for now cannot hold the loop.
func (t *timers) run(now frame.Time) {
	limit := t.seq
	for len(t.heap) > 0 && t.heap[0].at <= now && t.heap[0].seq < limit {
		heap.Pop(t).(*timer).fn(now)
	}
}

func (t *timers) next() frame.Time {
	if len(t.heap) == 0 {
		return frame.Never
	}
	return t.heap[0].at
}

// poller is a function that Dispatch runs.
type poller struct{ fn func(now frame.Time) }

// AddPoller runs fn in every Dispatch, that is once after each batch of
// frames and each event: how a workload polls memory without a busy loop.
func (d *Device) AddPoller(fn func(now frame.Time)) (cancel func()) {
	p := &poller{fn}
	d.pollers = append(d.pollers, p)
	return func() {
		for i, q := range d.pollers {
			if q == p {
				// A copy, because Dispatch may be ranging over the slice.
				d.pollers = append(append([]*poller(nil), d.pollers[:i]...), d.pollers[i+1:]...)
				return
			}
		}
	}
}
