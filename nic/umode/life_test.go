package umode

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// A connection ends: both sides are told, what was posted is flushed, and so
// is what is posted afterwards; then everything can be given back.
func TestDisconnect(t *testing.T) {
	both(t, func(t *testing.T, p verbs.Personality, o Options) {
		a, b := pair(t, p, o, false)
		b.recv(verbs.RecvWR{ID: 1})
		if err := a.id.Disconnect(); err != nil {
			t.Fatal(err)
		}
		for _, id := range []*ID{a.id, b.id} {
			if err := id.Wait(soon(t)); err != nil {
				t.Error(err)
			}
		}
		b.next(1, verbs.StatusFlushed)
		b.recv(verbs.RecvWR{ID: 2})
		b.next(2, verbs.StatusFlushed)
		if attr := must[verbs.QPAttr](t)(b.qp.Query()); attr.State != verbs.Err || attr.MaxSend < 200 {
			t.Errorf("%+v", attr)
		}
		for _, err := range []error{b.qp.Destroy(), b.id.Destroy(), b.cq.Destroy(), b.mr.Dereg(), b.pd.Dealloc(),
			b.ch.Close(), b.ctx.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// A program that just ends: its peer is told, and nothing of it is left.
func TestKilled(t *testing.T) { over(t, testKilled) }

func testKilled(t *testing.T, p verbs.Personality) {
	one, two := nics(t, p)
	a, b := newSide(t, one.open(t, Options{}), false), newSide(t, two.open(t, Options{}), false)
	connect(t, a, b)
	b.recv(verbs.RecvWR{ID: 1})
	_ = a.ctx.session.conn.Close()
	if err := b.id.Wait(soon(t)); err != nil {
		t.Error(err)
	}
	b.next(1, verbs.StatusFlushed)
	one.empty(t)
	if _, err := a.qp.PostSend(verbs.SendWR{}); !errors.Is(err, verbs.ErrRemoved) {
		t.Errorf("post without a NIC: %v", err)
	}
	if _, err := a.cq.Next(soon(t)); !errors.Is(err, verbs.ErrRemoved) {
		t.Errorf("wait without a NIC: %v", err)
	}
}

// empty waits until nothing of any program is left.
func (f *far) empty(t *testing.T) {
	t.Helper()
	var left []verbs.Leak
	for ctx := soon(t); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		f.run(t, func(frame.Time) { left = f.Device.Verbs.Objects() })
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("left: %v", left)
}

// Why a connection could not be made.
func TestRefused(t *testing.T) { over(t, testRefused) }

func testRefused(t *testing.T, p verbs.Personality) {
	one, two := nics(t, p)
	a, b := newSide(t, one.open(t, Options{}), false), newSide(t, two.open(t, Options{}), false)
	at := netip.MustParseAddrPort("10.0.0.2:9999")
	id := must[*ID](t)(a.ctx.NewID())
	if err := id.Connect(soon(t), at, Params{QP: a.qp}); !errors.Is(err, cm.ErrRefused) {
		t.Errorf("nobody listens: %v", err)
	}
	if err := id.Connect(soon(t), at, Params{QP: a.qp}); !errors.Is(err, cm.ErrState) {
		t.Errorf("a second time: %v", err)
	}
	if err := a.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	a.qp = must[*QP](t)(a.pd.CreateQP(QPConfig{SendCQ: a.cq, RecvCQ: a.cq}))
	l := must[*Listener](t)(b.ctx.Listen(at, 1))
	go func() {
		if id, err := l.Request(soon(t)); err == nil {
			_ = id.Reject([]byte("not today"))
		}
	}()
	id = must[*ID](t)(a.ctx.NewID())
	err := id.Connect(soon(t), at, Params{QP: a.qp})
	said := strings.TrimRight(string(id.PrivateData()), "\x00") // which fill the message of RoCE
	if !errors.Is(err, cm.ErrRejected) || errors.Is(err, cm.ErrRefused) || said != "not today" {
		t.Errorf("rejected: %v, %q", err, id.PrivateData())
	}
	if _, err := b.ctx.Listen(netip.MustParseAddrPort("10.9.9.9:1"), 1); err == nil {
		t.Error("a listener at an address that is not the NIC's")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Request(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Request(soon(t)); !errors.Is(err, verbs.ErrRemoved) {
		t.Errorf("a listener that was closed: %v", err)
	}
}

// Waiting for a completion ends with its context, and the next wait works.
func TestCancelledWait(t *testing.T) { over(t, testCancelledWait) }

func testCancelledWait(t *testing.T, p verbs.Personality) {
	a, b := pair(t, p, Options{}, false)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := b.cq.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("waited in vain: %v", err)
		}
		cancel()
	}
	b.recv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{b.mr.SGE(0, 10)}})
	woken := make(chan WC, 1)
	go func() {
		wc, _ := b.cq.Next(soon(t))
		woken <- wc
	}()
	a.send(verbs.SendWR{Flags: verbs.Inline, Inline: []byte("wake up")})
	if wc := testenv.Await(t, woken, "a completion"); wc.ID != 1 || wc.ByteLen != 7 {
		t.Errorf("%+v", wc.WC)
	}
}

// Memory: only what Alloc returned, as long as it is there.
func TestMemory(t *testing.T) { over(t, testMemory) }

func testMemory(t *testing.T, p verbs.Personality) {
	one, _ := nics(t, p)
	s := newSide(t, one.open(t, Options{}), false)
	if _, err := s.pd.RegMR(make([]byte, 100), 0); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("memory of the heap: %v", err)
	}
	if _, err := s.ctx.Alloc(0); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("no memory: %v", err)
	}
	mem := must[[]byte](t)(s.ctx.Alloc(5000))
	mr := must[*MR](t)(s.pd.RegMR(mem[1000:2000], verbs.RemoteRead))
	if mr.Addr() != addrOf(mem)+1000 || mr.Len() != 1000 {
		t.Errorf("region of %d octets at %#x", mr.Len(), mr.Addr())
	}
	if err := s.ctx.Free(mem); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("free under a region: %v", err)
	}
	rkey, rights := mr.RKey(), verbs.LocalWrite|verbs.ZeroBased
	if err := mr.Rereg(Rereg{Memory: mem[:100], Access: &rights}); err != nil || mr.RKey() == rkey || mr.Addr() != 0 ||
		mr.Len() != 100 {
		t.Errorf("reregistered: %v, key %#x after %#x, %d octets at %#x", err, mr.RKey(), rkey, mr.Len(), mr.Addr())
	}
	bad := verbs.RemoteWrite
	if err := mr.Rereg(Rereg{Access: &bad}); !errors.Is(err, verbs.ErrInvalid) || mr.Access() != rights {
		t.Errorf("rights that no region may have: %v, now %v", err, mr.Access())
	}
	if err := s.pd.Dealloc(); !errors.Is(err, verbs.ErrBusy) || !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a PD in use: %v", err)
	}
	if err := mr.Dereg(); err != nil {
		t.Error(err)
	}
	if err := s.ctx.Free(mem); err != nil {
		t.Error(err)
	}
	if err := s.ctx.Free(mem); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("freed twice: %v", err)
	}
}

