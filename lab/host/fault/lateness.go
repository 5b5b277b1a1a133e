package fault

import (
	"math"
	mathbits "math/bits"
	"time"
)

// Lateness is how late frames leave a link: the time from when one is due to when it is
// handed on. Its bins have four steps in each power of two of nanoseconds.
type Lateness struct {
	Count uint64
	Sum   time.Duration
	Max   time.Duration
	bins  [lateBins]uint64
}

// lateBins reach to 2^36 ns, 69 s; the last bin has all above.
const lateBins = 4 * 36

// Add counts a frame that was so late; one that was early is not late.
func (l *Lateness) Add(d time.Duration) {
	d = max(d, 0)
	l.Count++
	l.Sum += d
	l.Max = max(l.Max, d)
	l.bins[lateBin(d)]++
}

// lateBin is the bin of d, at least 0.
func lateBin(d time.Duration) int {
	if d < 4 {
		return int(d)
	}
	octave := mathbits.Len64(uint64(d)) - 3 // of the highest three bits, the first is 1
	return min(4*octave+int(d>>octave), lateBins-1)
}

// lateMost is the most that is in a bin.
func lateMost(bin int) time.Duration {
	if bin < 4 {
		return time.Duration(bin)
	}
	octave := bin/4 - 1
	return time.Duration(4+bin%4+1)<<octave - 1
}

// Merge adds what another link, or the other direction, has counted.
func (l *Lateness) Merge(o *Lateness) {
	l.Count += o.Count
	l.Sum += o.Sum
	l.Max = max(l.Max, o.Max)
	for i, n := range o.bins {
		l.bins[i] += n
	}
}

// Quantile is a lateness that the share of frames, from 0 to 1, does not exceed, up to a
// quarter too high; 0 without frames.
func (l *Lateness) Quantile(share float64) time.Duration {
	want, sum := uint64(math.Ceil(share*float64(l.Count))), uint64(0)
	for i, n := range l.bins {
		if sum += n; sum >= want && n > 0 {
			return min(lateMost(i), l.Max)
		}
	}
	return 0
}

// Late is Lateness for people and files, in microseconds.
type Late struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p999_us"`
	Max  float64 `json:"max_us"`
	// Histogram has the bins that are not empty.
	Histogram []LateBin `json:"histogram"`
}

// LateBin is how many frames were at most that late, and later than those of the bin before.
type LateBin struct {
	Most   float64 `json:"le_us"`
	Frames uint64  `json:"frames"`
}

// Late sums up the lateness; nil: all frames were in time, as in virtual time.
func (l *Lateness) Late() *Late {
	if l.Max == 0 {
		return nil
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	r := &Late{P50: us(l.Quantile(.5)), P99: us(l.Quantile(.99)), P999: us(l.Quantile(.999)), Max: us(l.Max)}
	for i, n := range l.bins {
		if n > 0 {
			r.Histogram = append(r.Histogram, LateBin{us(lateMost(i)), n})
		}
	}
	return r
}

// Counter is the number of microseconds of that name, rounded up; of nil it is 0.
func (l *Late) Counter(name string) (us uint64, ok bool) {
	if l == nil {
		l = &Late{}
	}
	v, ok := map[string]float64{"late_us_p50": l.P50, "late_us_p99": l.P99, "late_us_p999": l.P999,
		"late_us_max": l.Max}[name]
	return uint64(math.Ceil(v)), ok
}

// Since is how late frames were at most since before, in microseconds, up to a quarter too
// much; nil stands for the beginning.
func (l *Late) Since(before *Late) (us float64) {
	was := map[float64]uint64{}
	if before != nil {
		for _, b := range before.Histogram {
			was[b.Most] = b.Frames
		}
	}
	for _, b := range l.Histogram {
		if b.Frames > was[b.Most] {
			us = min(b.Most, l.Max)
		}
	}
	return us
}

// Buckets are how many frames were at most so late, by powers of ten of seconds and halves
// of them, from 1 µs to 1 s.
func (l *Lateness) Buckets() map[float64]uint64 {
	all, sum, bin := map[float64]uint64{}, uint64(0), 0
	for bound := time.Microsecond; bound <= time.Second; bound *= 10 {
		for _, d := range []time.Duration{bound / 2, bound} {
			for ; lateMost(bin) <= d; bin++ {
				sum += l.bins[bin]
			}
			all[d.Seconds()] = sum
		}
	}
	return all
}
