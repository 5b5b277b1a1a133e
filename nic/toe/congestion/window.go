// Package congestion is the congestion window of one TCP connection: slow
// start, and congestion avoidance after RFC 5681 (Reno), RFC 9438 (CUBIC) or RFC 8257 (DCTCP).
// It counts octets, in integers.
package congestion

import (
	"time"

	"tapir/wire/frame"
)

// Algorithm names a congestion control.
type Algorithm uint8

const (
	Cubic Algorithm = iota // RFC 9438
	Reno                   // RFC 5681
	DCTCP                  // RFC 8257: Reno, whose reaction to marks follows their share
)

func (a Algorithm) String() string { return [...]string{"cubic", "reno", "dctcp"}[a] }

// initial is the initial window in segments (RFC 6928).
const initial = 10

// Window is the congestion window, in octets. Its zero value is closed: a
// connection opens it with Open.
type Window struct {
	Cwnd, Ssthresh uint64
	Blocked        bool      // the last sending stopped for lack of Cwnd
	before         [2]uint64 // Cwnd and Ssthresh at Remember
	credit         uint64    // towards the next increase
	cubic          cubic
	dctcp          *dctcp // nil: nothing is observed yet
}

// Initial is the initial window of RFC 6928 in octets.
func Initial(mss int) uint64 { return initial * uint64(mss) }

// Open sets the window of a new connection: one segment if its SYN was lost
// (RFC 5681 section 3.1).
func (w *Window) Open(mss int, synLost bool) {
	w.Ssthresh = 1 << 62
	if w.Cwnd = Initial(mss); synLost {
		w.Cwnd = uint64(mss)
	}
}

// React reduces the window after a mark of congestion with flight octets in flight. DCTCP reduces
// it by half of the share of octets that are marked (RFC 8257 section 3.3), the others as after
// a loss.
func (w *Window) React(a Algorithm, flight uint64, mss int) {
	cwnd := w.Cwnd
	if w.Reduce(a, flight, mss); a == DCTCP && w.dctcp != nil {
		w.Ssthresh = max(w.dctcp.cut(cwnd), 2*uint64(mss))
		w.Cwnd = w.Ssthresh
	}
}

// Reduce reduces the window after a loss with flight octets in flight (RFC 5681 equation 4, RFC
// 9438 section 4.6).
func (w *Window) Reduce(a Algorithm, flight uint64, mss int) {
	share := flight / 2
	if a == Cubic {
		share = flight * 7 / 10
		w.cubic.reduced(w.Cwnd)
	}
	w.Ssthresh = max(share, 2*uint64(mss))
	w.Cwnd, w.credit = w.Ssthresh, 0
}

// TimedOut says that the reduction before was that of a timeout.
func (w *Window) TimedOut() { w.cubic.timeout = true }

// Grow is slow start and congestion avoidance after the acknowledgement of
// acked octets while flight were in flight. It counts octets (RFC 3465)
// because acknowledgements of super-segments stand for many. A window that
// was not used does not grow (RFC 7661), none grows beyond limit.
func (w *Window) Grow(a Algorithm, acked, flight uint64, mss, limit int, now frame.Time, srtt time.Duration) {
	switch {
	case w.Cwnd < w.Ssthresh:
		if w.Blocked || 2*flight >= w.Cwnd {
			w.Cwnd = min(w.Cwnd+acked, w.Ssthresh)
		}
	case !w.Blocked && flight+uint64(mss) < w.Cwnd:
		w.cubic.unused(now)
	case a == Cubic:
		w.growCubic(acked, uint64(mss), now, srtt)
	default:
		if w.credit += acked; w.credit >= w.Cwnd {
			w.credit -= w.Cwnd
			w.Cwnd += uint64(mss)
		}
	}
	w.Cwnd = min(w.Cwnd, uint64(limit))
}

// Restart shrinks the window after an idle time (RFC 5681 section 4.1).
func (w *Window) Restart(mss int) {
	if n := Initial(mss); w.Cwnd > n {
		w.Cwnd = n
		w.cubic.epoch = 0
	}
}

// Remember keeps the window for Undo.
func (w *Window) Remember() { w.before = [2]uint64{w.Cwnd, w.Ssthresh} }

// Undo takes the reductions since Remember back: the window is at least what it
// was.
func (w *Window) Undo() {
	w.Cwnd, w.Ssthresh = max(w.Cwnd, w.before[0]), max(w.Ssthresh, w.before[1])
	w.credit = 0
	w.cubic.epoch = 0
}
