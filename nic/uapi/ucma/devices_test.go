package ucma

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// trio is a client beside a server program with two NICs.
func newTrio(t testing.TB, rng *rand.Rand) (p *pair, second *node) {
	p = &pair{w: newWorld(t, rng)}
	p.client = p.w.nic(NewServer(), "nic0", "10.0.0.1/24", "10.1.0.1/24", "fd00::1/64")
	s := NewServer()
	p.server = p.w.nic(s, "nic1", "10.0.0.2/24", "fd00::2/64")
	second = p.w.nic(s, "nic2", "10.1.0.2/24")
	p.server.more = []*Device{second.d}
	p.c, p.s = p.w.thread(100, p.client), p.w.thread(200, p.server)
	return p, second
}

// A program on two NICs listens on both with one id, and connects through the
// one that has the route, whichever thread does what when.
func TestTwoNICs(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			if seed == 0 {
				rng = nil
			}
			p, second := newTrio(t, rng)
			l := p.listener("0.0.0.0:7471")
			var channels []*channel
			for to, n := range map[string]*node{"10.0.0.2:7471": p.server, "10.1.0.2:7471": second} {
				c := p.resolved(to)
				must(t, c.connect("x"))
				s, _ := l.request()
				must(t, s.createQP(n), s.accept("y"))
				c.expect(Established)
				s.expect(Established)
				must(t, p.s.write(s.ch, cmdQueryRoute, body{}.u64(p.s.addr).u32(s.num).u32(0), routeLen))
				if guid := n.dev.Verbs.Identity().GUID; verbs.GUID(p.s.mem[:8]) != guid {
					t.Errorf("%s is at NIC %x, not %v", to, p.s.mem[:8], guid)
				}
				must(t, s.disconnect())
				c.expect(Disconnected)
				must(t, c.disconnect())
				s.expect(Disconnected)
				s.end()
				c.end()
				channels = append(channels, c.ch)
			}
			back := p.listenerOf(p.c, "10.1.0.1:9000")
			i, err := p.s.create(l.ch)
			must(t, err, i.resolve("", "10.1.0.1:9000", 2000))
			i.expect(AddrResolved)
			must(t, i.resolveRoute(1))
			i.expect(RouteResolved)
			must(t, i.createQP(second), i.connect(""))
			r, _ := back.request()
			must(t, r.reject("no"))
			i.expect(Rejected)
			r.end()
			i.end()
			back.end()
			l.end()
			p.checkEmpty(t, append(channels, l.ch, back.ch)...)
			if n := len(second.dev.CM.Listeners()); n > 0 {
				t.Errorf("%d listeners left on the second NIC", n)
			}
		})
	}
}

// listenerOf is listener of another program.
func (p *pair) listenerOf(th *thread, at string) *cmid {
	p.w.t.Helper()
	l, err := th.create(th.open())
	must(p.w.t, err, l.bind(at), l.listen(0))
	return l
}

// A command that another NIC has begun is not taken back: it would be written
// again.
func TestCancelBegun(t *testing.T) {
	p, _ := newTrio(t, rand.New(rand.NewPCG(1, 6)))
	l, err := p.s.create(p.s.open())
	must(t, err, l.bind("0.0.0.0:7471"))
	if pending, err := p.s.start(l.ch, cmdListen, body{}.u32(l.num).u32(1), 0); !pending {
		t.Fatal(err)
	}
	if l.ch.Cancel(p.s) {
		t.Error("cancelled")
	}
	before := len(p.s.Answers)
	p.w.until(func() bool { return len(p.s.Answers) > before })
	must(t, p.s.result(before))
	p.checkEmpty(t, l.ch)
}

// If one NIC cannot listen, none does.
func TestListenAllOrNone(t *testing.T) {
	for seed := range uint64(10) {
		p, second := newTrio(t, rand.New(rand.NewPCG(seed, 2)))
		taken, err := second.dev.CM.Listen(sock("0.0.0.0:7471").addrPort(), 1, (&conn{}).handle, nil)
		must(t, err)
		l, err := p.s.create(p.s.open())
		must(t, err, l.bind("0.0.0.0:7471"))
		if err := l.listen(1); err != syscall.EADDRINUSE {
			t.Errorf("%v", err)
		}
		p.w.until(func() bool { return !p.w.mailed() })
		if n := len(p.server.dev.CM.Listeners()); n != 0 {
			t.Errorf("%d listeners left", n)
		}
		taken.Close()
		must(t, l.listen(1))
		p.checkEmpty(t, l.ch)
	}
}

// Programs that have different NICs of a server do not meet: both may have the
// same port, and each reaches its peer through its own NIC.
func TestProgramsApart(t *testing.T) { over(t, testProgramsApart) }

