package receive

import (
	"time"

	"tapir/wire/frame"
)

// Acks decides when to acknowledge (RFC 9293 section 3.8.6.3, RFC 5681 section
// 4.2).
type Acks struct {
	Due bool       // now
	At  frame.Time // then, frame.Never if nothing waits
	MSS int        // largest segment seen

	acked   uint64 // highest RCV.NXT acknowledged
	waiting int    // octets received since
	early   int    // out-of-order arrivals not acknowledged yet
}

// Policy bounds how long an acknowledgement may wait.
type Policy struct {
	Delay  time.Duration
	Window int // receive window in octets
}

// Super-frames follow each other within microseconds, so one acknowledgement
// answers stretchOctets of them, but at least each quarter of the window, or
// what has come within stretchDelay. It costs both sides as much as a
// super-frame without the copies of its data.
const (
	superFrame    = 32 << 10 // octets of data that make a frame one
	stretchOctets = 256 << 10
	stretchDelay  = 50 * time.Microsecond
)

// arrived notes n octets in order.
func (a *Acks) arrived(n int, push bool, p Policy, now frame.Time) {
	switch {
	case push || a.waiting >= a.every(n, p.Window):
		a.Due = true
	case a.At == frame.Never:
		delay := p.Delay
		if a.waiting >= 2*a.MSS {
			delay = min(delay, stretchDelay)
		}
		a.At = now.Add(delay)
	}
}

// every is how many octets may wait for an acknowledgement after a frame with n
// octets of data: two segments, or some super-frames, which a stack that
// aggregates segments answers as one.
func (a *Acks) every(n, window int) int {
	if n < superFrame {
		return 2 * a.MSS
	}
	return max(2*a.MSS, min(stretchOctets, window/4))
}

// Count is how many acknowledgements are due to a peer that counts duplicates:
// one for each early arrival.
func (a *Acks) Count() int { return max(1, a.early) }

// Answered says that none is due any more.
func (a *Acks) Answered() { a.Due, a.early = false, 0 }

// Acked says that everything received so far has been acknowledged.
func (s *Stream) Acked() {
	s.acked = s.next
	s.waiting = 0
	s.At = frame.Never
	// Ranges that a segment with data could not report are still owed.
	if !s.Held.Pending() {
		s.Due = false
	}
}

// Unacked reports whether something is not acknowledged.
func (s *Stream) Unacked() bool { return s.acked != s.next }
