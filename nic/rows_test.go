package nic

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/iwarp"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// A key of one protection domain opens nothing to a queue pair of another: neither
// its own requests nor the peer's reach the memory.
func TestDomainsAreApart(t *testing.T) { overBoth(t, testDomainsAreApart) }

func testDomainsAreApart(t *testing.T, cfg Config) {
	for _, remote := range []bool{false, true} {
		w, a, b := twoNICs(t, cfg)
		c, s := dial(w, a, b, peer4, 4096)
		side := map[bool]*rdmaEnd{false: c, true: s}[remote]
		other, err := side.n.dev.Verbs.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		hidden := bytes.Repeat([]byte{7}, 64)
		mr, err := other.RegMR(hidden, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		wr := verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: s.mr.Addr(), RKey: s.mr.RKey(),
			SGEs: []verbs.SGE{c.sge(0, 64)}}
		want := verbs.StatusRemoteAccess
		if remote {
			wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
		} else {
			wr.SGEs[0] = verbs.SGE{Addr: mr.Addr(), Length: 64, LKey: mr.LKey()}
			want = verbs.StatusLocalProtection
		}
		if _, err := c.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
		w.until(10*time.Second, func() bool { return c.completions() == 1 && c.qp.State() == verbs.Err })
		if c.wcs[0].Status != want || c.mem[0] != 0 || !bytes.Equal(hidden, bytes.Repeat([]byte{7}, 64)) {
			t.Errorf("remote %v: %v, memory %v %v", remote, c.wcs[0].Status, c.mem[0], hidden[0])
		}
		if err := other.Dealloc(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("a domain with a region: %v", err)
		}
		if err := errors.Join(mr.Dereg(), other.Dealloc()); err != nil {
			t.Error(err)
		}
	}
}

// Each user of a NIC has a doorbell page of its own, as long as there are any; that
// of one who has gone is the next one's.
func TestDoorbellPagesOfUsers(t *testing.T) { overBoth(t, testDoorbellPagesOfUsers) }

