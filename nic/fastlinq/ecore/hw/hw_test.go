package hw

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

func grab(t *testing.T, b *BAR, n int) (list []*PTT) {
	t.Helper()
	for i := range n {
		b.Acquire(fmt.Sprint("flow", i), status.Again, 0, func(p *PTT, err error) {
			if err != nil {
				t.Fatalf("window %d: %v", i, err)
			}
			list = append(list, p)
		})
	}
	if len(list) != n {
		t.Fatalf("%d windows of %d", len(list), n)
	}
	return list
}

// HW-01, HW-02
func TestPTT(t *testing.T) {
	b := NewBAR(0, new(Registers))
	list := grab(t, b, Allocatable)
	var got *PTT
	b.Acquire("ninth", status.Again, 0, func(p *PTT, err error) { got = p })
	if next := b.Poll(0); got != nil || next != frame.Time(time.Millisecond) {
		t.Fatalf("the ninth got %v, next try %v", got, next)
	}
	for _, i := range []int{3, 5} {
		if err := b.Release(list[i]); err != nil {
			t.Fatal(err)
		}
	}
	if b.Poll(frame.Time(time.Millisecond)); got == nil || got.window != list[5].window {
		t.Errorf("the window that was released last comes first: %v", got)
	}
	if p := b.TryAcquire("x"); p.window != list[3].window || b.TryAcquire("y") != nil {
		t.Errorf("window %d, want %d, and no other", p.window, list[3].window)
	}
}

// HW-03
func TestExhausted(t *testing.T) {
	b := NewBAR(0, new(Registers))
	list := grab(t, b, Allocatable)
	for _, code := range []status.Code{status.Again, status.Busy, status.Timeout} {
		var err error
		var at, now frame.Time
		b.Acquire("late", code, 0, func(p *PTT, e error) { err, at = e, now })
		for now = b.Poll(0); now != frame.Never; now = b.Poll(now) {
		}
		if !errors.Is(err, code) || at != frame.Time(time.Second) || !strings.Contains(err.Error(), "late: no PTT window in 1s") {
			t.Errorf("%v after %v: %v", code, at, err)
		}
	}
	if s := b.Stats(); s.Failed != 3 || s.Free != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	for _, p := range list {
		b.Release(p)
	}
	if s := b.Stats(); s.Free != Allocatable || s.Misused != 0 {
		t.Errorf("%+v", s)
	}
}

// HW-04
func TestMisuse(t *testing.T) {
	regs := new(Registers)
	a, b := NewBAR(0, regs), NewBAR(1, regs)
	var warned []string
	warn := func(err error) { warned = append(warned, err.Error()) }
	a.Warn, b.Warn = warn, warn
	p := a.TryAcquire("filter")
	if err := errors.Join(a.Wr(p, 0x1000, 7), func() error { _, err := b.Rd(p, 0x1000); return err }()); !errors.Is(err, status.Inval) {
		t.Errorf("another hwfn: %v", err)
	}
	end, err := a.Claim(p, "init phase")
	if _, again := a.Claim(p, "mailbox"); err != nil || !errors.Is(again, status.Inval) {
		t.Errorf("two operations: %v, %v", err, again)
	}
	end()
	if _, err := a.Claim(p, "mailbox"); err != nil {
		t.Error(err)
	}
	if err := a.Release(p); err != nil {
		t.Error(err)
	}
	q := a.TryAcquire("link") // the same window, another turn
	if v, err := a.Rd(p, 0x1000); !errors.Is(err, status.Inval) || v != 0xffffffff {
		t.Errorf("after release: %#x, %v", v, err)
	}
	if v, err := a.Rd(q, 0x1000); err != nil || v != 7 {
		t.Errorf("the next owner: %d, %v", v, err)
	}
	for what, err := range map[string]error{"twice": a.Release(p), "reserved": a.Release(a.Main()), "elsewhere": b.Release(q)} {
		if !errors.Is(err, status.Inval) {
			t.Errorf("release %s: %v", what, err)
		}
	}
	if n := a.Stats().Misused + b.Stats().Misused; n != 6 || len(warned) != 6 || !strings.Contains(warned[0], "hwfn 1 uses the window of hwfn 0") {
		t.Errorf("%d misuses, %q", n, warned)
	}
}

// C5: whatever was asked for and released, eight are free in the end, and no
// window has two owners.
func TestPTTModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBAR(0, new(Registers))
		var owned []*PTT
		now := frame.Time(0)
		for _, m := range rapid.SliceOfN(rapid.IntRange(0, 3), 1, 100).Draw(t, "moves") {
			switch m {
			case 0, 1:
				b.Acquire("x", status.Again, now, func(p *PTT, err error) {
					if slices.ContainsFunc(owned, func(q *PTT) bool { return q.window == p.window }) {
						t.Fatal("two owners")
					}
					owned = append(owned, p)
				})
			case 2:
				if len(owned) > 0 {
					if err := b.Release(owned[0]); err != nil {
						t.Fatal(err)
					}
					owned = owned[1:]
				}
			case 3:
				now = now.Add(time.Millisecond)
				b.Poll(now)
			}
			if b.Stats().Free+len(owned) != Allocatable {
				t.Fatalf("%d free, %d lent", b.Stats().Free, len(owned))
			}
		}
	})
}

