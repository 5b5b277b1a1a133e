package sw

import (
	"math/rand/v2"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/nic/linkmode"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/pause"
)

// lossless is a configuration with PFC for priority 3.
func lossless() swconf.Config {
	c := classes()
	c.DCB.PFC = 1 << 3
	c.XOFF, c.XON, c.Headroom = 20_000, 10_000, 10_000
	return c
}

// With PFC an incast of 3 or 31 senders into one port loses no frame and keeps the port
// busy; without it frames are lost.
func TestIncast(t *testing.T) {
	for _, senders := range []int{3, 31} {
		for _, on := range []bool{true, false} {
			cfg := lossless()
			if !on {
				cfg.DCB.PFC = 0
			}
			f := newFabric(t, senders+1, linkmode.Speed10G, cfg)
			for i := range senders {
				f.add(i, 3, 1500)
			}
			f.pass(time.Millisecond)
			if drops := f.drops(); (drops == 0) != on {
				t.Errorf("%d senders, PFC %v: %d frames dropped", senders, on, drops)
			}
			line := time.Millisecond.Seconds() * 10e9 / 8
			if use := octetsOf(f.wires[senders].take())[3] / line; use < 0.98 {
				t.Errorf("%d senders, PFC %v: link use %.3f", senders, on, use)
			}
			for i, s := range f.sources {
				p := f.s.PriorityCounts(i)[3]
				if on != (p.TxPause > 1) || on != (p.TxPaused > 0) || p.Most > 30_000 || s.sent == 0 {
					t.Errorf("%d senders, PFC %v: %+v", senders, on, p)
				}
			}
		}
	}
}

// No frame of a PFC class is lost while headroom holds what is sent after XOFF: frames on the
// cables both ways and one at each end. Some are lost of senders that do not obey, and those
// only. Whatever the thresholds, lengths and speeds, the buffers drain to nothing.
func TestHeadroomHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	speeds := []linkmode.Speeds{linkmode.Speed1G, linkmode.Speed10G, linkmode.Speed25G}
	for range 16 {
		cfg := lossless()
		speed := speeds[rng.IntN(len(speeds))]
		longest := 500 + rng.IntN(8500)
		cable := time.Duration(rng.IntN(5000))
		cfg.XOFF = 1 + rng.IntN(100_000)
		cfg.XON = 1 + rng.IntN(cfg.XOFF)
		// Two cables' worth of octets and of small frames' gaps, the frame that crosses XOFF,
		// and the one that the sender is at.
		cfg.Headroom = int(2*cable)*int(speed.Mbps())/8000 + 2*longest
		deaf := rng.IntN(4) == 0
		f := newFabric(t, 4, speed, cfg)
		f.rng, f.cable = rng, cable
		for i := range 3 {
			f.add(i, 3, longest).deaf = deaf && i == 1
		}
		f.pass(time.Millisecond)
		for i, s := range f.sources {
			lost := f.s.Counts(i).RxDrops
			if p := f.s.PriorityCounts(i)[3]; lost.Total() != lost[DropHeadroom] || p.Discards != lost[DropHeadroom] ||
				!s.deaf && p.Discards > 0 || p.Most > cfg.XOFF+cfg.Headroom {
				t.Errorf("%+v, longest %d, cable %v: %v, %+v", cfg, longest, cable, lost, p)
			}
			s.held = frame.Never
		}
		for _, s := range f.sources { // no more frames
			s.next, s.coming = frame.Never, nil
		}
		f.pass(200 * time.Millisecond)
		for i := range f.sources {
			if p := f.s.PriorityCounts(i)[3]; p.Buffered != 0 || f.s.ports[i].buffers[3].off {
				t.Errorf("%+v is left", p)
			}
		}
	}
}

// pfc sends a PFC frame into a port.
func (b *bed) pfc(port int, change func(b []byte), timers map[int]uint16) {
	c := pause.Frame{PFC: true, Src: host(9)}
	for prio, quanta := range timers {
		c.Enabled |= 1 << prio
		c.Timers[prio] = quanta
	}
	data := make([]byte, pause.Len)
	c.Put(data)
	if change != nil {
		change(data)
	}
	b.send(port, string(data))
}

