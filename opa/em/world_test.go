package em

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tapir/opa"
	"tapir/opa/cca"
	"tapir/opa/mad"
	"tapir/opa/sma"
	"tapir/vnic"
	"tapir/vnic/vema"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// A world is a fabric in virtual time: HFI ports with real agents on real
// vports, managers on some, and a network that carries MADs and nothing else.

type world struct {
	rand   *rand.Rand
	now    frame.Time
	queue  deliveries
	seq    uint64
	nodes  []*node
	loss   float64 // of MADs
	double float64 // share of MADs that arrive twice
	// watch sees each MAD that is sent and reports whether to lose it.
	watch func(from *node, to mad.Address, b []byte) (lose bool)
}

type delivery struct {
	at   frame.Time
	seq  uint64
	to   *node
	from mad.Address
	pkey uint16
	b    []byte
}

type deliveries []delivery

func (d deliveries) Len() int { return len(d) }
func (d deliveries) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].seq < d[j].seq
}
func (d deliveries) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *deliveries) Push(x any)   { *d = append(*d, x.(delivery)) }
func (d *deliveries) Pop() any {
	old := *d
	x := old[len(old)-1]
	*d = old[:len(old)-1]
	return x
}

// node is an HFI with all that is on it.
type node struct {
	w       *world
	guid    uint64
	name    string
	dead    bool
	cut     bool // nothing leaves nor arrives
	mtu     int
	lid     opa.LID
	smlid   opa.LID
	state   mad.PortState
	pkeys   []uint16
	cca     cca.Control
	vports  *vnic.Port
	vema    *vema.Agent
	agents  []mad.Agent
	manager *Manager
	next    frame.Time
}

func newWorld(seed uint64) *world { return &world{rand: rand.New(rand.NewPCG(seed, 1)), now: 1} }

const guidBase = 0x0011750101000000

func (w *world) add(i int) *node {
	n := &node{w: w, guid: guidBase + uint64(i), name: fmt.Sprintf("h%d", i), mtu: 10344}
	n.boot()
	w.nodes = append(w.nodes, n)
	return n
}

// boot starts the node from nothing: no LID, no vports.
func (n *node) boot() {
	n.lid, n.smlid, n.state, n.pkeys = 0, 0, mad.PortInit, make([]uint16, 16)
	n.pkeys[0] = opa.PKeyManagement
	n.cca = cca.Control{}
	n.vports = vnic.NewPort(n, nil)
	n.startAgent()
	n.next = 0
}

// startAgent starts the Ethernet management agent anew, without the vports.
func (n *node) startAgent() {
	for _, v := range slices.Clone(n.vports.Netdevs()) {
		n.vports.Remove(v.Num())
	}
	n.vports = vnic.NewPort(n, nil)
	n.vema = vema.New(n.vports, func(uint8) vnic.Policy { return vnic.Policy{} })
	n.agents = []mad.Agent{sma.New(n), n.vema}
	if n.manager != nil {
		n.agents = append(n.agents, n.manager)
	}
}

func (n *node) manage(cfg Config, opt Options) *Manager {
	opt.GUID = n.guid
	m, err := New(cfg, opt)
	if err != nil {
		panic(err)
	}
	n.manager = m
	n.agents = append(n.agents, m)
	n.next = 0
	return m
}

// stopManager ends the manager of the node, which lives on.
func (n *node) stopManager() {
	n.agents = slices.DeleteFunc(n.agents, func(a mad.Agent) bool { return a == mad.Agent(n.manager) })
	n.manager = nil
}

// The node as sma.Port.

func (n *node) Info() sma.Info {
	return sma.Info{GUID: n.guid, Name: n.name, LID: n.lid, SMLID: n.smlid, State: n.state, MTU: 10240, EthOnFabric: true}
}
func (n *node) Congestion() *cca.Control        { return &n.cca }
func (n *node) PKeys() []uint16                 { return n.pkeys }
func (n *node) SetPKeys(t []uint16)             { n.pkeys = slices.Clone(t) }
func (n *node) SetState(s mad.PortState)        { n.state = s }
func (n *node) Reregister()                     {}
func (n *node) SetLID(lid, sm opa.LID, _ uint8) { n.lid, n.smlid = lid, sm }

// The node as vnic.Lower.

