package toe

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"tapir/nic/toe/packet"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

func TestTransferClean(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, segs := range []int{1, 45} {
			for _, merge := range []bool{false, true} {
				t.Run(fmt.Sprintf("v6=%v/segs=%d/merge=%v", v6, segs, merge), func(t *testing.T) {
					cfg := Config{MaxSegs: segs}
					w := newWorld(t, 1, cfg, cfg, faults{merge: merge}, v6)
					a, b := newApp(5<<20, 1), newApp(3<<20, 2)
					a.closeAtEnd = true
					w.connect(a, b)
					if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
						t.Fatalf("not closed: %+v", a.conn.Info())
					}
					if a.err != nil || b.err != nil {
						t.Fatal(a.err, b.err)
					}
					b.check(t, a)
					a.check(t, b)
					if r := w.a.e.Stats().Retransmits + w.b.e.Stats().Retransmits; r != 0 {
						t.Errorf("%d retransmissions on a clean link", r)
					}
					w.rest()
				})
			}
		}
	}
}

// A Source that tells runs is sent as one that tells segment by segment.
func TestRunsChangeNothing(t *testing.T) {
	for seed := range uint64(60) {
		var sums [2][]byte
		for i, runs := range []bool{false, true} {
			cfg := Config{MaxSegs: 45, RcvWnd: 64 << 10 << (seed % 3)}
			cfg.Nagle = seed%4 == 1
			w := newWorld(t, seed, cfg, cfg, faults{loss: int(seed % 5), reorder: int(seed % 3), delay: 50 * time.Microsecond}, false)
			a, b := newApp(500_000+seed, seed), newApp(0, 2)
			if seed%2 == 0 {
				a.record = func(off uint64) int { return 200 + int(seed+off>>14)%5*312 } // some of them segments
			}
			a.closeAtEnd = true
			var h Handler = a
			if runs {
				h = runner{a}
			}
			w.connect(h, b)
			if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
				t.Fatalf("not closed: %+v", a.conn.Info())
			}
			b.check(t, a)
			sums[i] = w.trace.Sum(nil)
		}
		if !bytes.Equal(sums[0], sums[1]) {
			t.Errorf("seed %d: what is sent differs", seed)
		}
	}
}

// scenario derives one world from a seed: faults, frame modes, options and
// sizes all differ.
func scenario(t *testing.T, seed uint64) (sum [32]byte) {
	pick := func(n int) int {
		seed2 := seed*0x9e3779b97f4a7c15 + uint64(n)
		return int((seed2 ^ seed2>>31) >> 7 & 0x3fffffff)
	}
	f := faults{
		loss:    []int{0, 5, 20, 50, 100}[pick(1)%5],
		dup:     []int{0, 0, 20}[pick(2)%3],
		reorder: []int{0, 0, 30, 200}[pick(3)%4],
		corrupt: []int{0, 0, 20}[pick(4)%3],
		delay:   []time.Duration{20 * time.Microsecond, time.Millisecond, 20 * time.Millisecond}[pick(5)%3],
		jitter:  []time.Duration{0, 0, 100 * time.Microsecond}[pick(6)%3],
		merge:   pick(7)%3 == 0,
	}
	cfg := func(n int) Config {
		return Config{
			MTU:     []int{576, 1500, 9000}[pick(n)%3],
			MaxSegs: []int{1, 1, 8, 45}[pick(n+1)%4],
			RcvWnd:  []int{64 << 10, 1 << 20}[pick(n+2)%2],
		}
	}
	w := newWorld(t, seed, cfg(20), cfg(30), f, pick(8)%4 == 0)
	a, b := newApp(uint64(pick(9)%(256<<10)), seed), newApp(uint64(pick(10)%(64<<10)), seed+1)
	if pick(11)%2 == 0 {
		a.record = func(off uint64) int { return 20 + int(octet(seed, off))*7 }
	}
	a.closeAtEnd = true
	w.strip = func(o *tcp.Options) {
		if pick(12)%4 == 0 {
			o.SACKPermitted = false
		}
		if pick(13)%4 == 0 {
			o.HasTS = false
		}
		if pick(14)%4 == 0 {
			o.HasWS = false
		}
	}
	w.connect(a, b)
	if !w.run(10*time.Minute, func() bool { return a.closed && b.closed }) {
		t.Fatalf("seed %d: stuck: %+v\n%+v", seed, a.conn.Info(), b.conn.Info())
	}
	if a.err != nil || b.err != nil {
		t.Fatalf("seed %d: %v, %v", seed, a.err, b.err)
	}
	b.check(t, a)
	a.check(t, b)
	w.rest()
	copy(sum[:], w.trace.Sum(nil))
	return sum
}

func TestTransferUnderFaults(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		scenario(t, seed)
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	for seed := range uint64(12) {
		if scenario(t, seed) != scenario(t, seed) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
	if scenario(t, 1) == scenario(t, 13) {
		t.Fatal("the trace does not depend on the seed")
	}
}

// TestManyConnections runs 300 connections at once over a lossy link whose
// queue holds few frames.
func TestManyConnections(t *testing.T) {
	const n = 300
	w := newWorld(t, 4, Config{}, Config{MaxSegs: 8}, faults{loss: 5, reorder: 10, delay: 200 * time.Microsecond}, false)
	w.a.room, w.b.room = 8, 8
	servers := map[netip.AddrPort]*app{}
	_, err := w.b.e.Listen(addrPort(w.b, 4420), n, func(c *Conn, now frame.Time) Handler {
		a := newApp(20_000, uint64(c.Remote().Port()))
		servers[c.Remote()] = a
		return a
	})
	if err != nil {
		t.Fatal(err)
	}
	var clients []*app
	for i := range n {
		a := newApp(30_000, uint64(i))
		a.closeAtEnd = true
		if a.conn, err = w.a.e.Connect(addrPort(w.a, 0), addrPort(w.b, 4420), a, w.now); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, a)
	}
	if !w.run(5*time.Minute, func() bool {
		for _, a := range clients {
			if !a.closed || servers[a.conn.Local()] == nil || !servers[a.conn.Local()].closed {
				return false
			}
		}
		return true
	}) {
		t.Fatal("stuck")
	}
	id := uint64(0)
	for c := range w.a.e.Conns {
		if c.place.Deadline.ID <= id {
			t.Fatal("connections are not in order of creation")
		}
		id = c.place.Deadline.ID
	}
	for _, a := range clients {
		s := servers[a.conn.Local()]
		if a.err != nil || s.err != nil {
			t.Fatal(a.err, s.err)
		}
		s.check(t, a)
		a.check(t, s)
	}
	w.rest()
}

// TestIdleConnectionIsSmall bounds what a connection costs when nothing is in
// flight: itself and the packets saved from its beginning.
func TestIdleConnectionIsSmall(t *testing.T) {
	w := newWorld(t, 1, Config{}, Config{}, faults{loss: 20}, false)
	a, b := newApp(1<<20, 1), newApp(1<<20, 2)
	w.connect(a, b)
	w.run(time.Minute, func() bool { return a.acked == a.total && b.acked == b.total })
	w.runFor(time.Second)
	for _, c := range []*Conn{a.conn, b.conn} {
		if c.snd.Segs() != 0 || !c.rcv.Held.Empty() || c.record.Size() > packet.MaxRecord {
			t.Fatalf("%d segments, saved %d", c.snd.Segs(), c.record.Size())
		}
	}
	if size := unsafe.Sizeof(Conn{}); size > 1536 || w.pool.out != 0 {
		t.Fatalf("a connection takes %d octets, and %d frames", size, w.pool.out)
	}
}
