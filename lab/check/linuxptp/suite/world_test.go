package suite

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tapir/lab/run/result"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// clknetsimEpoch is the first day of 2010.
const clknetsimEpoch = frame.Stamp(1_262_304_000_000_000_000)

// scenario is a network as linuxptp-testsuite describes it. Nodes count from
// 1; a node has a port for each of its subnets, in their order.
type scenario struct {
	limits  Limits
	subnets [][]int
	masters []int // nodes whose clocks are exact, and which start first

	masterStart, slaveStart time.Duration
	offset                  time.Duration                  // of the slaves' clocks at time zero
	freq, wander            float64                        // of theirs: ppb, ppb per square root of a second
	maxAdj                  int64                          // largest correction of theirs, ppb
	taiOffset               time.Duration                  // of the masters' clocks
	delay, jitter           time.Duration                  // of each message: constant, exponential with that mean
	generalDelay            time.Duration                  // of general messages, on top
	more                    func(subnet int) time.Duration // constant, on top
	down                    func(subnet int, at time.Duration) bool
	stepAt, step            time.Duration // of the slaves' clocks
	epoch                   frame.Stamp   // what exact clocks show at time zero
	setup                   func(w *world)

	seed               uint64         // of the jitter
	carriage           transport.Kind // of messages
	profile            ptp.Profile
	all, master, slave func(*ptp.Config)
	each               map[int]func(*ptp.Config)
}

// defaults are the settings of test.common.
func defaults() scenario {
	return scenario{
		limits: DefaultLimits(), subnets: [][]int{{1, 2, 3}}, masters: []int{1},
		slaveStart: 9 * time.Second, offset: 100 * time.Millisecond, freq: 1e5, wander: 1,
		maxAdj:   32_767_999, // of clknetsim's hardware clocks
		carriage: transport.UDPv4,
		delay:    100, jitter: 100, epoch: clknetsimEpoch,
	}
}

// syncBetween sets when clocks are to come into sync.
func (s *scenario) syncBetween(from, to time.Duration) {
	s.limits.MinSync, s.limits.MaxSync, s.limits.From = from, to, to
}

// scale makes the scenario one for Syncs every 2^log s, with looks at the
// clocks as often, but at least once a second. They are to come into sync
// before most looks.
func (s *scenario) scale(log int, most time.Duration) {
	by := math.Exp2(float64(log))
	s.limits.Interval = time.Duration(min(by, 1) * 1e9)
	s.limits.End = time.Duration(by * float64(s.limits.End))
	s.syncBetween(10*s.limits.Interval, most*s.limits.Interval)
	s.limits.From = time.Duration(by * float64(most*time.Second))
}

func (s *scenario) isMaster(node int) bool {
	for _, m := range s.masters {
		if m == node {
			return true
		}
	}
	return false
}

// world is a scenario that runs.
type world struct {
	t     *testing.T
	s     *scenario
	now   frame.Time
	queue events
	made  uint64
	rng   *rand.Rand
	nodes []*node                 // by number; 0 is nil
	seen  map[[2]int]map[int]bool // Announces from node to node, by length
}

type node struct {
	w        *world
	number   int
	phc      *clock.PHC
	instance *ptp.Instance
	subnets  []int // by port
	start    frame.Time
	wake     frame.Time
	points   []result.Point
	states   []msg.PortState
	servos   map[servo.State]int
	longest  time.Duration     // path delay that was measured
	parent   msg.ClockIdentity // grandmaster of the last Announce sent
}

// event is something that happens; ties are broken by age.
type event struct {
	at  frame.Time
	seq uint64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *world) at(t frame.Time, do func()) {
	w.made++
	heap.Push(&w.queue, event{t, w.made, do})
}

