// Package reassembly keeps the data that a TCP connection has received out of
// order, and the ranges of it that selective acknowledgements report (RFC
// 2018, RFC 2883). Offsets count stream octets.
package reassembly

import (
	"math"

	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Store is what the queues of one engine share.
type Store struct {
	Pool     frame.Pool
	PerQueue int    // bound of what one queue holds, in octets
	Total    int    // bound of what all hold
	Memory   int    // octets that all hold
	Copied   uint64 // octets copied aside since the beginning
	spare    *Piece
}

// Taker is offered data that has arrived out of order, at stream offset off.
// It has taken as many octets from the front of data (borrowed) as it returns.
type Taker func(off uint64, data []byte) (taken int)

// Piece is data received out of order, copied to a frame of the pool, or only
// its place if a Taker has taken it.
type Piece struct {
	prev, next *Piece
	off, n     uint64
	f          *frame.Frame
}

// takenCost is what a Piece without a frame counts for, so that their number
// is bounded, too.
const takenCost = 512

// End is the offset behind p.
func (p *Piece) End() uint64 { return p.off + p.n }

// Rest returns the octets of p from offset next on (borrowed), nil if a Taker
// has them.
func (p *Piece) Rest(next uint64) []byte {
	if p.f == nil {
		return nil
	}
	return p.f.Bytes()[next-p.off:]
}

func (p *Piece) memory() int {
	if p.f == nil {
		return takenCost
	}
	return p.f.Cap()
}

// held is the number of octets that p keeps.
func (p *Piece) held() int {
	if p.f == nil {
		return 0
	}
	return p.f.Len()
}

// Queue holds one connection's out-of-order data as disjoint pieces in order.
type Queue struct {
	Report
	head, tail *Piece
	octets     int // data held
	memory     int // backing arrays held, and takenCost for each other Piece
}

// Empty reports whether nothing waits for its turn.
func (q *Queue) Empty() bool { return q.head == nil }

// Octets is how many octets q holds.
func (q *Queue) Octets() int { return q.octets }

// Memory is how many octets of memory q counts for.
func (q *Queue) Memory() int { return q.memory }

// Insert copies what is new of data at off, or lets take have it, if that is
// not nil. It returns why data is dropped, frame.DropNone if it is not.
func (q *Queue) Insert(s *Store, take Taker, off uint64, data []byte) frame.DropReason {
	p := q.tail
	for p != nil && p.off > off {
		p = p.prev
	}
	left, right := off, off+uint64(len(data))
	held := 0
	for off < right {
		if p != nil && p.End() > off {
			n := min(p.End(), right) - off
			off, data = off+n, data[n:]
			continue
		}
		next := q.head
		if p != nil {
			next = p.next
		}
		n := right - off
		if next != nil && next.off < right {
			n = next.off - off
		}
		if n > 0 {
			var why frame.DropReason
			if p, why = q.add(s, take, p, off, data[:n]); why != frame.DropNone {
				return why
			}
			held += int(n)
			off, data = off+n, data[n:]
		}
		if off < right {
			p = next
		}
	}
	if held == 0 {
		q.Repeated(Block{left, right})
		return drop.TCPDuplicate
	}
	q.note(Block{left, right})
	return frame.DropNone
}

// add puts data behind piece p (nil: at the front) and returns its piece.
func (q *Queue) add(s *Store, take Taker, p *Piece, off uint64, data []byte) (*Piece, frame.DropReason) {
	behind := p != nil && p.End() == off
	if behind && p.f != nil && take == nil && p.f.Tailroom() >= len(data) {
		return q.extend(s, p, data), frame.DropNone
	}
	if q.memory > s.PerQueue || s.Memory > s.Total {
		return nil, drop.Reassembly
	}
	taken := 0
	if take != nil {
		taken = take(off, data)
	}
	switch {
	case taken == 0:
	case behind && p.f == nil:
		p.n += uint64(taken)
	default:
		p = q.link(s, p, Piece{prev: p, off: off, n: uint64(taken)})
	}
	if off, data = off+uint64(taken), data[taken:]; len(data) == 0 {
		return p, frame.DropNone
	}
	if behind && taken == 0 && p.f != nil && p.f.Tailroom() >= len(data) {
		return q.extend(s, p, data), frame.DropNone
	}
	f := s.Pool.Get(len(data))
	if f == nil {
		return nil, drop.NoBuffer
	}
	f.Append(data)
	s.Copied += uint64(len(data))
	return q.link(s, p, Piece{prev: p, off: off, n: uint64(len(data)), f: f}), frame.DropNone
}

// extend appends data to piece p.
func (q *Queue) extend(s *Store, p *Piece, data []byte) *Piece {
	s.Copied += uint64(len(data))
	p.f.Append(data)
	p.n += uint64(len(data))
	q.octets += len(data)
	return p
}

// link puts a new piece v behind p (nil: at the front).
func (q *Queue) link(s *Store, p *Piece, v Piece) *Piece {
	n := s.spare
	if n == nil {
		n = new(Piece)
	} else {
		s.spare = n.next
	}
	*n = v
	if p != nil {
		n.next, p.next = p.next, n
	} else {
		n.next, q.head = q.head, n
	}
	if n.next != nil {
		n.next.prev = n
	} else {
		q.tail = n
	}
	q.octets += n.held()
	q.memory += n.memory()
	s.Memory += n.memory()
	return n
}

// Next is the offset of the first piece, the largest number if there is none.
func (q *Queue) Next() uint64 {
	if q.head == nil {
		return math.MaxUint64
	}
	return q.head.off
}

// Pop returns the first piece if it begins at or below next, else nil; the
// caller passes it to Free.
func (q *Queue) Pop(next uint64) *Piece {
	p := q.head
	if p == nil || p.off > next {
		return nil
	}
	if q.head = p.next; q.head != nil {
		q.head.prev = nil
	} else {
		q.tail = nil
	}
	q.octets -= p.held()
	q.memory -= p.memory()
	return p
}

// Free takes p back.
func (s *Store) Free(p *Piece) {
	s.Memory -= p.memory()
	if p.f != nil {
		p.f.Release()
	}
	*p = Piece{next: s.spare}
	s.spare = p
}

// Release gives back everything that q holds.
func (q *Queue) Release(s *Store) {
	for p := q.head; p != nil; {
		next := p.next
		s.Free(p)
		p = next
	}
	*q = Queue{}
}
