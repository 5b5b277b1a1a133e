package iwarp

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// story is a node's log: the device's event names, with the reason of those
// that have one.
func (n *node) story() string {
	var s []string
	for _, e := range n.cm.Log().Since(0) {
		name := string(e.Event)
		if e.Reason != (cm.Reason{}) {
			name += ":" + e.Reason.String()
		}
		s = append(s, name)
	}
	return strings.Join(s, " ")
}

const (
	activeUp  = "ACTIVE_COMPLETE "
	passiveUp = "MPA_REQUEST PASSIVE_COMPLETE "
)

// The events of both sides, by name and in order, in every way in which a
// connection comes about and ends.
func TestEventOrder(t *testing.T) {
	connected := func(cfg Config) func(t *testing.T) *pair {
		return func(t *testing.T) *pair { return connect(t, toe.Config{}, cfg, 4096) }
	}
	write := func(x *pair, change func(*verbs.SendWR)) {
		wr := verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 64), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()}
		change(&wr)
		x.c.post(t, wr)
	}
	for _, c := range []struct {
		name           string
		start          func(t *testing.T) *pair
		do             func(x *pair)
		client, server string
	}{
		{"graceful, by the client", connected(Config{}), func(x *pair) { x.c.id.Disconnect(false, x.now) },
			activeUp + "DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE", passiveUp + "DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE"},
		{"graceful, by SQD", connected(Config{}), func(x *pair) { x.c.qp.Modify(verbs.SQD) },
			activeUp + "DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE", passiveUp + "DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE"},
		{"graceful, by the server", connected(Config{}), func(x *pair) { x.s.id.Disconnect(false, x.now) },
			activeUp + "DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE", passiveUp + "DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE"},
		{"both at once", connected(Config{}), func(x *pair) {
			x.c.id.Disconnect(false, x.now)
			x.s.id.Disconnect(false,
				x.now)
		},
			activeUp + "DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE", passiveUp + "DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE"},
		{"abortive", connected(Config{}), func(x *pair) { x.c.id.Disconnect(true, x.now) },
			activeUp + "DISCONNECT:BAD_CLOSE CLOSE:BAD_CLOSE", passiveUp +
				"TERMINATE_RECEIVED:TERMINATE_RECEIVED DISCONNECT:TERMINATE_RECEIVED CLOSE:TERMINATE_RECEIVED"},
		{"abortive, by ERR", connected(Config{}), func(x *pair) { x.c.qp.Modify(verbs.Err) },
			activeUp + "DISCONNECT:BAD_CLOSE CLOSE:BAD_CLOSE", passiveUp +
				"TERMINATE_RECEIVED:TERMINATE_RECEIVED DISCONNECT:TERMINATE_RECEIVED CLOSE:TERMINATE_RECEIVED"},
		{"reset by the peer's host", connected(Config{}), func(x *pair) { endpointOf(x.s.qp).conn.tcp.Abort() },
			activeUp + "DISCONNECT:LLP_RESET CLOSE:LLP_RESET", passiveUp + "DISCONNECT:BAD_CLOSE CLOSE:BAD_CLOSE"},
		{"graceful that turns abortive", connected(Config{CloseTimeout: 50 * time.Millisecond}), func(x *pair) {
			x.b.out.drop = func(int, frameArg) bool { return true }
			write(x, func(*verbs.SendWR) {})
			x.c.id.Disconnect(false, x.now)
		}, activeUp + "LLP_TIMEOUT:LLP_TIMEOUT DISCONNECT:LLP_TIMEOUT CLOSE:LLP_TIMEOUT", passiveUp +
			"DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE"},
		{"the peer is gone", func(t *testing.T) *pair { return connect(t, toe.Config{Retries: 3}, Config{}, 4096) },
			func(x *pair) {
				x.b.out.drop = func(int, frameArg) bool { return true }
				write(x, func(*verbs.SendWR) {})
				x.must("time-out", func() bool { return x.c.got(cm.ClosedEvent) })
				x.s.id.Disconnect(true, x.now)
			}, activeUp + "LLP_TIMEOUT:LLP_TIMEOUT DISCONNECT:LLP_TIMEOUT CLOSE:LLP_TIMEOUT", passiveUp +
				"DISCONNECT:BAD_CLOSE CLOSE:BAD_CLOSE"},
		{"protection error", connected(Config{}), func(x *pair) { write(x, func(wr *verbs.SendWR) { wr.RKey ^= 0x100 }) },
			activeUp + "TERMINATE_RECEIVED:TERMINATE_RECEIVED DISCONNECT:TERMINATE_RECEIVED CLOSE:TERMINATE_RECEIVED",
			passiveUp + "REMOTE_PROTECTION_ERROR:REMOTE_PROTECTION_ERROR DISCONNECT:REMOTE_PROTECTION_ERROR " +
				"CLOSE:REMOTE_PROTECTION_ERROR"},
		{"no receive", connected(Config{}), func(x *pair) { write(x, func(wr *verbs.SendWR) { wr.Opcode = verbs.OpSend }) },
			activeUp + "TERMINATE_RECEIVED:TERMINATE_RECEIVED DISCONNECT:TERMINATE_RECEIVED CLOSE:TERMINATE_RECEIVED",
			passiveUp + "RQ_EMPTY:RQ_EMPTY DISCONNECT:RQ_EMPTY CLOSE:RQ_EMPTY"},
		{"own request's memory", connected(Config{}), func(x *pair) {
			write(x,
				func(wr *verbs.SendWR) { wr.SGEs[0].LKey ^= 0x100 })
		},
			activeUp + "LOCAL_ACCESS_ERROR:LOCAL_ACCESS_ERROR DISCONNECT:LOCAL_ACCESS_ERROR CLOSE:LOCAL_ACCESS_ERROR",
			passiveUp + "TERMINATE_RECEIVED:TERMINATE_RECEIVED DISCONNECT:TERMINATE_RECEIVED CLOSE:TERMINATE_RECEIVED"},
		{"a damaged FPDU", connected(Config{}), func(x *pair) {
			first := x.a.out.sent
			x.a.out.drop = func(n int, f frameArg) bool {
				if n == first+1 {
					corrupt(f)
				}
				return false
			}
			write(x, func(*verbs.SendWR) {})
		}, activeUp + "TERMINATE_RECEIVED:TERMINATE_RECEIVED DISCONNECT:TERMINATE_RECEIVED CLOSE:TERMINATE_RECEIVED",
			passiveUp + "REMOTE_OPERATION_ERROR:REMOTE_OPERATION_ERROR DISCONNECT:REMOTE_OPERATION_ERROR " +
				"CLOSE:REMOTE_OPERATION_ERROR"},
		{"memory that cannot be read", connected(Config{}), func(x *pair) {
			mr, err := x.c.pd.RegMemory(unreadable{make(verbs.Bytes, 64)}, 0, verbs.LocalWrite)
			if err != nil {
				x.t.Fatal(err)
			}
			write(x, func(wr *verbs.SendWR) { wr.SGEs[0] = verbs.SGE{Length: 64, LKey: mr.LKey()} })
		}, activeUp + "QP_CATASTROPHIC:LOCAL_CATASTROPHIC DISCONNECT:LOCAL_CATASTROPHIC CLOSE:LOCAL_CATASTROPHIC",
			passiveUp + "TERMINATE_RECEIVED:TERMINATE_RECEIVED DISCONNECT:TERMINATE_RECEIVED CLOSE:TERMINATE_RECEIVED"},
		{"device removal", connected(Config{}), func(x *pair) { x.c.n.cm.Remove(x.now) },
			activeUp + "DEVICE_REMOVAL DISCONNECT:BAD_CLOSE CLOSE:BAD_CLOSE", passiveUp +
				"TERMINATE_RECEIVED:TERMINATE_RECEIVED DISCONNECT:TERMINATE_RECEIVED CLOSE:TERMINATE_RECEIVED"},
	} {
		x := c.start(t)
		c.do(x)
		x.must(c.name+": end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
		if got := x.a.story(); got != c.client {
			t.Errorf("%s: client\n got  %s\n want %s", c.name, got, c.client)
		}
		if got := x.b.story(); got != c.server {
			t.Errorf("%s: server\n got  %s\n want %s", c.name, got, c.server)
		}
		for _, n := range []*node{x.a, x.b} {
			list := n.cm.Log().Since(0)
			if last := list[len(list)-1]; last.State != "ERROR" || last.Event != cm.EvClose {
				t.Errorf("%s: last is %+v", c.name, last)
			}
		}
	}
}

