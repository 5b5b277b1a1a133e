package iwarp

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

func TestIPv6(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	w.a.addr, w.b.addr = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	x := &pair{w, newEnd(t, w.a, 2<<20), newEnd(t, w.b, 2<<20)}
	if _, err := w.b.cm.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), port), 8, func(ev cm.Event, now frame.Time) {
		x.s.handle(ev, now)
		if ev.Type == cm.ConnectRequest {
			acceptAll(cm.Params{})(x.s, ev, now)
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	id := w.a.cm.NewID(x.c.handle, nil)
	if err := id.Connect(netip.AddrPortFrom(w.b.addr, port), cm.Params{QP: x.c.qp}, w.now); err != nil {
		t.Fatal(err)
	}
	w.must("connection", func() bool { return x.c.got(cm.ActiveComplete) })
	for _, n := range []int{0, 8, 100000} {
		transferAll(t, x, n)
	}
}

func TestFirstDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	x := connect(t, toe.Config{}, Config{FirstDelay: delay}, 4096)
	start := x.now
	x.s.recv(t, verbs.RecvWR{})
	x.c.post(t, verbs.SendWR{})
	x.must("send", func() bool { return len(x.s.poll()) == 1 })
	if d := x.now.Sub(start); d < delay-time.Millisecond || d > delay+time.Millisecond {
		t.Errorf("first FPDU after %v", d)
	}
	transferAll(t, x, 3000)
}

// TestManyConnections connects and disconnects side by side and leaves
// nothing behind.
func TestManyConnections(t *testing.T) {
	w := newWorld(t, toe.Config{TimeWait: time.Millisecond}, Config{})
	const n = 20
	var servers, clients []*end
	if _, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), n, func(ev cm.Event, now frame.Time) {
		if ev.Type != cm.ConnectRequest {
			ev.ID.Context.(*end).handle(ev, now)
			return
		}
		s := newEnd(t, w.b, 1<<16)
		servers = append(servers, s)
		ev.ID.Context = s
		if err := s.qp.Modify(verbs.Init); err != nil {
			t.Error(err)
		}
		s.recv(t, verbs.RecvWR{SGEs: s.sge(0, len(s.mem))})
		if err := ev.ID.Accept(cm.Params{QP: s.qp}, now); err != nil {
			t.Error(err)
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		servers, clients = nil, nil
		for i := range n {
			c := newEnd(t, w.a, 1<<16)
			clients = append(clients, c)
			fill(c.mem, i+round)
			c.id = w.a.cm.NewID(c.handle, nil)
			if err := c.id.Connect(netip.AddrPortFrom(w.b.addr, port), cm.Params{QP: c.qp}, w.now); err != nil {
				t.Fatal(err)
			}
		}
		w.must("connections", func() bool { return all(clients, cm.ActiveComplete) })
		for _, c := range clients {
			c.post(t, verbs.SendWR{SGEs: c.sge(0, 1<<16)})
			if err := c.id.Disconnect(false, w.now); err != nil {
				t.Fatal(err)
			}
		}
		w.must("ends", func() bool { return all(clients, cm.ClosedEvent) && all(servers, cm.ClosedEvent) })
		sum := 0
		for _, s := range servers {
			for _, c := range clients {
				if bytes.Equal(s.mem, c.mem) {
					sum++
				}
			}
		}
		if sum != n || len(servers) != n {
			t.Errorf("round %d: %d of %d messages arrived whole", round, sum, len(servers))
		}
		for _, e := range append(clients, servers...) {
			e.destroy(t)
		}
	}
	w.run(nil)
	if !w.a.e.Idle() || !w.b.e.Idle() || w.a.tcp.Stats().Open != 0 || w.pool.Lent() != 0 {
		t.Errorf("left: %d TCP connections, %d frames", w.a.tcp.Stats().Open, w.pool.Lent())
	}
}

func all(ends []*end, ev cm.EventType) bool {
	for _, e := range ends {
		if !e.got(ev) {
			return false
		}
	}
	return true
}

func (e *end) destroy(t testing.TB) {
	t.Helper()
	for _, f := range []func() error{e.qp.Destroy, e.mr.Dereg, e.cq.Destroy, e.pd.Dealloc} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
}

