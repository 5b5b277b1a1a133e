package recovery

import (
	"sort"

	"tapir/wire/frame"
)

// Flags say what has become of a segment in flight.
type Flags uint8

const (
	Sacked Flags = 1 << iota // the peer holds it out of order
	Lost                     // to be retransmitted
	Resent                   // has been retransmitted
	Fin                      // the FIN alone
	Push                     // sent with PSH
)

// Segment records one segment in flight. Its boundaries never change, so that
// a retransmission is the same segment again.
type Segment struct {
	Off   uint64 // stream offset of its first octet
	sent  frame.Time
	N     uint32 // sequence numbers it takes
	Flags Flags
}

// End is the offset behind s.
func (s *Segment) End() uint64 { return s.Off + uint64(s.N) }

// segRing is the queue of segments in flight, in order of offset. It holds
// memory only while it is not empty.
type segRing struct {
	buf     []Segment // length is a power of two, or 0
	head, n int
}

// Rings keeps the memory of an engine's boards that have nothing in flight.
type Rings struct {
	free [ringClasses][][]Segment
}

const (
	ringClasses  = 20
	minRing      = 16
	maxFreeRings = 32 // kept per size
)

func (r *segRing) at(i int) *Segment { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// search returns the index of the first segment that ends above off.
func (r *segRing) search(off uint64) int {
	return sort.Search(r.n, func(i int) bool { return r.at(i).End() > off })
}

func (r *segRing) push(e *Rings, s Segment) {
	if r.n == len(r.buf) {
		r.grow(e)
	}
	r.n++
	*r.at(r.n - 1) = s
}

// pushRun adds count segments that follow each other: s first, the last of them
// with last octets.
func (r *segRing) pushRun(e *Rings, s Segment, count int, last uint32) {
	for r.n+count > len(r.buf) {
		r.grow(e)
	}
	for range count {
		r.n++
		*r.at(r.n - 1) = s
		s.Off += uint64(s.N)
	}
	r.at(r.n - 1).N = last
}

func (r *segRing) grow(e *Rings) {
	class := 0
	for minRing<<class <= len(r.buf) {
		class++
	}
	var bigger []Segment
	if free := e.free[class]; len(free) > 0 {
		bigger = free[len(free)-1]
		e.free[class] = free[:len(free)-1]
	} else {
		bigger = make([]Segment, minRing<<class)
	}
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	n := r.n
	r.release(e)
	*r = segRing{buf: bigger, n: n}
}

func (r *segRing) pop(e *Rings, count int) {
	r.head = (r.head + count) & (len(r.buf) - 1)
	if r.n -= count; r.n == 0 {
		r.release(e)
	}
}

// release empties the ring and returns its memory.
func (r *segRing) release(e *Rings) {
	if len(r.buf) > 0 {
		class := 0
		for minRing<<class < len(r.buf) {
			class++
		}
		if len(e.free[class]) < maxFreeRings {
			e.free[class] = append(e.free[class], r.buf)
		}
	}
	*r = segRing{}
}
