package toe

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// earlyApp is an app that takes some of what arrives out of order.
type earlyApp struct {
	*app
	t        *testing.T
	next     uint64          // in-order position
	taken    map[uint64]bool // octets taken and not skipped yet
	early    int
	willTake func(off uint64, n int) int
}

func newEarly(t *testing.T, take func(off uint64, n int) int) *earlyApp {
	return &earlyApp{app: newApp(0, 2), t: t, taken: map[uint64]bool{}, willTake: take}
}

func (a *earlyApp) ReceiveOOO(c *Conn, off uint64, data []byte, now frame.Time) int {
	if off <= a.next || len(data) == 0 {
		a.t.Fatalf("offered [%d,+%d) at %d", off, len(data), a.next)
	}
	data = data[:a.willTake(off, len(data))]
	for i := range uint64(len(data)) {
		if a.taken[off+i] {
			a.t.Fatalf("octet %d offered again", off+i)
		}
		a.taken[off+i] = true
		if data[i] != octet(1, off+i) {
			a.t.Fatalf("octet %d is wrong", off+i)
		}
	}
	a.early += len(data)
	return len(data)
}

func all(_ uint64, n int) int { return n }

func (a *earlyApp) Skip(c *Conn, n int, now frame.Time) {
	buf := make([]byte, n)
	pattern(buf, 1, a.next)
	for i := range uint64(n) {
		if !a.taken[a.next+i] {
			a.t.Fatalf("octet %d was not taken", a.next+i)
		}
		delete(a.taken, a.next+i)
	}
	a.next += uint64(n)
	a.app.Receive(c, buf, now)
}

func (a *earlyApp) Receive(c *Conn, data []byte, now frame.Time) {
	for i := range uint64(len(data)) {
		if a.taken[a.next+i] {
			a.t.Fatalf("octet %d delivered although it was taken", a.next+i)
		}
	}
	a.next += uint64(len(data))
	a.app.Receive(c, data, now)
}

// TestEarlyDelivery loses, reorders and repeats segments to a layer that
// takes all, none, or some of what arrives early.
func TestEarlyDelivery(t *testing.T) {
	for name, take := range map[string]func(off uint64, n int) int{
		"all":   all,
		"none":  func(uint64, int) int { return 0 },
		"some":  func(off uint64, n int) int { return n * int(octet(7, off)&1) },
		"parts": func(off uint64, n int) int { return n * int(octet(7, off)) / 255 },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				cfg := Config{MaxSegs: []int{1, 8}[seed%2]}
				w := newWorld(t, seed, cfg, cfg, faults{loss: 30, dup: 20, reorder: 100, merge: seed%3 == 0, delay: 300 * time.Microsecond}, false)
				a, b := newApp(300_000, 1), newEarly(t, take)
				a.closeAtEnd = true
				a.record = func(off uint64) int { return 100 + int(octet(seed, off))*5 }
				if _, err := w.b.e.Listen(addrPort(w.b, 4420), 1, func(c *Conn, _ frame.Time) Handler { b.conn = c; return b }); err != nil {
					t.Fatal(err)
				}
				if _, err := w.a.e.Connect(addrPort(w.a, 0), addrPort(w.b, 4420), a, w.now); err != nil {
					t.Fatal(err)
				}
				if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
					t.Fatalf("seed %d: stuck", seed)
				}
				b.check(t, a)
				if len(b.taken) != 0 || (b.early > 0) != (name != "none") {
					t.Fatalf("seed %d: %d octets early, %d never skipped", seed, b.early, len(b.taken))
				}
				w.rest()
				if w.b.e.held.Memory != 0 {
					t.Fatalf("%d octets left", w.b.e.held.Memory)
				}
			}
		})
	}
}

// TestTakenDataIsKnown: what was taken early is SACKed, holds no frame, and
// is not lent again by a segment that covers it.
func TestTakenDataIsKnown(t *testing.T) {
	p := newRawPeer(t, Config{})
	b := newEarly(t, all)
	if _, err := p.e.Listen(p.local, 1, func(c *Conn, _ frame.Time) Handler { p.conn = c; return b }); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 12)
	pattern(text, 1, 0)
	p.opts = tcp.Options{SACKPermitted: true}
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.opts = tcp.Options{}
	p.in(tcp.ACK, 1, 1, "")
	p.in(tcp.ACK, 5, 1, string(text[4:8]))
	p.expect("ACK 1 ack 1 sack 5-9")
	if b.early != 4 || p.pool.out != 0 || p.conn.Info().OutOfOrder != 0 {
		t.Fatalf("%d early, %d frames", b.early, p.pool.out)
	}
	p.in(tcp.ACK, 1, 1, string(text))
	p.expect("ACK 1 ack 13")
	if b.next != 12 || b.early != 4 {
		t.Fatalf("at %d, %d early", b.next, b.early)
	}
}

