// Package pace is when PTP ports send and how much they answer: intervals,
// their random parts, and limits of rates.
package pace

import (
	"math"
	"time"

	"tapir/wire/frame"
)

// Period is the interval of 2^log s; what is beyond half a day becomes that.
func Period(log int8) time.Duration {
	const longest = 15
	switch {
	case log >= longest:
		return time.Second << longest
	case log >= 0:
		return time.Second << log
	case log > -30:
		return time.Second >> -log
	}
	return 1
}

// Next is when a periodic timer that was due runs again: on its grid, unless
// it fell behind by more than an interval.
func Next(due frame.Time, iv time.Duration, now frame.Time) frame.Time {
	if at := due.Add(iv); at > now {
		return at
	}
	return now.Add(iv)
}

// Random is a splitmix64 generator; its value is the seed.
type Random uint64

func (r *Random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below is a duration from 0 up to d.
func (r *Random) Below(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.next() % uint64(d))
}

// Bucket is a token bucket that holds as many tokens as come in an eighth of a
// second, at least one.
type Bucket struct {
	rate   int        // tokens per second
	filled frame.Time // when the bucket, at its rate, was empty
}

// NewBucket returns a full bucket for a rate of at least one per second.
func NewBucket(rate int) Bucket { return Bucket{rate, math.MinInt64 / 2} }

// Take takes a token, false if there is none.
func (b *Bucket) Take(now frame.Time) bool {
	const burst = time.Second / 8
	cost := time.Second / time.Duration(b.rate)
	if full := now.Add(-max(burst, cost)); b.filled < full {
		b.filled = full
	}
	if b.filled.Add(cost) > now {
		return false
	}
	b.filled = b.filled.Add(cost)
	return true
}
