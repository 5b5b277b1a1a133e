package receive

import (
	"time"

	"tapir/wire/frame"
)

// Acks decides when to acknowledge (RFC 9293 section 3.8.6.3, RFC 5681 section
// 4.2).
type Acks struct {
	Due      bool  // now
	asked    bool  // Due is for a message alone
	awaiting bool  // At waits for a reply
	replies  uint8 // messages in a row that were replied to soon
	ooo      int32 // out-of-order arrivals not acknowledged yet

	At  frame.Time // then, frame.Never if nothing waits
	MSS int        // largest segment seen

	acked   uint64     // highest RCV.NXT acknowledged
	waiting int        // octets received since
	message frame.Time // when the last one ended that no data has followed; Never: there is none
}

// A message is acknowledged at once, as its sender may wait for that. Where two
// sides take turns, and each of the last repliesInRow messages was followed by
// data within replySoon, the next reply may carry the acknowledgement too, which
// as a frame of its own costs both sides as much as the reply. It waits for one
// no longer than replyWait, and one that does not come in time ends this.
// ReplyWait is longer than the tick of a kernel that sleeps meanwhile: for less
// that has to set its timer.
const (
	repliesInRow = 4
	replySoon    = 200 * time.Microsecond
	replyWait    = 5 * time.Millisecond
)

// Ask has what was received acknowledged because a message ends with it.
func (a *Acks) Ask() {
	if !a.Due {
		a.Due, a.asked = true, true
	}
}

// Replied says that data leaves.
func (a *Acks) Replied(now frame.Time) {
	switch {
	case a.message == frame.Never:
	case now.Sub(a.message) > replySoon:
		a.replies = 0
	case a.replies < repliesInRow:
		a.replies++
	}
	a.message = frame.Never
}

// Elapsed says that the time to wait is over.
func (a *Acks) Elapsed() {
	if a.awaiting {
		a.replies, a.awaiting = 0, false
	}
	a.At, a.Due = frame.Never, true
}

// ended notes the end of a message.
func (a *Acks) ended(now frame.Time) {
	a.message = now
	if a.replies < repliesInRow {
		a.Due = true
		return
	}
	a.At, a.awaiting = min(a.At, now.Add(replyWait)), true
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
	if a.asked {
		push, a.asked, a.Due = true, false, false
	}
	switch {
	case a.waiting >= a.every(n, p.Window):
		a.Due = true
	case push:
		a.ended(now)
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
// one for each out-of-order arrival.
func (a *Acks) Count() int { return max(1, int(a.ooo)) }

// Answered says that none is due any more.
func (a *Acks) Answered() { a.Due, a.asked, a.ooo = false, false, 0 }

// Acked says that everything received so far has been acknowledged.
func (s *Stream) Acked() {
	s.acked = s.next
	s.waiting = 0
	s.At, s.awaiting = frame.Never, false
	// Ranges that a segment with data could not report are still owed.
	if !s.Held.Pending() {
		s.Due = false
	}
}

// Unacked reports whether something is not acknowledged.
func (s *Stream) Unacked() bool { return s.acked != s.next }
