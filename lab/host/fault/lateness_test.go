package fault

import (
	"testing"
	"time"
)

func TestLateness(t *testing.T) {
	var l Lateness
	if l.Late() != nil || l.Quantile(.5) != 0 {
		t.Error("nothing was late")
	}
	for i := range 100 {
		l.Add(time.Duration(i) * time.Microsecond)
	}
	var other Lateness
	other.Add(86 * time.Millisecond)
	other.Add(-time.Second)
	l.Merge(&other)
	for share, want := range map[float64]time.Duration{0: 0, .5: 49 * time.Microsecond, .98: 98 * time.Microsecond,
		1: 86 * time.Millisecond} {
		if got := l.Quantile(share); got < want || got > want+want/4 {
			t.Errorf("%v: %v, want %v to a quarter above", share, got, want)
		}
	}
	late := l.Late()
	frames := uint64(0)
	for _, b := range late.Histogram {
		frames += b.Frames
	}
	if late.Max != 86e3 || frames != 102 || l.Count != 102 {
		t.Errorf("%+v", late)
	}
}

func TestLateSince(t *testing.T) {
	var l Lateness
	l.Add(time.Second)
	before := l.Late()
	if got := before.Since(nil); got != 1e6 {
		t.Errorf("since the beginning: %v", got)
	}
	l.Add(10 * time.Microsecond)
	if got := l.Late().Since(before); got < 10 || got > 12.5 {
		t.Errorf("since then: %v", got)
	}
}

// TestLateBins: bins touch, and hold what lies between their bounds.
func TestLateBins(t *testing.T) {
	for bin := range lateBins - 1 {
		if most := lateMost(bin); lateBin(most) != bin || lateBin(most+1) != bin+1 {
			t.Fatalf("bin %d ends at %d: %d, %d", bin, most, lateBin(most), lateBin(most+1))
		}
	}
	if lateBin(1<<62) != lateBins-1 {
		t.Error("the last bin is not open")
	}
}
