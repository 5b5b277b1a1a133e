package toe

import (
	"bytes"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tapir/nic/toe/packet"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// testPool lends frames without bound and knows how many are out.
type testPool struct {
	small, big []*frame.Frame
	out        int
	limit      int // 0: none
}

const smallFrame = 2048

func (p *testPool) Get(size int) *frame.Frame {
	if p.limit > 0 && p.out >= p.limit {
		return nil
	}
	p.out++
	list, n := &p.small, smallFrame
	if size+frame.DefaultHeadroom > smallFrame {
		list, n = &p.big, 66<<10
	}
	if l := len(*list); l > 0 {
		f := (*list)[l-1]
		*list = (*list)[:l-1]
		f.Reset()
		return f
	}
	return frame.New(make([]byte, n), p)
}

func (p *testPool) Put(f *frame.Frame) {
	p.out--
	if f.Cap() == smallFrame {
		p.small = append(p.small, f)
	} else {
		p.big = append(p.big, f)
	}
}

// faults are probabilities in 1/1000 per frame.
type faults struct {
	loss, dup, reorder, corrupt int
	delay, jitter               time.Duration
	merge                       bool // hand equal segments over as super-segments
}

type arrival struct {
	at frame.Time
	n  uint64
	to *node
	f  *frame.Frame
}

type arrivals []arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].n < a[j].n
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	o := *a
	x := o[len(o)-1]
	*a = o[:len(o)-1]
	return x
}

// world is two nodes and the link between them in virtual time.
type world struct {
	t     testing.TB
	now   frame.Time
	rnd   *rand.Rand
	queue arrivals
	n     uint64
	pool  *testPool
	a, b  *node
	f     faults
	trace hash.Hash // of every frame sent, with its time
	tap   func(from *node, h *ip.Header, th *tcp.Header, data []byte)
	block func(from *node, th *tcp.Header, data []byte) bool // true: lose it
	mtu   int                                                // 0: none; larger packets are refused by "ICMP"
	hole  bool                                               // they vanish instead
	icmp  []func()
	late  func(from *node) time.Duration // delays a frame further
	strip func(o *tcp.Options)           // takes options away from every SYN
	steps int
}

type node struct {
	w     *world
	e     *Engine
	addr  netip.Addr
	peer  *node
	notes frame.Notes
	room  int
	sent  int
}

func newWorld(t testing.TB, seed uint64, cfgA, cfgB Config, f faults, v6 bool) *world {
	w := &world{t: t, now: 1, rnd: rand.New(rand.NewPCG(seed, 7)), pool: &testPool{}, f: f, trace: sha256.New()}
	addrs := [2]string{"10.0.0.1", "10.0.0.2"}
	if v6 {
		addrs = [2]string{"fd00::1", "fd00::2"}
	}
	mk := func(cfg Config, addr string, salt uint64) *node {
		n := &node{w: w, addr: netip.MustParseAddr(addr), room: 1 << 20}
		binary.LittleEndian.PutUint64(cfg.Secret[:], seed<<8|salt)
		n.e = New(cfg, w.pool, n, &n.notes)
		return n
	}
	w.a, w.b = mk(cfgA, addrs[0], 1), mk(cfgB, addrs[1], 2)
	w.a.peer, w.b.peer = w.b, w.a
	return w
}

// Room is what is left of room since the link was drained, once per step.
func (n *node) Room() int { return n.room - n.sent }