// unreadable is memory that has gone, of a process that died for example.
type unreadable struct{ verbs.Bytes }

func (unreadable) Slice(uint64, int) []byte    { return nil }
func (unreadable) ReadAt([]byte, uint64) error { return errors.New("no such process") }

// What becomes of a connection that is not established.
func TestEventOrderOfFailedSetUp(t *testing.T) {
	accept := acceptAll(cm.Params{})
	none := func(*end, cm.Event, frame.Time) {}
	for _, c := range []struct {
		name           string
		cc, sc         Config
		serve          func(*end, cm.Event, frame.Time)
		do             func(x *pair)
		client, server string
		status         string // of the client
	}{
		{"rejected", Config{}, Config{}, func(_ *end, ev cm.Event, now frame.Time) { ev.ID.Reject(nil, now) }, nil,
			"ACTIVE_COMPLETE:MPA_REJECT CLOSE:MPA_REJECT", "MPA_REQUEST PASSIVE_COMPLETE:MPA_REJECT CLOSE:GOOD_CLOSE",
			"ECONNREFUSED"},
		{"nothing listens", Config{}, Config{}, accept, func(x *pair) { x.b.cm.Listeners()[0].Close() },
			"ACTIVE_COMPLETE:TCP_RST CLOSE:TCP_RST", "", "ECONNRESET"},
		{"no answer to the SYN", Config{}, Config{}, accept, func(x *pair) {
			x.a.out.drop = func(int,
				frameArg) bool {
				return true
			}
		},
			"ACTIVE_COMPLETE:TCP_TIMEOUT CLOSE:TCP_TIMEOUT", "", "EBUSY"},
		{"no answer to the request", Config{ReplyTimeout: time.Second}, Config{}, none, nil,
			"ACTIVE_COMPLETE:MPA_TIMEOUT CLOSE:MPA_TIMEOUT", "MPA_REQUEST PASSIVE_COMPLETE:MPA_RST CLOSE:MPA_RST", "EBUSY"},
		{"older peer", Config{}, Config{Revision: 1}, accept, nil, // which does not say more than RST
			"ACTIVE_COMPLETE:MPA_RST CLOSE:MPA_RST", "", "ECONNRESET"},
		{"CRC refused", Config{CRC: mpa.CRCRefused}, Config{}, accept, nil,
			"ACTIVE_COMPLETE:LOCAL_ERROR CLOSE:LOCAL_ERROR", "MPA_REQUEST PASSIVE_COMPLETE", "ECONNREFUSED"},
		{"RTR mismatch", Config{PeerToPeer: true, RTR: mpa.RTRSend}, Config{RTR: mpa.RTRRead}, accept, nil,
			"ACTIVE_COMPLETE:MPA_RTR_MISMATCH CLOSE:MPA_RTR_MISMATCH",
			"MPA_REQUEST TERMINATE_RECEIVED:TERMINATE_RECEIVED PASSIVE_COMPLETE:TERMINATE_RECEIVED", "ECONNREFUSED"},
		{"IRD too small", Config{StrictReads: true, ORD: 9}, Config{IRD: 3}, accept, nil,
			"ACTIVE_COMPLETE:MPA_INSUF_IRD CLOSE:MPA_INSUF_IRD", "MPA_REQUEST PASSIVE_COMPLETE", "ECONNREFUSED"},
		{"given up by the client", Config{}, Config{}, none, func(x *pair) {
			x.must("request", func() bool { return x.s.got(cm.ConnectRequest) })
			x.c.id.Disconnect(true, x.now)
		}, "ACTIVE_COMPLETE:LOCAL_ERROR CLOSE:LOCAL_ERROR", "MPA_REQUEST PASSIVE_COMPLETE:MPA_RST CLOSE:MPA_RST",
			"ECONNREFUSED"},
		{"dropped by the server", Config{}, Config{}, func(_ *end, ev cm.Event, now frame.Time) {
			ev.ID.Disconnect(true,
				now)
		}, nil,
			"ACTIVE_COMPLETE:MPA_RST CLOSE:MPA_RST", "MPA_REQUEST PASSIVE_COMPLETE:LOCAL_ERROR CLOSE:LOCAL_ERROR", "ECONNRESET"},
	} {
		w := newWorld(t, toe.Config{SynRetries: 2}, Config{})
		c.cc.Source, c.sc.Source = w.a.e.cfg.Source, w.b.e.cfg.Source
		w.a.e.Configure(c.cc)
		w.b.e.Configure(c.sc)
		x := dial(t, w, 64, cm.Params{}, c.serve)
		if c.do != nil {
			c.do(x)
		}
		x.must(c.name+": end", func() bool {
			return x.c.got(cm.ClosedEvent) && x.a.e.Idle() && x.b.e.Idle() &&
				!x.b.dev.Pending()
		})
		if got := x.a.story(); got != c.client {
			t.Errorf("%s: client\n got  %s\n want %s", c.name, got, c.client)
		}
		if got := x.b.story(); !strings.HasPrefix(got, c.server) || (c.server == "") != (got == "") {
			t.Errorf("%s: server\n got  %s\n want %s", c.name, got, c.server)
		}
		if got := x.c.events[0].Reason.Status(); got != c.status {
			t.Errorf("%s: status %s, want %s", c.name, got, c.status)
		}
	}
}