func TestShow(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<16)
	transferAll(t, x, 5000)
	qps, ceps := x.b.e.QPs(), x.b.e.CEPs()
	if len(qps) != 1 || len(ceps) != 2 {
		t.Fatalf("%d QPs, %d end points", len(qps), len(ceps))
	}
	q := qps[0]
	if q.State != "RTS" || q.IWARPState != "RTS" || !q.CRC || q.IRD != 32 || q.Remote.Addr() != x.a.addr || q.RxFPDUs == 0 ||
		q.RxMessages[0] != 1 || q.TxMessages[2] != 1 || q.RxBytes < 10000 {
		t.Errorf("%+v", q)
	}
	if ceps[0].State != "LISTEN" || ceps[1].State != "CONNECTED" || ceps[1].Phase != "full operation" || ceps[1].QP != 1 ||
		ceps[1].Revision != 2 || ceps[1].TCP == nil {
		t.Errorf("%+v", ceps)
	}
	for _, v := range []any{qps, ceps, x.b.e.Totals()} {
		b, err := json.Marshal(v)
		if err != nil || bytes.ContainsAny(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && !strings.Contains(string(b), `"RTS"`) && !strings.Contains(string(b), "LISTEN") {
			t.Errorf("%s %v", b, err)
		}
	}
	before := x.b.e.Totals()
	x.c.id.Disconnect(false, x.now)
	x.must("end", func() bool { return x.b.e.Idle() })
	if x.b.e.Totals() != before {
		t.Errorf("totals changed with the end: %+v, %+v", before, x.b.e.Totals())
	}
}

// A graceful close may take longer than CloseTimeout as long as data moves,
// and turns abortive when nothing does.
func TestCloseTimeout(t *testing.T) {
	for _, dead := range []bool{false, true} {
		x := connect(t, toe.Config{}, Config{CloseTimeout: 5 * time.Millisecond}, 4<<20)
		sent := 0
		x.a.out.drop = func(n int, _ frameArg) bool {
			sent++
			return dead && sent > 20
		}
		for i := range uint64(40) {
			x.c.post(t, verbs.SendWR{ID: i, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: x.c.sge(0, 4<<20), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
		}
		start := x.now
		x.c.id.Disconnect(false, x.now)
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) })
		took, last := x.now.Sub(start), x.c.poll()[39].Status
		if dead && (last != verbs.StatusFlushed || took > 50*time.Millisecond) || !dead && last != verbs.StatusSuccess {
			t.Errorf("dead %v: last request %v, took %v", dead, last, took)
		}
		if !dead && took < 6*time.Millisecond {
			t.Fatalf("only %v: the timeout was not put to the test", took)
		}
	}
}

// What is saved of a connection's beginning ends with the MPA reply.
func TestSavedContext(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<16)
	transferAll(t, x, 30000)
	for _, e := range []*end{x.c, x.s} {
		saved := endpointOf(e.qp).conn.tcp.Context()
		var have [2]int
		for _, p := range saved {
			have[0] += bytes.Count(p.Data, []byte("MPA ID Req Frame"))
			have[1] += bytes.Count(p.Data, []byte("MPA ID Rep Frame"))
		}
		if have != [2]int{1, 1} || len(saved) > 8 {
			t.Errorf("%d packets with %v start-up frames", len(saved), have)
		}
	}
}

func TestQPIsConnectedOnce(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	x := dial(t, w, 4096, cm.Params{}, acceptAll(cm.Params{}))
	second := w.a.cm.NewID(x.c.handle, nil)
	err := second.Connect(netip.AddrPortFrom(w.b.addr, port), cm.Params{QP: x.c.qp}, w.now)
	if !errors.Is(err, cm.ErrBusy) || second.State() != cm.Idle {
		t.Errorf("second connect: %v", err)
	}
	w.must("connection", func() bool { return x.c.got(cm.ActiveComplete) })
}

