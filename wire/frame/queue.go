package frame

// Queue is a first-in-first-out queue of frames. Its zero value is empty; it
// takes memory as it fills and keeps it.
type Queue struct {
	ring    []*Frame // a power of two, or none
	head, n int
}

// Push takes f and appends it, or returns false, with f still the caller's, if
// bound frames wait already.
func (q *Queue) Push(f *Frame, bound int) bool {
	if q.n >= bound {
		return false
	}
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = f
	q.n++
	return true
}

func (q *Queue) grow() {
	ring := make([]*Frame, max(8, 2*len(q.ring)))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}

// Pop returns the oldest frame, nil if there is none.
func (q *Queue) Pop() *Frame {
	if q.n == 0 {
		return nil
	}
	f := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return f
}

// First returns the oldest frame, which stays; there is one.
func (q *Queue) First() *Frame { return q.ring[q.head] }

// Len is the number of frames that wait.
func (q *Queue) Len() int { return q.n }

// Truncate releases the frames behind the first n.
func (q *Queue) Truncate(n int) {
	for ; q.n > n; q.n-- {
		at := (q.head + q.n - 1) & (len(q.ring) - 1)
		q.ring[at].Release()
		q.ring[at] = nil
	}
}

// Discard releases all frames and returns how many they were.
func (q *Queue) Discard() int {
	n := q.n
	for f := q.Pop(); f != nil; f = q.Pop() {
		f.Release()
	}
	return n
}
