package interop

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"tapir/nic/toe"
	"tapir/wire/frame"
)

func TestOpenClose(t *testing.T) { openClose(t, 1000, patience) }

// openClose opens and closes n connections with the kernel, in both roles and
// with either side first to close. In the end nothing is left: no connection,
// no timer, no memory.
func openClose(t *testing.T, n int, within time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	w, err := NewWorld(ctx, Cell{Peer: "linux", MTU: 1500}, 1, toe.Config{TimeWait: time.Second}, Linux)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// The kernel keeps each of its own TIME-WAITs for a minute: more than it has ports.
	if err := w.NS.Sysctl("ipv4/tcp_max_tw_buckets", "4096"); err != nil {
		t.Fatal(err)
	}
	c := newCycles(t, w)
	c.run(ctx, n/5)
	before := c.rest(ctx)
	c.run(ctx, n-n/5)
	if after := c.rest(ctx); after > before+256<<10 {
		t.Errorf("%d octets in use after %d connections, %d after %d", before, n/5, after, n)
	}
}

type cycles struct {
	t            *testing.T
	w            *World
	ours, theirs pattern
	accept       net.Listener
	next         *stream // the handler of the next passive open
	nic, peer    netip.AddrPort
}

func newCycles(t *testing.T, w *World) *cycles {
	c := &cycles{t: t, w: w, ours: newPattern(1), theirs: newPattern(2),
		nic: netip.AddrPortFrom(w.NICAddr(), port), peer: netip.AddrPortFrom(w.PeerAddr(), port)}
	var err error
	if c.accept, err = w.Peer.Listen(c.peer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.accept.Close() })
	w.Do(func(e *toe.Engine, _ frame.Time) {
		_, err = e.Listen(c.nic, 8, func(*toe.Conn, frame.Time) toe.Handler { return c.next })
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run is n connections one after the other.
func (c *cycles) run(ctx context.Context, n int) {
	c.t.Helper()
	for i := range n {
		const octets = 3000
		out, in := uint64(octets), uint64(octets)
		switch i / 2 % 3 {
		case 0:
			out = 0 // the NIC closes at once
		case 1:
			in = 0
		}
		ended := make(chan end, 1)
		s := newStream(c.ours, out, uint64(i), ended)
		conn, err := c.open(ctx, s, i%2 == 0)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := converse(conn, c.theirs, in).check("the kernel", c.ours, out); err != nil {
			c.t.Fatal(err)
		}
		conn.Close()
		select {
		case e := <-ended:
			if err := e.check("the NIC", c.theirs, in); err != nil {
				c.t.Fatal(err)
			}
		case <-ctx.Done():
			c.t.Fatalf("connection %d does not end", i)
		}
	}
}

func (c *cycles) open(ctx context.Context, s *stream, active bool) (conn net.Conn, err error) {
	if !active {
		c.w.Do(func(*toe.Engine, frame.Time) { c.next = s })
		return c.w.Peer.Dial(ctx, c.nic)
	}
	c.w.Do(func(e *toe.Engine, now frame.Time) {
		s.conn, err = e.Connect(netip.AddrPortFrom(c.nic.Addr(), 0), c.peer, s, now)
	})
	if err != nil {
		return nil, err
	}
	return c.accept.Accept()
}

// rest waits until the last TIME-WAIT is over and returns the memory in use.
func (c *cycles) rest(ctx context.Context) uint64 {
	c.t.Helper()
	for open := 1; open > 0; {
		if ctx.Err() != nil {
			c.t.Fatalf("%d connections are left", open)
		}
		time.Sleep(20 * time.Millisecond)
		c.w.Do(func(e *toe.Engine, now frame.Time) { open = e.Stats().Open })
	}
	c.w.Do(func(e *toe.Engine, now frame.Time) {
		if next := e.Poll(now); next != frame.Never {
			c.t.Errorf("a timer runs on: %v from now", next.Sub(now))
		}
		c.next = nil
	})
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
