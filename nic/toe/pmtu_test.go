package toe

import (
	"testing"
	"time"

	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// trickle makes a send up to total more octets every 10 ms until done.
func (w *world) trickle(a *app, n int, times int) {
	for range times {
		a.total += uint64(n)
		a.conn.Kick()
		w.runFor(10 * time.Millisecond)
	}
}

// TestPathMTUIsCachedAndAges: a second connection begins with what the first
// has learned, and both find the larger MTU again once that is old.
func TestPathMTUIsCachedAndAges(t *testing.T) {
	w := newWorld(t, 1, Config{PathMTUAge: time.Minute}, Config{}, faults{delay: 100 * time.Microsecond}, false)
	a, b := newApp(100_000, 1), newApp(0, 2)
	w.mtu = 1300
	w.connect(a, b)
	w.run(time.Second, func() bool { return b.received == a.total })
	if i := a.conn.Info(); i.MTU != 1300 || i.MSS != 1300-52 || i.Timeouts != 0 {
		t.Fatalf("%+v", i)
	}
	if c := newApp(0, 3); true {
		second, err := w.a.e.Connect(addrPort(w.a, 0), addrPort(w.b, 4421), c, w.now)
		if err != nil || second.Info().MTU != 1300 {
			t.Fatal(err, second.Info().MTU)
		}
		second.Abort()
	}
	w.runFor(50 * time.Second)
	w.mtu = 1450
	w.trickle(a, 20_000, 20)
	if i := a.conn.Info(); i.MTU != 1300 {
		t.Fatalf("tried too early: %d", i.MTU)
	}
	w.runFor(10 * time.Second)
	w.trickle(a, 20_000, 20) // the probe of 1500 is refused with 1450
	if i := a.conn.Info(); i.MTU < 1450-32 || i.MTU > 1450 || i.Timeouts != 0 || i.Retransmits > 130 {
		t.Fatalf("%+v", i)
	}
	w.mtu = 0
	w.runFor(61 * time.Second)
	w.trickle(a, 20_000, 20)
	if i := a.conn.Info(); i.MTU != 1500 || w.a.e.paths.Len() != 0 {
		t.Fatalf("%+v", i)
	}
	b.check(t, a)
}

// TestBlackHole has a path drop large packets without a word (RFC 4821).
func TestBlackHole(t *testing.T) {
	for _, segs := range []int{1, 45} {
		for _, v6 := range []bool{false, true} {
			cfg := Config{MaxSegs: segs}
			w := newWorld(t, 1, cfg, cfg, faults{delay: 100 * time.Microsecond}, v6)
			a, b := newApp(200_000, 1), newApp(0, 2)
			w.hole, w.mtu = true, 1400
			w.connect(a, b)
			if !w.run(time.Minute, func() bool { return b.received == a.total }) {
				t.Fatalf("stuck: %+v", a.conn.Info())
			}
			w.trickle(a, 20_000, 5) // a large segment is tried at once, and lost
			found := map[bool]int{false: blackHoleMTU, true: minMTU6}[v6]
			if i := a.conn.Info(); i.MTU != found || w.a.e.Stats().BlackHoles != 1 {
				t.Fatalf("%+v", i)
			}
			w.runFor(blackHoleTime)
			timeouts, window := a.conn.Info().Timeouts, a.conn.cc.Ssthresh
			w.trickle(a, 20_000, 100)
			i := a.conn.Info()
			if i.MTU <= 1400-32 || i.MTU > 1400 {
				t.Errorf("found %d", i.MTU)
			}
			if i.Timeouts != timeouts || a.conn.cc.Ssthresh < window {
				t.Errorf("probes were taken for congestion: %+v", i)
			}
			b.check(t, a)
		}
	}
}

// TestSilentPeerIsNoBlackHole: a peer that answers nothing for a while costs no
// other connection its segments, and this one not for long.
func TestSilentPeerIsNoBlackHole(t *testing.T) {
	for _, silence := range []time.Duration{2 * time.Second, 8 * time.Second, 40 * time.Second} {
		w := newWorld(t, 1, Config{}, Config{}, faults{delay: 100 * time.Microsecond}, false)
		a, b := newApp(100_000, 1), newApp(0, 2)
		w.connect(a, b)
		w.run(time.Minute, func() bool { return b.received == a.total })
		w.block = func(*node, *tcp.Header, []byte) bool { return true }
		a.total += 100_000
		a.conn.Kick()
		w.runFor(silence)
		if i := a.conn.Info(); i.Timeouts < 3 || (i.MTU == 1500) != (i.Timeouts == 3) {
			t.Errorf("silent for %v: %+v", silence, i)
		}
		other, err := w.a.e.Connect(addrPort(w.a, 0), addrPort(w.b, 4421), newApp(0, 3), w.now)
		if err != nil || other.Info().MTU != 1500 || w.a.e.paths.Len() != 0 {
			t.Errorf("silent for %v: %v, another connection's MTU is %d", silence, err, other.Info().MTU)
		}
		other.Abort()
		w.block = nil
		if !w.run(2*time.Minute, func() bool { return b.received == a.total }) {
			t.Fatalf("stuck: %+v", a.conn.Info())
		}
		w.trickle(a, 20_000, 5)
		if i := a.conn.Info(); i.MTU != 1500 || w.a.e.paths.Len() != 0 || w.a.e.Stats().BlackHoles != 0 {
			t.Errorf("silent for %v: %+v", silence, i)
		}
		b.check(t, a)
	}
}

// watch reports every data segment that a sends, by stream offset.
func (w *world) watch(seen func(off uint64, n int)) {
	isn := uint32(0)
	w.tap = func(from *node, h *ip.Header, th *tcp.Header, data []byte) {
		switch {
		case from != w.a:
		case th.Flags.Has(tcp.SYN):
			isn = uint32(th.Seq)
		case len(data) > 0:
			seen(uint64(uint32(th.Seq)-isn-1), len(data))
		}
	}
}

// TestAlignmentIsRegained lets the path MTU fall, under loss: records cut
// before are split, but every one of the later ones begins a segment or lies
// whole in one, also when it is sent again.
func TestAlignmentIsRegained(t *testing.T) {
	for seed := range uint64(20) {
		cfg := Config{MaxSegs: []int{1, 45}[seed%2]}
		w := newWorld(t, seed, cfg, cfg, faults{loss: 20, reorder: 10, delay: 300 * time.Microsecond}, false)
		a, b := newApp(400<<10, seed), newApp(0, 2)
		a.closeAtEnd = true
		a.record = func(off uint64) int {
			if a.conn.MSS() < 1300 {
				return 200 + int(octet(seed, off))
			}
			return 900 + int(octet(seed, off))*2
		}
		borders := map[uint64]bool{0: true}
		cut, fell, later, split := a.record, uint64(1)<<62, 0, 0
		a.record = func(off uint64) int {
			n := cut(off)
			borders[min(off+uint64(n), a.total)] = true
			return n
		}
		w.watch(func(off uint64, n int) {
			whole := borders[off] && borders[off+uint64(n)]
			switch {
			case off >= fell:
				if later++; !whole {
					t.Fatalf("seed %d: segment [%d,+%d) is not made of whole records", seed, off, n)
				}
			case !whole:
				split++
			}
		})
		w.connect(a, b)
		w.run(time.Minute, func() bool { return b.received > 100_000 })
		w.mtu = 1200
		w.run(time.Minute, func() bool { return a.conn.Info().MTU == 1200 })
		fell = a.end()
		if !w.run(5*time.Minute, func() bool { return a.closed && b.closed }) {
			t.Fatalf("seed %d: stuck", seed)
		}
		b.check(t, a)
		if later < 100 || split == 0 {
			t.Fatalf("seed %d: %d segments after the fall, %d split", seed, later, split)
		}
	}
}

// TestPartialAck has a peer acknowledge part of a segment: the rest goes out
// alone, so that the next segment begins with a record again.
func TestPartialAck(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(2000)
	a.record = func(off uint64) int { return 400 }
	p.listen(a)
	p.opts = tcp.Options{MSS: 500, SACKPermitted: true}
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.opts = tcp.Options{}
	p.in(tcp.ACK, 1, 1, "")
	p.expect("ACK 1 ack 1 len 400; ACK 401 ack 1 len 400; ACK 801 ack 1 len 400; ACK 1201 ack 1 len 400; PSH,ACK 1601 ack 1 len 400")
	p.in(tcp.ACK, 1, 501, "")
	p.wait(300 * time.Millisecond)
	p.out = p.out[:0]
	p.conn.snd.TimedOut()
	p.conn.Kick()
	p.conn.cc.Cwnd = 10_000
	p.expect("ACK 501 ack 1 len 300; ACK 801 ack 1 len 400; ACK 1201 ack 1 len 400; PSH,ACK 1601 ack 1 len 400")
	if err := audit(p.conn); err != nil {
		t.Fatal(err)
	}
}

// TestStolenMTU ignores an ICMP error that names a tiny MTU.
func TestStolenMTU(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(100))
	p.poll()
	p.e.Unreachable(p.local, p.remote, p.engISN+1, false, 68, p.now)
	if m := p.conn.Info().MTU; m != minMTU4 {
		t.Fatalf("MTU %d", m)
	}
	p.e.Unreachable(p.local, p.remote, p.engISN+1, false, 9000, p.now)
	if m := p.conn.Info().MTU; m != minMTU4 {
		t.Fatalf("MTU %d", m)
	}
}
