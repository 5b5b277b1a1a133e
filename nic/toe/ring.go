package toe

import (
	"sort"

	"tapir/wire/frame"
)

type segFlags uint8

const (
	segSacked  segFlags = 1 << iota // the peer holds it out of order
	segLost                         // to be retransmitted
	segRetrans                      // has been retransmitted
	segFin                          // the FIN alone
	segPush                         // sent with PSH
)

// segment records one segment in flight. Its boundaries never change, so that
// a retransmission is the same segment again.
type segment struct {
	off   uint64 // stream offset of its first octet
	sent  frame.Time
	n     uint32 // sequence numbers it takes
	flags segFlags
}

func (s *segment) end() uint64 { return s.off + uint64(s.n) }

// segRing is the queue of segments in flight, in order of offset. It holds
// memory only while it is not empty.
type segRing struct {
	buf     []segment // length is a power of two, or 0
	head, n int
}

const (
	ringClasses  = 20
	minRing      = 16
	maxFreeRings = 32 // kept per size
)

func (r *segRing) at(i int) *segment { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// search returns the index of the first segment that ends above off.
func (r *segRing) search(off uint64) int {
	return sort.Search(r.n, func(i int) bool { return r.at(i).end() > off })
}

func (r *segRing) push(e *Engine, s segment) {
	if r.n == len(r.buf) {
		r.grow(e)
	}
	r.n++
	*r.at(r.n - 1) = s
}

// pushRun adds count segments that follow each other: s first, the last of them
// with last octets.
func (r *segRing) pushRun(e *Engine, s segment, count int, last uint32) {
	for r.n+count > len(r.buf) {
		r.grow(e)
	}
	for range count {
		r.n++
		*r.at(r.n - 1) = s
		s.off += uint64(s.n)
	}
	r.at(r.n - 1).n = last
}

func (r *segRing) grow(e *Engine) {
	class := 0
	for minRing<<class <= len(r.buf) {
		class++
	}
	var bigger []segment
	if free := e.rings[class]; len(free) > 0 {
		bigger = free[len(free)-1]
		e.rings[class] = free[:len(free)-1]
	} else {
		bigger = make([]segment, minRing<<class)
	}
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	n := r.n
	r.release(e)
	*r = segRing{buf: bigger, n: n}
}

func (r *segRing) pop(e *Engine, count int) {
	r.head = (r.head + count) & (len(r.buf) - 1)
	if r.n -= count; r.n == 0 {
		r.release(e)
	}
}

// release empties the ring and returns its memory to the engine.
func (r *segRing) release(e *Engine) {
	if len(r.buf) > 0 {
		class := 0
		for minRing<<class < len(r.buf) {
			class++
		}
		if len(e.rings[class]) < maxFreeRings {
			e.rings[class] = append(e.rings[class], r.buf)
		}
	}
	*r = segRing{}
}
