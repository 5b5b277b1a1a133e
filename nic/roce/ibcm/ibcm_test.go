package ibcm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/roce"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// side is a NIC: the RoCE engine with this manager.
type side struct {
	w     *world
	addr  netip.Addr
	dev   *verbs.Device
	roce  *roce.Engine
	e     *Engine
	m     *cm.Manager
	pd    *verbs.PD
	cq    *verbs.CQ
	evs   []cm.Event
	conns []*cm.ID
	do    func(ev cm.Event, now frame.Time) // answers events
}

// world is two NICs on a link, and the time.
type world struct {
	t    *testing.T
	now  frame.Time
	pool *buf.Pool
	ends [2]*side
	wire []flight
	lose func(from int, mad []byte) (lost bool, again int)
	log  []string
	mads [][]byte // of the lines of log
}

type flight struct {
	to   *side
	data []byte
}

func newWorld(t *testing.T, cfg Config) *world {
	w := &world{t: t, now: frame.Time(time.Second), pool: buf.NewPool(4096, 0)}
	for i := range w.ends {
		s := &side{w: w, addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}
		s.dev = verbs.NewDevice(verbs.Limits{}, rand.NewPCG(1, uint64(i)))
		s.dev.SetIdentity(verbs.Identity{GUID: verbs.GUID{7: byte(i + 1)}})
		s.dev.SetGIDs([]verbs.GIDEntry{{GID: verbs.GIDFromAddr(s.addr), Type: verbs.RoCEv1},
			{GID: verbs.GIDFromAddr(s.addr), Type: verbs.RoCEv2}})
		s.roce = roce.New(s.dev, roce.Env{Pool: w.pool, Out: s, MTU: func() int { return 1024 },
			Segments: func() int { return 1 }})
		s.m = cm.New(s.dev)
		s.e = New(cfg, Env{Dev: s.dev, CM: s.m, Out: s.roce, Source: rand.NewPCG(2, uint64(i)),
			SourceFor: func(_, _ netip.Addr) (netip.Addr, uint16) { return s.addr, 0 }, MTU: func() int { return 1024 }})
		s.roce.SetGSI(s.e)
		var err error
		s.pd, err = s.dev.AllocPD()
		w.must(err)
		s.cq, err = s.dev.CreateCQ(64, nil)
		w.must(err)
		w.ends[i] = s
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Room implements roce.Output.
func (s *side) Room() int { return 64 }

// Transmit implements roce.Output.
func (s *side) Transmit(f *frame.Frame, _ *roce.Hop, _ frame.Time) {
	w := s.w
	from := slices.Index(w.ends[:], s)
	b := bytes.Clone(f.Bytes())
	f.Release()
	copies := 1
	if mad := madOf(b); mad != nil {
		w.log = append(w.log, fmt.Sprintf("%d %s", from, ib.CMName(attrOf(mad))))
		w.mads = append(w.mads, mad)
		if w.lose != nil {
			lost, again := w.lose(from, mad)
			copies += again
			if lost {
				return
			}
		}
	}
	for range copies {
		w.wire = append(w.wire, flight{w.ends[1-from], b})
	}
}

// madOf is the datagram in an IPv4 packet to queue pair 1, nil if it is none.
func madOf(b []byte) []byte {
	if len(b) != 28+ib.BTHLen+ib.DETHLen+ib.MADLen+ib.ICRCLen || ib.ParseBTH(b[28:]).DestQP != ib.QP1 {
		return nil
	}
	return b[48 : 48+ib.MADLen]
}

// data is what the first datagram of that line of the log says.
func (w *world) data(line string) []byte {
	i := slices.Index(w.log, line)
	if i < 0 {
		w.t.Fatalf("no %s among %v", line, w.log)
	}
	_, data, err := ib.ParseMAD(w.mads[i])
	w.must(err)
	return data
}

// until runs the world until done, at most 10 minutes.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for end := w.now.Add(10 * time.Minute); ; {
		for _, s := range w.ends {
			s.dev.Dispatch(w.now)
		}
		if done() {
			return
		}
		next := frame.Never
		for _, s := range w.ends {
			next = min(next, s.e.Poll(w.now), s.roce.Poll(w.now))
		}
		if len(w.wire) > 0 {
			f := w.wire[0]
			w.wire = w.wire[1:]
			f.to.roce.Receive(f.data, 0, ether.Tag{}, w.now)
			continue
		}
		for _, s := range w.ends {
			s.dev.Dispatch(w.now)
		}
		if done() {
			return
		}
		if next > end {
			w.t.Fatalf("no %s: %v", what, w.log)
		}
		w.now = max(w.now, next)
	}
}

