package toe

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// timeWaitPeer reaches TIME-WAIT with timestamps in use; the peer's last one
// is 1000, its next sequence number 2.
func timeWaitPeer(t *testing.T, cfg Config) *rawPeer {
	p := newRawPeer(t, cfg)
	p.opts = tcp.Options{HasTS: true, TSVal: 1000}
	p.establish(quietApp(0))
	p.conn.Close()
	p.poll()
	p.in(fa, 1, 2, "")
	p.expect("ACK 2 ack 2")
	p.state(StateTimeWait)
	return p
}

// TestTimeWaitReuse is the table of RFC 6191 section 2.
func TestTimeWaitReuse(t *testing.T) {
	for _, r := range []struct {
		name  string
		opts  tcp.Options
		seq   int
		reuse bool
	}{
		{"newer timestamp, lower number", tcp.Options{HasTS: true, TSVal: 1001}, -5000, true},
		{"same timestamp, higher number", tcp.Options{HasTS: true, TSVal: 1000}, 3, true},
		{"same timestamp, lower number", tcp.Options{HasTS: true, TSVal: 1000}, -5000, false},
		{"older timestamp, higher number", tcp.Options{HasTS: true, TSVal: 999}, 5000, false},
		{"no timestamp, higher number", tcp.Options{}, 5000, true},
		{"no timestamp, lower number", tcp.Options{}, -5000, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := timeWaitPeer(t, Config{})
			old := tcp.Seq(p.engISN + 2)
			p.opts, p.engKnown = r.opts, false
			p.in(tcp.SYN, r.seq, 0, "")
			got := p.poll()
			if reused := p.last.Flags.Has(tcp.SYN); reused != r.reuse {
				t.Fatalf("sent %q", got)
			}
			if r.reuse && (!old.Less(p.last.Seq) || p.e.Stats().TimeWait != 0 || p.conn.State() != StateClosed) {
				t.Fatalf("the new sequence number %d does not follow %d", p.last.Seq, old)
			}
		})
	}
}

// TestTimeWaitLeavesThePort: when the last connection of a listener is in TIME-WAIT, the
// operating system can have the port, but not segments of that connection; a new
// connection of the same ends is the operating system's.
func TestTimeWaitLeavesThePort(t *testing.T) {
	o := &osPorts{}
	p := timeWaitPeer(t, Config{Reserve: o.reserve})
	for len(p.e.listeners) > 0 {
		p.e.listeners[0].Close()
	}
	if len(o.held) != 0 || !p.e.Owns(p.local, p.remote) {
		t.Fatalf("reserved: %v; the connection is the engine's: %v", o.held, p.e.Owns(p.local, p.remote))
	}
	p.in(fa, 1, 2, "")
	p.expect("ACK 2 ack 2")
	p.opts = tcp.Options{HasTS: true, TSVal: 1001}
	if p.in(tcp.SYN, 100, 0, "") || p.e.Owns(p.local, p.remote) || p.e.Stats().TimeWait != 0 {
		t.Error("a new connection to a port of the operating system's is kept from it")
	}
}

// TestTimeWaitReuseByConnect opens the same 4-tuple again.
func TestTimeWaitReuseByConnect(t *testing.T) {
	p := timeWaitPeer(t, Config{FirstPort: 4420, LastPort: 4420})
	local := netip.AddrPortFrom(p.local.Addr(), 0)
	for len(p.e.listeners) > 0 {
		p.e.listeners[0].Close()
	}
	if _, err := p.e.Connect(local, p.remote, quietApp(0), p.now); err == nil {
		t.Fatal("reused at once")
	}
	c, err := p.e.Connect(local, p.remote, quietApp(0), p.now.Add(reuseAfter))
	if err != nil || c.Local() != p.local || p.e.Stats().TimeWait != 0 {
		t.Fatal(err)
	}
}

func TestTimeWaitLength(t *testing.T) {
	p := timeWaitPeer(t, Config{TimeWait: time.Second})
	p.wait(900 * time.Millisecond)
	p.in(fa, 1, 2, "") // begins anew
	p.expect("ACK 2 ack 2")
	p.wait(900 * time.Millisecond)
	p.state(StateTimeWait)
	p.wait(101 * time.Millisecond)
	p.state(StateClosed)
	if p.e.waits.Len() != 0 || p.e.Poll(p.now) != frame.Never {
		t.Fatal("records are left")
	}
}

func TestTimeWaitIsBounded(t *testing.T) {
	p := newRawPeer(t, Config{MaxTimeWait: 3})
	if _, err := p.e.Listen(p.local, 4, func(c *Conn, _ frame.Time) Handler { p.conn = c; return quietApp(0) }); err != nil {
		t.Fatal(err)
	}
	for port := uint16(1); port <= 5; port++ {
		p.remote, p.engKnown = addrPortOf("10.0.0.2", port), false
		p.in(tcp.SYN, 0, 0, "")
		p.poll()
		p.in(tcp.ACK, 1, 1, "")
		p.conn.Close()
		p.poll()
		p.in(fa, 1, 2, "")
		p.poll()
	}
	if s := p.e.Stats(); s.TimeWait != 3 || s.TimeWaitOverflows != 2 {
		t.Fatalf("%d waiting, %d cut short", s.TimeWait, s.TimeWaitOverflows)
	}
	if p.e.Owns(p.local, addrPortOf("10.0.0.2", 1)) != true || p.e.waits.Find(p.local, addrPortOf("10.0.0.2", 2)) != nil {
		t.Fatal("not the oldest ones have gone")
	}
}

