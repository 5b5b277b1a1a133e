// Package timer keeps the deadlines of many owners.
package timer

import (
	"iter"

	"tapir/wire/frame"
)

// Entry is the place of one owner. Owner and ID do not change once it is set.
type Entry[T any] struct {
	Owner T
	ID    uint64 // of entries with the same deadline, the lowest comes first

	idx int32 // in the heap, one up; 0: not in it
}

// Heap is a binary heap of entries by deadline.
type Heap[T any] struct{ heap []item[T] }

type item[T any] struct {
	at frame.Time
	e  *Entry[T]
}

func (t *Heap[T]) less(i, j int) bool {
	if t.heap[i].at != t.heap[j].at {
		return t.heap[i].at < t.heap[j].at
	}
	return t.heap[i].e.ID < t.heap[j].e.ID
}

func (t *Heap[T]) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].e.idx, t.heap[j].e.idx = int32(i+1), int32(j+1)
}

func (t *Heap[T]) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !t.less(i, p) {
			return
		}
		t.swap(i, p)
		i = p
	}
}

func (t *Heap[T]) down(i int) {
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
func (t *Heap[T]) Remove(e *Entry[T]) {
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

// Set moves e to deadline at; frame.Never takes it out.
func (t *Heap[T]) Set(e *Entry[T], at frame.Time) {
	if i := int(e.idx) - 1; i >= 0 && at > t.heap[i].at && at != frame.Never {
		t.heap[i].at = at
		t.down(i)
		return
	}
	t.SetBy(e, at)
}

// SetBy makes sure that e is popped at the latest by at; frame.Never takes it
// out. A later deadline than before costs nothing now: e is then popped too
// early, and its owner sets it again.
func (t *Heap[T]) SetBy(e *Entry[T], at frame.Time) {
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
func (t *Heap[T]) Next() frame.Time {
	if len(t.heap) == 0 {
		return frame.Never
	}
	return t.heap[0].at
}

// Pop takes out the first entry if its deadline is not after now. It returns
// false if there is none.
func (t *Heap[T]) Pop(now frame.Time) (first T, ok bool) {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return first, false
	}
	e := t.heap[0].e
	t.Remove(e)
	return e.Owner, true
}

// All are the owners of the entries in t, in an order of the heap's own that the
// same calls repeat. t must not change meanwhile.
func (t *Heap[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range t.heap {
			if !yield(t.heap[i].e.Owner) {
				return
			}
		}
	}
}

// Len is how many entries are in t.
func (t *Heap[T]) Len() int { return len(t.heap) }
