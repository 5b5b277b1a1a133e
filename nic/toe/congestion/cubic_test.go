package congestion

import (
	"math"
	"testing"
)

func TestCubeRoot(t *testing.T) {
	for _, x := range []uint64{0, 1, 7, 8, 26, 27, 1e9, 999_999_999_999, 1<<63 - 1, math.MaxUint64} {
		r := cubeRoot(x)
		if r*r*r > x || r < 2642245 && (r+1)*(r+1)*(r+1) <= x {
			t.Errorf("cubeRoot(%d) = %d", x, r)
		}
	}
}

// TestCubicCurve compares the integers with the formulas of RFC 9438.
func TestCubicCurve(t *testing.T) {
	for _, mss := range []uint64{36, 536, 1448, 8948} {
		for _, wmax := range []uint64{10 * mss, 100 * mss, 2000 * mss} {
			q := cubic{}
			q.reduced(wmax)
			start := wmax * 7 / 10
			q.begin(start, mss, 1)
			k := math.Cbrt(float64(wmax-start) / float64(mss) / 0.4)
			if math.Abs(float64(q.k)/1000-k) > 0.002 {
				t.Errorf("mss %d, W_max %d: K %d ms, want %.3f s", mss, wmax, q.k, k)
			}
			for _, ms := range []int64{0, 1, 500, 1000, 3000, 10_000, 900_000} {
				want := (0.4*math.Pow(float64(ms)/1000-k, 3) + float64(wmax)/float64(mss)) * float64(mss)
				got := float64(q.window(ms, mss))
				if math.Abs(got-want) > 0.001*want+0.02*float64(mss)+1 {
					t.Errorf("mss %d, W_max %d: W(%d ms) = %.0f, want %.0f", mss, wmax, ms, got, want)
				}
			}
		}
	}
	q := cubic{wmax: 1 << 40}
	if q.window(-1<<60, 65535) != 1<<40-min(1<<40, q.window(1<<60, 65535)-1<<40) {
		t.Error("far from the plateau the curve is not bounded")
	}
}
