package frame

import (
	"math"
	"time"
)

// Time is the engine's monotonic time in nanoseconds since an arbitrary
// epoch. It drives every timer and never steps.
type Time int64

// Never is later than every deadline: "no timer is running".
const Never Time = math.MaxInt64

// Add returns t+d; Never stays Never.
func (t Time) Add(d time.Duration) Time {
	if t == Never {
		return Never
	}
	return t + Time(d)
}

// Sub returns the duration t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Stamp is a hardware-clock reading in nanoseconds since the Unix epoch.
// It belongs to one NIC's clock and may step.
type Stamp int64

// Clock is a NIC's hardware clock.
type Clock interface {
	// At returns what the clock shows at engine time now. It must not change
	// the clock's state.
	At(now Time) Stamp
}