func (s *side) handle(ev cm.Event, now frame.Time) {
	s.evs = append(s.evs, ev)
	if ev.Type == cm.ConnectRequest {
		s.conns = append(s.conns, ev.ID)
	}
	if s.do != nil {
		s.do(ev, now)
	}
}

func (s *side) saw(typ cm.EventType) bool {
	return slices.ContainsFunc(s.evs, func(ev cm.Event) bool { return ev.Type == typ })
}

func (s *side) event(typ cm.EventType) cm.Event {
	s.w.t.Helper()
	i := slices.IndexFunc(s.evs, func(ev cm.Event) bool { return ev.Type == typ })
	if i < 0 {
		s.w.t.Fatalf("no %v among %v", typ, s.evs)
	}
	return s.evs[i]
}

func (s *side) qp(typ qpattr.Type) *verbs.QP {
	q, err := s.pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: s.cq, RecvCQ: s.cq, MaxSend: 8, MaxRecv: 8})
	s.w.must(err)
	s.w.must(q.Modify(verbs.Init))
	return q
}

var at = netip.MustParseAddrPort("10.0.0.2:7174")

// dial makes both sides ready: b listens and answers with do, a connects.
func (w *world) dial(p cm.Params, do func(ev cm.Event, now frame.Time)) *cm.ID {
	w.t.Helper()
	a, b := w.ends[0], w.ends[1]
	b.do = do
	_, err := b.m.ListenIn(p.Space, at, 0, b.handle, nil)
	w.must(err)
	id := a.m.NewID(a.handle, nil)
	if p.QP == nil && !p.Space.Datagrams() {
		p.QP = a.qp(qpattr.RC)
	}
	w.must(id.Connect(at, p, w.now))
	return id
}

// accept answers requests with yes.
func (w *world) accept(p cm.Params) func(cm.Event, frame.Time) {
	b := w.ends[1]
	return func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			q := p
			if q.QP == nil {
				typ := qpattr.RC
				if ev.ID.Datagrams() {
					typ = qpattr.UD
				}
				q.QP = b.qp(typ)
			}
			w.must(ev.ID.Accept(q, now))
		}
	}
}

func (w *world) logIs(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.log, want) {
		w.t.Errorf("messages %q, want %q", w.log, want)
	}
}

// bothClosed waits until nothing of the connection is left.
func (w *world) bothClosed() {
	w.t.Helper()
	w.until("end", func() bool { return w.ends[0].saw(cm.ClosedEvent) && w.ends[1].saw(cm.ClosedEvent) })
	for i, s := range w.ends {
		w.until("forgetting", func() bool { return len(s.e.conns) == 0 })
		if n := len(s.e.peers) + len(s.e.remoteQPs) + len(s.e.sidrs); n > 0 {
			w.t.Errorf("NIC %d keeps %d entries", i, n)
		}
	}
}

