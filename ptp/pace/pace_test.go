package pace

import (
	"testing"
	"time"

	"tapir/wire/frame"
)

// TestBucket: a burst, then the rate, and no more after a long rest.
func TestBucket(t *testing.T) {
	for _, rate := range []int{1, 10, 1000} {
		b := NewBucket(rate)
		take := func(at time.Duration) (n int) {
			for b.Take(frame.Time(at)) {
				n++
			}
			return n
		}
		burst := max(rate/8, 1)
		if n := take(0); n != burst {
			t.Errorf("rate %d: %d at once", rate, n)
		}
		n := 0
		for at := time.Duration(0); at < 10*time.Second; at += time.Millisecond {
			n += take(at)
		}
		if n < 10*rate-1 || n > 10*rate {
			t.Errorf("rate %d: %d in 10 s", rate, n)
		}
		if n := take(time.Hour); n != burst {
			t.Errorf("rate %d: %d after a rest", rate, n)
		}
	}
}

// TestNext keeps the grid, and leaves it when it fell behind.
func TestNext(t *testing.T) {
	for _, tc := range []struct{ due, now, want frame.Time }{{100, 100, 110}, {100, 109, 110}, {100, 110, 120}, {100, 555, 565}} {
		if got := Next(tc.due, 10, tc.now); got != tc.want {
			t.Errorf("due %d at %d: next %d, want %d", tc.due, tc.now, got, tc.want)
		}
	}
}

// TestPeriod and the bounds of the random part.
func TestPeriod(t *testing.T) {
	if Period(100) != Period(15) || Period(-128) != 1 || Period(1) != 2*time.Second || Period(0) != time.Second || Period(-3) != 125*time.Millisecond {
		t.Error(Period(1), Period(0), Period(-3))
	}
	r := Random(1)
	var least, most time.Duration = time.Hour, 0
	for range 1000 {
		d := r.Below(time.Second)
		least, most = min(least, d), max(most, d)
	}
	if least < 0 || least > 20*time.Millisecond || most >= time.Second || most < 980*time.Millisecond || r.Below(0) != 0 {
		t.Errorf("from %v to %v", least, most)
	}
}