// CLOSE is the last event, and the only one after DISCONNECT, whatever errors
// come together: abort in every state, twice.
func TestNothingFollowsClose(t *testing.T) {
	for steps := range 60 {
		w := newWorld(t, toe.Config{}, Config{})
		x := dial(t, w, 4096, cm.Params{}, func(s *end, ev cm.Event, now frame.Time) {
			_ = ev.ID.Accept(cm.Params{QP: s.qp}, now) // it may have ended already
		})
		n := 0
		w.run(func() bool { n++; return n > steps })
		_ = x.c.id.Disconnect(steps%3 == 0, w.now)
		if x.s.id != nil {
			_ = x.s.id.Disconnect(true, w.now)
		}
		_ = x.c.id.Disconnect(true, w.now)
		w.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.a.e.Idle() && x.b.e.Idle() })
		w.run(nil)
		for _, e := range []*end{x.c, x.s} {
			for i, ev := range e.events {
				last := i == len(e.events)-1
				if (ev.Type == cm.ClosedEvent) != last || ev.Type == cm.Disconnected && i != len(e.events)-2 {
					t.Fatalf("after %d steps: %s", steps, e.names())
				}
			}
		}
	}
}

// With ManualEstablish the application decides when the initiator's first FPDU goes.
func TestEstablish(t *testing.T) {
	for _, p2p := range []bool{true, false} {
		w := newWorld(t, toe.Config{}, Config{})
		x := dial(t, w, 4096, cm.Params{PeerToPeer: p2p, ManualEstablish: true},
			acceptAll(cm.Params{PrivateData: []byte("welcome")}))
		if err := x.c.id.Establish(w.now); !errors.Is(err, cm.ErrState) {
			t.Errorf("too early: %v", err)
		}
		w.must("MPA reply", func() bool { return x.c.got(cm.ConnectResponse) })
		limit := w.now.Add(time.Second)
		w.run(func() bool { return w.now > limit })
		if x.c.got(cm.ActiveComplete) || x.s.got(cm.PassiveComplete) == p2p || x.b.e.Totals().RxFPDUs != 0 ||
			x.c.qp.State() != verbs.Init {
			t.Errorf("before: client %s server %s, QP %v", x.c.names(), x.s.names(), x.c.qp.State())
		}
		if err := x.c.id.Establish(w.now); err != nil {
			t.Fatal(err)
		}
		w.must("completion", func() bool { return x.c.got(cm.ActiveComplete) && x.s.got(cm.PassiveComplete) })
		if err := x.c.id.Establish(w.now); !errors.Is(err, cm.ErrState) {
			t.Errorf("twice: %v", err)
		}
		transferAll(t, x, 3000)
		if got := x.a.story(); got != "ACTIVE_MPA_REPLY ACTIVE_COMPLETE" || string(x.c.events[0].PrivateData) != "welcome" {
			t.Errorf("%s", got)
		}
	}
	x := dial(t, newWorld(t, toe.Config{}, Config{}), 64, cm.Params{ManualEstablish: true}, acceptAll(cm.Params{}))
	x.must("MPA reply", func() bool { return x.c.got(cm.ConnectResponse) })
	x.c.id.Disconnect(false, x.now)
	x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
}