// What the NIC says of itself is what it says in its own process.
func TestQueries(t *testing.T) { over(t, testQueries) }

func testQueries(t *testing.T, p verbs.Personality) {
	one, _ := nics(t, p)
	c := one.open(t, Options{})
	var want verbs.DeviceAttr
	var port verbs.PortAttr
	one.run(t, func(frame.Time) { want, port = one.Device.Verbs.Attr(), one.Device.Verbs.PortAttr() })
	got := must[verbs.DeviceAttr](t)(c.Query())
	if got.GUID != want.GUID || got.VendorID != want.VendorID || got.MaxQP != want.MaxQP || got.MaxCQE != want.MaxCQE ||
		got.MaxSRQWR != want.MaxSRQWR || got.MaxIRD != want.MaxIRD || got.Ports != 1 || got.CNQs != want.CNQs {
		t.Errorf("device %+v, want %+v", got, want)
	}
	q := must[verbs.PortAttr](t)(c.QueryPort(1))
	if q.State != port.State || q.Phys != port.Phys || q.MaxMsg != port.MaxMsg {
		t.Errorf("port %+v, want %+v", q, port)
	}
	if _, err := c.QueryPort(2); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("port 2: %v", err)
	}
}

// A NIC that is taken away while programs use it: they are told, what they
// have can be given back, and nothing new can be had.
func TestHotRemoval(t *testing.T) { over(t, testHotRemoval) }

