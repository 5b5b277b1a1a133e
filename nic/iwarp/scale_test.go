package iwarp

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// crowd is many queue pairs between two NICs that share one region on each
// side.
type crowd struct {
	*world
	t       *testing.T
	sides   [2]*end // pd, cq, mr and mem of each side
	clients []*end
	servers map[*cm.ID]*end
	closed  int // IDs that have ended, on both sides
}

func newCrowd(t *testing.T, backlog int) *crowd {
	w := newWorld(t, toe.Config{TimeWait: 100 * time.Millisecond}, Config{})
	x := &crowd{world: w, t: t, servers: map[*cm.ID]*end{}}
	for i, n := range []*node{w.a, w.b} {
		x.sides[i] = newEnd(t, n, 1<<16)
		if err := x.sides[i].qp.Destroy(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), backlog, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			s := x.member(1)
			s.recv(t, verbs.RecvWR{SGEs: s.sge(0, 4096)})
			x.servers[ev.ID] = s
			acceptAll(cm.Params{})(s, ev, now)
			return
		}
		x.handle(x.servers[ev.ID], ev)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// member is one more queue pair of a side, in INIT.
func (x *crowd) member(side int) *end {
	e := *x.sides[side]
	var err error
	if e.qp, err = e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq}); err == nil {
		err = e.qp.Modify(verbs.Init)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return &e
}

func (x *crowd) handle(e *end, ev cm.Event) {
	if ev.Type == cm.ClosedEvent {
		x.closed++
	}
	e.events = append(e.events, ev)
}

// dial adds a client.
func (x *crowd) dial() *end {
	c := x.member(0)
	c.id = x.a.cm.NewID(func(ev cm.Event, _ frame.Time) { x.handle(c, ev) }, nil)
	if err := c.id.Connect(netip.AddrPortFrom(x.b.addr, port), cm.Params{QP: c.qp}, x.now); err != nil {
		x.t.Fatal(err)
	}
	x.clients = append(x.clients, c)
	return c
}

// clear destroys every queue pair and ID.
func (x *crowd) clear() {
	drop := func(e *end, id *cm.ID) {
		if err := e.qp.Destroy(); err != nil {
			x.t.Error(err)
		}
		if err := id.Destroy(); err != nil {
			x.t.Error(err)
		}
	}
	for _, c := range x.clients {
		drop(c, c.id)
	}
	for id, s := range x.servers {
		drop(s, id)
	}
	for _, s := range x.sides {
		s.poll()
		s.wcs, s.n.async = nil, nil
	}
	x.clients = x.clients[:0]
	clear(x.servers)
	x.closed = 0
}

// talk has every client write, read and send, and waits until all is done.
func (x *crowd) talk() {
	to := x.sides[1].mr
	for _, c := range x.clients {
		for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend} {
			c.post(x.t, verbs.SendWR{Opcode: op, Flags: verbs.Signaled, SGEs: c.sge(0, 4096), RemoteAddr: to.Addr(), RKey: to.RKey()})
		}
	}
	n := len(x.clients)
	x.must("work", func() bool { return len(x.sides[0].poll()) == 3*n && len(x.sides[1].poll()) == n })
	for _, s := range x.sides {
		for _, wc := range s.wcs {
			if wc.Status != verbs.StatusSuccess {
				x.t.Fatal(wcString(s.wcs[:1]))
			}
		}
	}
}

func (x *crowd) disconnect() {
	for _, c := range x.clients {
		if err := c.id.Disconnect(false, x.now); err != nil {
			x.t.Fatal(err)
		}
	}
	n := len(x.clients)
	x.must("ends", func() bool { return x.closed == 2*n })
}

// TestThousandQPs connects 1,000 queue pairs between two NICs, uses them all
// at once, and again: the memory stays the same.
func TestThousandQPs(t *testing.T) {
	const n = 1000
	x := newCrowd(t, n)
	var used [3]uint64
	for round := range used {
		for range n {
			x.dial()
		}
		x.must("connections", func() bool { return all(x.clients, cm.ActiveComplete) })
		x.talk()
		x.run(nil)
		used[round] = heap()
		x.disconnect()
		x.clear()
	}
	t.Logf("%d, %d, %d octets in use with %d queue pairs on each side", used[0], used[1], used[2], n)
	if used[2] > used[1]+used[1]/10 {
		t.Errorf("memory grows: %v octets", used)
	}
	if n := x.pool.Lent(); n != 0 {
		t.Errorf("%d frames are left", n)
	}
}

// TestConnectCycles connects, uses and disconnects 100,000 times: flat memory,
// no timer left.
func TestConnectCycles(t *testing.T) {
	const cycles, side = 100_000, 20 // side by side
	x := newCrowd(t, side)
	var before uint64
	for done := 0; done < cycles; done += side {
		for range side {
			x.dial()
		}
		x.must("connections", func() bool { return all(x.clients, cm.ActiveComplete) })
		if done%1000 == 0 {
			x.talk()
		}
		x.disconnect()
		x.clear()
		if done == cycles/10 {
			x.run(nil)
			before = heap()
		}
	}
	x.run(nil)
	after := heap()
	t.Logf("%d octets in use after %d cycles, %d after %d", before, cycles/10, after, cycles)
	if after > before+256<<10 {
		t.Errorf("memory grows from %d to %d octets", before, after)
	}
	for _, n := range []*node{x.a, x.b} {
		if st := n.tcp.Stats(); st.Open != 0 || n.next != frame.Never || len(n.cm.IDs()) != 0 {
			t.Errorf("%d connections of TCP and %d IDs are left, a timer is due at %v", st.Open, len(n.cm.IDs()), n.next)
		}
	}
}

// TestDepthOneNeverWaits: with one Write of 1 MiB at a time, no turn waits for
// a delayed acknowledgement.
func TestDepthOneNeverWaits(t *testing.T) {
	for _, segs := range []int{1, 45} {
		cfg := toe.Config{MaxSegs: segs, DelayedAck: time.Second}
		x := connect(t, cfg, Config{}, 1<<20)
		start := x.now
		const n = 50
		for i := range n {
			x.c.post(t, verbs.SendWR{ID: uint64(i), Flags: verbs.Signaled, Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 1<<20-i), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
			x.must("completion", func() bool { return len(x.c.poll()) == i+1 })
		}
		if took := x.now.Sub(start); took > 100*time.Millisecond {
			t.Errorf("%d segments per frame: %d Writes took %v", segs, n, took)
		}
	}
}
