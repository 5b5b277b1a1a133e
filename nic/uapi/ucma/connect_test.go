package ucma

import (
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// pair is a client and a server program on NICs of their own.
type pair struct {
	w              *world
	client, server *node
	c, s           *thread
}

func newPair(t testing.TB, rng *rand.Rand) *pair { return newPairOf(t, rng, verbs.IWARP) }

func newPairOf(t testing.TB, rng *rand.Rand, of verbs.Personality) *pair {
	p := &pair{w: newWorld(t, rng)}
	p.w.roce = of == verbs.RoCE
	p.client = p.w.nic(NewServer(), "nic0", "10.0.0.1/24", "fd00::1/64")
	p.server = p.w.nic(NewServer(), "nic1", "10.0.0.2/24", "fd00::2/64")
	p.c, p.s = p.w.thread(100, p.client), p.w.thread(200, p.server)
	return p
}

// must fails the test for an error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// listener makes an id that listens.
func (p *pair) listener(at string) *cmid {
	p.w.t.Helper()
	l, err := p.s.create(p.s.open())
	must(p.w.t, err, l.bind(at), l.listen(0))
	return l
}

// resolved makes an id that may connect.
func (p *pair) resolved(to string) *cmid {
	p.w.t.Helper()
	i, err := p.c.create(p.c.open())
	must(p.w.t, err, i.resolve("", to, 2000))
	i.expect(AddrResolved)
	must(p.w.t, i.resolveRoute(2000))
	i.expect(RouteResolved)
	must(p.w.t, i.createQP(p.client))
	return i
}

// connected returns both ends of a connection, and the listener.
func (p *pair) connected(at, to string) (c, s, l *cmid) {
	p.w.t.Helper()
	l = p.listener(at)
	c = p.resolved(to)
	must(p.w.t, c.connect("hello"))
	s, ev := l.request()
	if ev.said() != "hello" || ev.ird != 5 || ev.ord != 4 {
		p.w.t.Errorf("request %+v", ev)
	}
	must(p.w.t, s.createQP(p.server), s.accept("welcome"))
	if ev := c.established(); ev.said() != "welcome" || ev.status != 0 || ev.ird != 4 || ev.ord != 4 {
		p.w.t.Errorf("established %+v", ev)
	}
	s.expect(Established)
	return c, s, l
}

// over runs a test with NICs of iWARP and with NICs of RoCE.
func over(t *testing.T, test func(t *testing.T, of verbs.Personality)) {
	for _, of := range []verbs.Personality{verbs.IWARP, verbs.RoCE} {
		t.Run(of.String(), func(t *testing.T) { test(t, of) })
	}
}

func TestConnect(t *testing.T) { over(t, testConnect) }

func testConnect(t *testing.T, of verbs.Personality) {
	for _, a := range []struct{ at, to string }{
		{"0.0.0.0:7471", "10.0.0.2:7471"}, {"10.0.0.2:7471", "10.0.0.2:7471"},
		{"[::]:7471", "10.0.0.2:7471"}, {"[::]:7471", "[fd00::2]:7471"}, {"[fd00::2]:7471", "[fd00::2]:7471"},
	} {
		t.Run(a.at+" "+a.to, func(t *testing.T) {
			p := newPairOf(t, nil, of)
			c, s, l := p.connected(a.at, a.to)
			if c.qp.State() != verbs.RTS || s.qp.State() != verbs.RTS {
				t.Errorf("QPs %v %v", c.qp.State(), s.qp.State())
			}
			src, err := c.queryRoute()
			must(t, err)
			peer, err := s.queryRoute()
			must(t, err)
			if dst := parseSockaddr(p.s.mem[164:]); dst.addrPort() != src.addrPort() || src.port == 0 || peer.port != 7471 {
				t.Errorf("client %v, the server sees %v and is %v", src, dst, peer)
			}
			must(t, c.disconnect())
			s.expect(Disconnected)
			must(t, s.disconnect())
			if ev := c.expect(Disconnected); ev.status != 0 {
				t.Errorf("%+v", ev)
			}
			c.end()
			s.end()
			l.end()
			p.checkEmpty(t, l.ch, c.ch)
		})
	}
}

// checkEmpty closes the channels and looks for what is left.
func (p *pair) checkEmpty(t testing.TB, list ...*channel) {
	t.Helper()
	for _, ch := range list {
		ch.close()
	}
	for _, n := range p.w.nodes {
		for _, q := range append([]*verbs.QP(nil), n.dev.Verbs.QPs()...) {
			must(t, q.Destroy())
		}
	}
	if !p.w.until(func() bool {
		return len(p.client.dev.CM.IDs())+len(p.server.dev.CM.IDs())+len(p.server.dev.CM.Listeners()) == 0
	}) {
		t.Errorf("left: %d and %d ids, %d listeners", len(p.client.dev.CM.IDs()), len(p.server.dev.CM.IDs()),
			len(p.server.dev.CM.Listeners()))
	}
	for _, n := range p.w.nodes {
		if owners := n.d.s.ports.owners; len(owners) > 0 || len(n.d.files) > 0 {
			t.Errorf("ports left: %v, %d files", owners, len(n.d.files))
		}
		n.d.each(func(i *id) { t.Errorf("id %d is left", i.num) })
	}
}

func TestReject(t *testing.T) { over(t, testReject) }

func testReject(t *testing.T, of verbs.Personality) {
	p := newPairOf(t, nil, of)
	l, c := p.listener("0.0.0.0:7471"), p.resolved("10.0.0.2:7471")
	must(t, c.connect(""))
	s, _ := l.request()
	must(t, s.reject("connection rejected"))
	status := map[verbs.Personality]int32{verbs.IWARP: -int32(syscall.ECONNREFUSED), verbs.RoCE: int32(ib.RejectConsumer)}
	if ev := c.expect(Rejected); ev.status != status[of] || ev.said() != "connection rejected" {
		t.Errorf("%+v", ev)
	}
	if err := s.accept(""); err == nil {
		t.Error("accepted after the reject")
	}
	s.end()
	c.end()
	l.end()
	p.checkEmpty(t, l.ch, c.ch)
}

func TestNobodyListens(t *testing.T) { over(t, testNobodyListens) }

func testNobodyListens(t *testing.T, of verbs.Personality) {
	p := newPairOf(t, nil, of)
	c := p.resolved("10.0.0.2:7471")
	must(t, c.connect(""))
	status := map[verbs.Personality]int32{verbs.IWARP: -int32(syscall.ECONNREFUSED),
		verbs.RoCE: int32(ib.RejectInvalidServiceID)}
	if ev := c.expect(Rejected); ev.status != status[of] {
		t.Errorf("%+v", ev)
	}
	c.end()
	p.checkEmpty(t, c.ch)
}

func TestPeerSilent(t *testing.T) { over(t, testPeerSilent) }

func testPeerSilent(t *testing.T, of verbs.Personality) {
	p := newPairOf(t, nil, of)
	c := p.resolved("10.0.0.2:7471")
	p.w.mute = func(n *node) bool { return n == p.server }
	must(t, c.connect(""))
	if ev := c.expect(Unreachable); ev.status != -int32(syscall.ETIMEDOUT) && ev.status != -int32(syscall.EHOSTUNREACH) {
		t.Errorf("%+v", ev)
	}
	c.end()
	p.checkEmpty(t, c.ch)
}

// A program that has made its own queue pair completes the connection itself.
func TestEstablish(t *testing.T) {
	p := newPair(t, nil)
	l := p.listener("0.0.0.0:7471")
	c, err := p.c.create(p.c.open())
	must(t, err, c.resolve("", "10.0.0.2:7471", 2000))
	c.expect(AddrResolved)
	must(t, c.resolveRoute(2000))
	c.expect(RouteResolved)
	c.noInit = true
	must(t, c.createQP(p.client), c.connect(""))
	s, _ := l.request()
	must(t, s.createQP(p.server), s.accept("pd"))
	if ev := c.expect(ConnectResponse); ev.private != "pd" {
		t.Errorf("%+v", ev)
	}
	_, err = c.initQPAttr(verbs.Init)
	must(t, err, c.establish())
	s.expect(Established)
	must(t, s.disconnect())
	c.expect(Disconnected)
	must(t, c.disconnect())
	s.expect(Disconnected)
	c.end()
	s.end()
	l.end()
	p.checkEmpty(t, l.ch, c.ch)
}

// With an option that is an attribute of the queue pair, librdmacm completes
// the connection, so that it can set it.
func TestAckTimeout(t *testing.T) {
	p := newPair(t, nil)
	l, c := p.listener("0.0.0.0:7471"), p.resolved("10.0.0.2:7471")
	must(t, c.option(optionAckTimeout, 21), c.connect(""))
	s, _ := l.request()
	must(t, s.createQP(p.server), s.accept(""))
	if mask, err := c.respond(); err != nil || mask != attrTimeout {
		t.Errorf("mask %#x, %v", mask, err)
	}
	s.expect(Established)
	if _, err := c.initQPAttr(verbs.RTS); err != nil || p.c.mem[134] != 21 {
		t.Errorf("timeout %d, %v", p.c.mem[134], err)
	}
	c.end()
	s.expect(Disconnected)
	s.end()
	l.end()
	p.checkEmpty(t, l.ch, c.ch)
}

// Whatever depths the two ask for, they connect, and each is told its own.
func TestDepths(t *testing.T) {
	for _, d := range [][4]byte{{0, 0, 0, 0}, {0, 5, 7, 0}, {32, 32, 1, 1}, {3, 9, 9, 3}} {
		p := newPair(t, nil)
		l, c := p.listener("0.0.0.0:7471"), p.resolved("10.0.0.2:7471")
		c.ird, c.ord = d[0], d[1]
		must(t, c.connect(""))
		s, ev := l.request()
		if ev.ird != max(c.ord, 1) || ev.ord != c.ird { // one Read says that the client is ready
			t.Errorf("asked %v, the request says %+v", d, ev)
		}
		s.ird, s.ord = d[2], d[3]
		must(t, s.createQP(p.server), s.accept(""))
		atServer, atClient := s.expect(Established), c.expect(Established)
		if atServer.ord > c.ird || atClient.ord > s.ird {
			t.Errorf("asked %v, the client may read %d at a time, the server %d", d, atClient.ord, atServer.ord)
		}
		p.checkEmpty(t, l.ch, c.ch)
	}
}

// Once it has asked for the end, a program is told of no error, and may forget
// the id: what is queued is still sent.
func TestDisconnectThen(t *testing.T) { over(t, testDisconnectThen) }

func testDisconnectThen(t *testing.T, of verbs.Personality) {
	p := newPairOf(t, nil, of)
	c, s, l := p.connected("0.0.0.0:7471", "10.0.0.2:7471")
	must(t, c.disconnect(), s.qp.Modify(verbs.Err))
	if ev := c.expect(Disconnected); ev.status != 0 {
		t.Errorf("the side that has asked: %+v", ev)
	}
	s.expect(Disconnected)
	c2 := p.resolved("10.0.0.2:7471")
	must(t, c2.connect(""))
	s2, _ := l.request()
	must(t, s2.createQP(p.server), s2.accept(""))
	c2.established()
	s2.expect(Established)
	must(t, c2.disconnect())
	c2.end()
	if ev := s2.expect(Disconnected); ev.status != 0 {
		t.Errorf("the other side: %+v", ev)
	}
	p.checkEmpty(t, l.ch, c.ch, c2.ch)
}

// A port that the program has not chosen may wait for the end of an old
// connection with this peer: then another one is taken.
func TestPortInTimeWait(t *testing.T) {
	p := newPair(t, nil)
	c, s, l := p.connected("0.0.0.0:7471", "10.0.0.2:7471")
	old, err := c.queryRoute()
	must(t, err, c.disconnect())
	s.expect(Disconnected)
	c.expect(Disconnected)
	c.end()
	p.client.d.s.ports.last = old.port - 1
	again := p.resolved("10.0.0.2:7471")
	must(t, again.connect(""))
	src, err := again.queryRoute()
	if err != nil || src.port == old.port {
		t.Errorf("port %d again, %v", src.port, err)
	}
	s2, _ := l.request()
	must(t, s2.createQP(p.server), s2.accept(""))
	again.expect(Established)
	p.checkEmpty(t, l.ch, c.ch, again.ch)
}

// TestServerSpeaksFirst: a program that serves may send first, if a client that
// asks for no peer-to-peer model is silent.
func TestServerSpeaksFirst(t *testing.T) {
	p := newPair(t, nil)
	l := p.listener("0.0.0.0:7471")
	c := &cmid{noInit: true} // its queue pair only
	must(t, c.createQP(p.client))
	id := p.client.dev.CM.NewID(func(cm.Event, frame.Time) {}, nil)
	must(t, id.Connect(netip.MustParseAddrPort("10.0.0.2:7471"), cm.Params{QP: c.qp}, p.w.now))
	s, _ := l.request()
	must(t, s.createQP(p.server), s.accept(""))
	s.expect(Established)
	begun := p.w.now
	if _, err := s.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite}); err != nil {
		t.Fatal(err)
	}
	if !p.w.until(func() bool { return s.qp.SendsPending() == 0 }) || p.w.now.Sub(begun) < 100*time.Millisecond {
		t.Errorf("%d requests wait after %v", s.qp.SendsPending(), p.w.now.Sub(begun))
	}
}
