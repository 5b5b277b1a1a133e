package servo

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tapir/wire/frame"
)

// The filters agree with sorting and adding up the window.
func TestFilters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(1, 20).Draw(t, "length")
		med, _ := NewFilter(MovingMedian, length)
		avg, _ := NewFilter(MovingAverage, length)
		var all []int64
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			if rapid.IntRange(0, 20).Draw(t, "reset") == 0 {
				med.Reset()
				avg.Reset()
				all = nil
			}
			v := rapid.Int64Range(-1e6, 1e6).Draw(t, "delay")
			all = append(all, v)
			last := slices.Clone(all[max(0, len(all)-length):])
			slices.Sort(last)
			var sum int64
			for _, x := range last {
				sum += x
			}
			a, b := last[(len(last)-1)/2], last[len(last)/2]
			if got, want := med.Sample(v), a+(b-a)/2; got != want {
				t.Fatalf("median of %v: %d, want %d", last, got, want)
			}
			if got, want := avg.Sample(v), sum/int64(len(last)); got != want {
				t.Fatalf("average of %v: %d, want %d", last, got, want)
			}
		}
	})
}

func TestFiltersAllocateNothing(t *testing.T) {
	for _, kind := range []FilterKind{MovingMedian, MovingAverage} {
		f, err := NewFilter(kind, DefaultFilterLength)
		if err != nil {
			t.Fatal(err)
		}
		v := int64(0)
		if n := testing.AllocsPerRun(100, func() { v = (v*7 + 3) % 101; f.Sample(v) }); n != 0 {
			t.Errorf("%v: %v allocations", kind, n)
		}
		if got, err := ParseFilter(kind.String()); err != nil || got != kind {
			t.Errorf("%v: %v, %v", kind, got, err)
		}
	}
	if _, err := NewFilter(MovingMedian, 0); err == nil {
		t.Error("a filter over nothing")
	}
	if _, err := NewFilter(9, 1); err == nil {
		t.Error("a filter that there is not")
	}
	if _, err := ParseFilter("mode"); err == nil {
		t.Error("a filter that there is not")
	}
}

func TestLucky(t *testing.T) {
	l, err := NewLucky(3)
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for i, v := range []int64{5, 3, 9, -2, 4, 4, 7} {
		if best, at, ok := l.Sample(v, frame.Stamp(i)); ok {
			got = append(got, best, int64(at))
		}
	}
	if !slices.Equal(got, []int64{3, 1, -2, 3}) {
		t.Fatalf("passed %v", got)
	}
	l.Reset()
	l.Sample(100, 0)
	l.Sample(100, 0)
	if best, _, ok := l.Sample(50, 1); !ok || best != 50 {
		t.Fatalf("after a reset %d %v", best, ok)
	}
	if _, err := NewLucky(0); err == nil {
		t.Error("one of none")
	}
}