// A paused listener drops SYNs, and peers that go on asking get through later.
func TestListenPause(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	s := newEnd(t, w.b, 4096)
	l, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), 4, func(ev cm.Event, now frame.Time) {
		s.handle(ev, now)
		if ev.Type == cm.ConnectRequest {
			acceptAll(cm.Params{})(s, ev, now)
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Pause(); err != nil || !l.Paused() || l.Pause() != nil {
		t.Fatal(err)
	}
	c := newEnd(t, w.a, 4096)
	id := w.a.cm.NewID(c.handle, nil)
	if err := id.Connect(l.Local(), cm.Params{QP: c.qp}, w.now); err != nil {
		t.Fatal(err)
	}
	limit := w.now.Add(2 * time.Second)
	w.run(func() bool { return w.now > limit })
	if len(c.events) != 0 || s.names() != "listen paused; " || s.events[0].Listener != l {
		t.Errorf("while paused: %s, server %s", c.names(), s.names())
	}
	if err := l.Resume(); err != nil {
		t.Fatal(err)
	}
	w.must("connection", func() bool { return c.got(cm.ActiveComplete) })
	if got := w.b.story(); got != "LISTEN_PAUSE_COMP MPA_REQUEST PASSIVE_COMPLETE" {
		t.Errorf("%s", got)
	}
	l.Close()
	if err := l.Pause(); !errors.Is(err, cm.ErrState) {
		t.Errorf("closed listener: %v", err)
	}
}

// Closing a listener resets what has not asked yet; requests that were
// reported can still be answered.
func TestListenerClosesWithPending(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	s := newEnd(t, w.b, 4096)
	l, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), 8, func(ev cm.Event, now frame.Time) {
		s.handle(ev, now)
		if ev.Type == cm.ConnectRequest {
			s.id = ev.ID
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	silent := &scripted{}
	if silent.conn, err = w.a.tcp.Connect(netip.AddrPortFrom(w.a.addr, 0), l.Local(), silent, w.now); err != nil {
		t.Fatal(err)
	}
	c := newEnd(t, w.a, 4096)
	id := w.a.cm.NewID(c.handle, nil)
	if err := id.Connect(l.Local(), cm.Params{QP: c.qp}, w.now); err != nil {
		t.Fatal(err)
	}
	w.must("request", func() bool { return s.id != nil && silent.up })
	l.Close()
	w.must("reset of the silent one", func() bool { return silent.ended })
	if len(c.events) != 0 || w.b.e.conns.Len() != 1 {
		t.Errorf("%s, %d connections", c.names(), w.b.e.conns.Len())
	}
	if err := s.id.Accept(cm.Params{QP: s.qp}, w.now); err != nil {
		t.Fatal(err)
	}
	w.must("connection", func() bool { return c.got(cm.ActiveComplete) && s.got(cm.PassiveComplete) })
}

// A peer that only closes its half still gets what it asked for before, and
// then the other half is closed too.
func TestHalfClosedPeer(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)}) })
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	p.write(send(1, "last words"))
	p.conn.Close()
	w.must("end", func() bool { return s.got(cm.ClosedEvent) && p.ended })
	if wcs := s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusSuccess || !p.fin || p.err != nil {
		t.Errorf("%s, fin %v, %v", wcString(wcs), p.fin, p.err)
	}
	if got := w.b.story(); got != passiveUp+"DISCONNECT:GOOD_CLOSE CLOSE:GOOD_CLOSE" {
		t.Errorf("%s", got)
	}
}

