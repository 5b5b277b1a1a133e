package pairing

import "tapir/wire/frame"

// Stamps are event messages that were sent and wait for their stamps; E is what
// is remembered of each.
type Stamps[E any] struct {
	list     []waiting[E]
	late     [16]uint64 // IDs of those that were given up
	nextLate int
}

type waiting[E any] struct {
	id       uint64
	deadline frame.Time
	e        E
}

// NewStamps returns an empty table for up to most messages.
func NewStamps[E any](most int) Stamps[E] { return Stamps[E]{list: make([]waiting[E], 0, most)} }

// Full tells that there is no room for another.
func (s *Stamps[E]) Full() bool { return len(s.list) == cap(s.list) }

// Await notes a message that is sent with an ID. The table must not be Full.
func (s *Stamps[E]) Await(id uint64, deadline frame.Time, e E) {
	s.list = append(s.list, waiting[E]{id, deadline, e})
}

// Take returns the message of an ID and forgets it; Unmatched if it was given
// up, Unknown if it never was or has had its stamp.
func (s *Stamps[E]) Take(id uint64) (e E, r Result) {
	for i := range s.list {
		if s.list[i].id == id {
			e = s.list[i].e
			s.list = append(s.list[:i], s.list[i+1:]...)
			return e, Done
		}
	}
	for i := range s.late {
		if id != 0 && s.late[i] == id {
			s.late[i] = 0
			return e, Unmatched
		}
	}
	return e, Unknown
}

// Deadline is when the first of the messages has waited long enough.
func (s *Stamps[E]) Deadline() frame.Time {
	at := frame.Never
	for i := range s.list {
		at = min(at, s.list[i].deadline)
	}
	return at
}

// GiveUp forgets all messages.
func (s *Stamps[E]) GiveUp() {
	for i := range s.list {
		s.late[s.nextLate] = s.list[i].id
		s.nextLate = (s.nextLate + 1) % len(s.late)
	}
	s.list = s.list[:0]
}