func testProgramsApart(t *testing.T, of verbs.Personality) {
	p := &pair{w: newWorld(t, nil)}
	p.w.roce = of == verbs.RoCE
	s := NewServer()
	p.server, p.client = p.w.nic(s, "nic1", "10.0.0.2/24"), p.w.nic(s, "nic0", "10.0.0.1/24")
	p.c, p.s = p.w.thread(100, p.client), p.w.thread(200, p.server)
	c, _, l := p.connected("0.0.0.0:7471", "10.0.0.2:7471")
	mine := p.listenerOf(p.c, "0.0.0.0:7471")
	must(t, p.c.write(c.ch, cmdQueryRoute, body{}.u64(p.c.addr).u32(c.num).u32(0), routeLen))
	if guid := p.client.dev.Verbs.Identity().GUID; verbs.GUID(p.c.mem[:8]) != guid {
		t.Errorf("connected through NIC %x, not %v", p.c.mem[:8], guid)
	}
	if _, err := p.s.create(l.ch); err != nil {
		t.Fatal(err)
	}
	other, err := p.s.create(l.ch)
	must(t, err)
	if err := other.bind("10.0.0.1:1"); err != syscall.EADDRNOTAVAIL {
		t.Errorf("bound to the other program's NIC: %v", err)
	}
	p.checkEmpty(t, l.ch, c.ch, mine.ch)
}

// A NIC that goes takes its ids with it: the program is told, and may only
// destroy them.
func TestNICRemoved(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		p, second := newTrio(t, rng)
		l := p.listener("0.0.0.0:7471")
		c := p.resolved("10.1.0.2:7471")
		must(t, c.connect(""))
		s, _ := l.request()
		must(t, s.createQP(second), s.accept(""))
		c.expect(Established)
		s.expect(Established)
		b, err := p.s.create(l.ch)
		must(t, err, b.bind("10.1.0.2:5"))
		second.d.run(p.server.d, func(now frame.Time) {
			if seed%2 == 0 {
				second.dev.Fail(errors.New("unplugged"), now)
			}
			second.d.Detach()
		})
		told := map[uint64]EventType{}
		for range 2 {
			ev, err := p.s.event(l.ch)
			must(t, err)
			told[ev.uid] = ev.typ
		}
		if s.acked, b.acked = s.acked+1, b.acked+1; told[s.uid] != DeviceRemoval || told[b.uid] != DeviceRemoval {
			t.Errorf("events %v", told)
		}
		if _, err := s.queryRoute(); err != syscall.ENXIO {
			t.Errorf("an id without a NIC: %v", err)
		}
		if err := s.disconnect(); err == nil {
			t.Error("disconnected without a NIC")
		}
		s.end()
		b.end()
		c.expect(Disconnected)
		c.end()
		c2 := p.resolved("10.0.0.2:7471") // the other NIC still listens
		must(t, c2.connect(""))
		s2, _ := l.request()
		must(t, s2.reject(""))
		c2.expect(Rejected)
		s2.end()
		l.end()
		p.checkEmpty(t, l.ch, c.ch, c2.ch)
	}
}

// The files of a NIC that has gone work on with the others, until these go.
func TestHomeRemoved(t *testing.T) {
	p, second := newTrio(t, nil)
	ch := p.s.open()
	var ids []*cmid
	for _, at := range []string{"10.0.0.2:1", "10.1.0.2:1"} {
		i, err := p.s.create(ch)
		must(t, err, i.bind(at))
		ids = append(ids, i)
	}
	p.server.d.Detach()
	ids[0].expect(DeviceRemoval)
	i, err := p.s.create(ch)
	must(t, err)
	if err := i.bind("10.0.0.2:2"); err != syscall.EADDRNOTAVAIL {
		t.Errorf("bound to the NIC that has gone: %v", err)
	}
	must(t, i.bind("10.1.0.2:2"))
	second.d.Detach()
	ids[1].expect(DeviceRemoval)
	i.expect(DeviceRemoval)
	if len(p.server.d.s.homes) != 1 {
		t.Errorf("%d homes", len(p.server.d.s.homes))
	}
	p.checkEmpty(t, ch)
	if len(p.server.d.s.homes) != 0 {
		t.Error("a home that has nothing")
	}
}

// A NIC that goes while a program binds to it, or resolves an address by it, is
// not used.
func TestNICRemovedMeanwhile(t *testing.T) {
	for seed := range uint64(20) {
		p, second := newTrio(t, rand.New(rand.NewPCG(seed, 7)))
		ch := p.s.open()
		b, err := p.s.create(ch)
		must(t, err)
		i, err := p.s.create(ch)
		must(t, err)
		gone := func() { second.d.run(p.server.d, func(frame.Time) { second.d.Detach() }) }
		pending, err := p.s.start(ch, cmdResolveIP, body{}.zero(28).addr("10.1.0.1:1", 28).u32(i.num).u32(500), 0)
		if err != nil || !pending {
			t.Fatal(err)
		}
		for range seed % 5 {
			p.server.turn()
			second.turn()
		}
		gone()
		if err := b.bind("10.1.0.2:5"); err != nil && err != syscall.EADDRNOTAVAIL && err != syscall.ENXIO {
			t.Errorf("bind: %v", err)
		}
		p.w.run(1e9)
		p.s.NonBlock = true
		for ch.readable() {
			if ev, err := p.s.event(ch); err != nil || ev.typ == AddrResolved && p.server.d.ids[i.num].state == addrResolved {
				t.Errorf("event %+v, %v", ev, err)
			}
		}
		for _, o := range []*cmid{b, i} {
			if o := p.server.d.ids[o.num]; o.state != removed && o.dev == second.d {
				t.Errorf("id %d is on a NIC that is gone", o.num)
			}
		}
		p.checkEmpty(t, ch)
	}
}

