package vnic

import (
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// event is something that happens at a time; ties go by number.
type event struct {
	at  frame.Time
	num uint64
	do  func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].num < a[j].num
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

// vfabric is a switch in virtual time with an HFI at each port. Packets take a
// microsecond; the switch knows the LIDs.
type vfabric struct {
	pool   *buf.Pool
	agenda agenda
	nums   uint64
	now    frame.Time
	nodes  []*vnode
	digest [32]byte // over all that was sent, with its time and place
}

type vnode struct {
	fab   *vfabric
	index int
	hfi   *hfi.Port
	vnic  *Port
	hosts []*vhost
	due   frame.Time // when the node is polled next
}

func (f *vfabric) at(t frame.Time, do func()) {
	f.nums++
	heap.Push(&f.agenda, event{t, f.nums, do})
}

func (f *vfabric) run(until frame.Time) {
	for len(f.agenda) > 0 && f.agenda[0].at <= until {
		e := heap.Pop(&f.agenda).(event)
		f.now = e.at
		e.do()
	}
	f.now = until
}

func (n *vnode) Room() int { return 64 }

func (n *vnode) Transmit(fr *frame.Frame) {
	f := n.fab
	h := sha256.New()
	h.Write(f.digest[:])
	binary.Write(h, binary.BigEndian, [2]uint64{uint64(f.now), uint64(n.index)})
	h.Write(fr.Bytes())
	h.Sum(f.digest[:0])
	dst := ether.Addr(fr.Bytes())
	for _, to := range f.nodes {
		if to != n && (dst.IsMulticast() || dst == to.hfi.LID().Outer()) {
			c := f.pool.Get(fr.Len())
			c.Append(fr.Bytes())
			f.at(f.now.Add(time.Microsecond), func() {
				to.hfi.Receive([]*frame.Frame{c}, f.now)
				to.poll()
			})
		}
	}
	fr.Release()
}

// poll polls the node, and sees to it that it is polled when it wants.
func (n *vnode) poll() {
	next := min(n.hfi.Poll(n.fab.now), n.vnic.Poll(n.fab.now))
	if next == frame.Never || next >= n.due && n.due > n.fab.now {
		return
	}
	n.due = next
	n.fab.at(next, n.poll)
}

// vhost is a host with a vport of a vESW. It counts what it gets by sender.
type vhost struct {
	node *vnode
	nd   *Netdev
	got  map[uint32]int
}

func (h *vhost) Room() int { return 64 }
func (h *vhost) Transmit(f *frame.Frame) {
	h.got[binary.BigEndian.Uint32(f.Bytes()[14:])]++
	f.Release()
}

func (h *vhost) send(b []byte) {
	f := h.node.fab.pool.Get(len(b))
	f.Append(b)
	h.nd.Transmit([]*frame.Frame{f}, h.node.fab.now)
	h.node.poll()
}

func newVFabric(tb tester, nodes int) *vfabric {
	f := &vfabric{pool: buf.NewPool(1<<18, 0)}
	for i := range nodes {
		n := &vnode{fab: f, index: i}
		p, err := hfi.New(hfi.Config{LID: opa.LID(i + 1)}, hfi.Env{Pool: f.pool, Wire: n})
		must(tb, err)
		p.LinkUp(0)
		n.hfi, n.vnic = p, NewPort(p, f.pool)
		f.nodes = append(f.nodes, n)
	}
	return f
}

func (n *vnode) join(tb tester, num uint8, id uint16, policy Policy) *vhost {
	nd, err := n.vnic.Create(num, policy)
	must(tb, err)
	must(tb, nd.Configure(veswConfig(id, n.hfi.LID())))
	h := &vhost{node: n, nd: nd, got: map[uint32]int{}}
	nd.SetHost(h)
	nd.Open()
	n.hosts = append(n.hosts, h)
	return h
}

// sixtyFour runs 64 HFIs with two vESWs each, whose ids agree modulo 256, for
// 10 ms of random frames between virtual machines, some of which move.
func sixtyFour(t *testing.T, seed uint64) *vfabric {
	f := newVFabric(t, 64)
	chance := rand.New(rand.NewPCG(seed, 1))
	for _, n := range f.nodes {
		for num, id := range []uint16{7, 263} {
			n.join(t, uint8(num), id, Policy{Learn: true, Snoop: true, Suppress: true, Age: 3 * time.Millisecond})
		}
	}
	vm := func(node, vesw int) ether.Addr { return ether.Addr{0x52, 0x54, 0, byte(vesw), 0, byte(node)} }
	for range 3000 {
		from, to, vesw := chance.IntN(64), chance.IntN(64), chance.IntN(2)
		// The sender stamps its vESW; a virtual machine may be anywhere.
		b := eth(vm(to, vesw), vm((from+chance.IntN(2))%64, vesw), 60+chance.IntN(1454), uint32(vesw))
		f.at(frame.Time(chance.IntN(10_000_000)), func() { f.nodes[from].hosts[vesw].send(b) })
	}
	f.run(frame.Time(time.Second))
	return f
}

func TestSixtyFourHFIs(t *testing.T) {
	f := sixtyFour(t, 1)
	var learned, flooded, sent, got uint64
	for i, n := range f.nodes {
		c := n.hfi.Counts()
		for vesw, h := range n.hosts {
			s := h.nd.Stats()
			learned, flooded = learned+s.Learned, flooded+s.Flooded
			sent += s.Tx.Unicast
			got += s.Rx.Unicast
			for word, frames := range h.got {
				if int(word) != vesw {
					t.Errorf("node %d: %d frames of vESW %d in vESW %d", i, frames, word, vesw)
				}
			}
			if n := h.nd.stations.n; n != 0 {
				t.Errorf("node %d remembers %d stations after their time", i, n)
			}
		}
		if c.RxDrops.Total() != 0 || c.TxDrops.Total() != 0 {
			t.Errorf("node %d: drops %v %v", i, c.RxDrops, c.TxDrops)
		}
	}
	if sent != 3000 || flooded == 0 || flooded == sent || got < 63*flooded/2 || learned == 0 {
		t.Errorf("%d sent, %d flooded, %d learned, %d received", sent, flooded, learned, got)
	}
	if n := f.pool.Lent(); n != 0 {
		t.Errorf("%d frames lost", n)
	}
	if again := sixtyFour(t, 1); again.digest != f.digest {
		t.Error("the same seed, other octets")
	}
	if other := sixtyFour(t, 2); other.digest == f.digest {
		t.Error("another seed, the same octets")
	}
}

// All 255 vports of two HFIs, each in a vESW of its own, at once.
func TestVPortsUnderTraffic(t *testing.T) {
	f := newVFabric(t, 2)
	for _, n := range f.nodes {
		for i := range MaxNetdevs {
			n.join(t, uint8(i), uint16(i*16+1), DefaultPolicy())
		}
	}
	for round := range 4 {
		for i, h := range f.nodes[0].hosts {
			peer := f.nodes[1].hosts[(i+round)%MaxNetdevs] // its own vESW's in round 0 alone
			h.send(eth(peer.nd.MAC(), h.nd.MAC(), 60, uint32(i)))
			h.send(eth(ether.Broadcast, h.nd.MAC(), 60, uint32(i)))
		}
		f.run(f.now.Add(time.Millisecond))
	}
	for i, h := range f.nodes[1].hosts {
		if len(h.got) != 1 || h.got[uint32(i)] != 8 {
			t.Errorf("vport %d got %v", i, h.got)
		}
	}
}

// A MAC table of 2,048 entries is replaced while frames pass: every frame goes
// by one table or the other, none is lost.
func TestMACTableSwapUnderLoad(t *testing.T) {
	f := newVFabric(t, 3)
	for _, n := range f.nodes {
		n.join(t, 0, 2, Policy{Unknown: Discard})
	}
	tables := [2]*MACTable{}
	station := func(i int) ether.Addr { return ether.Addr{0x52, 0, 0, 0, byte(i >> 8), byte(i)} }
	for v := range tables {
		for at := 0; at < MaxEntries; at += 125 {
			var list []Entry
			for i := at; i < min(at+125, MaxEntries); i++ {
				list = append(list, Entry{MAC: station(i), DLID: opa.LID(v + 2)})
			}
			var err error
			tables[v], err = tables[v].Set(at, list, uint32(v))
			must(t, err)
		}
	}
	h := f.nodes[0].hosts[0]
	sent := [2]int{}
	for i := range 3 * MaxEntries {
		if i%5 == 0 {
			h.nd.SetMACTable(tables[i/5%2])
		}
		h.send(eth(station(i%MaxEntries), h.nd.MAC(), 60, uint32(i/5%2)))
		sent[i/5%2]++
	}
	f.run(f.now.Add(time.Second))
	for v := range tables {
		if got := f.nodes[v+1].hosts[0].got; len(got) != 1 || got[uint32(v)] != sent[v] {
			t.Errorf("table %d: %v arrived of %d sent", v, got, sent[v])
		}
	}
	if s := h.nd.Stats(); s.TxErrors() != 0 || h.nd.MACTable().Len() != MaxEntries {
		t.Errorf("%d not sent", s.TxErrors())
	}
}