// TestTimeWaitAnswersAreLimited throws old segments at a record.
func TestTimeWaitAnswersAreLimited(t *testing.T) {
	p := timeWaitPeer(t, Config{})
	for range 100 {
		p.in(tcp.ACK, 1, 2, "x")
		p.in(tcp.SYN, -100, 0, "")
	}
	p.poll()
	if len(p.out) != challengesPerSecond {
		t.Fatalf("%d answers", len(p.out))
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// tiny is a Handler for many connections: it sends one octet and closes once
// it has got one.
type tiny struct {
	stay bool
	up   *int
	down *int
}

func (h *tiny) Next(off uint64, limit int) int { return int(1 - min(off, 1)) }
func (h *tiny) Render(off uint64, p []byte)    { p[0] = 'x' }
func (h *tiny) Established(c *Conn, now frame.Time) {
	*h.up++
	c.SaveContext(false)
	c.Kick()
}
func (h *tiny) Receive(c *Conn, data []byte, now frame.Time) {
	if !h.stay {
		c.Close()
	}
}
func (h *tiny) Acked(c *Conn, off uint64, now frame.Time) {}
func (h *tiny) PeerClosed(c *Conn, now frame.Time)        { c.Close() }
func (h *tiny) Closed(c *Conn, err error, now frame.Time) { *h.down++ }

// TestTenThousandConnections has them open at once, and bounds what each
// costs when idle.
func TestTenThousandConnections(t *testing.T) {
	const n = 10_000
	w := newWorld(t, 1, Config{}, Config{MaxHalfOpenPerPort: n, MaxHalfOpenPerHost: n}, faults{}, false)
	up, down := 0, 0
	if _, err := w.b.e.Listen(addrPort(w.b, 4420), n, func(c *Conn, now frame.Time) Handler {
		return &tiny{stay: true, up: &up, down: &down}
	}); err != nil {
		t.Fatal(err)
	}
	before := heapInUse()
	for range n {
		if _, err := w.a.e.Connect(addrPort(w.a, 0), addrPort(w.b, 4420), &tiny{stay: true, up: &up, down: &down}, w.now); err != nil {
			t.Fatal(err)
		}
	}
	w.steps = 1 // the audit of all at every 16th step would take too long
	for range 400 {
		w.steps = 1
		if w.run(100*time.Millisecond, func() bool { return up == 2*n || w.steps >= 15 }) && up == 2*n {
			break
		}
	}
	w.runFor(time.Second)
	if up != 2*n || w.a.e.Stats().Open != n || w.b.e.Stats().Open != n {
		t.Fatalf("%d sides established", up)
	}
	w.queue, w.pool.small = nil, nil
	if each := (heapInUse() - before) / (2 * n); each > idleConnOctets {
		t.Fatalf("an idle connection takes %d octets", each)
	} else {
		t.Logf("an idle connection takes %d octets", each)
	}
	for c := range w.a.e.Conns {
		c.Abort()
	}
	w.runFor(time.Second)
	if w.b.e.Stats().Open != 0 || w.b.e.timers.Len()+w.a.e.timers.Len() != 0 || w.pool.out != 0 {
		t.Fatalf("left: %+v", w.b.e.Stats())
	}
}

// idleConnOctets bounds a connection without data, with its place in the
// engine's tables.
const idleConnOctets = 3 << 10

// TestOpenAndCloseForEver opens and closes 100,000 connections in virtual
// time with a TIME-WAIT of 60 s; memory stays flat.
func TestOpenAndCloseForEver(t *testing.T) {
	const n, wave = 100_000, 100
	w := newWorld(t, 1, Config{}, Config{}, faults{}, false)
	up, down := 0, 0
	if _, err := w.b.e.Listen(addrPort(w.b, 4420), wave, func(c *Conn, now frame.Time) Handler {
		return &tiny{up: &up, down: &down}
	}); err != nil {
		t.Fatal(err)
	}
	var middle uint64
	for i := 0; i < n; i += wave {
		for range wave {
			if _, err := w.a.e.Connect(addrPort(w.a, 0), addrPort(w.b, 4420), &tiny{up: &up, down: &down}, w.now); err != nil {
				t.Fatal(err)
			}
		}
		w.runFor(500 * time.Millisecond)
		if down != 2*(i+wave) {
			t.Fatalf("%d of %d ends after %d connections", down, 2*(i+wave), i+wave)
		}
		if i == n/2 {
			middle = heapInUse()
		}
	}
	waiting := w.a.e.Stats().TimeWait + w.b.e.Stats().TimeWait
	if waiting < 119*wave || waiting > 2*120*wave {
		t.Fatalf("%d in TIME-WAIT", waiting)
	}
	if end := heapInUse(); end > middle+1<<20 { // 21 octets for each of the last 50,000
		t.Fatalf("memory grew from %d to %d octets", middle, end)
	}
	w.rest()
}