// Requests beyond the backlog that nobody has fetched are refused; fetching
// makes room.
func TestBacklog(t *testing.T) { over(t, testBacklog) }

func testBacklog(t *testing.T, of verbs.Personality) {
	p := newPairOf(t, nil, of)
	l, err := p.s.create(p.s.open())
	must(t, err, l.bind("0.0.0.0:7471"), l.listen(2))
	var all []*cmid
	for range 5 {
		c := p.resolved("10.0.0.2:7471")
		must(t, c.connect(""))
		all = append(all, c)
		p.w.run(1e7)
	}
	for n, c := range all {
		if refused := c.ch.readable(); refused != (n >= 2) {
			t.Errorf("request %d refused: %v", n, refused)
		}
	}
	first, _ := l.request()
	more := p.resolved("10.0.0.2:7471")
	must(t, more.connect(""), first.createQP(p.server), first.accept(""))
	all[0].established()
	p.w.run(1e7)
	if more.ch.readable() {
		t.Error("refused though there is room")
	}
	if n, err := l.destroy(); err != nil || n != 1 {
		t.Errorf("%d events fetched, %v", n, err)
	}
	all[1].expect(Rejected) // with the listener that never fetched it
	more.expect(Rejected)
	channels := []*channel{l.ch, more.ch}
	for _, c := range all {
		channels = append(channels, c.ch)
	}
	p.checkEmpty(t, channels...)
}

// A request whose peer has gone cannot be accepted.
func TestAcceptTooLate(t *testing.T) {
	p := newPair(t, nil)
	l, c := p.listener("0.0.0.0:7471"), p.resolved("10.0.0.2:7471")
	must(t, c.connect(""))
	s, _ := l.request()
	c.end() // gives up
	p.w.run(1e9)
	must(t, s.createQP(p.server))
	if err := s.accept(""); err != syscall.ECONNRESET {
		t.Errorf("%v", err)
	}
	if l.ch.readable() {
		t.Error("an event of an id that was never accepted")
	}
	s.qp = nil // which has nothing to close
	must(t, s.disconnect())
	s.end()
	p.checkEmpty(t, l.ch, c.ch)
}

// The end of a connection by everything but DISCONNECT.
func TestAbruptEnds(t *testing.T) {
	for name, end := range map[string]func(c *cmid) error{
		"destroy id":    func(c *cmid) error { _, err := c.destroy(); return err },
		"destroy QP":    func(c *cmid) error { return c.qp.Destroy() },
		"QP to error":   func(c *cmid) error { return c.qp.Modify(verbs.Err) },
		"close channel": func(c *cmid) error { c.ch.Close(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, nil)
			c, s, l := p.connected("0.0.0.0:7471", "10.0.0.2:7471")
			must(t, end(c))
			if ev := s.expect(Disconnected); ev.status != -int32(syscall.ECONNRESET) {
				t.Errorf("%+v", ev)
			}
			if name == "destroy QP" || name == "QP to error" {
				c.expect(Disconnected)
				c.end()
			}
			s.end()
			l.end()
			if name != "close channel" {
				c.ch.Close()
			}
			p.checkEmpty(t, l.ch)
		})
	}
}

// The class of packets follows the option, on both sides.
func TestTOS(t *testing.T) {
	p := newPair(t, nil)
	classes := map[*node]map[byte]bool{p.client: {}, p.server: {}}
	p.w.mute = func(n *node) bool {
		if b := n.sent; len(b) > 34 && b[12] == 8 && b[13] == 0 && b[23] == 6 {
			classes[n][b[15]] = true
		}
		return false
	}
	l := p.listener("0.0.0.0:7471")
	c := p.resolved("10.0.0.2:7471")
	must(t, c.option(optionTOS, 0x28), c.connect(""))
	s, _ := l.request()
	must(t, s.option(optionTOS, 0x48), s.createQP(p.server), s.accept(""))
	c.expect(Established)
	s.expect(Established)
	must(t, c.disconnect())
	s.expect(Disconnected)
	if got := classes[p.client]; !got[0x28] || len(got) != 1 {
		t.Errorf("the client sent with %v", got)
	}
	if got := classes[p.server]; !got[0x48] {
		t.Errorf("the server sent with %v", got)
	}
	p.checkEmpty(t, l.ch, c.ch)
}