// Transmit checks the frame as a strict peer would, splits super-frames, and
// lets the faults have their way with each true segment.
func (n *node) Transmit(f *frame.Frame, dst netip.Addr, _ frame.Time) {
	w := n.w
	n.sent++
	h, seg, err := ip.Parse(f.Bytes())
	if err != nil || h.Src != n.addr || h.Dst != dst || dst != n.peer.addr {
		w.t.Fatalf("sent a bad packet: %v %+v", err, h)
	}
	if f.Headroom() != frame.DefaultHeadroom {
		w.t.Fatalf("headroom %d", f.Headroom())
	}
	if f.NeedsCsum {
		want := ip.Fold(ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(seg)))
		if int(f.CsumStart) != h.HeaderLen() || f.CsumOffset != tcp.ChecksumOffset ||
			binary.BigEndian.Uint16(seg[tcp.ChecksumOffset:]) != want {
			w.t.Fatalf("bad partial checksum: %+v", f.Offload)
		}
	} else if ip.Checksum(seg, ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(seg))) != 0 {
		w.t.Fatal("sent a bad checksum")
	}
	th, data, err := tcp.Parse(seg)
	if err != nil {
		w.t.Fatal(err)
	}
	size := n.e.cfg.MTU - len(f.Bytes()) + len(data)
	if f.GSO == frame.GSONone {
		w.carry(n, &h, &th, data, size, f.NeedsCsum)
	} else {
		size := int(f.GSOSize)
		if len(data) <= size || (len(data)+size-1)/size > n.e.cfg.MaxSegs || f.Len() > maxPacket {
			w.t.Fatalf("bad super-frame: %d octets, gso %d", len(data), size)
		}
		if w.f.merge && w.mtu == 0 {
			w.super(n, f, &th, data)
		} else {
			w.split(n, &h, th, data, size)
		}
	}
	f.Release()
}

func (w *world) split(n *node, h *ip.Header, th tcp.Header, data []byte, size int) {
	flags := th.Flags
	for len(data) > 0 {
		k := min(size, len(data))
		th.Flags = flags
		if k < len(data) {
			th.Flags &^= tcp.PSH | tcp.FIN
		}
		w.carry(n, h, &th, data[:k], n.e.cfg.MTU, true)
		th.Seq = th.Seq.Add(k)
		h.ID++
		data = data[k:]
	}
}

// carry puts one true segment on the link.
func (w *world) carry(n *node, h *ip.Header, th *tcp.Header, data []byte, room int, partial bool) {
	if w.strip != nil && th.Flags.Has(tcp.SYN) {
		w.strip(&th.Opts)
	}
	size := h.HeaderLen() + th.Len() + len(data)
	if size > n.e.cfg.MTU {
		w.t.Fatalf("packet of %d octets exceeds the MTU", size)
	}
	if w.tap != nil {
		w.tap(n, h, th, data)
	}
	if w.mtu > 0 && size > w.mtu {
		if w.hole {
			return
		}
		local, remote, seq := netip.AddrPortFrom(h.Src, th.SrcPort), netip.AddrPortFrom(h.Dst, th.DstPort), uint32(th.Seq)
		w.icmp = append(w.icmp, func() { n.e.Unreachable(local, remote, seq, false, w.mtu, w.now) })
		return
	}
	f := w.pool.Get(size)
	hh := *h
	hh.PayloadLen = th.Len() + len(data)
	b := f.Extend(size)
	k := hh.Put(b)
	seg := b[k:]
	copy(seg[th.Put(seg):], data)
	packet.PutChecksum(seg, h.Src, h.Dst)
	w.hashTrace(n, b)
	if w.block != nil && w.block(n, th, data) {
		f.Release()
		return
	}
	w.deliver(n, f)
}

// super passes a super-frame on whole, as a TAP with offloads does.
func (w *world) super(n *node, f *frame.Frame, th *tcp.Header, data []byte) {
	g := w.pool.Get(f.Len())
	g.Append(f.Bytes())
	g.Offload = f.Offload
	w.hashTrace(n, g.Bytes())
	if w.block != nil && w.block(n, th, data) {
		g.Release()
		return
	}
	w.deliver(n, g)
}

func (w *world) hashTrace(n *node, b []byte) {
	var t [8]byte
	binary.LittleEndian.PutUint64(t[:], uint64(w.now))
	w.trace.Write(t[:])
	w.trace.Write(b)
}

func (w *world) chance(perMille int) bool { return perMille > 0 && w.rnd.IntN(1000) < perMille }

