package loop

import (
	"time"

	"tapir/wire/frame"
)

// Observer learns when event messages of PTP passed a queue; *tap.Observer is
// one. Both answer in nanoseconds of CLOCK_REALTIME, false for a stamp that is
// lost.
type Observer interface {
	// Received is asked right after the frame b was read, Sent right after it
	// was written.
	Received(b []byte) (realtime int64, ok bool)
	Sent(b []byte) (realtime int64, ok bool)
	// Event tells whether b is an event message of PTP, or holds one.
	Event(b []byte) bool
	Close() error
}

// Observe has o (taken, closed when it is replaced or the port ends) tell when
// event messages of PTP pass: received frames carry it in Seen, sent ones in
// TxDone. nil ends it. It belongs to the loop's thread.
func (p *Port) Observe(o Observer) {
	if p.observer != nil {
		p.observer.Close()
	}
	p.observer = o
}

// Observer is the port's present one, nil if there is none.
func (p *Port) Observer() Observer { return p.observer }

// seen is an observer's answer in the loop's time.
func (p *Port) seen(realtime int64, ok bool) frame.Time {
	if !ok {
		return frame.Never
	}
	return p.loop.FromRealtime(realtime)
}

// FromRealtime is the loop's time when CLOCK_REALTIME showed ns. It belongs to
// the loop's thread.
func (l *Loop) FromRealtime(ns int64) frame.Time { return frame.Time(ns - l.realtime.offset(l.clock)) }

// Realtime is what CLOCK_REALTIME showed at a time of the loop. It belongs to
// the loop's thread.
func (l *Loop) Realtime(at frame.Time) int64 { return int64(at) + l.realtime.offset(l.clock) }

// end lets go of the queue and all that belongs to it.
func (p *Port) end() {
	p.discard()
	p.Observe(nil)
	p.queue.Close()
}

// realtime relates CLOCK_REALTIME to a loop's time. Their difference changes
// only when someone sets the system's clock, as adjustments of its rate hold
// for both; so each look at the two narrows the interval that it lies in, and
// being interrupted between them does no harm.
type realtime struct {
	low, high int64 // of CLOCK_REALTIME minus the loop's time; empty at first
	known     bool
}

// resolution is what either clock may be cut by, in nanoseconds.
const resolution = 1

// look narrows the interval, or starts again after a step.
func (r *realtime) look(before frame.Time, wall int64, after frame.Time) {
	low, high := wall-int64(after)-resolution, wall-int64(before)+resolution
	if r.known && max(low, r.low) <= min(high, r.high) {
		low, high = max(low, r.low), min(high, r.high)
	}
	r.low, r.high, r.known = low, high, true
}

// narrow is an interval that needs no further looks at once, in nanoseconds.
const narrow = 500

// offset is the difference as well as it is known after one more look, or some
// if that was interrupted.
func (r *realtime) offset(c clock) int64 {
	for tries := 0; tries == 0 || tries < 8 && r.high-r.low > narrow; tries++ {
		before := c.now()
		wall := time.Now().UnixNano()
		r.look(before, wall, c.now())
	}
	return r.low + (r.high-r.low)/2
}