// run plays the scenario to its end.
func run(t *testing.T, s scenario) *world {
	t.Helper()
	w := &world{t: t, s: &s, rng: rand.New(rand.NewPCG(1588, s.seed)), nodes: []*node{nil},
		seen: map[[2]int]map[int]bool{}}
	count := 0
	for _, subnet := range s.subnets {
		for _, n := range subnet {
			count = max(count, n)
		}
	}
	for n := 1; n <= count; n++ {
		w.nodes = append(w.nodes, w.newNode(n))
	}
	w.at(0, w.look)
	if s.step != 0 {
		w.at(frame.Time(s.stepAt), w.stepSlaves)
	}
	if s.setup != nil {
		s.setup(w)
	}
	for len(w.queue) > 0 && w.queue[0].at <= frame.Time(s.limits.End) {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	return w
}

func (w *world) newNode(number int) *node {
	s := w.s
	n := &node{w: w, number: number, wake: frame.Never, servos: map[servo.State]int{}}
	for i, subnet := range s.subnets {
		for _, m := range subnet {
			if m == number {
				n.subnets = append(n.subnets, i)
			}
		}
	}
	n.states = make([]msg.PortState, len(n.subnets))
	cc, start := clock.Config{Initial: s.epoch + frame.Stamp(s.taiOffset), MaxAdj: s.maxAdj}, s.masterStart
	if !s.isMaster(number) {
		start, cc.Initial = s.slaveStart, s.epoch+frame.Stamp(s.offset)
		// The Allan deviation of a random walk that grows by so much in a second.
		cc.Oscillator = clock.Oscillator{PPB: s.freq, RandomWalkFM: s.wander / math.Sqrt(3), Seed: uint64(number)}
	}
	var err error
	if n.phc, err = clock.New(cc); err != nil {
		w.t.Fatal(err)
	}
	cfg := s.config(number, len(n.subnets))
	if n.instance, err = ptp.New(cfg, n.phc, n); err != nil {
		w.t.Fatalf("node %d: %v", number, err)
	}
	n.instance.Observe(n)
	n.start = frame.Time(start)
	n.wakeAt(n.start)
	return n
}

// identity is that of the node with a number.
func identity(number int) msg.ClockIdentity {
	return msg.ClockIdentity{0x12, 0x34, 0x56, 0xff, 0xfe, 0x78, 1, byte(number)}
}

func (s *scenario) config(number, ports int) ptp.Config {
	cfg := ptp.NewConfig(s.profile, identity(number), ports)
	cfg.Seed = uint64(number)
	role := s.slave
	if s.isMaster(number) {
		role = s.master
	}
	for _, set := range []func(*ptp.Config){s.all, role, s.each[number]} {
		if set != nil {
			set(&cfg)
		}
	}
	return cfg
}

// Send implements ptp.Lower.
func (n *node) Send(port int, m ptp.Outgoing) {
	w := n.w
	if m.ID != 0 {
		n.instance.TxStamp(port, m.ID, n.phc.At(w.now), nil, w.now)
	}
	subnet := n.subnets[port]
	if w.s.down != nil && w.s.down(subnet, time.Duration(w.now)) {
		return
	}
	carrier := n.carrier(subnet)
	for _, to := range w.s.subnets[subnet] {
		if peer := w.nodes[to]; to != n.number && (m.Dst == transport.Addr{} || m.Dst == peer.addr(subnet)) {
			w.deliver(n, peer, subnet, carrier.Append(nil, m.Body, m.Dst, peer.mac(subnet)))
		}
	}
}

func (w *world) deliver(from, to *node, subnet int, b []byte) {
	p, err := transport.Decapsulate(b)
	if err != nil {
		w.t.Fatal(err)
	}
	wait := w.s.delay + time.Duration(w.rng.ExpFloat64()*float64(w.s.jitter))
	if !p.Event {
		wait += w.s.generalDelay
	}
	if w.s.more != nil {
		wait += w.s.more(subnet)
	}
	w.note(from, to, p.Body)
	w.at(w.now.Add(wait), func() { to.receive(subnet, p) })
}

// note remembers Announces.
func (w *world) note(from, to *node, body []byte) {
	var m msg.Message
	if m.Parse(body) != nil || m.Type != msg.Announce {
		return
	}
	from.parent = m.Grandmaster.Identity
	key := [2]int{from.number, to.number}
	if w.seen[key] == nil {
		w.seen[key] = map[int]bool{}
	}
	w.seen[key][len(body)] = true
}

// mac is the node's MAC address in a subnet.
func (n *node) mac(subnet int) ether.Addr {
	return ether.Addr{0x12, 0x34, 0x56, 0x78, byte(subnet + 1), byte(n.number)}
}

// addr is the address that its messages come from there.
func (n *node) addr(subnet int) transport.Addr {
	switch n.w.s.carriage {
	case transport.UDPv4:
		return transport.Addr{IP: netip.AddrFrom4([4]byte{192, 168, byte(123 + subnet), byte(n.number)})}
	case transport.UDPv6:
		return transport.Addr{IP: netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 14: byte(subnet), 15: byte(n.number)})}
	}
	return transport.Addr{MAC: n.mac(subnet)}
}

