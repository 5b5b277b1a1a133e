package em

import (
	"fmt"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/opa"
	"tapir/opa/cca"
	"tapir/opa/hfi"
	"tapir/opa/mad"
	"tapir/opa/sma"
	"tapir/vnic"
	"tapir/vnic/vema"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// A real fabric is made of HFI ports and vports as they are live, with frames
// on a learning bridge in virtual time.

type realFabric struct {
	now      frame.Time
	pool     *buf.Pool
	nodes    []*hfiNode
	sent     []sentFrame
	stations map[ether.Addr]*hfiNode
}

type sentFrame struct {
	from *hfiNode
	f    *frame.Frame
}

// hfiNode is an HFI with its agents, and a host that counts frames.
type hfiNode struct {
	fab     *realFabric
	name    string
	port    *hfi.Port
	vports  *vnic.Port
	smlid   opa.LID
	manager switched
	arrived int
}

// switched is a manager that can be turned off.
type switched struct{ *Manager }

func (s *switched) Receive(b []byte, from mad.Address, now frame.Time, send mad.Send) {
	if s.Manager != nil {
		s.Manager.Receive(b, from, now, send)
	}
}

func (s *switched) Poll(now frame.Time, send mad.Send) frame.Time {
	if s.Manager == nil {
		return frame.Never
	}
	return s.Manager.Poll(now, send)
}

// The node as the port's link, and as its host's.

type uplink struct{ n *hfiNode }

func (u uplink) Room() int { return 1 << 16 }
func (u uplink) Transmit(f *frame.Frame) {
	u.n.fab.sent = append(u.n.fab.sent, sentFrame{u.n, f})
}

func (n *hfiNode) Room() int { return 1 << 16 }
func (n *hfiNode) Transmit(f *frame.Frame) {
	n.arrived++
	f.Release()
}

// The node as sma.Port.

func (n *hfiNode) Info() sma.Info {
	return sma.Info{GUID: n.port.GUID(), Name: n.name, LID: n.port.LID(), SMLID: n.smlid, State: mad.PortState(n.port.State()), MTU: hfi.MaxMTU, EthOnFabric: true}
}
func (n *hfiNode) Congestion() *cca.Control { return n.port.Congestion() }
func (n *hfiNode) PKeys() []uint16          { return n.port.PKeys() }
func (n *hfiNode) SetPKeys(t []uint16)      { must(n.port.SetPKeys(t)) }
func (n *hfiNode) SetState(s mad.PortState) { must(n.port.SetState(s, n.fab.now)) }
func (n *hfiNode) Reregister()              {}
func (n *hfiNode) SetLID(lid, sm opa.LID, _ uint8) {
	n.smlid = sm
	must(n.port.SetLID(lid, 0, n.fab.now))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func newRealFabric(nodes int) *realFabric {
	fab := &realFabric{now: 1, pool: buf.NewPool(1<<16, 0), stations: map[ether.Addr]*hfiNode{}}
	for i := 1; i <= nodes; i++ {
		n := &hfiNode{fab: fab, name: fmt.Sprint("h", i)}
		var err error
		n.port, err = hfi.New(hfi.Config{GUID: guidBase + uint64(i), PKeys: []uint16{opa.PKeyManagement}}, hfi.Env{Pool: fab.pool, Wire: uplink{n}})
		must(err)
		n.vports = vnic.NewPort(n.port, fab.pool)
		for _, a := range []mad.Agent{sma.New(n), vema.New(n.vports, func(uint8) vnic.Policy { return vnic.DefaultPolicy() }), &n.manager} {
			n.port.Attach(a)
		}
		n.port.LinkUp(fab.now)
		fab.nodes = append(fab.nodes, n)
	}
	return fab
}

func (n *hfiNode) manage(cfg Config, priority uint8) *Manager {
	m, err := New(cfg, Options{GUID: n.port.GUID(), Priority: priority, Timing: Timing{Poll: 5 * time.Second}})
	must(err)
	n.manager.Manager = m
	return m
}

// run lets time pass; every tick of a millisecond each is called.
func (fab *realFabric) run(d time.Duration, tick func()) {
	for end := fab.now.Add(d); fab.now < end; fab.now = fab.now.Add(time.Millisecond) {
		tick()
		fab.settle()
	}
}

// settle lets frames move until nothing does.
func (fab *realFabric) settle() {
	for {
		for _, n := range fab.nodes {
			n.port.Poll(fab.now)
			n.vports.Poll(fab.now)
		}
		if len(fab.sent) == 0 {
			return
		}
		batch := fab.sent
		fab.sent = nil
		for _, s := range batch {
			fab.deliver(s)
		}
	}
}

func (fab *realFabric) deliver(s sentFrame) {
	b := s.f.Bytes()
	fab.stations[ether.Addr(b[6:])] = s.from
	for _, n := range fab.nodes {
		to, known := fab.stations[ether.Addr(b)]
		if n == s.from || known && n != to && b[0]&1 == 0 {
			continue
		}
		c := fab.pool.Get(len(b))
		c.Append(b)
		n.port.Receive([]*frame.Frame{c}, fab.now)
	}
	s.f.Release()
}

// load sends one frame from each member of a vESW to the next one, and
// every tenth time one to all.
type load struct {
	fab      *realFabric
	vesw     uint16
	members  []*hfiNode
	count    int
	expected int
}

func (t *load) tick() {
	t.count++
	for i, n := range t.members {
		to := t.members[(i+1)%len(t.members)].vports.VESW(t.vesw).MAC()
		t.expected++
		if t.count%10 == 0 {
			to = ether.Broadcast
			t.expected += len(t.members) - 2
		}
		d := n.vports.VESW(t.vesw)
		from := d.MAC()
		f := t.fab.pool.Get(100)
		f.Append(to[:])
		f.Append(from[:])
		f.Append(append([]byte{0x12, 0x34}, make([]byte, 86)...))
		d.Transmit([]*frame.Frame{f}, t.fab.now)
	}
}

func (t *load) arrived() (n int) {
	for _, m := range t.members {
		n += m.arrived
	}
	return n
}

// TestTakeoverUnderTraffic: 64 HFIs. The manager goes, another takes over,
// vESWs come, change and go: a vESW that stays as it is loses no frame.
func TestTakeoverUnderTraffic(t *testing.T) {
	fab := newRealFabric(64)
	blue := VESW{Name: "blue", ID: 2, Fabric: 1, PKey: 2, MTU: 9000}
	for _, n := range fab.nodes[:8] {
		blue.Members = append(blue.Members, Member{Node: Node{Name: n.name}})
	}
	blue.Members[3].Limited = true
	red := VESW{Name: "red", ID: 258, Fabric: 1, PKey: 3, MTU: 1500}
	for _, n := range fab.nodes {
		red.Members = append(red.Members, Member{Node: Node{Name: n.name}})
	}
	cfg := Config{VESWs: []VESW{blue, red}}
	first, second := fab.nodes[60].manage(cfg, 9), fab.nodes[61].manage(cfg, 1)
	quiet := func() {}
	for i := 0; !first.InSync(); i++ {
		if i == 100 {
			dump(t, first)
			t.Fatalf("not in sync after 10 s; %+v", first.Counters())
		}
		fab.run(100*time.Millisecond, quiet)
	}
	traffic := &load{fab: fab, vesw: 2, members: fab.nodes[:8]}
	for _, n := range traffic.members {
		d := n.vports.VESW(2)
		d.SetHost(n)
		d.Open()
	}
	fab.run(200*time.Millisecond, traffic.tick)

	fab.nodes[60].manager.Manager = nil
	fab.run(4*time.Second, traffic.tick)
	if second.Role() != mad.SMMaster || !second.InSync() {
		dump(t, second)
		t.Fatalf("the standby is %v, in sync %v", second.Role(), second.InSync())
	}
	red.MTU = 4000
	must(second.Reconfigure(Config{VESWs: []VESW{red, blue}}))
	fab.run(300*time.Millisecond, traffic.tick)
	green := VESW{Name: "green", ID: 514, Fabric: 1, PKey: 4, MTU: 1500, Members: red.Members[2:20]}
	must(second.Reconfigure(Config{VESWs: []VESW{green, blue}}))
	fab.run(500*time.Millisecond, traffic.tick)
	if !second.InSync() {
		dump(t, second)
		t.Fatal("not in sync after the changes")
	}
	if n := len(fab.nodes[3].vports.Netdevs()); n != 2 {
		t.Errorf("h4 has %d vports", n)
	}
	if got := traffic.arrived(); got != traffic.expected || got == 0 {
		t.Errorf("%d frames arrived of %d", got, traffic.expected)
	}
	traffic.members[0].vports.VESW(2).Close()
	traffic.tick()
	fab.run(longPolls*second.t.Poll, quiet)
	list := second.Traffic()
	if r := list[0]; len(list) != 8+18 || r.VESW != 2 || r.Node != "h1" || r.RxPackets == 0 || r.TxPackets == 0 || r.TxErrors != 1 || r.TxDropState != 1 ||
		r.RxErrors != 1 || r.RxBadVESW != 1 || r.At == 0 {
		t.Errorf("%d records, the first %+v", len(list), r)
	}
	if lent := fab.pool.Lent(); lent != 0 {
		t.Errorf("%d frames leaked", lent)
	}
}
