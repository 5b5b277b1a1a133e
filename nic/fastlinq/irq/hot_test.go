package irq

import (
	"testing"
	"time"

	"tapir/wire/frame"
)

// hot is event -> status block -> interrupt -> handler -> acknowledgement.
func hot(t testing.TB) (*SB, *int) {
	d, err := New(Config{SBs: 2, Mode: MSIX, Platform: msix(3)})
	if err != nil {
		t.Fatal(err)
	}
	h := d.Hwfns[0]
	h.IntEnable(0)
	sb, err := h.SBInit(0)
	if err != nil {
		t.Fatal(err)
	}
	h.Setup(sb)
	n := new(int)
	sb.Handle(func(*SB, frame.Time) { *n++ })
	return sb, n
}

func TestHotPathAllocatesNothing(t *testing.T) {
	sb, n := hot(t)
	if a := testing.AllocsPerRun(1000, func() { sb.Event(RxPI, 0) }); a != 0 || *n != 1001 {
		t.Errorf("%v allocations, %d interrupts", a, *n)
	}
	sb.SetState(Rx, Enabled, 0)
	_ = sb.SetCoalesce(RxPI, 10)
	now := frame.Time(0)
	if a := testing.AllocsPerRun(1000, func() {
		sb.Event(RxPI, now)
		now = now.Add(time.Millisecond)
		sb.hwfn.dev.Poll(now)
	}); a != 0 || *n != 2002 {
		t.Errorf("coalescing: %v allocations, %d interrupts", a, *n)
	}
}

func BenchmarkEvent(b *testing.B) {
	sb, _ := hot(b)
	b.ReportAllocs()
	for b.Loop() {
		sb.Event(RxPI, 0)
	}
}
