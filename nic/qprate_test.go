package nic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// ofQP are the octets and times of the data frames that a queue pair has sent, those
// that its connection has to itself.
func (n *node) ofQP(e *rdmaEnd) (list []frame.Record) {
	port := n.dev.IWARP.TCP(e.id).Local().Port()
	for _, r := range n.all {
		if b := r.Data; r.Port == frame.Wire && r.Dir == frame.Outbound && len(b) > 100 &&
			uint16(b[34])<<8|uint16(b[35]) == port {
			list = append(list, r)
		}
	}
	return list
}

// A queue pair with a rate limit sends its frames with exact gaps, in every frame mode,
// and holds back no other queue pair: neither data nor acknowledgements. Another limit
// counts at once, also for what waits, and none ends it.
//
// XX-08
func TestQPRateLimit(t *testing.T) {
	for _, mode := range []FrameMode{Wire, GSO} {
		w := newWorld(t)
		a, b := w.nic(Config{Name: "a", Addrs: prefixes("10.0.0.1/24"), Frames: mode}),
			w.nic(Config{Name: "b", Addrs: prefixes("10.0.0.2/24"), Frames: mode})
		a.dev.LinkUp(w.now)
		b.dev.LinkUp(w.now)
		const size = 200_000
		slow, slowTo := dial(w, a, b, netip.MustParseAddr("10.0.0.2"), size)
		free, freeTo := newEnd(t, a, size), newEnd(t, b, size)
		joinPort(w, free, freeTo, netip.MustParseAddrPort("10.0.0.2:7175"))
		for _, bad := range []uint32{verbs.MaxRateLimit + 1, 1<<32 - 1} {
			if err := slow.qp.SetRateLimit(bad); err == nil || slow.qp.Query().RateLimit != 0 {
				t.Fatalf("a limit of %d kb/s: %v", bad, err)
			}
		}
		const kbps = 50_000
		if err := slow.qp.SetRateLimit(kbps); err != nil {
			t.Fatal(err)
		}
		a.all = nil
		began := w.now
		slow.post(verbs.OpWrite, size, slowTo)
		w.run(time.Millisecond)
		free.post(verbs.OpWrite, size, freeTo)
		w.until(5*time.Millisecond, func() bool { return free.completions() == 1 })
		freeTo.post(verbs.OpRead, size, free) // what it answers waits for nobody, either
		w.until(5*time.Millisecond, func() bool { return freeTo.completions() == 1 })
		slowTo.post(verbs.OpWrite, size, slow) // acknowledgements do not wait
		w.until(5*time.Millisecond, func() bool { return slowTo.completions() == 1 })
		w.until(time.Second, func() bool { return slow.completions() == 1 })
		frames := a.ofQP(slow)
		octets := 0
		for i, r := range frames {
			if i > 0 {
				want := frame.Stamp(len(frames[i-1].Data)) * 8_000_000 / kbps
				if gap := r.System - frames[i-1].System; gap < want || gap > want+1 {
					t.Fatalf("mode %v: %d ns before frame %d, want %d", mode, gap, i, want)
				}
			}
			octets += len(r.Data)
		}
		if octets < size || len(frames) < size/1460 {
			t.Errorf("mode %v: %d frames of %d octets", mode, len(frames), octets)
		}
		t.Logf("mode %v: %d frames, %v", mode, len(frames), w.now.Sub(began))
		if q := a.dev.ShowQP()[0]; q.RateLimit != kbps {
			t.Errorf("%+v", q)
		}
		slow.post(verbs.OpWrite, size, slowTo)
		w.run(time.Millisecond)
		if err := slow.qp.SetRateLimit(0); err != nil {
			t.Fatal(err)
		}
		w.until(2*time.Millisecond, func() bool { return slow.completions() == 2 })
	}
}

// A connection that a queue pair with a limit gets has the limit, and its end takes it
// from the scheduler.
func TestQPRateLimitBefore(t *testing.T) {
	w := newWorld(t)
	a, b := w.nic(Config{Name: "a", Addrs: prefixes("10.0.0.1/24")}), w.nic(Config{Name: "b", Addrs: prefixes("10.0.0.2/24")})
	a.dev.LinkUp(w.now)
	b.dev.LinkUp(w.now)
	c, s := newEnd(t, a, 20_000), newEnd(t, b, 20_000)
	if err := c.qp.SetRateLimit(1000); err != nil { // an octet takes 8 us
		t.Fatal(err)
	}
	join(w, c, s, netip.MustParseAddr("10.0.0.2"))
	began := w.now
	c.post(verbs.OpWrite, 20_000, s)
	w.until(time.Second, func() bool { return c.completions() == 1 })
	if took := w.now.Sub(began); took < 140*time.Millisecond || took > 180*time.Millisecond {
		t.Errorf("20,000 octets at 1 Mb/s took %v", took)
	}
	if err := c.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	w.run(time.Second)
	if a.dev.Wire.Sched.Port().Class(0).Counts() {
		t.Error("the limit outlives its queue pair")
	}
	if err := c.qp.SetRateLimit(1); err == nil {
		t.Error("a queue pair that is gone has a limit")
	}
}
