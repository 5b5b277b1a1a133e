package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The tables of the sign test have these bounds.
func TestBoundIndex(t *testing.T) {
	for n, want := range map[int]int{5: 4, 10: 8, 30: 19, 40: 25, 100: 58} {
		if got := boundIndex(n); got != want {
			t.Errorf("%d samples: %d, want %d", n, got, want)
		}
	}
}

// The bound covers the true median in about 95 of 100 runs, whatever the
// distribution, and the sign of a difference of 6 % is found.
func TestJudge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const runs = 4000
	covered, slower, wrong := 0, 0, 0
	for range runs {
		var equal, worse []float64
		for range minPairs {
			noise := math.Exp(0.03 * rnd.NormFloat64())
			if rnd.IntN(10) == 0 {
				noise *= 2 // a pair in which the old program was disturbed
			}
			equal, worse = append(equal, noise), append(worse, noise*0.93)
		}
		v := judge(equal)
		if v.low > v.ratio || v.ratio > v.high {
			t.Fatalf("%+v", v)
		}
		// The median of the noise with disturbances on one side is a little over 1.
		if v.high >= math.Exp(0.03*0.139) {
			covered++
		}
		if v.slower {
			wrong++
		}
		if judge(worse).slower {
			slower++
		}
	}
	if share := float64(covered) / runs; share < 0.93 || share > 0.98 {
		t.Errorf("the bound covers the median in %.3f of the runs", share)
	}
	if wrong > 0 || slower < runs*95/100 {
		t.Errorf("of %d runs, equal ones failed: %d; slower ones failed: %d", runs, wrong, slower)
	}
}

func TestRatios(t *testing.T) {
	s := samples{{10, 20}, {20, 10}}
	if got := s.ratios(more); !slices.Equal(got, []float64{2, 0.5}) {
		t.Errorf("rates: %v", got)
	}
	if got := s.ratios(less); !slices.Equal(got, []float64{0.5, 2}) {
		t.Errorf("times: %v", got)
	}
}

func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.name] || r.unit == "" || (r.result == nil) != (r.work > 0) || !strings.Contains(r.lab(), r.step) {
			t.Errorf("row %+v", r)
		}
		seen[r.name] = true
	}
	if list, err := choose("small,write"); err != nil || len(list) != 2 || list[0].name != "small" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := choose("smal"); err == nil || !strings.Contains(err.Error(), "small") {
		t.Errorf("an unknown row: %v", err)
	}
	rate, latency := row{result: rate}, row{result: latency}
	if v, err := rate.printed("ok perf: 200 messages of 1048576 octets, 94.39 Gb/s\n"); err != nil || v != 94.39 {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := latency.printed("20000 messages of 64 octets, median 1.012µs\n"); err != nil || v != 1012 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := rate.printed("fail"); err == nil {
		t.Error("a figure out of nothing")
	}
}
