package suite

import (
	"testing"
	"time"

	"tapir/lab/run/result"
)

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