// deliver takes f and applies the faults.
func (w *world) deliver(n *node, f *frame.Frame) {
	if w.chance(w.f.loss) {
		f.Release()
		return
	}
	if w.chance(w.f.dup) {
		g := w.pool.Get(f.Len())
		g.Append(f.Bytes())
		g.Offload = f.Offload
		w.enqueue(n, g, w.delay())
	}
	d := w.delay()
	if w.chance(w.f.reorder) {
		d += time.Duration(w.rnd.IntN(50)) * 20 * time.Microsecond
	}
	if w.late != nil {
		d += w.late(n)
	}
	if w.chance(w.f.corrupt) && f.GSO == frame.GSONone {
		b := f.Bytes()
		b[w.rnd.IntN(len(b))] ^= 1 << w.rnd.IntN(8)
		f.Offload = frame.Offload{}
	}
	w.enqueue(n, f, d)
}

func (w *world) delay() time.Duration {
	d := max(w.f.delay, 10*time.Microsecond)
	if w.f.jitter > 0 {
		d += time.Duration(w.rnd.Int64N(int64(w.f.jitter)))
	}
	return d
}

func (w *world) enqueue(n *node, f *frame.Frame, d time.Duration) {
	w.n++
	heap.Push(&w.queue, arrival{at: w.now.Add(d), n: w.n, to: n.peer, f: f})
}

func (w *world) receive(a arrival) {
	h, seg, err := ip.Parse(a.f.Bytes())
	if err == nil && h.Dst == a.to.addr && h.Proto == ip.ProtoTCP {
		if !a.to.e.Segment(&h, seg, a.f.Offload, w.now) {
			a.to.e.Reset(&h, seg)
		}
	}
	a.f.Release()
}

// run goes on until done reports true or the virtual time is over.
func (w *world) run(until time.Duration, done func() bool) bool {
	w.t.Helper()
	end := w.now.Add(until)
	for !done() {
		if w.steps++; w.steps > 20_000_000 {
			w.t.Fatal("the world does not come to rest")
		}
		w.a.sent, w.b.sent = 0, 0
		next := min(w.a.e.Poll(w.now), w.b.e.Poll(w.now))
		if w.a.Room() <= 0 || w.b.Room() <= 0 {
			next = w.now + 1
		}
		for _, tell := range w.icmp {
			tell()
			next = w.now
		}
		w.icmp = w.icmp[:0]
		if len(w.queue) > 0 {
			next = min(next, w.queue[0].at)
		}
		if next > end {
			w.now = end
			return done()
		}
		w.now = max(w.now, next)
		if w.steps%16 == 0 {
			w.audit()
		}
		for len(w.queue) > 0 && w.queue[0].at <= w.now {
			w.receive(heap.Pop(&w.queue).(arrival))
		}
	}
	return true
}