func TestConnectAndDisconnect(t *testing.T) {
	w := newWorld(t, Config{})
	id := w.dial(cm.Params{PrivateData: []byte("hello"), IRD: 4, ORD: 8, TOS: 32},
		w.accept(cm.Params{PrivateData: []byte("welcome"), ORD: 2}))
	a, b := w.ends[0], w.ends[1]
	w.until("connection", func() bool { return a.saw(cm.ActiveComplete) && b.saw(cm.PassiveComplete) })
	req, done := b.event(cm.ConnectRequest), a.event(cm.ActiveComplete)
	if len(req.PrivateData) != ib.REQUser || !bytes.HasPrefix(req.PrivateData, []byte("hello\x00")) || req.IRD != 8 ||
		req.ORD != 4 {
		t.Errorf("request %q IRD %d ORD %d", req.PrivateData, req.IRD, req.ORD)
	}
	if len(done.PrivateData) != ib.REPPrivate || !bytes.HasPrefix(done.PrivateData, []byte("welcome\x00")) ||
		done.IRD != 2 || done.ORD != 8 {
		t.Errorf("completion %q IRD %d ORD %d", done.PrivateData, done.IRD, done.ORD)
	}
	// A starting PSN is the one with which the receiver of the message is to send.
	if got := b.conns[0].QP().Attr().SQPSN; got != ib.ParseREQ(w.data("0 REQ")).PSN {
		t.Errorf("the passive side begins with PSN %#x, not with that of REQ", got)
	}
	if got := id.QP().Attr().SQPSN; got != ib.ParseREP(w.data("1 REP")).PSN {
		t.Errorf("the active side begins with PSN %#x, not with that of REP", got)
	}
	if id.Local().Addr() != a.addr || b.conns[0].Remote() != id.Local() || b.conns[0].Local() != at {
		t.Errorf("addresses %v, %v, %v", id.Local(), b.conns[0].Remote(), b.conns[0].Local())
	}
	for _, q := range []*verbs.QP{id.QP(), b.conns[0].QP()} {
		if q.State() != verbs.RTS || q.Attr().Path.SGIDIndex != 1 {
			t.Errorf("QP %d is in %v, %+v", q.QPN(), q.State(), q.Attr())
		}
	}
	if id.QP().Attr().DestQPN != b.conns[0].QP().QPN() || id.QP().Attr().RQPSN != b.conns[0].QP().Attr().SQPSN ||
		b.conns[0].QP().Attr().RQPSN != id.QP().Attr().SQPSN || id.QP().Attr().MaxRdAtomic != 8 {
		t.Errorf("attributes %+v and %+v", id.QP().Attr(), b.conns[0].QP().Attr())
	}
	w.must(id.Disconnect(false, w.now))
	w.bothClosed()
	w.logIs("0 REQ", "1 REP", "0 RTU", "0 DREQ", "1 DREP")
	if !a.saw(cm.Disconnected) || !b.saw(cm.Disconnected) || id.QP().State() != verbs.Err {
		t.Error("not told of the end")
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world) func(cm.Event, frame.Time)
		typ  cm.EventType
		code ib.RejectReason
		err  error
	}{
		{"by the application", func(w *world) func(cm.Event, frame.Time) {
			return func(ev cm.Event, now frame.Time) {
				if ev.Type == cm.ConnectRequest {
					w.must(ev.ID.Reject([]byte("no"), now))
				}
			}
		}, cm.Rejected, ib.RejectConsumer, cm.ErrRejected},
		{"nobody listens", func(w *world) func(cm.Event, frame.Time) {
			w.ends[1].e.listeners = nil
			return nil
		}, cm.Refused, ib.RejectInvalidServiceID, cm.ErrRefused},
		{"partition", func(w *world) func(cm.Event, frame.Time) {
			for _, s := range w.ends { // datagrams pass, but what was asked for is of another partition
				w.must(s.dev.ModifyPort(verbs.PortMod{PKeys: []uint16{0x8005}}))
			}
			return nil
		}, cm.Rejected, ib.RejectUnsupported, cm.ErrRejected},
		{"MTU", func(w *world) func(cm.Event, frame.Time) {
			w.ends[1].e.env.MTU = func() int { return 512 }
			return nil
		}, cm.Rejected, ib.RejectInvalidMTU, cm.ErrRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.dial(cm.Params{}, nil)
			w.ends[1].do = c.do(w)
			w.until("refusal", func() bool { return w.ends[0].saw(cm.ClosedEvent) })
			if ev := w.ends[0].event(c.typ); ev.Code != uint16(c.code) || !errors.Is(ev.Err, c.err) {
				t.Errorf("%+v", ev)
			}
			w.logIs("0 REQ", "1 REJ")
			for _, s := range w.ends {
				w.until("forgetting", func() bool { return len(s.e.conns) == 0 && len(s.e.peers) == 0 })
			}
		})
	}
}