// A queue pair that is reset while its old connection still ends can be
// connected anew.
func TestResetAndReconnect(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<20)
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 1<<20), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
	if err := x.c.qp.Modify(verbs.Reset); err != nil {
		t.Fatal(err)
	}
	s2 := newEnd(t, x.b, 4096)
	x.s.n.cm.Listeners()[0].Close()
	if _, err := x.b.cm.Listen(netip.AddrPortFrom(x.b.addr, port), 1, func(ev cm.Event, now frame.Time) {
		s2.handle(ev, now)
		if ev.Type == cm.ConnectRequest {
			acceptAll(cm.Params{})(s2, ev, now)
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	c2 := &end{}
	id := x.a.cm.NewID(c2.handle, nil)
	if err := id.Connect(netip.AddrPortFrom(x.b.addr, port), cm.Params{QP: x.c.qp}, x.now); err != nil {
		t.Fatal(err)
	}
	x.must("second connection", func() bool { return c2.got(cm.ActiveComplete) && x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	x.c.wcs = nil
	x.c.poll()
	x.c.wcs = nil
	y := &pair{x.world, x.c, s2}
	y.c.post(t, verbs.SendWR{ID: 3, Flags: verbs.Signaled, Opcode: verbs.OpRead, SGEs: y.c.sge(0, 4096), RemoteAddr: s2.mr.Addr(), RKey: s2.mr.RKey()})
	y.must("read", func() bool { return len(y.c.poll()) == 1 })
	if y.c.wcs[0].Status != verbs.StatusSuccess || y.c.qp.State() != verbs.RTS {
		t.Errorf("%s %v", wcString(y.c.wcs), y.c.qp.State())
	}
}

func TestSharedReceiveQueue(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 4096)
	srq, err := x.s.pd.CreateSRQ(8, 1)
	if err != nil {
		t.Fatal(err)
	}
	ends := []*end{newEnd(t, x.a, 4096), newEnd(t, x.a, 4096)}
	x.b.cm.Listeners()[0].Close()
	accepted := 0
	if _, err := x.b.cm.Listen(netip.AddrPortFrom(x.b.addr, port), 4, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			qp, err := x.s.pd.CreateQP(verbs.QPConfig{SendCQ: x.s.cq, RecvCQ: x.s.cq, SRQ: srq})
			if err == nil {
				err = ev.ID.Accept(cm.Params{QP: qp}, now)
			}
			if err != nil {
				t.Error(err)
			}
			accepted++
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	for _, e := range ends {
		e.id = x.a.cm.NewID(e.handle, nil)
		if err := e.id.Connect(netip.AddrPortFrom(x.b.addr, port), cm.Params{QP: e.qp}, x.now); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(4) {
		if _, err := srq.PostRecv(verbs.RecvWR{ID: i, SGEs: x.s.sge(int(i)*8, 8)}); err != nil {
			t.Fatal(err)
		}
	}
	x.must("connections", func() bool { return all(ends, cm.ActiveComplete) })
	for _, e := range []*end{ends[0], ends[1], ends[1], ends[0]} {
		e.post(t, verbs.SendWR{SGEs: e.sge(0, 8)})
	}
	x.must("receives", func() bool { return len(x.s.poll()) == 4 })
	seen := map[uint64]bool{}
	for _, wc := range x.s.wcs {
		seen[wc.ID] = wc.Status == verbs.StatusSuccess
	}
	if len(seen) != 4 || srq.Len() != 0 || accepted != 2 {
		t.Errorf("%s", wcString(x.s.wcs))
	}
}

// What a queue pair has moved is known until it is destroyed, over all its
// connections, and is counted once in the totals.
func TestQPCountersOutliveConnections(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<16)
	for round := 1; round <= 2; round++ {
		transferAll(t, x, 5000)
		up := x.a.e.QPs()[0].Counters
		if err := x.c.id.Disconnect(false, x.now); err != nil {
			t.Fatal(err)
		}
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
		i := x.a.e.QPs()[0]
		if i.Counters != up || i.Counters != x.a.e.Totals() || up.TxMessages[rdmap.Write] != uint64(round) || i.Local.IsValid() {
			t.Errorf("round %d: %+v, connected %+v, totals %+v", round, i, up, x.a.e.Totals())
		}
		for _, e := range []*end{x.c, x.s} {
			if err := e.qp.Modify(verbs.Reset); err != nil {
				t.Fatal(err)
			}
			e.events, e.wcs = nil, nil
		}
		x.c.id = x.a.cm.NewID(x.c.handle, nil)
		if err := x.c.id.Connect(netip.AddrPortFrom(x.b.addr, port), cm.Params{QP: x.c.qp}, x.now); err != nil {
			t.Fatal(err)
		}
		x.must("connection", func() bool { return x.c.got(cm.ActiveComplete) && x.s.got(cm.PassiveComplete) })
	}
	total := x.a.e.Totals()
	if err := x.c.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	x.run(nil)
	if len(x.a.e.QPs()) != 0 || x.a.e.Totals().TxBytes < total.TxBytes {
		t.Errorf("%d queue pairs, %+v", len(x.a.e.QPs()), x.a.e.Totals())
	}
}