func (w *world) audit() {
	w.t.Helper()
	for _, n := range []*node{w.a, w.b} {
		for c := range n.e.Conns {
			if err := audit(c); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func (w *world) runFor(d time.Duration) { w.run(d, func() bool { return false }) }

// app is a Handler that sends total octets of a seeded pattern in records
// and keeps the hash of what it receives.
type app struct {
	conn        *Conn
	total       uint64
	seed        uint64
	record      func(off uint64) int // length of the record at off
	cuts        []uint64             // ends of the records cut so far
	acked       uint64
	sum         hash.Hash
	received    uint64
	established bool
	peerClosed  bool
	closed      bool
	err         error
	closeAtEnd  bool // close when everything is sent
	closeOnFin  bool
	onReceive   func(data []byte)
	stream      []byte
}

func newApp(total, seed uint64) *app {
	return &app{total: total, seed: seed, sum: sha256.New(), closeOnFin: true}
}

// octet is octet off of the pattern.
func octet(seed, off uint64) byte {
	x := (off/8 + 1) * (seed*2 + 0x9e3779b97f4a7c15)
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return byte(x >> (8 * (off & 7)))
}

func pattern(p []byte, seed, off uint64) {
	for i := range p {
		p[i] = octet(seed, off+uint64(i))
	}
}

func (a *app) end() uint64 {
	if len(a.cuts) == 0 {
		return a.acked
	}
	return a.cuts[len(a.cuts)-1]
}

func (a *app) cut(limit int) bool {
	end := a.end()
	if end >= a.total {
		return false
	}
	n := uint64(limit)
	if a.record != nil {
		n = min(n, uint64(a.record(end)))
	}
	a.cuts = append(a.cuts, min(end+n, a.total))
	return true
}

// Next returns whole records only, unless the first alone is too long.
func (a *app) Next(off uint64, limit int) int {
	i := 0
	for i < len(a.cuts) && a.cuts[i] <= off {
		i++
	}
	n := 0
	for {
		if i == len(a.cuts) && !a.cut(limit) {
			return n
		}
		if k := int(a.cuts[i] - off); k > limit {
			if n == 0 {
				return limit
			}
			return n
		} else {
			n = k
		}
		i++
		if a.record == nil {
			return n
		}
	}
}

func (a *app) Render(off uint64, p []byte) {
	if off < a.acked || off+uint64(len(p)) > a.end() {
		panic(fmt.Sprintf("render [%d,+%d) outside [%d,%d)", off, len(p), a.acked, a.end()))
	}
	pattern(p, a.seed, off)
}

// runner is an app that knows its runs.
type runner struct{ *app }

func (l runner) Run(off uint64, n, limit, most int) (count int) {
	for count < most && l.Next(off+uint64(count*n), limit) == n {
		count++
	}
	return count
}

func (a *app) Established(c *Conn, now frame.Time) {
	a.conn, a.established = c, true
	c.Kick()
	if a.closeAtEnd {
		c.Close()
	}
}

func (a *app) Receive(c *Conn, data []byte, now frame.Time) {
	a.received += uint64(len(data))
	a.sum.Write(data)
	if a.onReceive != nil {
		a.onReceive(data)
	}
}

func (a *app) Acked(c *Conn, off uint64, now frame.Time) {
	a.acked = off
	i := 0
	for i < len(a.cuts) && a.cuts[i] <= off {
		i++
	}
	if i > 0 {
		a.cuts = append(a.cuts[:0], a.cuts[i:]...)
	}
}

func (a *app) PeerClosed(c *Conn, now frame.Time) {
	a.peerClosed = true
	if a.closeOnFin {
		c.Close()
	}
}

func (a *app) Closed(c *Conn, err error, now frame.Time) {
	if a.closed {
		panic("Closed twice")
	}
	a.closed, a.err = true, err
}

// want is the hash of the first n octets of the pattern.
func want(seed, n uint64) []byte {
	h := sha256.New()
	buf := make([]byte, 4096)
	for off := uint64(0); off < n; {
		k := min(uint64(len(buf)), n-off)
		pattern(buf[:k], seed, off)
		h.Write(buf[:k])
		off += k
	}
	return h.Sum(nil)
}

func (a *app) check(t testing.TB, from *app) {
	t.Helper()
	if a.received != from.total || !bytes.Equal(a.sum.Sum(nil), want(from.seed, from.total)) {
		t.Fatalf("received %d of %d octets, or wrong ones", a.received, from.total)
	}
}

// connect opens a connection between two apps: b listens.
func (w *world) connect(a Handler, b *app) *Conn {
	w.t.Helper()
	if _, err := w.b.e.Listen(netip.AddrPortFrom(w.b.addr, 4420), 8, func(c *Conn, now frame.Time) Handler { return b }); err != nil {
		w.t.Fatal(err)
	}
	c, err := w.a.e.Connect(netip.AddrPortFrom(w.a.addr, 0), netip.AddrPortFrom(w.b.addr, 4420), a, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// rest asserts that nothing is left once TIME-WAIT is over.
func (w *world) rest() {
	w.t.Helper()
	w.runFor(3 * time.Minute)
	for _, n := range []*node{w.a, w.b} {
		if n.e.Stats().Open != 0 || n.e.timers.Len() != 0 || n.e.head != nil {
			w.t.Fatalf("%d connections and %d timers are left", n.e.Stats().Open, n.e.timers.Len())
		}
	}
	if w.pool.out != 0 {
		w.t.Fatalf("%d frames leaked", w.pool.out)
	}
}