// TestXRC: REQ asks for XRC by its extended transport, REP brings the target's number where
// that of an EE context is; a queue pair of another type does not do (RD-18).
func TestXRC(t *testing.T) {
	for _, typ := range []qpattr.Type{qpattr.XRCTarget, qpattr.RC} {
		w := newWorld(t, Config{})
		a, b := w.ends[0], w.ends[1]
		q := b.qp(qpattr.RC)
		if typ == qpattr.XRCTarget {
			ctx, err := b.dev.Open(nil)
			w.must(err)
			x, err := ctx.AllocXRCD()
			w.must(err)
			q, err = b.pd.CreateQP(verbs.QPConfig{Type: typ, XRCD: x})
			w.must(err)
		}
		var refused error
		id := w.dial(cm.Params{QP: a.qp(qpattr.XRCInitiator), ORD: 4}, func(ev cm.Event, now frame.Time) {
			if ev.Type == cm.ConnectRequest {
				refused = ev.ID.Accept(cm.Params{QP: q}, now)
			}
		})
		w.until("answer", func() bool { return a.saw(cm.ActiveComplete) && b.saw(cm.PassiveComplete) || a.saw(cm.Rejected) })
		req := ib.ParseREQ(w.data("0 REQ"))
		if req.Service != ib.ServiceExtended || req.Extended != ib.ExtendedXRC || req.Responder != 0 || req.Initiator != 4 {
			t.Errorf("%+v", req)
		}
		if typ != qpattr.XRCTarget {
			if !errors.Is(refused, cm.ErrInvalid) || !a.saw(cm.Rejected) {
				t.Errorf("a queue pair of type %v: %v", typ, refused)
			}
			continue
		}
		w.must(refused)
		rep := ib.ParseREP(w.data("1 REP"))
		if rep.QPN != 0 || rep.EECN != q.QPN() || !rep.SRQ || id.QP().Attr().DestQPN != q.QPN() ||
			id.QP().State() != verbs.RTS || q.State() != verbs.RTS {
			t.Errorf("%+v; %v, %v", rep, id.QP().State(), q.State())
		}
		w.must(id.Disconnect(false, w.now))
		w.bothClosed()
	}
}

// TestPartition: a connection is in the partition of the client's queue pair, and so is
// the server's, whatever its index there and its membership.
func TestPartition(t *testing.T) {
	for _, space := range []cm.PortSpace{cm.PortSpaceTCP, cm.PortSpaceUDP} {
		w := newWorld(t, Config{})
		a, b := w.ends[0], w.ends[1]
		w.must(a.dev.ModifyPort(verbs.PortMod{PKeys: []uint16{0xffff, 0, 0x0001}}))
		w.must(b.dev.ModifyPort(verbs.PortMod{PKeys: []uint16{0x0001, 0x8001}}))
		typ := qpattr.RC
		if space.Datagrams() {
			typ = qpattr.UD
		}
		q := a.qp(typ)
		attr := *q.Attr()
		attr.PKeyIndex, attr.Port = 2, 1
		w.must(q.ModifyAttr(verbs.Init, &attr, qpattr.PKeyIndex|qpattr.Port))
		w.dial(cm.Params{Space: space, QP: q}, w.accept(cm.Params{}))
		w.until("connection", func() bool { return a.saw(cm.ActiveComplete) && b.saw(cm.PassiveComplete) })
		if i, j := q.Attr().PKeyIndex, b.conns[0].QP().Attr().PKeyIndex; i != 2 || j != 1 {
			t.Errorf("%v: P_Key indices %d and %d", space, i, j)
		}
	}
}

// TestPrivateDataLimits: each message takes as much as the standard leaves, and one octet
// more is refused before anything is sent.
func TestPrivateDataLimits(t *testing.T) {
	for _, space := range []cm.PortSpace{cm.PortSpaceTCP, cm.PortSpaceUDP} {
		request, reply, reject := 56, 196, 148
		if space.Datagrams() {
			request, reply, reject = 180, 136, 136
		}
		octets := func(n int) []byte { return bytes.Repeat([]byte{7}, n) }
		tooLong := func(what string, n int, err error) {
			t.Helper()
			if want := fmt.Sprintf("%d octets of private data, limit %d", n+1, n); !errors.Is(err, cm.ErrInvalid) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%v, %s: %v, want %q", space, what, err, want)
			}
		}
		for _, accept := range []bool{true, false} {
			w := newWorld(t, Config{})
			a := w.ends[0]
			typ := qpattr.RC
			if space.Datagrams() {
				typ = qpattr.UD
			}
			q := a.qp(typ)
			tooLong("request", request, a.m.NewID(a.handle, nil).Connect(at,
				cm.Params{Space: space, QP: q, PrivateData: octets(request + 1)}, w.now))
			w.dial(cm.Params{Space: space, QP: q, PrivateData: octets(request)}, func(ev cm.Event, now frame.Time) {
				if ev.Type != cm.ConnectRequest {
					return
				}
				if !bytes.Equal(ev.PrivateData, octets(request)) {
					t.Errorf("%v: request %x", space, ev.PrivateData)
				}
				p := cm.Params{QP: w.ends[1].qp(typ), PrivateData: octets(reply + 1)}
				if accept {
					tooLong("reply", reply, ev.ID.Accept(p, now))
					p.PrivateData = octets(reply)
					w.must(ev.ID.Accept(p, now))
					return
				}
				tooLong("reject", reject, ev.ID.Reject(octets(reject+1), now))
				w.must(ev.ID.Reject(octets(reject), now))
			})
			end, n := cm.ActiveComplete, reply
			if !accept {
				end, n = cm.Rejected, reject
			}
			w.until("answer", func() bool { return a.saw(end) })
			if ev := a.event(end); !bytes.Equal(ev.PrivateData, octets(n)) {
				t.Errorf("%v: answer %x", space, ev.PrivateData)
			}
		}
	}
}