// PFC of priority 3 holds that one back from the next frame on, to the nanosecond of its
// quanta or until timer 0, and no other; what is held does not delay what is not.
func TestPFCIsObeyed(t *testing.T) {
	f := newFabric(t, 3, linkmode.Speed10G, lossless())
	f.wires[2].room = 1 << 30
	arrive := func(prio int) frame.Time {
		t.Helper()
		f.send(0, tagged(host(2), host(1), prio, 1500))
		f.run(10 * time.Millisecond)
		got := f.wires[2].take()
		if len(got) != 1 {
			t.Fatalf("priority %d: %d frames left", prio, len(got))
		}
		return got[0].at
	}
	for _, quanta := range []uint16{1, 100, 0xffff} {
		f.pfc(2, nil, map[int]uint16{3: quanta})
		at := f.now
		if got, want := arrive(3).Sub(at), pause.Duration(quanta, 10_000); got != want {
			t.Errorf("%d quanta: %v, want %v", quanta, got, want)
		}
	}
	f.pfc(2, nil, map[int]uint16{3: 0xffff, 0: 0xffff})
	at := f.now
	f.send(0, tagged(host(2), host(1), 3, 1500))
	for _, prio := range []int{0, 1, 7} { // 0 has no PFC
		if got := arrive0(f, prio); got != at {
			t.Errorf("priority %d left %v later", prio, got.Sub(at))
		}
		f.now = at.Add(2 * time.Microsecond)
		at = f.now
	}
	f.pfc(2, nil, map[int]uint16{3: 0})
	f.run(0)
	if got := f.wires[2].take(); len(got) != 1 || got[0].b[14]>>5 != 3 {
		t.Errorf("after timer 0: %d frames", len(got))
	}
	p := f.s.PriorityCounts(2)
	paused := pause.Duration(1, 10_000) + pause.Duration(100, 10_000) + pause.Duration(0xffff, 10_000) + 6*time.Microsecond
	if p[3].RxPause != 5 || p[3].RxTransitions != 4 || p[3].RxPaused != paused || p[0].RxPause != 0 {
		t.Errorf("%+v, want %v", p[3], paused)
	}
	for _, c := range []struct {
		reason frame.DropReason
		change func(b []byte)
		timers map[int]uint16
	}{
		{DropPFC, nil, map[int]uint16{0: 0xffff, 7: 1}},
		{drop.Malformed, func(b []byte) { b[16] = 1 }, map[int]uint16{3: 0xffff}},
		{drop.Malformed, func(b []byte) { b[15] = 7 }, map[int]uint16{3: 0xffff}},
		{drop.Malformed, func(b []byte) { b[5] = 2 }, map[int]uint16{3: 0xffff}},
		{DropLinkLocal, func(b []byte) { b[14], b[15] = 0, 1 }, nil}, // PAUSE has no place beside PFC
	} {
		f.run(10 * time.Microsecond) // the line is free
		before := f.s.Counts(2).RxDrops[c.reason]
		f.pfc(2, c.change, c.timers)
		if at := f.now; arrive(3) != at || f.s.Counts(2).RxDrops[c.reason] != before+1 {
			t.Errorf("%v: obeyed, or not counted", c.reason)
		}
	}
}

// arrive0 is when a frame leaves that is sent now.
func arrive0(f *fabric, prio int) frame.Time {
	f.t.Helper()
	f.send(0, tagged(host(2), host(1), prio, 100))
	f.run(0)
	got := f.wires[2].take()
	if len(got) != 1 || int(got[0].b[14]>>5) != prio {
		f.t.Fatalf("priority %d: %d frames left", prio, len(got))
	}
	return got[0].at
}

