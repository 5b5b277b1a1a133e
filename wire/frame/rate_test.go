package frame

import (
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	var b Bucket
	b.Set(Rate{PerSecond: 1000, Burst: 10})
	count := func(tries int, now Time) (n int) {
		for range tries {
			if b.Take(now) {
				n++
			}
		}
		return n
	}
	ms := Time(time.Millisecond)
	if n := count(50, 0); n != 10 {
		t.Errorf("burst of %d", n)
	}
	if n := count(50, 5*ms); n != 5 {
		t.Errorf("%d in 5 ms", n)
	}
	n := 0
	for now := 5 * ms; now < 1005*ms; now += 100 * 1000 { // ten tries for each frame that may pass
		n += count(1, now)
	}
	if n != 999 {
		t.Errorf("%d in a second", n)
	}
	if n := count(50, 1<<62); n != 10 {
		t.Errorf("burst of %d after ages", n)
	}
	if n := count(50, 1<<61); n != 0 {
		t.Errorf("%d when time went back", n)
	}
	b.Set(Rate{})
	if n := count(50, 0); n != 50 {
		t.Errorf("%d without a limit", n)
	}
}
