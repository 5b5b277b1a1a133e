package clock

import (
	"errors"
	"math/bits"

	"tapir/wire/frame"
)

// DriftRegister steers the counter of the device: it adds or takes away a few
// nanoseconds once in a period. Bits 0-27 are N, for a period of 16N+8 ns;
// bits 28-30 the nanoseconds, bit 31 is set to make the clock faster.
type DriftRegister uint32

const (
	driftPeriods = 1<<28 - 1
	driftFaster  = 1 << 31
	// MaxAdj is the largest correction of the device in ppb: 7 ns in 24.
	MaxAdj = 291_666_666
)

// ErrDriftReset is returned for a write to the drift register while the
// counter behind it runs.
var ErrDriftReset = errors.New("drift counter is not in reset")

// Period is the interval between two corrections in nanoseconds.
func (r DriftRegister) Period() uint64 { return uint64(r&driftPeriods)*16 + 8 }

// Value is the signed correction in nanoseconds that is made once in a period.
func (r DriftRegister) Value() int64 {
	v := int64(r >> 28 & 7)
	if r&driftFaster == 0 {
		return -v
	}
	return v
}

func (r DriftRegister) rate() rate { return ratio(r.Value(), r.Period()) }

// scaledOne is a factor of one in units of scaled ppm, which are 2^-16 ppm.
const scaledOne = 65536 * 1_000_000

// Drift returns the register whose rate is nearest to scaledPPM, in units of
// 2^-16 ppm.
func Drift(scaledPPM int64) DriftRegister {
	want, sign := uint64(scaledPPM), DriftRegister(driftFaster)
	if scaledPPM < 0 {
		want, sign = -want, 0
	}
	best := sign | driftPeriods // a correction of none
	if want == 0 {
		return best
	}
	for v := uint64(7); v >= 1; v-- { // of two as near the driver core takes the larger
		n := v * scaledOne / want / 16 // half a quantum too far, at most
		for _, n := range [...]uint64{n - min(n, 1), n, n + 1} {
			n = max(1, min(n, driftPeriods))
			if r := sign | DriftRegister(v<<28|n); r.nearer(best, want) {
				best = r
			}
		}
	}
	return best
}

// nearer tells whether r's rate is nearer to want than that of o.
func (r DriftRegister) nearer(o DriftRegister, want uint64) bool {
	ah, al := bits.Mul64(r.miss(want), o.Period())
	bh, bl := bits.Mul64(o.miss(want), r.Period())
	return ah < bh || ah == bh && al < bl
}

// miss is the distance from want times the period.
func (r DriftRegister) miss(want uint64) uint64 {
	d := int64(uint64(r>>28&7)*scaledOne) - int64(want*r.Period())
	return uint64(max(d, -d))
}

// DriftReset holds the drift counter in reset: from now on nothing is
// corrected, and the register can be written.
func (p *PHC) DriftReset(now frame.Time) {
	p.driftReset = true
	p.steer(now, 0)
}

// DriftInReset tells whether the drift counter is held in reset.
func (p *PHC) DriftInReset() bool { return p.driftReset }

// DriftWrite writes the drift register. It fails unless the counter is in
// reset.
func (p *PHC) DriftWrite(r DriftRegister) error {
	if !p.driftReset {
		return ErrDriftReset
	}
	p.drift = r
	return nil
}

// DriftRelease lets the drift counter run: the register takes effect.
func (p *PHC) DriftRelease(now frame.Time) {
	p.driftReset = false
	p.steer(now, p.drift.rate())
}

// DriftRead returns the drift register.
func (p *PHC) DriftRead() DriftRegister { return p.drift }
