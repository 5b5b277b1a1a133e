package result

import (
	"math"
	"slices"
	"time"

	"tapir/ptp/clock"
	"tapir/wire/frame"
)

// Stats sums up the size of time errors, in ns. Percentiles and Max are of
// absolute values.
type Stats struct {
	N             int
	Mean, RMS     float64
	P50, P95, P99 float64
	Max           float64
	Least, Most   float64 // with their signs
}

// Summarize returns the statistics of x; those of an empty series are zero.
func Summarize(x []float64) Stats {
	s := Stats{N: len(x)}
	if s.N == 0 {
		return s
	}
	size := make([]float64, len(x))
	var sum, squares float64
	s.Least, s.Most = x[0], x[0]
	for i, v := range x {
		size[i] = math.Abs(v)
		sum += v
		squares += float64(v * v)
		s.Least, s.Most = min(s.Least, v), max(s.Most, v)
	}
	slices.Sort(size)
	s.Mean, s.RMS = sum/float64(s.N), math.Sqrt(squares/float64(s.N))
	s.P50, s.P95, s.P99 = rank(size, 50), rank(size, 95), rank(size, 99)
	s.Max = size[s.N-1]
	return s
}

// rank is the smallest value that p percent of the sorted ones do not exceed.
func rank(sorted []float64, p int) float64 {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// ADEV is the overlapping Allan deviation over n intervals of tau seconds, in
// ppb (IEEE 1139); NaN if the series is too short.
func ADEV(x []float64, n int, tau float64) float64 {
	count := len(x) - 2*n
	if n < 1 || count < 1 {
		return math.NaN()
	}
	sum := 0.0
	for i := range count {
		d := x[i+2*n] - float64(2*x[i+n]) + x[i]
		sum += float64(d * d)
	}
	return math.Sqrt(sum/float64(2*count)) / float64(float64(n)*tau)
}

// TDEV is the time deviation over n intervals, in ns (ITU-T G.810); NaN if the
// series is too short.
func TDEV(x []float64, n int) float64 {
	count := len(x) - 3*n + 1
	if n < 1 || count < 1 {
		return math.NaN()
	}
	second := func(i int) float64 { return x[i+2*n] - float64(2*x[i+n]) + x[i] }
	inner := 0.0
	for i := range n {
		inner += second(i)
	}
	sum := float64(inner * inner)
	for j := 1; j < count; j++ {
		inner += second(j+n-1) - second(j-1)
		sum += float64(inner * inner)
	}
	return math.Sqrt(sum/float64(6*count)) / float64(n)
}

// MTIE is the maximum time interval error over n intervals, in ns (ITU-T
// G.810): the largest peak-to-peak excursion in any window; NaN if the series
// is too short.
func MTIE(x []float64, n int) float64 {
	if n < 1 || len(x) <= n {
		return math.NaN()
	}
	most := 0.0
	var highs, lows []int // indices; their values fall, or rise
	for i, v := range x {
		for len(highs) > 0 && x[highs[len(highs)-1]] <= v {
			highs = highs[:len(highs)-1]
		}
		for len(lows) > 0 && x[lows[len(lows)-1]] >= v {
			lows = lows[:len(lows)-1]
		}
		highs, lows = append(highs, i), append(lows, i)
		if highs[0] < i-n {
			highs = highs[1:]
		}
		if lows[0] < i-n {
			lows = lows[1:]
		}
		if i >= n {
			most = max(most, x[highs[0]]-x[lows[0]])
		}
	}
	return most
}

// FreeRun is the time error of a clock that nobody steers.
func FreeRun(o clock.Oscillator, points int, every time.Duration) ([]float64, error) {
	p, err := clock.New(clock.Config{Oscillator: o})
	if err != nil {
		return nil, err
	}
	x := make([]float64, points)
	for i := range x {
		now := frame.Time(i) * frame.Time(every)
		x[i] = p.Exact(now).Sub(clock.Exact{NS: int64(now)})
	}
	return x, nil
}

// StabilityRow is one line of a stability table. Values that the series is too short
// for are NaN.
type StabilityRow struct {
	Tau  float64 `json:"tau"`  // seconds
	MTIE float64 `json:"mtie"` // ns
	TDEV float64 `json:"tdev"` // ns
	ADEV float64 `json:"adev"` // ppb
}

// Stability returns a table for 1, 2, 5, 10... intervals of tau seconds, as
// far as the series can tell: a third of its length.
func Stability(x []float64, tau float64) (rows []StabilityRow) {
	for decade := 1; ; decade *= 10 {
		for _, m := range [...]int{1, 2, 5} {
			n := m * decade
			if 3*n > len(x) {
				return rows
			}
			rows = append(rows, StabilityRow{float64(float64(n) * tau), MTIE(x, n), TDEV(x, n), ADEV(x, n, tau)})
		}
	}
}