func TestManualEstablishAndOwnerMoves(t *testing.T) {
	w := newWorld(t, Config{})
	a, b := w.ends[0], w.ends[1]
	move := func(id *cm.ID, q *verbs.QP) {
		for _, to := range []verbs.State{verbs.RTR, verbs.RTS} {
			attr, mask, err := id.QPAttr(to)
			w.must(err)
			w.must(q.ModifyAttr(to, &attr, mask))
		}
	}
	id := w.dial(cm.Params{OwnerMoves: true, ManualEstablish: true}, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			q := b.qp(qpattr.RC)
			move(ev.ID, q)
			w.must(ev.ID.Accept(cm.Params{QP: q, OwnerMoves: true}, now))
		}
	})
	if _, _, err := id.QPAttr(verbs.RTR); !errors.Is(err, cm.ErrState) {
		t.Errorf("attributes before the reply: %v", err)
	}
	w.until("response", func() bool { return a.saw(cm.ConnectResponse) })
	move(id, id.QP())
	w.must(id.Establish(w.now))
	w.until("connection", func() bool { return b.saw(cm.PassiveComplete) })
	w.logIs("0 REQ", "1 REP", "0 RTU")
}

// Every single message may be lost or doubled; the connection comes up and ends all
// the same, and each side is told everything once.
func TestLossAndDuplicates(t *testing.T) {
	for _, attr := range []uint16{ib.AttrREQ, ib.AttrREP, ib.AttrRTU, ib.AttrDREQ, ib.AttrDREP} {
		for _, lose := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s lost %v", ib.CMName(attr), lose), func(t *testing.T) {
				w, done := newWorld(t, Config{}), false
				w.lose = func(_ int, mad []byte) (bool, int) {
					if attrOf(mad) != attr || done {
						return false, 0
					}
					done = true
					return lose, 2
				}
				id := w.dial(cm.Params{}, w.accept(cm.Params{}))
				a, b := w.ends[0], w.ends[1]
				w.until("connection", func() bool { return a.saw(cm.ActiveComplete) && b.saw(cm.PassiveComplete) })
				w.must(id.Disconnect(false, w.now))
				w.bothClosed()
				if n := len(a.evs); n != 3 {
					t.Errorf("client: %d events %v", n, a.evs)
				}
				if n := len(b.evs); n != 4 {
					t.Errorf("server: %d events %v", n, b.evs)
				}
			})
		}
	}
}

func TestNoAnswer(t *testing.T) {
	w := newWorld(t, Config{Retries: 2})
	w.lose = func(int, []byte) (bool, int) { return true, 0 }
	w.dial(cm.Params{}, nil)
	w.until("timeout", func() bool { return w.ends[0].saw(cm.TimedOut) })
	w.logIs("0 REQ", "0 REQ", "0 REQ", "0 REJ")
	if d := w.now.Sub(frame.Time(time.Second)); d < 3*ib.Timeout(20) || d > 4*ib.Timeout(20)+2*time.Second {
		t.Errorf("gave up after %v", d)
	}
}