// More inbound Reads than agreed on: IRQ_FULL.
func TestIRQFull(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(*end) {})
	cfg := mpa.DefaultConfig()
	cfg.ORD = 1
	p.write(request(cfg))
	w.must("reply", func() bool { return len(p.in) > 0 })
	var two []byte
	for msn := uint32(1); msn <= 2; msn++ {
		r := rdmap.ReadRequest{SinkSTag: 1, Size: 4000, SourceSTag: s.mr.RKey(), SourceTO: s.mr.Addr()}
		two = append(two, segment(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, msn, 0), r.AppendTo(nil))...)
	}
	p.write(two)
	w.must("end", func() bool { return s.got(cm.ClosedEvent) })
	if got := w.b.story(); got != passiveUp+"IRQ_FULL:IRQ_FULL DISCONNECT:IRQ_FULL CLOSE:IRQ_FULL" {
		t.Errorf("%s", got)
	}
}

// A connect that cannot get its resources fails at once; any other outcome
// comes as an event.
func TestConnectResources(t *testing.T) {
	w := newWorld(t, toe.Config{FirstPort: 50000, LastPort: 50000}, Config{})
	connect := func() (*end, error) {
		c := newEnd(t, w.a, 64)
		return c, w.a.cm.NewID(c.handle, nil).Connect(netip.AddrPortFrom(w.b.addr, port), cm.Params{QP: c.qp}, w.now)
	}
	first, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(); !errors.Is(err, cm.ErrNoResources) {
		t.Errorf("second: %v", err)
	}
	w.must("refusal", func() bool { return first.got(cm.Refused) })
}
