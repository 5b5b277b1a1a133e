package vnic

import "tapir/wire/frame"

// nano is one frame in the unit of a bucket's level.
const nano = 1e9

// bucket is a token bucket. Its level is in frames times 10^9, so that the
// nanoseconds that pass times the rate are added as they are.
type bucket struct {
	rate, full, level uint64
	at                frame.Time
}

// set gives the bucket another rate and fills it.
func (b *bucket) set(r Rate) {
	b.rate, b.full = uint64(r.PerSecond), uint64(max(r.Burst, 1))*nano
	b.level = b.full
}

// take reports whether one more frame may pass at time now, and counts it.
func (b *bucket) take(now frame.Time) bool {
	if b.rate == 0 {
		return true
	}
	if passed := uint64(max(now-b.at, 0)); passed > 0 {
		b.at = now
		if passed >= (b.full-b.level)/b.rate+1 { // also keeps the product small
			b.level = b.full
		} else {
			b.level += passed * b.rate
		}
	}
	if b.level < nano {
		return false
	}
	b.level -= nano
	return true
}
