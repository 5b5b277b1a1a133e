package iwarp

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

const wireDelay = 50 * time.Microsecond

// packet is one IP packet under way.
type packet struct {
	f  *frame.Frame
	at frame.Time
}

// wire is one direction between two nodes.
type wire struct {
	w       *world
	packets []packet
	head    int
	drop    func(n int, f *frame.Frame) bool // may also change the packet
	jitter  func() time.Duration             // reorders packets
	twice   func() bool                      // duplicates packets
	sent    int
}

func (o *wire) Transmit(f *frame.Frame, _ netip.Addr, _ frame.Time) {
	o.sent++
	if o.drop != nil && o.drop(o.sent, f) {
		f.Release()
		return
	}
	if o.twice != nil && o.twice() {
		g := o.w.pool.Get(f.Len())
		g.Append(f.Bytes())
		g.Offload = f.Offload
		o.enqueue(g)
	}
	o.enqueue(f)
}

// enqueue puts f on its way.
func (o *wire) enqueue(f *frame.Frame) {
	at := o.w.now.Add(wireDelay)
	if o.jitter != nil {
		at = at.Add(o.jitter())
	}
	o.packets = append(o.packets, packet{f, at})
	for i := len(o.packets) - 1; i > o.head && o.packets[i-1].at > at; i-- {
		o.packets[i], o.packets[i-1] = o.packets[i-1], o.packets[i]
	}
}

func (o *wire) Room() int { return 256 }

// node is one NIC without its lower half.
type node struct {
	dev   *verbs.Device
	cm    *cm.Manager
	tcp   *toe.Engine
	e     *Engine
	notes *frame.Notes
	out   *wire
	addr  netip.Addr
	next  frame.Time
	async []verbs.AsyncEvent
	said  []string // notes, if on
}

// world is two nodes and the time.
type world struct {
	t    testing.TB
	now  frame.Time
	a, b *node
	pool *buf.Pool
}

func newWorld(t testing.TB, tcp toe.Config, cfg Config) *world {
	w := &world{t: t, now: frame.Time(time.Second), pool: buf.NewPool(1<<14, 0)}
	w.a = w.newNode(1, tcp, cfg)
	w.b = w.newNode(2, tcp, cfg)
	return w
}

func (w *world) newNode(i byte, tcp toe.Config, cfg Config) *node {
	n := &node{
		dev: verbs.NewDevice(verbs.Limits{}, rand.NewPCG(0, uint64(i))), notes: &frame.Notes{},
		out: &wire{w: w}, addr: netip.AddrFrom4([4]byte{10, 0, 0, i}),
	}
	n.cm = cm.New(n.dev)
	tcp.Secret[0] = i
	n.tcp = toe.New(tcp, w.pool, n.out, n.notes)
	cfg.Source = func(netip.Addr) (netip.Addr, error) { return n.addr, nil }
	n.e = New(cfg, n.dev, n.cm, n.tcp, n.notes)
	n.dev.OnAsync(func(ev verbs.AsyncEvent, _ frame.Time) { n.async = append(n.async, ev) })
	return n
}

// deliver hands n what has arrived from the other side.
func (w *world) deliver(n *node, from *wire) (any bool) {
	for from.head < len(from.packets) && from.packets[from.head].at <= w.now {
		f := from.packets[from.head].f
		from.head++
		h, seg, err := ip.Parse(f.Bytes())
		if err != nil { // damaged on the way: the NIC would drop it
			f.Release()
			continue
		}
		if !n.tcp.Segment(&h, seg, f.Offload, w.now) {
			n.tcp.Reset(&h, seg)
		}
		if n.notes.On {
			said, _ := n.notes.Take()
			if s := (&frame.Record{Notes: said}).Text(); s != "" {
				n.said = append(n.said, s)
			}
		}
		f.Release()
		any = true
	}
	if from.head == len(from.packets) {
		from.packets, from.head = from.packets[:0], 0
	}
	return any
}

func (n *node) turn(now frame.Time) (busy bool) {
	busy = n.dev.Dispatch(now)
	before := n.out.sent
	n.e.Poll(now)
	n.next = min(n.tcp.Poll(now), n.e.Deadline())
	return busy || n.out.sent != before || n.dev.Pending()
}

// run lets time pass until done, or for a virtual minute.
func (w *world) run(done func() bool) bool {
	for limit := w.now.Add(time.Minute); w.now < limit; {
		busy := w.deliver(w.a, w.b.out)
		busy = w.deliver(w.b, w.a.out) || busy
		busy = w.a.turn(w.now) || busy
		busy = w.b.turn(w.now) || busy
		if done != nil && done() {
			return true
		}
		if busy {
			continue
		}
		next := min(w.a.next, w.b.next)
		for _, o := range []*wire{w.a.out, w.b.out} {
			if o.head < len(o.packets) {
				next = min(next, o.packets[o.head].at)
			}
		}
		if next == frame.Never {
			return done == nil
		}
		w.now = max(next, w.now+1)
	}
	return false
}

