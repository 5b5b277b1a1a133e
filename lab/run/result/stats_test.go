package result

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/ptp/clock"
)

func TestSummarize(t *testing.T) {
	x := make([]float64, 0, 200)
	for i := 1; i <= 100; i++ {
		x = append(x, float64(i), -float64(i))
	}
	want := Stats{N: 200, RMS: math.Sqrt(3383.5), P50: 50, P95: 95, P99: 99, Max: 100, Least: -100, Most: 100}
	if got := Summarize(x); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if got := Summarize([]float64{-3}); got != (Stats{N: 1, Mean: -3, RMS: 3, P50: 3, P95: 3, P99: 3, Max: 3, Least: -3, Most: -3}) {
		t.Fatalf("one value: %+v", got)
	}
	if got := Summarize(nil); got != (Stats{}) {
		t.Fatalf("no value: %+v", got)
	}
}

// The fast forms agree with the definitions.
func TestDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1000, 1000), 4, 60).Draw(t, "x")
		n := rapid.IntRange(1, len(x)/3).Draw(t, "n")
		mtie := 0.0
		for i := range len(x) - n {
			low, high := x[i], x[i]
			for _, v := range x[i : i+n+1] {
				low, high = min(low, v), max(high, v)
			}
			mtie = max(mtie, high-low)
		}
		if got := MTIE(x, n); got != mtie {
			t.Fatalf("MTIE %v, want %v", got, mtie)
		}
		sum, count := 0.0, len(x)-3*n+1
		for j := range count {
			inner := 0.0
			for i := j; i < j+n; i++ {
				inner += x[i+2*n] - 2*x[i+n] + x[i]
			}
			sum += inner * inner
		}
		tdev := math.Sqrt(sum / float64(6*n*n*count))
		if got := TDEV(x, n); math.Abs(got-tdev) > 1e-6 {
			t.Fatalf("TDEV %v, want %v", got, tdev)
		}
	})
	for name, v := range map[string]float64{"ADEV": ADEV([]float64{1, 2}, 1, 1), "TDEV": TDEV([]float64{1, 2}, 1), "MTIE": MTIE([]float64{1}, 1)} {
		if !math.IsNaN(v) {
			t.Errorf("%s of too short a series: %v", name, v)
		}
	}
}

// A constant frequency offset has no deviation, and an MTIE that grows with
// the window.
func TestRamp(t *testing.T) {
	x := make([]float64, 100)
	for i := range x {
		x[i] = float64(3 * i)
	}
	rows := Stability(x, 0.5)
	if len(rows) != 5 || rows[4].Tau != 10 {
		t.Fatalf("rows %+v", rows)
	}
	for _, r := range rows {
		if r.ADEV != 0 || r.TDEV != 0 || r.MTIE != 6*r.Tau {
			t.Errorf("%+v", r)
		}
	}
}

func TestTemperatureAndAging(t *testing.T) {
	o := clock.Oscillator{Aging: 86_400, Temperature: 100, Period: 40 * time.Second, Steps: []clock.Step{{After: 60 * time.Second, PPB: 500}}}
	x, err := FreeRun(o, 101, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	// Aging of 1 ppb a second gains t^2/2; a sine that begins at zero gains
	// its amplitude times the period over pi in half a period.
	for _, c := range []struct {
		at   int
		want float64
	}{{20, 200 + 100*40/math.Pi}, {40, 800}, {100, 5000 + 500*40 + 100*40/math.Pi}} {
		if got := x[c.at]; math.Abs(got-c.want) > 0.01*c.want {
			t.Errorf("after %d s: %v ns, want %v", c.at, got, c.want)
		}
	}
}

func TestFreeRunRefuses(t *testing.T) {
	if _, err := FreeRun(clock.Oscillator{WhiteFM: -1}, 1, time.Second); err == nil {
		t.Error("negative noise")
	}
}
