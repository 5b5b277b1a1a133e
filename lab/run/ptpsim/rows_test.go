package ptpsim

import (
	"fmt"
	"math"
	"testing"
)

// TestRows runs the rows with two seeds each; make bench-ptp uses more.
func TestRows(t *testing.T) {
	for _, r := range Rows() {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			checks, err := r.Run(2)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range checks {
				t.Log(c)
				if !c.Met() || math.IsNaN(c.Value) {
					t.Errorf("%s: %v", r.What, c)
				}
			}
		})
	}
}

// TestSpeedScenarios: the clocks whose speed is measured are in sync at the
// end. How fast that was is for BenchmarkSpeed to say.
func TestSpeedScenarios(t *testing.T) {
	for _, clocks := range []int{2, 20} {
		s := run(t, star(clocks))
		for _, series := range s.Series() {
			if got := settled(s, series.Name); got.Max > 10 {
				t.Errorf("%d clocks: %s is off by %+v", clocks, series.Name, got)
			}
		}
		if got := len(s.Series()); got != clocks-1 {
			t.Errorf("%d series of %d clocks", got, clocks)
		}
	}
}

func BenchmarkSpeed(b *testing.B) {
	for _, clocks := range []int{2, 20} {
		b.Run(fmt.Sprint(clocks), func(b *testing.B) {
			sum := 0.0
			for b.Loop() {
				times, err := speedOf(star(clocks))
				if err != nil {
					b.Fatal(err)
				}
				sum += times
			}
			b.ReportMetric(sum/float64(b.N), "times")
		})
	}
}
