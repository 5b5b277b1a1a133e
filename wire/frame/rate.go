package frame

// Rate limits frames: so many per second, and so many at once after a rest. A
// rate of 0 is no limit.
type Rate struct {
	PerSecond uint32
	Burst     uint32 // at least 1 is taken
}

// nano is one frame in the unit of a bucket's level.
const nano = 1e9

// Bucket is a token bucket, which keeps frames to a Rate. Its level is in frames times
// 10^9, so that the nanoseconds that pass times the rate are added as they are.
type Bucket struct {
	rate, full, level uint64
	at                Time
}

// Set gives the bucket another rate and fills it.
func (b *Bucket) Set(r Rate) {
	b.rate, b.full = uint64(r.PerSecond), uint64(max(r.Burst, 1))*nano
	b.level = b.full
}

// Take reports whether one more frame may pass at time now, and counts it.
func (b *Bucket) Take(now Time) bool {
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
