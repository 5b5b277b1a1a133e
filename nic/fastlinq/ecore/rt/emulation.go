//go:build !asic_only

package rt

import "time"

// slowdown is how much slower than a real chip an emulated one is.
const slowdown = 100

// pollEvery is the time between two tries of a poll.
func (s Modes) pollEvery() time.Duration {
	if s.Has(EmulFull) || s.Has(EmulReduced) {
		return slowdown * pollEvery
	}
	return pollEvery
}
