package ptp

import (
	"container/heap"
	"errors"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// epoch is what the world's clocks show at its start, give or take: a day in
// 2023, TAI.
const epoch = frame.Stamp(1_700_000_000_000_000_000)

// world is a network in virtual time: nodes with clocks, joined by links.
type world struct {
	t      testing.TB
	now    frame.Time
	queue  events
	order  uint64
	nodes  []*node
	hash   uint64 // of everything sent
	frames int
	quiet  bool // no hash
}

// node is an instance with its clock and its ends of links.
type node struct {
	w    *world
	name string
	*Instance
	phc     *clock.PHC
	next    frame.Time
	ends    []*end
	states  []string // "1 LISTENING->MASTER why"
	samples []Sample
	keep    bool // samples
}

// end is one port's end of a link. All ends of a link hear each other.
type end struct {
	n     *node
	port  int
	peers []*end
	delay time.Duration // to the peers
	// alter is asked for each message that is sent: what becomes of it.
	alter func(m *msg.Message) fate
	// stamp is asked for each stamp that is to be reported.
	stamp func(m *msg.Message) stampFate
}

type fate struct {
	drop  bool
	late  time.Duration // more delay
	twice bool
}

type stampFate struct {
	lost  bool
	err   error
	late  time.Duration
	twice bool
}

type event struct {
	at    frame.Time
	order uint64
	do    func()
	// A message on its way, when do is nil.
	to  *end
	b   []byte
	src transport.Addr
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func newWorld(t testing.TB) *world { return &world{t: t, now: 0} }

func (w *world) at(t frame.Time, do func()) {
	w.order++
	heap.Push(&w.queue, event{at: t, order: w.order, do: do})
}

// id is the identity of clock n.
func id(n int) msg.ClockIdentity { return msg.ClockIdentity{0, 0x1b, 0x19, 0xff, 0xfe, 0, 0, byte(n)} }

// clockOff is a clock that runs ppb off and shows off more than the epoch.
func clockOff(ppb float64, off time.Duration) clock.Config {
	return clock.Config{Oscillator: clock.Oscillator{PPB: ppb}, Initial: epoch + frame.Stamp(off), MaxAdj: 500_000_000}
}

// add makes a node with cfg; its clock starts as c says.
func (w *world) add(name string, cfg Config, c clock.Config) *node {
	w.t.Helper()
	phc, err := clock.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	n := &node{w: w, name: name, phc: phc, keep: true}
	cfg.Seed = uint64(len(w.nodes) + 1)
	if n.Instance, err = New(cfg, phc, n); err != nil {
		w.t.Fatal(err)
	}
	n.Observe(n)
	for p := range cfg.Ports {
		n.ends = append(n.ends, &end{n: n, port: p})
	}
	w.nodes = append(w.nodes, n)
	return n
}

// link joins ends; each message takes delay to all others.
func link(delay time.Duration, ends ...*end) {
	for _, a := range ends {
		a.delay = delay
		for _, b := range ends {
			if a != b {
				a.peers = append(a.peers, b)
			}
		}
	}
}

func (n *node) addr() transport.Addr {
	return transport.Addr{MAC: ether.Addr(append([]byte{2}, n.Instance.cfg.ClockIdentity[3:]...))}
}

// Send is the lower half.
func (n *node) Send(port int, out Outgoing) {
	w, e := n.w, n.ends[port]
	var m msg.Message
	if err := m.Parse(out.Body); err != nil {
		w.t.Fatalf("%s sent % x: %v", n.name, out.Body, err)
	}
	if !w.quiet {
		h := fnv.New64a()
		fmt.Fprint(h, w.hash, w.now, n.name, port, out.Dst, out.Event)
		h.Write(out.Body)
		w.hash = h.Sum64()
	}
	w.frames++
	tx := n.phc.At(w.now)
	if out.OneStep {
		switch m.Type {
		case msg.Sync:
			m.Timestamp = msg.TimestampOf(tx)
		case msg.PdelayResp:
			m.Correction = m.Correction.Add(msg.IntervalOf(time.Duration(tx - out.Since)))
		default:
			w.t.Fatalf("%s: a one-step %v", n.name, m.Type)
		}
	}
	if out.ID != 0 {
		n.report(e, &m, out.ID, tx)
	}
	var f fate
	if e.alter != nil {
		f = e.alter(&m)
	}
	if f.drop {
		return
	}
	body := m.Append(nil)
	for _, peer := range e.peers {
		if out.Dst != (transport.Addr{}) && out.Dst != peer.n.addr() {
			continue
		}
		w.order++
		heap.Push(&w.queue, event{at: w.now.Add(e.delay + f.late), order: w.order, to: peer, b: body, src: n.addr()})
		if f.twice {
			w.order++
			heap.Push(&w.queue, event{at: w.now.Add(e.delay + f.late + 1), order: w.order, to: peer, b: body, src: n.addr()})
		}
	}
}

// report hands out the stamp of a sent message.
func (n *node) report(e *end, m *msg.Message, id uint64, tx frame.Stamp) {
	var f stampFate
	if e.stamp != nil {
		f = e.stamp(m)
	}
	if f.lost {
		return
	}
	give := func() {
		n.TxStamp(e.port, id, tx, f.err, n.w.now)
		n.poll()
	}
	if f == (stampFate{}) { // at once, from within Send
		n.TxStamp(e.port, id, tx, nil, n.w.now)
		return
	}
	n.w.at(n.w.now.Add(f.late+1), give)
	if f.twice {
		n.w.at(n.w.now.Add(f.late+2), give)
	}
}

func (n *node) poll() { n.next = n.Poll(n.w.now) }

// deliver gives a message to a node.
func (n *node) deliver(port int, b []byte, src transport.Addr) {
	n.Receive(port, b, Meta{Src: src, Stamp: n.phc.At(n.w.now), Stamped: true, Now: n.w.now})
	n.poll()
}

// run advances the world by d.
func (w *world) run(d time.Duration) {
	until := w.now.Add(d)
	for {
		var due *node
		at := until
		for _, n := range w.nodes {
			if n.next < at {
				due, at = n, n.next
			}
		}
		if len(w.queue) > 0 && w.queue[0].at <= at && w.queue[0].at < until {
			ev := heap.Pop(&w.queue).(event)
			w.now = ev.at
			if ev.do != nil {
				ev.do()
			} else {
				ev.to.n.deliver(ev.to.port, ev.b, ev.src)
			}
			continue
		}
		if due == nil {
			w.now = until
			return
		}
		w.now = max(w.now, at)
		due.poll()
	}
}

// until runs the world until ok, at most for d.
func (w *world) until(what string, d time.Duration, ok func() bool) {
	w.t.Helper()
	for end := w.now.Add(d); !ok(); w.run(10 * time.Millisecond) {
		if w.now >= end {
			w.t.Fatalf("after %v: %s did not happen\n%s", d, what, w.dump())
		}
	}
}

func (w *world) dump() (s string) {
	for _, n := range w.nodes {
		s += fmt.Sprintf("%s: %v\n", n.name, n.states)
		for i, p := range n.ports {
			s += fmt.Sprintf("  port %d %v", i+1, p.state)
			for _, c := range p.stats.Counters() {
				if c.Value != 0 {
					s += fmt.Sprintf(" %s=%d", c.Name, c.Value)
				}
			}
			s += "\n"
		}
	}
	return s
}

// PortState and Measured keep what an instance tells.
func (n *node) PortState(port int, from, to msg.PortState, why string, now frame.Time) {
	n.states = append(n.states, fmt.Sprintf("%.3f port %d %v->%v %s", float64(now)/1e9, port+1, from, to, why))
}

func (n *node) Measured(s Sample) {
	if n.keep {
		n.samples = append(n.samples, s)
	}
}

// off is by how much the clock of n is ahead of that of m, in truth.
func (n *node) off(m *node) time.Duration {
	a, b := n.phc.Exact(n.w.now), m.phc.Exact(n.w.now)
	return time.Duration(a.NS - b.NS)
}

func (n *node) state(port int) msg.PortState { return n.ports[port].state }

// converged tells that n's clock is within d of m's.
func (n *node) converged(m *node, d time.Duration) func() bool {
	return func() bool {
		off := n.off(m)
		return n.slavePort != nil && n.slavePort.state == msg.StateSlave && off < d && off > -d
	}
}

var errStamp = errors.New("no stamp")

// fast is a configuration with intervals of an eighth of a second.
func fast(p Profile, n, ports int) Config {
	cfg := NewConfig(p, id(n), ports)
	for i := range cfg.Ports {
		pc := &cfg.Ports[i]
		pc.LogAnnounceInterval, pc.LogSyncInterval, pc.LogMinDelayReqInterval, pc.LogMinPdelayReqInterval = -2, -3, -3, -3
	}
	return cfg
}

// pair is a master (node 1, preferred) and a slave 37 ppm and 1.23 ms off.
func pair(t testing.TB, change func(master, slave *Config)) (w *world, master, slave *node) {
	return pairOf(t, DefaultE2E, change)
}

func pairOf(t testing.TB, p Profile, change func(master, slave *Config)) (w *world, master, slave *node) {
	t.Helper()
	w = newWorld(t)
	a, b := fast(p, 1, 1), fast(p, 2, 1)
	a.Quality.Class = 187
	if change != nil {
		change(&a, &b)
	}
	master = w.add("master", a, clockOff(0, 0))
	slave = w.add("slave", b, clockOff(37000, 1230*time.Microsecond))
	link(500*time.Nanosecond, master.ends[0], slave.ends[0])
	return w, master, slave
}

// ideal is a clock without faults.
func ideal(t testing.TB) *clock.PHC {
	t.Helper()
	phc, err := clock.New(clockOff(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return phc
}