// TestFloodOfHoles throws every other octet of the window at many
// connections at once: memory stays within the bound of each and of all.
func TestFloodOfHoles(t *testing.T) {
	for _, early := range []bool{false, true} {
		const conns, total = 8, 4 << 20
		p := newRawPeer(t, Config{MaxReassembly: total})
		if _, err := p.e.Listen(p.local, conns, func(*Conn, frame.Time) Handler {
			if early {
				return newEarly(t, all)
			}
			return quietApp(0)
		}); err != nil {
			t.Fatal(err)
		}
		most := 0
		for port := uint16(1); port <= conns; port++ {
			p.remote, p.engKnown = netip.AddrPortFrom(p.remote.Addr(), port), false
			p.in(tcp.SYN, 0, 0, "")
			p.poll()
			p.in(tcp.ACK, 1, 1, "")
			for i := range 5000 {
				seq := 3 + 2*i
				p.in(tcp.ACK, seq, 1, string([]byte{octet(1, uint64(seq-1))}))
				if i%64 == 0 {
					p.poll()
				}
			}
			most = max(most, p.e.tail.rcv.Held.Memory())
			if err := audit(p.e.tail); err != nil {
				t.Fatal(err)
			}
		}
		if most > 2*p.e.cfg.RcvWnd+smallFrame || p.e.held.Memory > total+smallFrame || p.pool.out*smallFrame > p.e.held.Memory {
			t.Fatalf("%d octets in one connection, %d in all, %d frames", most, p.e.held.Memory, p.pool.out)
		}
		if p.e.Stats().Drops[drop.Reassembly] == 0 {
			t.Fatal("the bound was not reached")
		}
		for c := range p.e.Conns {
			c.Abort()
		}
		if p.poll(); p.e.held.Memory != 0 || p.pool.out != 0 {
			t.Fatalf("%d octets left", p.e.held.Memory)
		}
	}
}

// TestTinySegments has a peer with the smallest MSS and a large window: the
// segments in flight are bounded.
func TestTinySegments(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(1 << 30)
	a.record = func(uint64) int { return 1 }
	p.listen(a)
	p.opts = tcp.Options{MSS: 1, HasWS: true, WS: 14}
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.opts = tcp.Options{}
	p.in(tcp.ACK, 1, 1, "")
	p.conn.cc.Cwnd = 1 << 30
	for range 2000 {
		p.poll()
	}
	if n := p.conn.snd.Segs(); n != p.e.cfg.SndWnd/minSegment {
		t.Fatalf("%d segments in flight", n)
	}
}

// TestTinyWindows has a peer that opens one octet at a time: silly windows
// are not filled, and nothing grows.
func TestTinyWindows(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(1 << 20))
	p.poll()
	sent := p.conn.snd.Nxt()
	p.segment(tcp.ACK, 1, int(sent)+1, 0, "")
	for i := range 1000 {
		p.segment(tcp.ACK, 1, int(sent)+1, 1+i%2, "")
		if got := p.poll(); strings.Contains(got, "len") {
			t.Fatalf("sent %q", got)
		}
	}
	if p.conn.snd.Segs() != 0 || p.pool.out != 0 {
		t.Fatalf("%d segments", p.conn.snd.Segs())
	}
}

// TestOverlappingSegments sends every range again and again, shifted: each
// octet is held once and delivered once.
func TestOverlappingSegments(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(0)
	p.establish(a)
	text := make([]byte, 60_000)
	pattern(text, 1, 0)
	for step := 1; step < 2000; step += 7 {
		for off := step; off+600 < len(text); off += 5000 + step {
			p.in(tcp.ACK, 1+off, 1, string(text[off:off+600]))
		}
		p.poll()
	}
	if p.conn.rcv.Held.Octets() > len(text) || p.conn.rcv.Held.Memory() > 2*p.e.cfg.RcvWnd+smallFrame {
		t.Fatalf("%d octets held in %d", p.conn.rcv.Held.Octets(), p.conn.rcv.Held.Memory())
	}
	for off := 0; off < len(text); off += 500 {
		p.in(tcp.ACK, 1+off, 1, string(text[off:off+500]))
	}
	a.check(t, &app{total: uint64(len(text)), seed: 1})
}

// TestOutOfWindowFlood sends data from everywhere outside the window: nothing
// is kept, one acknowledgement leaves per Poll, and the stream goes on.
func TestOutOfWindowFlood(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(0)
	p.establish(a)
	text := strings.Repeat("x", 1000)
	for i := range 20_000 {
		p.in(tcp.ACK, 1+p.e.cfg.RcvWnd+i*100_003, 1, text) // at most 2^31 ahead
		if i%64 == 63 {
			if got := p.poll(); strings.Count(got, "ACK") != 1 {
				t.Fatalf("sent %q", got)
			}
		}
	}
	if p.conn.rcv.Held.Memory() != 0 || p.pool.out != 0 || p.e.Stats().Drops[drop.TCPSequence]+p.e.Stats().Drops[drop.TCPDuplicate] != 20_000 {
		t.Fatalf("%d octets held, %d frames, drops %v", p.conn.rcv.Held.Memory(), p.pool.out, p.e.Stats().Drops)
	}
	p.in(tcp.ACK, 1, 1, "hello")
	if p.poll(); a.received != 5 || audit(p.conn) != nil {
		t.Fatalf("%d octets received", a.received)
	}
}