func (n *node) AllocRDMANetdev(opa.NetdevClient) (opa.RDMANetdev, error) { return &netdev{}, nil }
func (n *node) FreeRDMANetdev(opa.RDMANetdev)                            {}
func (n *node) Active() bool                                             { return n.state == mad.PortActive }
func (n *node) LID() opa.LID                                             { return n.lid }
func (n *node) GUID() uint64                                             { return n.guid }
func (n *node) PortNum() uint8                                           { return 1 }
func (n *node) MTU() int                                                 { return n.mtu }
func (n *node) ICRC() opa.ICRC                                           { return opa.ICRCv1 }
func (n *node) UnknownVESW() uint64                                      { return 0 }

type netdev struct{ vesw uint16 }

func (d *netdev) SetID(_, vesw uint16) error { d.vesw = vesw; return nil }
func (d *netdev) SetMulticast([]opa.LID)     {}
func (d *netdev) Open() error                { return nil }
func (d *netdev) Stop()                      {}
func (d *netdev) Transmit(f *frame.Frame, _ uint8) frame.DropReason {
	f.Release()
	return frame.DropNone
}

// send is the node's mad.Send, with the rules of an HFI port.
func (n *node) send(to mad.Address, b []byte) bool {
	if n.dead || to.QP == opa.QPGeneral && n.state != mad.PortActive {
		return false
	}
	w := n.w
	if w.watch != nil && w.watch(n, to, b) {
		return true
	}
	from := mad.Address{LID: n.lid, QP: to.QP, SL: to.SL}
	if from.LID == 0 {
		from.LID = opa.Permissive
	}
	pkey := opa.PKeyManagement
	if slices.Contains(n.pkeys, opa.PKeyManagement|opa.PKeyFull) {
		pkey |= opa.PKeyFull
	}
	b = slices.Clone(b)
	for _, o := range w.nodes {
		if to.LID != opa.Permissive && o.lid != to.LID {
			continue
		}
		copies := 1
		if o != n {
			if n.cut || o.cut || w.rand.Float64() < w.loss {
				continue
			}
			if w.rand.Float64() < w.double {
				copies = 2
			}
		}
		for range copies {
			w.seq++
			delay := time.Duration(10+w.rand.IntN(40)) * time.Microsecond
			heap.Push(&w.queue, delivery{w.now.Add(delay), w.seq, o, from, pkey, b})
		}
	}
	return true
}

func (n *node) receive(d *delivery) {
	if n.dead || d.from.QP == opa.QPGeneral && (n.state != mad.PortActive || !opa.PKeyAllowed(n.pkeys, d.pkey, 0)) {
		return
	}
	for _, a := range n.agents {
		a.Receive(d.b, d.from, n.w.now, n.send)
	}
	n.poll()
}

func (n *node) poll() {
	n.next = frame.Never
	if n.dead {
		return
	}
	for _, a := range n.agents {
		n.next = min(n.next, a.Poll(n.w.now, n.send))
	}
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	w.runUntil(end, func() bool { return false })
	w.now = end
}

// runUntil lets time pass until end or until done is true, which it returns.
func (w *world) runUntil(end frame.Time, done func() bool) bool {
	for !done() {
		at := frame.Never
		for _, n := range w.nodes {
			at = min(at, n.next)
		}
		if len(w.queue) > 0 {
			at = min(at, w.queue[0].at)
		}
		if at > end {
			return false
		}
		w.now = max(w.now, at)
		if len(w.queue) > 0 && w.queue[0].at <= w.now {
			d := heap.Pop(&w.queue).(delivery)
			d.to.receive(&d)
			continue
		}
		for _, n := range w.nodes {
			if n.next <= w.now {
				n.poll()
			}
		}
	}
	return true
}

// settle lets time pass until the manager has the fabric as it is to be.
func (w *world) settle(m *Manager, most time.Duration) bool {
	return w.runUntil(w.now.Add(most), m.InSync)
}

// poke wakes a node after something was done to it from outside.
func (n *node) poke() { n.next = 0 }

