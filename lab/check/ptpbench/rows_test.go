package main

import (
	"fmt"
	"math"
	"testing"

	"tapir/lab/run/virtual/ptpsim"
)

func (c check) String() string {
	sign, met := "<=", "met"
	if c.atLeast {
		sign = ">="
	}
	if !c.met() {
		met = "missed"
	}
	return fmt.Sprintf("%s: %.4g %s (%s %g): %s", c.what, c.value, c.unit, sign, c.limit, met)
}

// TestRows runs the rows with two seeds each; make bench-ptp uses more.
func TestRows(t *testing.T) {
	for _, r := range simulated() {
		if r.id == "S8" {
			continue // how fast it was is for BenchmarkSpeed to say
		}
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			checks, err := r.run(&bench{seeds: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range checks {
				t.Log(c)
				if !c.met() || math.IsNaN(c.value) {
					t.Errorf("%s: %v", r.what, c)
				}
			}
		})
	}
}

// TestSpeedScenarios: the clocks whose speed is measured are in sync at the
// end. How fast that was is for BenchmarkSpeed to say.
func TestSpeedScenarios(t *testing.T) {
	for _, clocks := range []int{2, 20} {
		s, err := ptpsim.New(star(clocks))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Run(); err != nil {
			t.Fatal(err)
		}
		for _, series := range s.Series() {
			if got := statsOf(s, series.Name); got.Max > 10 {
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
				s := &sims{}
				sum += s.speedOf(star(clocks))
				if s.err != nil {
					b.Fatal(s.err)
				}
			}
			b.ReportMetric(sum/float64(b.N), "times")
		})
	}
}
