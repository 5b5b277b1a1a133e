package tc

import (
	"math/bits"
	"time"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Bounds of rate estimates.
const (
	rateWindow  = 32                     // samples that are compared
	rateSpan    = 500 * time.Millisecond // between the oldest and the newest, at least
	rateUnit    = 1 << 32                // 2^-32
	rateHighest = 1000                   // 1/1000 is the largest difference
)

// rate estimates how much faster than the own clock another one runs, from
// pairs of readings of the two.
type rate struct {
	ring  [rateWindow]struct{ remote, local frame.Stamp }
	n     int   // readings taken
	value int64 // relative frequency offset in 2^-32
	valid bool
}

// observe takes one pair of readings.
func (r *rate) observe(remote, local frame.Stamp) {
	if r.n > 0 {
		last := &r.ring[(r.n-1)%rateWindow]
		if local <= last.local || !plausible(remote-last.remote, local-last.local) {
			*r = rate{}
		}
	}
	r.ring[r.n%rateWindow].remote, r.ring[r.n%rateWindow].local = remote, local
	r.n++
	oldest := &r.ring[max(0, r.n-rateWindow)%rateWindow]
	if span := local - oldest.local; span >= frame.Stamp(rateSpan) {
		r.value, r.valid = offset(remote-oldest.remote, span), true
	}
}

// plausible tells that neither clock was set between two readings. Queueing on
// the way is allowed for.
func plausible(remote, local frame.Stamp) bool {
	const slack = frame.Stamp(20 * time.Millisecond)
	d := remote - local
	return max(d, -d) <= slack+local/rateHighest
}

// offset is remote/local - 1 in 2^-32.
func offset(remote, local frame.Stamp) int64 {
	d := remote - local
	size := min(uint64(max(d, -d)), uint64(local)/rateHighest)
	hi, lo := bits.Mul64(size, rateUnit)
	quotient, _ := bits.Div64(hi, lo, uint64(local))
	if d < 0 {
		return -int64(quotient)
	}
	return int64(quotient)
}

// apply is an interval of the own clock in units of the other.
func (r *rate) apply(i msg.TimeInterval) msg.TimeInterval {
	if !r.valid {
		return i
	}
	return i + msg.TimeInterval(int64(i>>16)*r.value>>16)
}

// ppb is the estimate in 1e-9.
func (r *rate) ppb() int64 { return (r.value*1_000_000_000 + rateUnit/2) >> 32 }
