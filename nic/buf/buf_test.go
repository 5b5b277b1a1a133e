package buf

import (
	"testing"

	"tapir/wire/frame"
)

func TestSizeClasses(t *testing.T) {
	tests := []struct{ size, tail int }{
		{0, least}, {64, least}, {68, least}, {69, tiny}, {256, tiny}, {257, small}, {1514, small}, {2048, small},
		{2049, middle}, {9018, middle}, {10240, middle},
		{10241, large}, {65549, large},
	}
	p := NewPool(16, 0)
	for _, tt := range tests {
		f := p.Get(tt.size)
		if f == nil {
			t.Fatalf("Get(%d) = nil", tt.size)
		}
		if f.Tailroom() != tt.tail || f.Headroom() != frame.DefaultHeadroom || f.Len() != 0 {
			t.Errorf("Get(%d): tail %d, head %d, len %d; want tail %d", tt.size, f.Tailroom(), f.Headroom(), f.Len(), tt.tail)
		}
	}
	if f := p.Get(large + 1); f != nil {
		t.Errorf("Get beyond the largest class returned a frame")
	}
}

func TestOwnLargestClass(t *testing.T) {
	p := NewPool(4, 4000)
	if f := p.Get(4000); f == nil || f.Tailroom() != 4000 {
		t.Fatal("no frame of the pool's own size")
	}
	if f := p.Get(4001); f != nil {
		t.Fatal("a frame beyond the pool's own size")
	}
}

func TestBoundAndReuse(t *testing.T) {
	p := NewPool(2, 0)
	a, b := p.Get(100), p.Get(100)
	if c := p.Get(100); c != nil {
		t.Fatal("a third frame of two")
	}
	a.Append([]byte("x"))
	a.GSO, a.Queue = frame.GSOTCPv4, 3
	a.Release()
	if c := p.Get(100); c != a {
		t.Fatal("the last released frame was not lent first")
	} else if c.Len() != 0 || c.GSO != 0 || c.Queue != 0 {
		t.Fatal("a lent frame remembers its former life")
	}
	b.Release()
	a.Release()
	if p.Lent() != 0 || p.Memory() != 2*(tiny+frame.DefaultHeadroom) {
		t.Fatalf("lent %d, memory %d", p.Lent(), p.Memory())
	}
	p.Trim(1)
	if p.Memory() != tiny+frame.DefaultHeadroom {
		t.Fatalf("after Trim(1): memory %d", p.Memory())
	}
}

func TestNothingBeforeFirstGet(t *testing.T) {
	if p := NewPool(1000, 0); p.Memory() != 0 {
		t.Fatalf("an unused pool holds %d octets", p.Memory())
	}
}

func TestForeignFramePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("a frame of another size was accepted")
		}
	}()
	NewPool(1, 0).Put(frame.New(make([]byte, 100), nil))
}

func TestGetPutAllocatesNothing(t *testing.T) {
	p := NewPool(4, 0)
	p.Get(1514).Release()
	if n := testing.AllocsPerRun(100, func() { p.Get(1514).Release() }); n != 0 {
		t.Fatalf("%v allocations per Get and Release", n)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	p := NewPool(4, 0)
	b.ReportAllocs()
	for b.Loop() {
		p.Get(1514).Release()
	}
}