// An application that takes a minute is excused, and duplicates of the request get
// the same answer.
func TestSlowApplication(t *testing.T) {
	w := newWorld(t, Config{})
	id := w.dial(cm.Params{}, nil)
	a, b := w.ends[0], w.ends[1]
	w.until("request", func() bool { return b.saw(cm.ConnectRequest) })
	began := w.now
	w.until("MRA", func() bool { return b.e.stats.Sent[ib.AttrMRA-ib.AttrREQ] == 1 })
	if d := w.now.Sub(began); d > 3*time.Second {
		t.Errorf("MRA after %v", d)
	}
	w.now = w.now.Add(60 * time.Second)
	w.must(b.conns[0].Accept(cm.Params{QP: b.qp(qpattr.RC)}, w.now))
	w.until("connection", func() bool { return a.saw(cm.ActiveComplete) && b.saw(cm.PassiveComplete) })
	w.logIs("0 REQ", "1 MRA", "1 REP", "0 RTU")
	w.must(id.Disconnect(true, w.now))
	w.bothClosed()
}

func TestCommunicationEstablished(t *testing.T) {
	w := newWorld(t, Config{})
	w.lose = func(_ int, mad []byte) (bool, int) { return attrOf(mad) == ib.AttrRTU, 0 }
	w.dial(cm.Params{}, w.accept(cm.Params{}))
	a, b := w.ends[0], w.ends[1]
	w.until("client", func() bool { return a.saw(cm.ActiveComplete) })
	b.e.Established(b.conns[0].QP().QPN())
	w.until("server", func() bool { return b.saw(cm.PassiveComplete) })
}

// The client has forgotten the connection and asks again with the same queue pair.
func TestStale(t *testing.T) {
	w := newWorld(t, Config{})
	id := w.dial(cm.Params{}, w.accept(cm.Params{}))
	a, b := w.ends[0], w.ends[1]
	w.until("connection", func() bool { return a.saw(cm.ActiveComplete) && b.saw(cm.PassiveComplete) })
	a.e.finishAll()
	w.must(id.QP().Modify(verbs.Reset))
	id2 := a.m.NewID(a.handle, nil)
	w.must(id2.Connect(at, cm.Params{QP: id.QP()}, w.now))
	w.until("refusal", func() bool { return a.saw(cm.Rejected) && b.saw(cm.Disconnected) })
	if ev := a.event(cm.Rejected); ev.Code != uint16(ib.RejectStale) {
		t.Errorf("%+v", ev)
	}
}

// finishAll forgets every connection without a word to the peer.
func (e *Engine) finishAll() {
	for _, id := range e.env.CM.IDs() {
		if c, ok := id.Conn().(*conn); ok {
			c.finish(nil)
		}
	}
}

func TestDatagrams(t *testing.T) {
	w := newWorld(t, Config{})
	id := w.dial(cm.Params{Space: cm.PortSpaceUDP, PrivateData: []byte("who?")},
		w.accept(cm.Params{PrivateData: []byte("me"), QKey: 0x11111111}))
	a, b := w.ends[0], w.ends[1]
	w.until("answer", func() bool { return a.saw(cm.ActiveComplete) })
	ev := a.event(cm.ActiveComplete)
	if ev.Peer.QPN != b.conns[0].QP().QPN() || ev.Peer.QKey != 0x11111111 || !bytes.HasPrefix(ev.PrivateData,
		[]byte("me\x00")) {
		t.Errorf("%+v", ev)
	}
	if req := b.event(cm.ConnectRequest); !bytes.HasPrefix(req.PrivateData, []byte("who?\x00")) ||
		len(req.PrivateData) != ib.SIDRREQUser {
		t.Errorf("request %q", req.PrivateData)
	}
	w.must(id.Disconnect(false, w.now))
	w.must(b.conns[0].Disconnect(false, w.now))
	w.until("end", func() bool { return a.saw(cm.ClosedEvent) && len(a.e.conns) == 0 && len(b.e.conns) == 0 })
	w.logIs("0 SIDR_REQ", "1 SIDR_REP")
	// another space is another number space
	id2 := a.m.NewID(a.handle, nil)
	w.must(id2.Connect(at, cm.Params{QP: a.qp(qpattr.RC)}, w.now))
	w.until("refusal", func() bool { return a.saw(cm.Refused) })
}