// check compares every agent with the configuration, computed anew from the
// nodes themselves. It says what is wrong, if anything.
func (w *world) check(cfg *Config) error {
	want := map[uint64]map[uint16]*VESW{}
	for i := range cfg.VESWs {
		v := &cfg.VESWs[i]
		for _, m := range v.Members {
			n := w.node(cfg, m.Node)
			if n == nil {
				continue
			}
			if want[n.guid] == nil {
				want[n.guid] = map[uint16]*VESW{}
			}
			want[n.guid][v.ID] = v
		}
	}
	lids := map[opa.LID]string{}
	for _, n := range w.nodes {
		if n.dead {
			continue
		}
		if other, ok := lids[n.lid]; ok || n.lid == 0 || n.state != mad.PortActive {
			return fmt.Errorf("%s: LID %v (also of %q), %v", n.name, n.lid, other, n.state)
		}
		lids[n.lid] = n.name
		if got := len(n.vports.Netdevs()); got != len(want[n.guid]) {
			return fmt.Errorf("%s: %d vports, want %d", n.name, got, len(want[n.guid]))
		}
		for _, d := range n.vports.Netdevs() {
			v := want[n.guid][d.Config().VESWID]
			if v == nil {
				return fmt.Errorf("%s: vport %d in vESW %d", n.name, d.Num(), d.Config().VESWID)
			}
			if err := w.checkVPort(cfg, v, n, d); err != nil {
				return fmt.Errorf("%s: vESW %d: %w", n.name, v.ID, err)
			}
		}
	}
	return nil
}

func (w *world) node(cfg *Config, node Node) *node {
	for _, n := range w.nodes {
		if n.guid == cfg.guid(node) || cfg.guid(node) == 0 && n.name == node.Name {
			return n
		}
	}
	return nil
}

func (w *world) checkVPort(cfg *Config, v *VESW, n *node, d *vnic.Netdev) error {
	c := d.Config()
	want := vnic.Config{
		FabricID: v.Fabric, VESWID: v.ID, PKey: v.PKey | opa.PKeyFull, McastDLID: 0xf00000 + opa.LID(v.ID), RC: v.RC, EthMTU: v.MTU,
		PortNum: uint32(n.lid)<<8 | uint32(d.Num()), BaseMAC: opa.LMAC{Fabric: v.Fabric, VESW: v.ID, LID: n.lid}.Addr(),
		ConfigState: vnic.Forwarding, EncapSLID: n.lid, QoS: v.QoS,
	}
	for _, m := range v.Members {
		if w.node(cfg, m.Node) == n && m.Limited {
			want.PKey = v.PKey
		}
	}
	for i, p := range slices.Concat(v.DefaultPorts, v.Gateways) {
		if o := w.node(cfg, p); o != nil && o != n && !o.dead {
			want.DefPortMask |= 1 << i
			want.UcastDLID[i] = o.lid
		}
	}
	if c != want {
		return fmt.Errorf("%+v\nwant %+v", c, want)
	}
	if !slices.Contains(n.pkeys, want.PKey) && !slices.Contains(n.pkeys, want.PKey|opa.PKeyFull) {
		return fmt.Errorf("P_Key %#x is not in the table %x", want.PKey, n.pkeys)
	}
	return w.checkTable(cfg, v, d.MACTable())
}

// checkTable: each secondary address is where its port is, each group that
// some listen to has a multicast LID, and there is nothing else.
func (w *world) checkTable(cfg *Config, v *VESW, t *vnic.MACTable) error {
	want := map[ether.Addr]opa.LID{}
	listeners, all := map[ether.Addr]int{}, 0
	for _, m := range v.Members {
		n := w.node(cfg, m.Node)
		if n == nil || n.dead {
			continue
		}
		all++
		d := n.vports.VESW(v.ID)
		if d == nil {
			return fmt.Errorf("%s has no vport", n.name)
		}
		uc, _ := d.UnicastMACs()
		for _, a := range uc {
			if other, ok := want[a]; !ok || n.lid < other {
				want[a] = n.lid
			}
		}
		mc, _ := d.MulticastMACs()
		for _, a := range mc {
			listeners[a]++
		}
	}
	for a, n := range listeners {
		if n < all {
			want[a] = GroupMLID(v.ID, a)
		}
	}
	got := 0
	for i := range t.Len() {
		e := t.At(i)
		if e.MAC.IsZero() {
			continue
		}
		got++
		if lid, ok := want[e.MAC]; !ok || lid != e.DLID || e.Mask != ether.Broadcast || e.Flags != 0 {
			return fmt.Errorf("MAC table has %+v, want DLID %v", e, lid)
		}
	}
	if got != len(want) {
		return fmt.Errorf("MAC table has %d entries, want %d", got, len(want))
	}
	return nil
}
