package main

import (
	"slices"

	"tapir/lab/check/figures"
)

// verdict is what the ratios of a row say.
type verdict struct {
	ratio, low, high float64 // the median with its bounds, each at 95 %
	slower           bool
}

func (v verdict) String() string {
	if v.slower {
		return "SLOWER"
	}
	return "ok"
}

// judge bounds the median by order statistics, as the sign test does: it holds
// for ratios of any distribution.
func judge(ratios []float64) verdict {
	sorted := slices.Sorted(slices.Values(ratios))
	k := boundIndex(len(sorted))
	v := verdict{ratio: figures.Median(sorted), low: sorted[len(sorted)-1-k], high: sorted[k]}
	v.slower = v.high < lowest
	return v
}

// boundIndex is the smallest k for which the median of n samples lies below the
// sample k, counted from 0 in ascending order, with a probability of 95 %: that of
// at most k heads when n coins are thrown.
func boundIndex(n int) int {
	term := 1.0 // n over k, divided by 2 to the n
	for range n {
		term /= 2
	}
	sum := term
	k := 0
	for ; sum < 0.95 && k < n-1; k++ {
		term *= float64(n-k) / float64(k+1)
		sum += term
	}
	return k
}
