// Package suite repeats the scenarios of linuxptp-testsuite with Tapir's PTP
// engine: docs/evidence/ptp-scenarios.md lists them. The clocks are judged as that suite does.
package suite

import (
	"fmt"
	"math"
	"testing"
	"time"

	"tapir/lab/run/result"
)

// Limits are what a clock is judged by: the settings of linuxptp-testsuite's
// test.common. Times are in ns, frequencies in ppb.
type Limits struct {
	End              time.Duration // of the scenario
	Interval         time.Duration // between looks at the clock
	MinSync, MaxSync time.Duration // when the clock may come into sync
	TimeMax, FreqMax float64       // errors of a clock in sync
	From             time.Duration // from here on neither may be larger, nor
	TimeRMS, FreqRMS float64       // their root mean squares
}

// DefaultLimits are those of most scenarios.
func DefaultLimits() Limits {
	return Limits{
		End: 500 * time.Second, Interval: time.Second, MinSync: 10 * time.Second, MaxSync: 40 * time.Second,
		From:    40 * time.Second,
		TimeMax: 2e3, FreqMax: 2e3, TimeRMS: 1e3, FreqRMS: 1e3,
	}
}

// Verdict is what is known of a clock at a scenario's end.
type Verdict struct {
	InSync           bool
	At               time.Duration // since when; if ever
	MaxTime, MaxFreq float64       // from Limits.From on
	RMSTime, RMSFreq float64
}

func (v Verdict) String() string {
	since := "never in sync"
	if v.InSync {
		since = fmt.Sprintf("in sync at %v", v.At)
	}
	return fmt.Sprintf("%s, off by at most %.1f ns and %.1f ppb, rms %.1f ns and %.1f ppb", since, v.MaxTime, v.MaxFreq,
		v.RMSTime, v.RMSFreq)
}

// Judge looks at the true errors of a clock, one point per l.Interval from the
// beginning on, as clknetsim does. A frequency error is that between two
// points.
func Judge(points []result.Point, l Limits) Verdict {
	v := Verdict{InSync: true}
	var times, freqs []float64
	for i, p := range points {
		off, freq := math.Abs(p.True), 0.0
		if i > 0 {
			freq = math.Abs(p.True-points[i-1].True) / l.Interval.Seconds()
		}
		if v.InSync = off <= l.TimeMax && freq <= l.FreqMax; !v.InSync {
			v.At = p.At + l.Interval
		}
		if p.At >= l.From {
			times, freqs = append(times, off), append(freqs, freq)
		}
	}
	t, f := result.Summarize(times), result.Summarize(freqs)
	v.MaxTime, v.MaxFreq, v.RMSTime, v.RMSFreq = t.Max, f.Max, t.RMS, f.RMS
	return v
}

// Check tells what is wrong with a clock, or nil.
func (v Verdict) Check(l Limits) error {
	switch {
	case !v.InSync:
		return fmt.Errorf("%v", v)
	case v.At < l.MinSync || v.At > l.MaxSync:
		return fmt.Errorf("%v: not between %v and %v", v, l.MinSync, l.MaxSync)
	case v.MaxTime > l.TimeMax || v.MaxFreq > l.FreqMax:
		return fmt.Errorf("%v: more than %.0f ns or %.0f ppb", v, l.TimeMax, l.FreqMax)
	case v.RMSTime > l.TimeRMS || v.RMSFreq > l.FreqRMS:
		return fmt.Errorf("%v: more than %.0f ns or %.0f ppb rms", v, l.TimeRMS, l.FreqRMS)
	}
	return nil
}

// points is a clock that is off by off(s) ns in second s.
func points(n int, off func(s int) float64) (list []result.Point) {
	for s := range n {
		list = append(list, result.Point{At: time.Duration(s) * time.Second, True: off(s)})
	}
	return list
}

func TestJudge(t *testing.T) {
	l := DefaultLimits()
	late := func(s int) float64 {
		if s < 30 {
			return 1e6
		}
		return 10
	}
	v := Judge(points(500, late), l)
	if err := v.Check(l); err != nil || v != (Verdict{true, 31 * time.Second, 10, 0, 10, 0}) {
		t.Errorf("%v, %v", v, err)
	}
	for name, off := range map[string]func(s int) float64{
		"never in sync": func(int) float64 { return 3000 },
		"frequency":     func(s int) float64 { return float64(s%2)*4200 - 2100 },
		"too early":     func(int) float64 { return 0 },
		"too late":      func(s int) float64 { return late(s - 20) },
		"spike":         func(s int) float64 { return late(s) + map[bool]float64{s == 400: 20000}[true] },
		"lost at end":   func(s int) float64 { return late(s) + map[bool]float64{s == 499: 5000}[true] },
		"rms":           func(s int) float64 { return late(s) + 1200 },
		"wobble":        func(s int) float64 { return late(s) + float64(s%2*1900) },
	} {
		if v := Judge(points(500, off), l); v.Check(l) == nil {
			t.Errorf("%s: passed with %v", name, v)
		}
	}
}