func testHotRemoval(t *testing.T, p verbs.Personality) {
	a, b := pair(t, p, Options{}, false)
	b.recv(verbs.RecvWR{ID: 1})
	gone := b.nic
	gone.Unplug()
	for ev := (Event{}); ev.Type != al.DeviceFatal; {
		ev = must[Event](t)(b.ctx.AsyncEvent(soon(t)))
	}
	if err := b.id.Wait(soon(t)); err != nil && !errors.Is(err, cm.ErrRemoved) { // whichever is told first
		t.Error(err)
	}
	testenv.Await(t, gone.Done(), "the NIC's end")
	if _, err := b.ctx.AllocPD(); !errors.Is(err, verbs.ErrRemoved) {
		t.Errorf("a PD of a NIC that is gone: %v", err)
	}
	if err := b.ctx.Close(); err != nil {
		t.Error(err)
	}
	if err := a.ctx.Close(); err != nil {
		t.Error(err)
	}
}

// Several goroutines use one context.
func TestConcurrentUse(t *testing.T) { over(t, testConcurrentUse) }

func testConcurrentUse(t *testing.T, p verbs.Personality) {
	one, _ := nics(t, p)
	c := one.open(t, Options{})
	pd := must[*PD](t)(c.AllocPD())
	ch := must[*CompChannel](t)(c.CreateCompChannel())
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 10 {
				cq, err := c.CreateCQ(16, ch)
				if err != nil {
					t.Error(err)
					return
				}
				qp, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq})
				if err != nil {
					t.Error(err)
					return
				}
				_, posted := qp.PostRecv(verbs.RecvWR{ID: uint64(qp.Num())})
				for _, err := range []error{qp.Modify(verbs.Init), posted, cq.ReqNotify(false), qp.Modify(verbs.Err)} {
					if err != nil {
						t.Error(err)
					}
				}
				if _, err := qp.PostRecv(verbs.RecvWR{ID: 2}); err != nil {
					t.Error(err)
				}
				var wcs [3]WC
				n, end := 0, soon(t)
				for n < 2 && err == nil && end.Err() == nil { // the NIC looks for the second now and then
					var more int
					more, err = cq.Poll(wcs[n:])
					n += more
				}
				if err != nil || n != 2 || wcs[0].ID != uint64(qp.Num()) || wcs[0].QP != qp || wcs[1].ID != 2 {
					t.Errorf("%d completions, %+v: %v", n, wcs, err)
				}
				for _, err := range []error{qp.Destroy(), cq.Destroy()} {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
	if _, err := must[*CQ](t)(c.CreateCQ(16, nil)).Next(soon(t)); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("waited without a channel: %v", err)
	}
}

// Reads that a connection allows: the NIC's limits, what was asked for, none.
func TestReadDepths(t *testing.T) { over(t, testReadDepths) }

func testReadDepths(t *testing.T, p verbs.Personality) {
	one, two := nics(t, p)
	limits := must[verbs.DeviceAttr](t)(one.open(t, Options{}).Query())
	for _, c := range []struct {
		ask      uint16
		ird, ord uint8
	}{{0, uint8(limits.MaxIRD), uint8(limits.MaxORD)}, {3, 3, 3}, {cm.NoReads, 0, 0}} {
		a, b := newSide(t, one.open(t, Options{}), false), newSide(t, two.open(t, Options{}), false)
		a.reads, b.reads = c.ask, c.ask
		connect(t, a, b)
		for _, s := range []*side{a, b} {
			// one Read may have to say that the peer is ready
			if ird, ord := s.id.Reads(); ird != c.ird && (c.ask != cm.NoReads || ird > 1) || ord != c.ord {
				t.Errorf("asked for %d: IRD %d, ORD %d, want %d and %d", c.ask, ird, ord, c.ird, c.ord)
			}
			if err := s.id.Destroy(); err != nil {
				t.Error(err)
			}
		}
	}
	s := newSide(t, one.open(t, Options{}), false)
	id := must[*ID](t)(s.ctx.NewID())
	for _, p := range []Params{{}, {QP: s.qp, IRD: 256}, {QP: s.qp, PrivateData: make([]byte, 256)}} {
		if err := id.Connect(soon(t), netip.MustParseAddrPort("10.0.0.2:1"), p); !errors.Is(err, cm.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// A request that comes when its listener is closed already is not left over.
func TestRequestOfAClosedListener(t *testing.T) { over(t, testRequestOfAClosedListener) }

func testRequestOfAClosedListener(t *testing.T, p verbs.Personality) {
	one, _ := nics(t, p)
	c := one.open(t, Options{})
	m := must[*manager](t)(c.manager())
	num := must[uint32](t)(m.createID(func(uint64) {}))
	m.take(&abi.CMEvent{UID: 1 << 40, ID: num, Event: cmConnectRequest}) // nobody's uid
	if err := m.destroy(num); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("its id: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
