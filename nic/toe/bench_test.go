package toe

import (
	"net/netip"
	"testing"

	"tapir/wire/frame"
	"tapir/wire/ip"
)

// bulk is a Handler without a memory of its own: it always has data, in
// records of one full segment, and swallows what it gets.
type bulk struct {
	conn     *Conn
	end      uint64
	limit    uint64 // sends up to here
	received uint64
	payload  []byte
}

func (b *bulk) Next(off uint64, limit int) int {
	b.end = max(b.end, off)
	return int(min(uint64(limit), b.limit-min(b.limit, off)))
}
func (b *bulk) Render(off uint64, p []byte)                  { copy(p, b.payload) }
func (b *bulk) Established(c *Conn, now frame.Time)          { b.conn = c }
func (b *bulk) Receive(c *Conn, data []byte, now frame.Time) { b.received += uint64(len(data)) }
func (b *bulk) Acked(c *Conn, off uint64, now frame.Time)    {}
func (b *bulk) PeerClosed(c *Conn, now frame.Time)           {}
func (b *bulk) Closed(c *Conn, err error, now frame.Time)    {}

// wirePair is two engines whose frames are handed over without a copy.
type wirePair struct {
	now  frame.Time
	ends [2]*pairEnd
}

type pairEnd struct {
	e     *Engine
	queue []*frame.Frame
	drop  int // lose every drop-th frame
	lose  func() bool
	n     int
}

func (p *pairEnd) Room() int { return 64 - len(p.queue) }
func (p *pairEnd) Transmit(f *frame.Frame, dst netip.Addr, _ frame.Time) {
	if p.n++; p.drop > 0 && p.n%p.drop == 0 || p.lose != nil && p.lose() {
		f.Release()
		return
	}
	p.queue = append(p.queue, f)
}

func newPair(tb testing.TB, cfg Config) (w *wirePair, a, b *bulk) {
	pool := &testPool{}
	w = &wirePair{now: 1}
	for i := range w.ends {
		w.ends[i] = &pairEnd{queue: make([]*frame.Frame, 0, 64)}
		cfg.Secret[0] = byte(i)
		w.ends[i].e = New(cfg, pool, w.ends[i], nil)
	}
	a, b = &bulk{payload: make([]byte, 64<<10)}, &bulk{payload: make([]byte, 64<<10)}
	remote := netip.MustParseAddrPort("10.0.0.2:4420")
	if _, err := w.ends[1].e.Listen(remote, 1, func(c *Conn, now frame.Time) Handler { return b }); err != nil {
		tb.Fatal(err)
	}
	if _, err := w.ends[0].e.Connect(netip.MustParseAddrPort("10.0.0.1:0"), remote, a, w.now); err != nil {
		tb.Fatal(err)
	}
	for range 4 {
		w.step()
	}
	if a.conn == nil || b.conn == nil {
		tb.Fatal("not connected")
	}
	a.conn.SaveContext(false)
	b.conn.SaveContext(false)
	return w, a, b
}

// step lets 10 microseconds pass, and each end send and receive once.
func (w *wirePair) step() {
	w.now += 10_000
	for i, end := range w.ends {
		end.e.Poll(w.now)
		for _, f := range end.queue {
			h, seg, _ := ip.Parse(f.Bytes())
			w.ends[1-i].e.Segment(&h, seg, f.Offload, w.now)
			f.Release()
		}
		end.queue = end.queue[:0]
	}
}

// send moves n octets from a to b.
func (w *wirePair) send(tb testing.TB, a, b *bulk, n uint64) {
	a.limit += n
	a.conn.Kick()
	for steps := 0; b.received < a.limit; steps++ {
		if w.step(); steps > 1_000_000 {
			tb.Fatal("no progress")
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	for _, r := range []struct {
		name string
		cfg  Config
		drop int
		n    uint64
	}{
		{"bulk", Config{}, 0, 200 << 10},
		{"bulk gso", Config{MaxSegs: 44}, 0, 1 << 20},
		{"ping", Config{}, 0, 8},
		{"lossy", Config{}, 50, 400 << 10},
	} {
		t.Run(r.name, func(t *testing.T) {
			w, a, b := newPair(t, r.cfg)
			w.send(t, a, b, 16<<20)
			w.ends[0].drop = r.drop
			w.send(t, a, b, 16<<20)
			if n := testing.AllocsPerRun(50, func() { w.send(t, a, b, r.n) }); n != 0 {
				t.Fatalf("%v allocations per %d octets", n, r.n)
			}
			if r.drop > 0 && a.conn.Info().Retransmits == 0 {
				t.Fatal("nothing was lost")
			}
		})
	}
}

// benchBulk reports the time per segment of both engines together.
func benchBulk(b *testing.B, cfg Config, drop int) {
	w, tx, rx := newPair(b, cfg)
	w.send(b, tx, rx, 16<<20)
	w.ends[0].drop = drop
	mss := uint64(tx.conn.MSS())
	b.SetBytes(int64(mss))
	b.ReportAllocs()
	b.ResetTimer()
	for left := uint64(b.N) * mss; left > 0; {
		n := min(left, 4<<20)
		w.send(b, tx, rx, n)
		left -= n
	}
}

func BenchmarkBulkWire(b *testing.B)     { benchBulk(b, Config{}, 0) }
func BenchmarkBulkGSO(b *testing.B)      { benchBulk(b, Config{MaxSegs: 44}, 0) }
func BenchmarkBulkJumbo(b *testing.B)    { benchBulk(b, Config{MaxSegs: 44, MTU: 9000}, 0) }
func BenchmarkBulkWireLoss(b *testing.B) { benchBulk(b, Config{}, 100) }

// BenchmarkPingPong reports the time of one small message and its answer.
func BenchmarkPingPong(b *testing.B) {
	w, x, y := newPair(b, Config{})
	b.ReportAllocs()
	for range b.N {
		w.send(b, x, y, 8)
		w.send(b, y, x, 8)
	}
}

// BenchmarkSegmentIn reports the time of one in-order full segment.
func BenchmarkSegmentIn(b *testing.B) {
	w, tx, rx := newPair(b, Config{})
	tx.limit = 1 << 62
	b.SetBytes(int64(tx.conn.MSS()))
	b.ReportAllocs()
	for n := 0; n < b.N; {
		b.StopTimer()
		tx.conn.Kick()
		w.now += 10_000
		w.ends[0].e.Poll(w.now)
		b.StartTimer()
		for _, f := range w.ends[0].queue {
			h, seg, _ := ip.Parse(f.Bytes())
			rx.conn.e.Segment(&h, seg, f.Offload, w.now)
			f.Release()
			n++
		}
		b.StopTimer()
		w.ends[0].queue = w.ends[0].queue[:0]
		w.step()
		b.StartTimer()
	}
}

// BenchmarkSegmentOut reports the time of one full segment sent, up to the
// link.
func BenchmarkSegmentOut(b *testing.B) {
	w, tx, _ := newPair(b, Config{})
	tx.limit = 1 << 62
	b.SetBytes(int64(tx.conn.MSS()))
	b.ReportAllocs()
	for n := 0; n < b.N; {
		tx.conn.Kick()
		w.now += 10_000
		w.ends[0].e.Poll(w.now)
		n += len(w.ends[0].queue)
		b.StopTimer()
		for _, f := range w.ends[0].queue {
			h, seg, _ := ip.Parse(f.Bytes())
			w.ends[1].e.Segment(&h, seg, f.Offload, w.now)
			f.Release()
		}
		w.ends[0].queue = w.ends[0].queue[:0]
		w.step()
		b.StartTimer()
	}
}