func TestUnknownMessages(t *testing.T) {
	w := newWorld(t, Config{})
	a, b := w.ends[0], w.ends[1]
	path := qpattr.Path{DGID: verbs.GIDFromAddr(b.addr), SGIDIndex: 1}
	say := func(h ib.Header, m message) {
		mad, data := h.AppendMAD(nil)
		m.Put(data)
		w.must(a.roce.SendMAD(&path, ib.QP1, 0, mad))
	}
	cmHeader := func(attr uint16) ib.Header {
		return ib.Header{BaseVersion: 1, Class: ib.ClassCM, ClassVersion: ib.CMVersion, Method: ib.MethodSend, Attr: attr}
	}
	say(cmHeader(ib.AttrDREQ), &ib.DREQ{LocalID: 1, RemoteID: 2})
	say(cmHeader(ib.AttrREP), &ib.REP{LocalID: 1, RemoteID: 2})
	say(cmHeader(ib.AttrLAP), &ib.LAP{LocalID: 1, RemoteID: 2})
	say(cmHeader(ib.AttrRTU), &ib.IDs{LocalID: 1, RemoteID: 2})
	say(ib.Header{BaseVersion: 1, Class: ib.ClassCM, ClassVersion: 1, Method: ib.MethodSend, Attr: ib.AttrREQ},
		&ib.REQ{LocalID: 1})
	say(ib.Header{BaseVersion: 1, Class: 4, ClassVersion: 1, Method: ib.MethodGet, Attr: 1}, &ib.IDs{})
	w.until("answers", func() bool { return b.e.stats.Malformed == 1 && len(w.wire) == 0 && len(w.log) >= 9 })
	w.logIs("0 DREQ", "0 REP", "0 LAP", "0 RTU", "0 REQ", "0 ", "1 DREP", "1 REJ", "1 APR", "1 REJ")
	if b.e.stats.Unmatched != 3 {
		t.Errorf("%+v", b.e.stats)
	}
}

func TestListeners(t *testing.T) {
	w := newWorld(t, Config{})
	m := w.ends[1].m
	l, err := m.Listen(at, 1, w.ends[1].handle, nil)
	w.must(err)
	if _, err := m.Listen(netip.MustParseAddrPort("0.0.0.0:7174"), 0, w.ends[1].handle, nil); !errors.Is(err,
		cm.ErrAddrInUse) {
		t.Errorf("wildcard beside an address: %v", err)
	}
	_, err = m.ListenIn(cm.PortSpaceIB, at, 0, w.ends[1].handle, nil)
	w.must(err)
	l.Close()
	_, err = m.Listen(at, 0, w.ends[1].handle, nil)
	w.must(err)
	if err := w.ends[0].m.NewID(nil, nil).Connect(at, cm.Params{QP: w.ends[0].qp(qpattr.RC), PrivateData: make([]byte,
		57)}, w.now); !errors.Is(err, cm.ErrInvalid) {
		t.Errorf("57 octets of private data: %v", err)
	}
}

// FuzzDatagram: whatever comes to queue pair 1, nothing panics and no time stands
// still.
func FuzzDatagram(f *testing.F) {
	var seeds [][]byte
	w := newWorld(new(testing.T), Config{})
	w.lose = func(_ int, mad []byte) (bool, int) { seeds = append(seeds, bytes.Clone(mad)); return false, 0 }
	w.dial(cm.Params{}, w.accept(cm.Params{}))
	w.until("connection", func() bool { return w.ends[1].saw(cm.PassiveComplete) })
	for _, s := range seeds {
		f.Add(s, byte(0))
	}
	f.Fuzz(func(t *testing.T, mad []byte, step byte) {
		w := newWorld(t, Config{})
		w.dial(cm.Params{}, w.accept(cm.Params{}))
		for range step & 7 {
			w.until("", func() bool { return true })
			if len(w.wire) > 0 {
				f := w.wire[0]
				w.wire = w.wire[1:]
				f.to.roce.Receive(f.data, 0, ether.Tag{}, w.now)
			}
		}
		for i, s := range w.ends {
			s.e.Datagram(&roce.Datagram{From: qpattr.Path{DGID: verbs.GIDFromAddr(w.ends[1-i].addr), SGIDIndex: 1},
				To: verbs.GIDFromAddr(s.addr), SrcQP: 1, Payload: mad}, w.now)
			s.e.Poll(w.now.Add(time.Hour))
		}
	})
}