// HW-05, HW-06, HW-07
func TestAccess(t *testing.T) {
	b := NewBAR(0, new(Registers))
	var trace []Access
	b.Trace = func(a Access) { trace = append(trace, a) }
	rung := 0
	b.Bell = func(addr uint32, data uint64, width int) { rung++ }
	for len(b.free) > 0 { // no window is needed for what follows
		b.TryAcquire("hoarder")
	}
	for _, w := range GTT {
		if err := b.RegWr(w.BAR+8, w.Addr); err != nil {
			t.Fatal(err)
		}
		if v, err := b.RegRd(w.BAR + 8); err != nil || v != w.Addr || b.Regs.Read(w.Addr+8) != w.Addr {
			t.Errorf("%s: %#x, %v", w.Name, v, err)
		}
	}
	for _, off := range []uint32{0, 0xeffc, 0x19000} {
		if _, err := b.RegRd(off); !errors.Is(err, status.Inval) || !errors.Is(b.RegWr(off, 1), status.Inval) {
			t.Errorf("offset %#x: %v", off, err)
		}
	}
	trace = nil
	if err := b.Doorbell(DoorbellAddr(16), 0x1234, 4); err != nil || rung != 1 {
		t.Errorf("%v, rung %d times", err, rung)
	}
	b.Wr(b.Main(), 0x8004, 5)
	b.Rd(b.Main(), 0x8004)
	want := []Access{{"db", 512, 0x1234, ""}, {"wr", 0x8004, 5, "main"}, {"rd", 0x8004, 5, "main"}}
	if !slices.Equal(trace, want) {
		t.Errorf("%v, want %v", trace, want)
	}
	for _, d := range [][2]uint32{{2, 4}, {0, 3}, {DoorbellSize, 4}, {DoorbellSize - 4, 8}} {
		if err := b.Doorbell(d[0], 0, int(d[1])); !errors.Is(err, status.Inval) {
			t.Errorf("doorbell %v: %v", d, err)
		}
	}
	b.Regs.Dead = true
	if v, _ := b.RegRd(GTT[0].BAR); v != 0xffffffff {
		t.Errorf("a dead chip reads %#x", v)
	}
}

// HW-14
func TestDMAE(t *testing.T) {
	b := NewBAR(0, new(Registers))
	src := make([]uint32, 3*MaxCopy+5)
	for i := range src {
		src[i] = uint32(i) ^ 0xa5a5a5a5
	}
	there, back := make([]uint32, len(src)), make([]uint32, len(src))
	if err := errors.Join(b.HostToGRC(b.Main(), src, 0x300000), b.GRCToHost(b.Main(), 0x300000, there),
		b.HostToHost(b.Main(), back, there)); err != nil || !slices.Equal(back, src) {
		t.Fatalf("%v; equal: %v", err, slices.Equal(back, src))
	}
	if n := b.Stats().DMA; n != 12 {
		t.Errorf("%d commands, want 4 for each copy", n)
	}
	b.Trace = func(a Access) {
		if err := b.HostToHost(b.Main(), back, src); !errors.Is(err, status.Busy) {
			t.Errorf("a second command at a time: %v", err)
		}
	}
	b.HostToGRC(b.Main(), src[:1], 0x300000)
	b.Trace = nil
	if err := b.HostToHost(b.Main(), back[:1], src); !errors.Is(err, status.Inval) {
		t.Errorf("too long: %v", err)
	}
	b.Regs.StuckDMA = true
	if err := b.HostToGRC(b.Main(), src, 0); !errors.Is(err, status.Timeout) || b.copying {
		t.Errorf("stuck: %v", err)
	}
}

// XX-01
func TestRecovery(t *testing.T) {
	b := NewBAR(0, new(Registers))
	got := map[uint32]uint64{}
	b.Bell = func(addr uint32, data uint64, width int) { got[addr] = data }
	r := NewRecovery(b)
	value := uint64(1)
	if err := errors.Join(r.Add(32, 4, func() uint64 { return value }), r.Add(64, 8, func() uint64 { return 9 << 32 })); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"twice": r.Add(32, 4, nil), "not in BAR1": r.Add(DoorbellSize, 4, nil), "24 bits": r.Add(96, 3, nil),
		"delete outside": r.Delete(DoorbellSize),
	} {
		if !errors.Is(err, status.Inval) {
			t.Errorf("%s: %v", what, err)
		}
	}
	value = 77
	if err := r.Execute(); err != nil || got[32] != 77 || got[64] != 9<<32 {
		t.Errorf("%v: %v", err, got)
	}
	clear(got)
	if err := errors.Join(r.Delete(32), r.Delete(32), r.Execute()); err != nil || len(got) != 1 || r.Len() != 1 || r.Occurred() != 2 {
		t.Errorf("%v: %v, %d left", err, got, r.Len())
	}
}
