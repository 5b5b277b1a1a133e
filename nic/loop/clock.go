package loop

import (
	"time"

	"tapir/wire/frame"
)

// clock reads the system's monotonic clock; its stamps start at the time of
// day.
type clock struct {
	start time.Time
	wall  frame.Stamp
}

func newClock() clock {
	now := time.Now()
	return clock{start: now, wall: frame.Stamp(now.UnixNano())}
}

// now is nanoseconds since the loop was made.
func (c clock) now() frame.Time { return frame.Time(time.Since(c.start)) }

// At is the time of day that corresponds to now.
func (c clock) At(now frame.Time) frame.Stamp { return c.wall + frame.Stamp(now) }