// A port that is full of paused frames says so at once and again after half the timer, until
// its buffer has drained to XON; PFC frames leave while the port itself is paused.
func TestXOFFIsRefreshed(t *testing.T) {
	f := newFabric(t, 3, linkmode.Speed10G, lossless())
	f.pfc(0, nil, map[int]uint16{3: 0xffff}) // for frames to port 0; PFC frames are never held
	f.pfc(2, nil, map[int]uint16{3: 0xffff})
	for range 14 {
		f.send(0, tagged(host(2), host(1), 3, 1500)) // 21000 octets
	}
	begin := f.now
	const most = 0xffff * 512 / 10 // ns
	f.run(most - 1)
	var told []frame.Time
	timer := func(l left) uint16 {
		t.Helper()
		c, err := pause.Parse([]byte(l.b))
		if err != nil || !c.PFC || c.Enabled != 1<<3 || c.Src != f.s.cfg.MAC(0) {
			t.Fatalf("%+v, %v", c, err)
		}
		return c.Timers[3]
	}
	for _, l := range f.wires[0].take() {
		told = append(told, l.at)
		if timer(l) != 0xffff {
			t.Error("not the longest timer")
		}
	}
	if len(told) != 2 || told[0] != begin || told[1] != begin.Add(most/2) {
		t.Errorf("told at %v", told)
	}
	f.run(time.Millisecond)
	got := f.wires[0].take()
	if len(got) != 2 || timer(got[0]) != 0xffff || timer(got[1]) != 0 || f.s.PriorityCounts(0)[3].TxPaused != got[1].at.Sub(begin) {
		t.Errorf("%d PFC frames", len(got))
	}
	if n := len(f.wires[2].take()); n != 14 || f.drops() != 0 {
		t.Errorf("%d frames left", n)
	}
}

// A class that PFC holds for longer than the watchdog allows is dropped until the pause ends,
// and its buffers are free again for others. Other classes notice nothing.
func TestWatchdog(t *testing.T) {
	for _, watchdog := range []time.Duration{0, 50 * time.Millisecond, -1} {
		cfg := lossless()
		cfg.Watchdog = watchdog
		f := newFabric(t, 3, linkmode.Speed10G, cfg)
		limit := cfg.WithDefaults().Watchdog
		if watchdog < 0 {
			limit = time.Second
		}
		storm := func(d time.Duration) {
			for end := f.now.Add(d); f.now < end; {
				f.pfc(2, nil, map[int]uint16{3: 0xffff})
				f.run(time.Millisecond)
			}
		}
		f.send(0, tagged(host(2), host(1), 3, 1500))
		f.send(0, tagged(host(2), host(1), 0, 1500))
		f.pfc(2, nil, map[int]uint16{3: 0xffff})
		storm(limit - 10*time.Millisecond)
		if c := f.s.Counts(2); len(f.wires[2].take()) != 1 || c.Queued != 1 || c.TxDrops.Total() != 0 {
			t.Fatalf("%v: %+v", watchdog, c)
		}
		storm(20 * time.Millisecond)
		f.send(0, tagged(host(2), host(1), 3, 1500))
		f.send(0, tagged(host(2), host(1), 0, 1500))
		storm(10 * time.Millisecond)
		want := uint64(2)
		if watchdog < 0 {
			want = 0
		}
		c, q := f.s.Counts(2), f.s.ClassCounts(2)[3]
		if len(f.wires[2].take()) != 1 || c.TxDrops[DropWatchdog] != want || q.Storms != min(want, 1) || q.QueueDrops != want ||
			f.s.PriorityCounts(0)[3].Buffered != 1500*(2-int(want)) {
			t.Errorf("%v: %+v, %+v", watchdog, c, q)
		}
		f.run(10 * time.Millisecond) // the pause ends
		f.wires[2].take()
		f.send(0, tagged(host(2), host(1), 3, 1500))
		f.run(0)
		if n := len(f.wires[2].take()); n != 1 || f.s.Counts(2).TxDrops[DropWatchdog] != want {
			t.Errorf("%v: after the storm %d frames", watchdog, n)
		}
	}
}

// Frames that others sent to a station beyond the ports are in nobody's buffer for ever: those
// of a port without link are released.
func TestFloodOfPFCClass(t *testing.T) {
	f := newFabric(t, 4, linkmode.Speed10G, lossless())
	f.s.ports[1].down = true
	f.send(0, tagged(ether.Broadcast, host(1), 3, 1000))
	if p := f.s.PriorityCounts(0)[3]; p.Buffered != 2000 || p.RxFrames != 1 {
		t.Errorf("%+v", p)
	}
	f.run(time.Millisecond)
	if p := f.s.PriorityCounts(0)[3]; p.Buffered != 0 || p.Most != 2000 {
		t.Errorf("%+v", p)
	}
}