func (n *node) carrier(subnet int) transport.Port {
	return transport.Port{Kind: n.w.s.carriage, MAC: n.mac(subnet), IP: n.addr(subnet).IP}
}

func (n *node) receive(subnet int, p transport.Packet) {
	if n.w.now < n.start {
		return
	}
	for port, s := range n.subnets {
		if s == subnet {
			n.instance.Receive(port, p.Body, ptp.Meta{Src: p.Src, Stamp: n.phc.At(n.w.now), Stamped: p.Event, Now: n.w.now})
		}
	}
	n.poll()
}

func (n *node) poll() { n.wakeAt(n.instance.Poll(n.w.now)) }

// wakeAt polls the node at time t, unless it is polled before.
func (n *node) wakeAt(t frame.Time) {
	n.wake = t
	n.w.at(t, func() {
		if n.wake == t {
			n.poll()
		}
	})
}

// PortState implements ptp.Observer.
func (n *node) PortState(port int, _, to msg.PortState, _ string, _ frame.Time) { n.states[port] = to }

// Measured implements ptp.Observer.
func (n *node) Measured(s ptp.Sample) {
	n.servos[s.Servo]++
	n.longest = max(n.longest, s.Delay.Duration().Abs())
}

// look notes the true error of every clock, once per interval.
func (w *world) look() {
	ideal := clock.Exact{NS: int64(w.s.epoch) + int64(w.now)}
	for _, n := range w.nodes[1:] {
		n.points = append(n.points, result.Point{At: time.Duration(w.now), True: n.phc.Exact(w.now).Sub(ideal)})
	}
	w.at(w.now.Add(w.s.limits.Interval), w.look)
}

func (w *world) stepSlaves() {
	for _, n := range w.nodes[1:] {
		if !w.s.isMaster(n.number) {
			if err := n.phc.AdjTime(w.now, w.s.step); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// inSync demands that all slaves are in sync.
func (w *world) inSync(t *testing.T) {
	t.Helper()
	for _, n := range w.nodes[1:] {
		if w.s.isMaster(n.number) {
			continue
		}
		v := Judge(n.points, w.s.limits)
		if err := v.Check(w.s.limits); err != nil {
			t.Errorf("node %d: %v", n.number, err)
		} else {
			t.Logf("node %d: %v", n.number, v)
		}
	}
}

// outOfSync demands that no slave is.
func (w *world) outOfSync(t *testing.T) {
	t.Helper()
	for _, n := range w.nodes[1:] {
		if v := Judge(n.points, w.s.limits); !w.s.isMaster(n.number) && v.Check(w.s.limits) == nil {
			t.Errorf("node %d: %v", n.number, v)
		}
	}
}

// Names of states that scenarios ask for.
const (
	master = msg.StateMaster
	slave  = msg.StateSlave
)

func (w *world) wantState(t *testing.T, node, port int, want msg.PortState) {
	t.Helper()
	got := w.nodes[node].states[port-1]
	if got == msg.StateGrandmaster {
		got = master
	}
	if got != want {
		t.Errorf("node %d, port %d: %v, want %v", node, port, got, want)
	}
}

// samples counts the measurements after which a node's servo was in a state.
func (w *world) samples(node int, s servo.State) int { return w.nodes[node].servos[s] }

// grandmaster is the node that a node follows, by its Announces.
func (w *world) grandmaster(node int) int { return int(w.nodes[node].parent[7]) }

// announced tells whether an Announce of that length went from node to node;
// of any length if octets is 0.
func (w *world) announced(from, to, octets int) bool {
	seen := w.seen[[2]int{from, to}]
	return seen[octets] || octets == 0 && len(seen) > 0
}
