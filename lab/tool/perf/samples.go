package perf

import (
	"math/bits"
	"slices"
	"time"
)

// maxSamples bounds the memory of a long latency test; beyond it every
// further sample replaces an old one in turn.
const maxSamples = 1 << 20

// samples collects half round trips.
type samples struct {
	kept []time.Duration
	next int
	n    int64
	sum  time.Duration
	max  time.Duration
}

func (s *samples) add(d time.Duration) {
	s.n++
	s.sum += d
	s.max = max(s.max, d)
	if len(s.kept) < maxSamples {
		s.kept = append(s.kept, d)
		return
	}
	s.kept[s.next] = d
	s.next = (s.next + 1) % maxSamples
}

func (s *samples) latency() *Latency {
	if s.n == 0 {
		return nil
	}
	slices.Sort(s.kept)
	at := func(permille int) time.Duration {
		return s.kept[min(len(s.kept)-1, len(s.kept)*permille/1000)]
	}
	return &Latency{
		Min: s.kept[0], Median: at(500), Mean: s.sum / time.Duration(s.n),
		P99: at(990), P999: at(999), Max: s.max, Histogram: histogram(s.kept),
	}
}

// histogram sorts sorted values into buckets.
func histogram(sorted []time.Duration) (all []Bucket) {
	for _, d := range sorted {
		if n := len(all); n > 0 && d <= all[n-1].Most {
			all[n-1].Count++
		} else {
			all = append(all, Bucket{most(d), 1})
		}
	}
	return all
}

// most is the largest value of the bucket that d falls into: values up to 15
// have one each.
func most(d time.Duration) time.Duration {
	shift := max(0, bits.Len64(uint64(d))-4)
	return (d>>shift+1)<<shift - 1
}

// Least is the smallest value that belongs into the bucket.
func (b Bucket) Least() time.Duration {
	shift := max(0, bits.Len64(uint64(b.Most))-4)
	return b.Most >> shift << shift
}

// A timeline has a point for each timelineFirst at the beginning. When it is
// full, every other is dropped, and points come half as often.
const (
	timelineMost  = 128
	timelineFirst = time.Millisecond
)

// timeline keeps what had been done by when.
type timeline struct {
	points []Progress
	every  time.Duration
	next   time.Duration
}

func newTimeline() timeline {
	return timeline{points: make([]Progress, 0, timelineMost), every: timelineFirst, next: timelineFirst}
}

// note takes the state at p.Elapsed, later than that before.
func (t *timeline) note(p Progress) {
	if p.Elapsed < t.next {
		return
	}
	if len(t.points) == cap(t.points) {
		for i := range len(t.points) / 2 {
			t.points[i] = t.points[2*i+1]
		}
		t.points = t.points[:len(t.points)/2]
		t.every *= 2
	}
	t.points = append(t.points, p)
	t.next = p.Elapsed - p.Elapsed%t.every + t.every
}

// finish notes the end.
func (t *timeline) finish(p Progress) {
	if n := len(t.points); n > 0 && (n == cap(t.points) || t.points[n-1].Elapsed == p.Elapsed) {
		t.points[n-1] = p
		return
	}
	t.points = append(t.points, p)
}
