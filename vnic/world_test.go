package vnic

import (
	"encoding/binary"
	"testing"

	"tapir/nic/buf"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

const fabricID = 0x301

// fabric joins HFI ports: every packet that one sends reaches all others, who
// judge by its LID. It works in the order of events, without a clock.
type fabric struct {
	pool  *buf.Pool
	nodes []*node
	wire  []packet // sent, not yet delivered
	now   frame.Time
	log   func(from int, b []byte) // sees what is sent
}

type packet struct {
	from int
	f    *frame.Frame
}

// node is an HFI port of any make with its vports.
type node struct {
	*Port
	fab     *fabric
	index   int
	receive func(f *frame.Frame) // takes f
	poll    func()
	setPort func(active bool)
}

// makeHFI builds the port of a node with the LID given.
type makeHFI func(n *node, lid opa.LID) Lower

func newFabric(tb tester, count int, hfiOf makeHFI) *fabric {
	tb.Helper()
	fab := &fabric{pool: buf.NewPool(1<<16, 0)}
	for i := range count {
		n := &node{fab: fab, index: i}
		n.Port = NewPort(hfiOf(n, opa.LID(i+1)), fab.pool)
		fab.nodes = append(fab.nodes, n)
	}
	return fab
}

// run lets packets and frames move until nothing does.
func (fab *fabric) run() {
	for {
		for _, n := range fab.nodes {
			n.poll()
			n.Poll(fab.now)
		}
		if len(fab.wire) == 0 {
			return
		}
		sent := fab.wire
		fab.wire = nil
		for _, p := range sent {
			if fab.log != nil {
				fab.log(p.from, p.f.Bytes())
			}
			for _, n := range fab.nodes {
				if n.index != p.from {
					n.receive(fab.copyOf(p.f.Bytes()))
				}
			}
			p.f.Release()
		}
	}
}

func (fab *fabric) copyOf(b []byte) *frame.Frame {
	f := fab.pool.Get(len(b))
	f.Append(b)
	return f
}

// port is the fabric side of a node, as a link.
type port struct{ n *node }

func (p port) Room() int { return 64 }
func (p port) Transmit(f *frame.Frame) {
	p.n.fab.wire = append(p.n.fab.wire, packet{p.n.index, f})
}

// realHFI makes nodes of opa/hfi.
func realHFI(cfg hfi.Config) makeHFI {
	return func(n *node, lid opa.LID) Lower {
		cfg := cfg
		cfg.LID, cfg.GUID = lid, 0x1000+uint64(lid)
		p, err := hfi.New(cfg, hfi.Env{Pool: n.fab.pool, Wire: port{n}})
		if err != nil {
			panic(err)
		}
		p.LinkUp(0)
		n.receive = func(f *frame.Frame) { p.Receive([]*frame.Frame{f}, n.fab.now) }
		n.poll = func() { p.Poll(n.fab.now) }
		n.setPort = func(active bool) {
			if active {
				p.LinkUp(n.fab.now)
			} else {
				p.LinkDown(n.fab.now)
			}
		}
		return p
	}
}

// fakeHFI is the least that a vport can live on: packets cross it bare.
type fakeHFI struct {
	n       *node
	lid     opa.LID
	active  bool
	netdevs []*fakeNetdev
	unknown uint64
}

type fakeNetdev struct {
	hfi    *fakeHFI
	client opa.NetdevClient
	vesw   uint16
	open   bool
	mlids  map[opa.LID]bool
}

func newFakeHFI(n *node, lid opa.LID) Lower {
	h := &fakeHFI{n: n, lid: lid, active: true}
	n.receive, n.poll = h.receive, func() {}
	n.setPort = func(active bool) {
		h.active = active
		for _, d := range h.netdevs {
			d.client.PortEvent(n.fab.now)
		}
	}
	return h
}

func (h *fakeHFI) AllocRDMANetdev(c opa.NetdevClient) (opa.RDMANetdev, error) {
	if len(h.netdevs) == MaxNetdevs {
		return nil, opa.ErrNetdevs
	}
	d := &fakeNetdev{hfi: h, client: c}
	h.netdevs = append(h.netdevs, d)
	return d, nil
}

func (h *fakeHFI) FreeRDMANetdev(rn opa.RDMANetdev) {
	for i, d := range h.netdevs {
		if d == rn {
			h.netdevs = append(h.netdevs[:i:i], h.netdevs[i+1:]...)
			return
		}
	}
}

func (h *fakeHFI) Active() bool        { return h.active }
func (h *fakeHFI) LID() opa.LID        { return h.lid }
func (h *fakeHFI) GUID() uint64        { return uint64(h.lid) }
func (h *fakeHFI) PortNum() uint8      { return 1 }
func (h *fakeHFI) MTU() int            { return 10240 + 124 }
func (h *fakeHFI) ICRC() opa.ICRC      { return opa.ICRCv1 }
func (h *fakeHFI) UnknownVESW() uint64 { return h.unknown }

func (h *fakeHFI) receive(f *frame.Frame) {
	p, r := opa.Parse(f.Bytes(), opa.ICRCv1)
	if r != frame.DropNone {
		panic(r.String())
	}
	for _, d := range h.netdevs {
		if d.open && d.vesw == p.VESW() && h.active && (p.DLID() == h.lid || d.mlids[p.DLID()]) {
			d.client.Deliver(p, f, h.n.fab.now)
			return
		}
	}
	if p.DLID() == h.lid {
		h.unknown++
	}
	f.Release()
}

func (d *fakeNetdev) SetID(_, vesw uint16) error {
	for _, other := range d.hfi.netdevs {
		if other != d && vesw != 0 && other.vesw == vesw {
			return opa.ErrVESWInUse
		}
	}
	d.vesw = vesw
	return nil
}

func (d *fakeNetdev) SetMulticast(mlids []opa.LID) {
	d.mlids = map[opa.LID]bool{}
	for _, l := range mlids {
		d.mlids[l] = true
	}
}

func (d *fakeNetdev) Open() error {
	if d.vesw == 0 {
		return opa.ErrNoVESW
	}
	d.open = true
	return nil
}

func (d *fakeNetdev) Stop() { d.open = false }

func (d *fakeNetdev) Transmit(f *frame.Frame, _ uint8) frame.DropReason {
	if !d.open || !d.hfi.active {
		f.Release()
		return opa.DropPort
	}
	port{d.hfi.n}.Transmit(f)
	return frame.DropNone
}

// onBoth runs a test of the suite on the fake and on opa/hfi: both halves must
// hold to the seam, whoever is on the other side.
func onBoth(t *testing.T, test func(t *testing.T, make makeHFI)) {
	t.Run("fake", func(t *testing.T) { test(t, newFakeHFI) })
	t.Run("hfi", func(t *testing.T) { test(t, realHFI(hfi.Config{})) })
}

// host is the operating system's side of a vport.
type host struct {
	fab  *fabric
	nd   *Netdev
	mac  ether.Addr
	got  [][]byte
	full bool
}

func (h *host) Room() int {
	if h.full {
		return 0
	}
	return 64
}

func (h *host) Transmit(f *frame.Frame) {
	h.got = append(h.got, append([]byte(nil), f.Bytes()...))
	f.Release()
}

// send hands the vport a frame.
func (h *host) send(b []byte) {
	h.nd.Transmit([]*frame.Frame{h.fab.copyOf(b)}, h.fab.now)
}

// take returns the frames that arrived, and forgets them.
func (h *host) take() [][]byte {
	got := h.got
	h.got = nil
	return got
}

// veswConfig is a vESW as an Ethernet Manager sets it.
func veswConfig(id uint16, lid opa.LID) Config {
	c := PowerOn()
	c.FabricID, c.VESWID, c.PKey, c.ConfigState = fabricID, id, 0x8001, Forwarding
	c.McastDLID = opa.FirstMulticast + opa.LID(id)
	c.BaseMAC = opa.LMAC{Fabric: fabricID, VESW: id, LID: lid}.Addr()
	return c
}

// join makes an open vport number num of vESW id on a node.
func (n *node) join(tb tester, num uint8, id uint16, policy Policy) *host {
	tb.Helper()
	nd, err := n.Create(num, policy)
	must(tb, err)
	must(tb, nd.Configure(veswConfig(id, n.Lower().LID())))
	h := &host{fab: n.fab, nd: nd, mac: nd.MAC()}
	nd.SetHost(h)
	nd.Open()
	if !nd.Running() {
		tb.Fatalf("vport %d of vESW %d does not run", num, id)
	}
	return h
}

// eth is an Ethernet frame whose payload begins with word.
func eth(dst, src ether.Addr, size int, word uint32) []byte {
	b := make([]byte, max(size, 18))
	ether.Header{Dst: dst, Src: src, Type: 0x88b7}.Put(b)
	binary.BigEndian.PutUint32(b[14:], word)
	return b
}

func must(tb tester, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// tester is what the helpers need of a test, a benchmark or a property.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