// must runs until done and fails the test otherwise.
func (w *world) must(what string, done func() bool) {
	w.t.Helper()
	if !w.run(done) {
		w.t.Fatalf("%s did not happen", what)
	}
}

// end is one side of a connection with its objects.
type end struct {
	n      *node
	pd     *verbs.PD
	cq     *verbs.CQ
	qp     *verbs.QP
	mr     *verbs.MR
	mem    []byte
	id     *cm.ID
	events []cm.Event
	wcs    []verbs.WC
}

func newEnd(t testing.TB, n *node, size int) *end {
	t.Helper()
	e := &end{n: n, mem: make([]byte, size)}
	var err error
	check := func() {
		if err != nil {
			t.Fatal(err)
		}
	}
	e.pd, err = n.dev.AllocPD()
	check()
	e.cq, err = n.dev.CreateCQ(4096, nil)
	check()
	e.mr, err = e.pd.RegMR(e.mem, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	check()
	e.qp, err = e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, MaxSend: 512, MaxRecv: 512, MaxSGE: 4, MaxInline: 256})
	check()
	return e
}

func (e *end) handle(ev cm.Event, _ frame.Time) {
	e.events = append(e.events, ev)
}

func (e *end) got(t cm.EventType) bool {
	for _, ev := range e.events {
		if ev.Type == t {
			return true
		}
	}
	return false
}

func (e *end) names() (s string) {
	for _, ev := range e.events {
		s += ev.Type.String() + "; "
	}
	return s
}

// poll collects completions and returns all so far.
func (e *end) poll() []verbs.WC {
	var wcs [64]verbs.WC
	for {
		n := e.cq.Poll(wcs[:])
		e.wcs = append(e.wcs, wcs[:n]...)
		if n < len(wcs) {
			return e.wcs
		}
	}
}

func (e *end) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: e.mr.Addr() + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}}
}

func (e *end) post(t testing.TB, wr verbs.SendWR) {
	t.Helper()
	if _, err := e.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
}

func (e *end) recv(t testing.TB, wr verbs.RecvWR) {
	t.Helper()
	if _, err := e.qp.PostRecv(wr); err != nil {
		t.Fatal(err)
	}
}

const port = 7471

// pair is a connected client (a) and server (b).
type pair struct {
	*world
	c, s *end
}

// dial starts a connection; serve decides on the request.
func dial(t testing.TB, w *world, size int, p cm.Params, serve func(s *end, ev cm.Event, now frame.Time)) *pair {
	t.Helper()
	x := &pair{w, newEnd(t, w.a, size), newEnd(t, w.b, size)}
	_, err := w.b.cm.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), port), 8, func(ev cm.Event, now frame.Time) {
		x.s.handle(ev, now)
		if ev.Type == cm.ConnectRequest {
			x.s.id = ev.ID
			serve(x.s, ev, now)
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	x.c.id = w.a.cm.NewID(x.c.handle, nil)
	p.QP = x.c.qp
	if err := x.c.id.Connect(netip.AddrPortFrom(w.b.addr, port), p, w.now); err != nil {
		t.Fatal(err)
	}
	return x
}

func acceptAll(p cm.Params) func(*end, cm.Event, frame.Time) {
	return func(s *end, ev cm.Event, now frame.Time) {
		p.QP = s.qp
		if err := ev.ID.Accept(p, now); err != nil {
			panic(err)
		}
	}
}

func connect(t testing.TB, tcp toe.Config, cfg Config, size int) *pair {
	t.Helper()
	w := newWorld(t, tcp, cfg)
	x := dial(t, w, size, cm.Params{}, acceptAll(cm.Params{}))
	w.must("connection", func() bool { return x.c.got(cm.ActiveComplete) && x.s.got(cm.PassiveComplete) })
	return x
}

// fill gives each octet a value that follows from its place.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte((i + seed) * 2654435761 >> 13)
	}
}

func wcString(wcs []verbs.WC) (s string) {
	for _, wc := range wcs {
		s += fmt.Sprintf("%d %v %v %d; ", wc.ID, wc.Opcode, wc.Status, wc.ByteLen)
	}
	return s
}

// frameArg keeps the signatures of fault functions short.
type frameArg = *frame.Frame

func bytesLines(s string) []string { return strings.Split(s, "\n") }
