package timescale

import (
	"testing"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// TestFlags: what is said comes back.
func TestFlags(t *testing.T) {
	for f := msg.Flags(0); f < 0x40; f++ {
		p := Of(f, 37, msg.SourceGNSS)
		if p.Flags() != f || p.UTCOffset != 37 || p.TimeSource != msg.SourceGNSS {
			t.Errorf("%#x: %+v gives %#x", f, p, p.Flags())
		}
	}
}

// TestLeapEnd: a UTC day of 86400, 86401 or 86399 s that began at the clock's
// 100 * 86400 + 37 s.
func TestLeapEnd(t *testing.T) {
	const start = 100*86400 + 37
	for _, tc := range []struct {
		p    Properties
		len  int64
		step int16
	}{
		{Properties{UTCOffset: 37}, 86400, 0}, {Properties{UTCOffset: 37, Leap61: true}, 86401, 1}, {Properties{UTCOffset: 37, Leap59: true}, 86399, -1},
	} {
		if day := tc.p.Day(frame.Stamp(start) * 1e9); day != 100 || tc.p.Day(frame.Stamp(start)*1e9-1) != 99 {
			t.Errorf("day %d", day)
		}
		at, step := tc.p.LeapEnd(100)
		if at != frame.Stamp(start+tc.len)*1e9 || step != tc.step || tc.p.Leaps() != (step != 0) {
			t.Errorf("%+v: ends %d s after its start, offset changes by %d", tc.p, int64(at)/1e9-start, step)
		}
	}
}