func testDoorbellPagesOfUsers(t *testing.T, cfg Config) {
	cfg.RDMA.MinDPIs = 2
	_, a, _ := twoNICs(t, cfg)
	one, err := a.dev.Verbs.Open("one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := a.dev.Verbs.Open("two")
	if err != nil || one.DPI() == two.DPI() {
		t.Fatalf("pages %d and %d: %v", one.DPI(), two.DPI(), err)
	}
	if _, err := a.dev.Verbs.Open("three"); !errors.Is(err, verbs.ErrLimit) {
		t.Errorf("a third user of two pages: %v", err)
	}
	if pd, err := one.AllocPD(); err != nil || !errors.Is(one.Close(), verbs.ErrBusy) || pd.Dealloc() != nil {
		t.Error("a user with a domain has left")
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if three, err := a.dev.Verbs.Open("three"); err != nil || three.DPI() == two.DPI() {
		t.Errorf("the next user: %v", err)
	}
}

// A completion queue says where it notifies: the interrupts are those of its own
// notification queue.
func TestNotificationQueues(t *testing.T) { overBoth(t, testNotificationQueues) }

func testNotificationQueues(t *testing.T, cfg Config) {
	cfg.RDMA.DesiredCNQs = 2
	w, a, b := twoNICs(t, cfg)
	ctx, err := a.dev.Verbs.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	for vector, name := range []string{"cnq 0", "cnq 1"} {
		c, s := newEnd(t, a, 64), newEnd(t, b, 64)
		told := 0
		c.pd, err = ctx.AllocPD()
		if err == nil {
			c.cq, err = ctx.CreateCQ(16, vector, func(*verbs.CQ, frame.Time) { told++ })
		}
		if err == nil {
			c.mr, err = c.pd.RegMR(c.mem, verbs.LocalWrite)
		}
		if err == nil {
			c.qp, err = c.pd.CreateQP(verbs.QPConfig{SendCQ: c.cq, RecvCQ: c.cq})
		}
		if err != nil {
			t.Fatal(err)
		}
		w.connect(c, s, vector)
		before := [2]uint64{a.irq("cnq 0").Interrupts, a.irq("cnq 1").Interrupts}
		c.cq.ReqNotify(false)
		c.post(verbs.OpWrite, 64, s)
		w.until(time.Second, func() bool { return told == 1 })
		for i, n := range []uint64{a.irq("cnq 0").Interrupts, a.irq("cnq 1").Interrupts} {
			if want := before[i] + map[bool]uint64{true: 1}[i == vector]; n != want {
				t.Errorf("a queue of %s: %d interrupts of cnq %d, want %d", name, n, i, want)
			}
		}
	}
	if _, err := ctx.CreateCQ(16, 2, nil); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a third notification queue: %v", err)
	}
}

// connect is join at a port of its own.
func (w *world) connect(client, server *rdmaEnd, n int) {
	w.t.Helper()
	at := netip.AddrPortFrom(peer4, rdmaPort+uint16(n))
	l, err := server.n.dev.CM.Listen(at, 4, server.handle, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	client.id = client.n.dev.CM.NewID(client.handle, nil)
	if err := client.id.Connect(at, cm.Params{QP: client.qp, IRD: 8, ORD: 8}, w.now); err != nil {
		w.t.Fatal(err)
	}
	w.until(10*time.Second, func() bool { return client.saw(cm.ActiveComplete) && server.saw(cm.PassiveComplete) })
	l.Close()
}

// A completion queue is resized under a connection: what waits stays in order,
// what comes has room, and it cannot become smaller than what it holds.
func TestResizeUnderTraffic(t *testing.T) { overBoth(t, testResizeUnderTraffic) }

func testResizeUnderTraffic(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	c, s := dial(w, a, b, peer4, 4096)
	write := func(ids ...uint64) {
		for _, id := range ids {
			wr := verbs.SendWR{ID: id, Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: s.mr.Addr(), RKey: s.mr.RKey(),
				SGEs: []verbs.SGE{c.sge(0, 8)}}
			if _, err := c.qp.PostSend(wr); err != nil {
				t.Fatal(err)
			}
		}
		w.run(10 * time.Millisecond)
	}
	write(0, 1, 2)
	if err := c.cq.Resize(2); !errors.Is(err, verbs.ErrInvalid) || c.cq.Cap() != 64 {
		t.Errorf("smaller than what waits: %v, room for %d", err, c.cq.Cap())
	}
	if err := c.cq.Resize(3); err != nil || c.cq.Free() != 0 {
		t.Errorf("as small as what waits: %v, %d free", err, c.cq.Free())
	}
	if err := c.cq.Resize(100); err != nil {
		t.Fatal(err)
	}
	write(3, 4, 5, 6, 7, 8, 9)
	if c.completions() != 10 || a.dev.Verbs.Raised(verbs.EventCQError) != 0 {
		t.Fatalf("%d completions", len(c.wcs))
	}
	for i, wc := range c.wcs {
		if wc.ID != uint64(i) {
			t.Errorf("completion %d is of request %d", i, wc.ID)
		}
	}
	if err := c.cq.Destroy(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("destroyed under a queue pair: %v", err)
	}
	if err := errors.Join(c.qp.Destroy(), c.cq.Destroy()); err != nil {
		t.Error(err)
	}
}

// With nothing left for a connection, here ports, Connect fails at once and there
// is no event; what Connect has begun ends by one.
func TestConnectWithoutResources(t *testing.T) {
	w, a, _ := twoNICs(t, Config{TCP: toe.Config{FirstPort: 50000, LastPort: 50000}})
	at := netip.AddrPortFrom(peer4, rdmaPort) // where nobody listens
	var ends [2]*rdmaEnd
	for i, want := range []error{nil, cm.ErrNoResources} {
		e := newEnd(t, a, 64)
		if err := a.dev.CM.NewID(e.handle, nil).Connect(at, cm.Params{QP: e.qp}, w.now); !errors.Is(err, want) {
			t.Errorf("connection %d: %v, want %v", i, err, want)
		}
		ends[i] = e
	}
	w.until(10*time.Second, func() bool { return ends[0].saw(cm.Refused) })
	if w.run(time.Second); len(ends[1].events) != 0 {
		t.Errorf("events of a connection that was not begun: %v", ends[1].events)
	}
}

// names are what a side has been told, in order.
func (e *rdmaEnd) names() (list []string) {
	for _, ev := range e.events {
		list = append(list, ev.Type.String())
	}
	return list
}

// However a connection ends, each side is told that it ends and then, last of all,
// that nothing is left of it; the queue pairs are in error.
func TestEndsOfAConnection(t *testing.T) {
	both := [2]bool{true, true}
	for name, c := range map[string]struct {
		end     func(w *world, c, s *rdmaEnd)
		orderly [2]bool // as the two sides see it
	}{
		"gracefully": {func(w *world, c, _ *rdmaEnd) { _ = c.id.Disconnect(false, w.now) }, both},
		"by both": {func(w *world, c, s *rdmaEnd) { _, _ = c.id.Disconnect(false, w.now), s.id.Disconnect(false, w.now) },
			both},
		"by SQD":     {func(_ *world, c, _ *rdmaEnd) { _ = c.qp.Modify(verbs.SQD) }, both},
		"abortively": {func(w *world, c, _ *rdmaEnd) { _ = c.id.Disconnect(true, w.now) }, [2]bool{}},
		"by Err":     {func(_ *world, c, _ *rdmaEnd) { _ = c.qp.Modify(verbs.Err) }, [2]bool{}},
		"too late": {func(w *world, c, s *rdmaEnd) { // the peer takes nothing, and the graceful end becomes an abortive one
			w.lose = func(from *node, _ []byte) bool { return from == s.n }
			_ = c.id.Disconnect(false, w.now)
		}, [2]bool{false, true}},
	} {
		w, a, b := twoNICs(t, Config{})
		cl, s := dial(w, a, b, peer4, 64)
		c.end(w, cl, s)
		w.until(time.Hour, func() bool { return cl.saw(cm.ClosedEvent) })
		w.lose = nil
		w.run(time.Hour)
		for side, e := range []*rdmaEnd{cl, s} {
			got := e.names()
			if n := len(got); n < 3 || !slices.Equal(got[n-2:], []string{cm.Disconnected.String(), cm.ClosedEvent.String()}) {
				t.Errorf("%s: %s was told %q", name, e.n.dev.Config().Name, got)
				continue
			}
			err := e.events[len(e.events)-2].Err
			if (err == nil) != c.orderly[side] || e.qp.State() != verbs.Err {
				t.Errorf("%s: %s ends with %v, in state %v", name, e.n.dev.Config().Name, err, e.qp.State())
			}
		}
	}
}

// The states of a queue pair have two names, InfiniBand's and iWARP's: tapir show
// qp has the latter, from before the connection to its end.
func TestStatesHaveTwoNames(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	c, s := newEnd(t, a, 64), newEnd(t, b, 64)
	var seen []string
	look := func() {
		for _, q := range a.dev.ShowQP() {
			if q.Num == c.qp.Num() {
				seen = append(seen, fmt.Sprint(c.qp.State(), "=", q.IWARPState))
			}
		}
	}
	look()
	if err := c.qp.Modify(verbs.Init); err != nil {
		t.Fatal(err)
	}
	look()
	if err := c.qp.Modify(verbs.RTS); !errors.Is(err, verbs.ErrState) {
		t.Errorf("to RTS without the connection manager: %v", err)
	}
	join(w, c, s, peer4)
	look()
	if err := c.qp.Modify(verbs.SQD); err != nil {
		t.Fatal(err)
	}
	look()
	w.until(10*time.Second, func() bool { return c.saw(cm.ClosedEvent) })
	look()
	if want := []string{"RESET=IDLE", "INIT=IDLE", "RTS=RTS", "SQD=CLOSING", "ERR=ERROR"}; !slices.Equal(seen, want) {
		t.Errorf("states %q, want %q", seen, want)
	}
}

// Private data of the longest length goes both ways, with request and reply or
// refusal; one octet more is refused where it is asked for.
func TestLongestPrivateData(t *testing.T) {
	for _, accept := range []bool{true, false} {
		w, a, b := twoNICs(t, Config{})
		long := bytes.Repeat([]byte("private!"), iwarp.MaxPrivateData/8+1)[:iwarp.MaxPrivateData+1]
		c, s := newEnd(t, a, 64), newEnd(t, b, 64)
		var asked, answered []byte
		at := netip.AddrPortFrom(peer4, rdmaPort)
		_, err := b.dev.CM.Listen(at, 1, func(ev cm.Event, now frame.Time) {
			if ev.Type != cm.ConnectRequest {
				return
			}
			asked = ev.PrivateData
			answer := func(data []byte) error {
				if accept {
					return ev.ID.Accept(cm.Params{QP: s.qp, PrivateData: data}, now)
				}
				return ev.ID.Reject(data, now)
			}
			if err := answer(long); !errors.Is(err, cm.ErrInvalid) {
				t.Errorf("answered with %d octets: %v", len(long), err)
			}
			if err := answer(long[1:]); err != nil {
				t.Error(err)
			}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		id := a.dev.CM.NewID(func(ev cm.Event, _ frame.Time) {
			if ev.Type == cm.ActiveComplete || ev.Type == cm.Rejected {
				answered = ev.PrivateData
			}
		}, nil)
		if err := id.Connect(at, cm.Params{QP: c.qp, PrivateData: long}, w.now); !errors.Is(err, cm.ErrInvalid) ||
			!strings.Contains(err.Error(), "508") {
			t.Errorf("asked with %d octets: %v", len(long), err)
		}
		id = a.dev.CM.NewID(func(ev cm.Event, _ frame.Time) {
			if ev.Type == cm.ActiveComplete || ev.Type == cm.Rejected {
				answered = ev.PrivateData
			}
		}, nil)
		if err := id.Connect(at, cm.Params{QP: c.qp, PrivateData: long[:iwarp.MaxPrivateData]}, w.now); err != nil {
			t.Fatal(err)
		}
		w.until(10*time.Second, func() bool { return answered != nil })
		if !bytes.Equal(asked, long[:iwarp.MaxPrivateData]) || !bytes.Equal(answered, long[1:]) {
			t.Errorf("accepted %v: %d octets asked, %d answered", accept, len(asked), len(answered))
		}
	}
}

// Nothing of a connection can be destroyed from within a handler; the asynchronous
// calls do it there, and no handler of the object runs afterwards.
func TestDestroyFromAHandler(t *testing.T) { overBoth(t, testDestroyFromAHandler) }

func testDestroyFromAHandler(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	c, s := dial(w, a, b, peer4, 64)
	var order []string
	done := func(what string) func(error) {
		return func(err error) { order = append(order, fmt.Sprint(what, " ", err)) }
	}
	s.cq.SetHandler(func(cq *verbs.CQ, _ frame.Time) {
		order = append(order, "handler")
		for _, err := range []error{s.qp.Destroy(), cq.Destroy(), s.mr.Dereg(), s.pd.Dealloc()} {
			if !errors.Is(err, verbs.ErrInCallback) {
				t.Errorf("destroyed in a handler: %v", err)
			}
		}
		cq.ReqNotify(false)
		s.qp.DestroyAsync(done("queue pair"))
		cq.DestroyAsync(done("queue"))
		s.mr.DeregAsync(done("region"))
		s.pd.DeallocAsync(done("domain"))
	})
	if _, err := s.qp.PostRecv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{s.sge(0, 64)}}, verbs.RecvWR{ID: 2}); err != nil {
		t.Fatal(err)
	}
	s.cq.ReqNotify(false)
	c.post(verbs.OpSend, 8, s)
	w.until(10*time.Second, func() bool { return len(order) == 5 })
	if want := []string{"handler", "queue pair <nil>", "queue <nil>", "region <nil>", "domain <nil>"}; !slices.Equal(order,
		want) {
		t.Errorf("%q, want %q", order, want)
	}
	if left := b.dev.Verbs.Objects(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A region is registered for each transfer alone: the key of one that is over opens
// nothing, though the memory is the same.
func TestRegistrationForEachTransfer(t *testing.T) { overBoth(t, testRegistrationForEachTransfer) }

func testRegistrationForEachTransfer(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	c, s := dial(w, a, b, peer4, 4096)
	var old uint32
	keys := map[uint32]bool{}
	for i := range 50 {
		mr, err := s.pd.RegMemory(verbs.Bytes(s.mem), 0x1000, verbs.LocalWrite|verbs.RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		fill(c.mem, byte(i))
		wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: 0x1000, RKey: mr.RKey(),
			SGEs: []verbs.SGE{c.sge(0, 4096)}}
		if _, err := c.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
		w.until(time.Second, func() bool { return c.completions() == i+1 && bytes.Equal(c.mem, s.mem) })
		if err := mr.Dereg(); err != nil {
			t.Fatal(err)
		}
		old, keys[mr.RKey()] = mr.RKey(), true
	}
	if len(keys) != 50 {
		t.Errorf("%d keys of 50 registrations", len(keys))
	}
	clear(c.mem)
	if _, err := c.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: 0x1000, RKey: old,
		SGEs: []verbs.SGE{c.sge(0, 64)}}); err != nil {
		t.Fatal(err)
	}
	w.until(10*time.Second, func() bool { return s.qp.State() == verbs.Err })
	if s.mem[1] == 0 || b.dev.Verbs.Raised(verbs.EventQPAccessError) != 1 {
		t.Error("an old key still opens the memory")
	}
}

// lost is memory that has gone: each access fails.
type lost struct{}

func (lost) Len() uint64                  { return 1 << 20 }
func (lost) Slice(uint64, int) []byte     { return nil }
func (lost) ReadAt([]byte, uint64) error  { return errors.New("lost") }
func (lost) WriteAt([]byte, uint64) error { return errors.New("lost") }

// Every event of the FastLinQ iWARP interface comes from what happens to the
// connections of two NICs, and is counted under its name.
func TestEveryDeviceEvent(t *testing.T) {
	seen := map[string]bool{}
	write := func(c, s *rdmaEnd, rkey uint32, sge verbs.SGE) {
		wr := verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: s.mr.Addr(), RKey: rkey, SGEs: []verbs.SGE{sge}}
		if _, err := c.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
	}
	recv := func(s *rdmaEnd, n int) {
		if _, err := s.qp.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{s.sge(0, n)}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, do := range []func(w *world, c, s *rdmaEnd){
		func(w *world, c, _ *rdmaEnd) { _ = c.id.Disconnect(false, w.now) },
		func(w *world, c, s *rdmaEnd) { write(c, s, s.mr.RKey()+1, c.sge(0, 8)) },
		func(w *world, c, s *rdmaEnd) { write(c, s, s.mr.RKey(), verbs.SGE{Length: 8, LKey: 1}) },
		func(w *world, c, s *rdmaEnd) { c.post(verbs.OpSend, 8, s) },
		func(w *world, c, s *rdmaEnd) { recv(s, 8); c.post(verbs.OpSend, 64, s) },
		func(w *world, c, s *rdmaEnd) {
			if err := s.cq.Resize(1); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				recv(s, 8)
				c.post(verbs.OpSend, 8, s)
			}
		},
		func(w *world, c, s *rdmaEnd) {
			w.lose = func(*node, []byte) bool { return true }
			c.post(verbs.OpWrite, 8, s)
		},
		func(w *world, c, s *rdmaEnd) {
			mr, err := s.pd.RegMemory(lost{}, s.mr.Addr(), verbs.RemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			wr := verbs.SendWR{Opcode: verbs.OpRead, RemoteAddr: s.mr.Addr(), RKey: mr.RKey(), SGEs: []verbs.SGE{c.sge(0, 8)}}
			if _, err := c.qp.PostSend(wr); err != nil {
				t.Fatal(err)
			}
		},
		func(w *world, c, _ *rdmaEnd) { c.n.dev.Fail(errors.New("pulled"), w.now) },
	} {
		w, a, b := twoNICs(t, Config{})
		c, s := dial(w, a, b, peer4, 4096)
		do(w, c, s)
		w.run(time.Hour)
		note(seen, a, b)
	}

	// Without an agreement on the number of Reads (MPA 1), more come than are taken.
	w, a, b := twoNICs(t, Config{IWARP: iwarp.Config{Revision: 1}})
	c, s := newEnd(t, a, 4096), newEnd(t, b, 4096)
	at := netip.AddrPortFrom(peer4, rdmaPort)
	l, err := b.dev.CM.Listen(at, 1, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			_ = ev.ID.Accept(cm.Params{QP: s.qp, IRD: 1, ORD: 1}, now)
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := a.dev.CM.NewID(c.handle, nil)
	if err := id.Connect(at, cm.Params{QP: c.qp, IRD: 8, ORD: 8}, w.now); err != nil {
		t.Fatal(err)
	}
	w.until(time.Second, func() bool { return c.saw(cm.ActiveComplete) })
	for range 8 {
		c.post(verbs.OpRead, 4096, s)
	}
	w.run(time.Minute)
	if err := l.Pause(); err != nil {
		t.Fatal(err)
	}
	w.run(time.Second)
	note(seen, a, b)

	// A shared receive queue, and an initiator that says itself when it is ready.
	w, a, b = twoNICs(t, Config{IWARP: iwarp.Config{PeerToPeer: true}})
	c, s = newEnd(t, a, 4096), newEnd(t, b, 4096)
	srq, err := s.pd.CreateSRQ(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SRQ: srq}); err != nil {
		t.Fatal(err)
	}
	if _, err := srq.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{s.sge(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	if err := srq.SetLimit(1); err != nil {
		t.Fatal(err)
	}
	if _, err := b.dev.CM.Listen(at, 1, s.handle, nil); err != nil {
		t.Fatal(err)
	}
	id = a.dev.CM.NewID(c.handle, nil)
	if err := id.Connect(at, cm.Params{QP: c.qp, IRD: 1, ORD: 1, ManualEstablish: true}, w.now); err != nil {
		t.Fatal(err)
	}
	w.until(time.Second, func() bool { return c.saw(cm.ConnectResponse) })
	if err := id.Establish(w.now); err != nil {
		t.Fatal(err)
	}
	w.until(time.Second, func() bool { return s.saw(cm.PassiveComplete) })
	c.post(verbs.OpSend, 8, s)
	c.post(verbs.OpSend, 8, s)
	w.run(time.Minute)
	note(seen, a, b)
	for _, ev := range a.dev.CM.Events() {
		if !seen[string(ev)] {
			t.Errorf("nothing has led to %v", ev)
		}
	}
}

// note adds the events that NICs have counted.
func note(seen map[string]bool, nodes ...*node) {
	for _, n := range nodes {
		for _, ev := range n.dev.CM.Events() {
			if counted(n, "event_"+strings.ToLower(string(ev))) > 0 {
				seen[string(ev)] = true
			}
		}
	}
}

// A listener is asked by those of its own VLAN alone, and both sides tell which
// that is.
func TestListenersOfAVLAN(t *testing.T) {
	for _, c := range []struct{ client, server uint16 }{{5, 5}, {5, 6}, {0, 5}, {5, 0}, {0, 0}} {
		w := newWorld(t)
		a := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24"), VLAN: c.client})
		b := w.nic(Config{Name: "nic1", Addrs: prefixes("10.0.0.2/24"), VLAN: c.server})
		a.dev.LinkUp(w.now)
		b.dev.LinkUp(w.now)
		asked := 0
		at := netip.AddrPortFrom(peer4, rdmaPort)
		if _, err := b.dev.CM.Listen(at, 1, func(ev cm.Event, _ frame.Time) {
			if ev.Type == cm.ConnectRequest {
				asked++
				if v := ev.ID.Info().VLAN; v != c.server {
					t.Errorf("asked in VLAN %d, the listener's is %d", v, c.server)
				}
			}
		}, nil); err != nil {
			t.Fatal(err)
		}
		e := newEnd(t, a, 64)
		id := a.dev.CM.NewID(e.handle, nil)
		if err := id.Connect(at, cm.Params{QP: e.qp}, w.now); err != nil {
			t.Fatal(err)
		}
		w.run(500 * time.Millisecond)
		if want := map[bool]int{true: 1}[c.client == c.server]; asked != want || id.Info().VLAN != c.client {
			t.Errorf("from VLAN %d to %d: asked %d times, want %d", c.client, c.server, asked, want)
		}
	}
}
