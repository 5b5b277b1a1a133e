package vnic

import (
	"net/netip"
	"testing"

	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
)

// cable passes what one HFI sends to the other, and back.
type cable struct {
	room    int
	sent    []*frame.Frame
	release bool // nobody wants them
}

func (c *cable) Room() int { return c.room - len(c.sent) }

func (c *cable) Transmit(f *frame.Frame) {
	if c.release {
		f.Release()
		return
	}
	c.sent = append(c.sent, f)
}

// pair is two HFIs with a vport each, joined by a cable.
type pair struct {
	fab      *fabric
	wire     *cable
	from, to *hfi.Port
	vfrom    *Port
	vto      *Port
	out      *Netdev
	arrived  *cable
	batch    []*frame.Frame
}

func newPair(tb tester, policy Policy, mtu uint16) *pair {
	fab := newFabric(tb, 2, realHFI(hfi.Config{}))
	p := &pair{fab: fab, wire: &cable{room: 64}, arrived: &cable{room: 64}, vfrom: fab.nodes[0].Port, vto: fab.nodes[1].Port}
	var err error
	p.from, err = hfi.New(hfi.Config{LID: 1}, hfi.Env{Pool: fab.pool, Wire: p.wire})
	must(tb, err)
	p.to, err = hfi.New(hfi.Config{LID: 2}, hfi.Env{Pool: fab.pool, Wire: &cable{}})
	must(tb, err)
	for i, port := range []*hfi.Port{p.from, p.to} {
		port.LinkUp(0)
		v := NewPort(port, fab.pool)
		nd, err := v.Create(0, policy)
		must(tb, err)
		c := veswConfig(2, port.LID())
		c.EthMTU = mtu
		must(tb, nd.Configure(c))
		nd.Open()
		if i == 0 {
			p.vfrom, p.out = v, nd
		} else {
			p.vto = v
			nd.SetHost(p.arrived)
		}
	}
	return p
}

const batchLen = 32

// forward moves a batch of copies of b from host to host and returns how many
// arrived.
func (p *pair) forward(b []byte) int {
	p.batch = p.batch[:0]
	for range batchLen {
		f := p.fab.pool.Get(len(b))
		f.Append(b)
		p.batch = append(p.batch, f)
	}
	p.out.Transmit(p.batch, 0)
	p.from.Poll(0)
	p.to.Receive(p.wire.sent, 0)
	p.wire.sent = p.wire.sent[:0]
	p.vto.Poll(0)
	n := len(p.arrived.sent)
	for _, f := range p.arrived.sent {
		f.Release()
	}
	p.arrived.sent = p.arrived.sent[:0]
	return n
}

// bare is the same without a VNIC.
func (p *pair) bare(b []byte) int {
	for range batchLen {
		f := p.fab.pool.Get(len(b))
		f.Append(b)
		p.wire.Transmit(f)
	}
	n := len(p.wire.sent)
	for _, f := range p.wire.sent {
		f.Release()
	}
	p.wire.sent = p.wire.sent[:0]
	return n
}

// station is a unicast frame that the receiver's vport takes.
func (p *pair) station(size int) []byte {
	return eth(opa.LMAC{Fabric: fabricID, VESW: 2, LID: 2}.Addr(), p.out.MAC(), size, 1)
}

func BenchmarkForward(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"60", 60}, {"1514", 1514}, {"9014", 9014}} {
		for _, policy := range []struct {
			name string
			p    Policy
		}{{"driver", Policy{Unknown: ToDefaultPort}}, {"default", DefaultPolicy()}} {
			b.Run(policy.name+"/"+size.name, func(b *testing.B) {
				p := newPair(b, policy.p, 9000)
				f := p.station(size.n)
				b.ReportAllocs()
				b.SetBytes(int64(size.n) * batchLen)
				for b.Loop() {
					if p.forward(f) != batchLen {
						b.Fatal("frames are missing")
					}
				}
			})
		}
		b.Run("bare/"+size.name, func(b *testing.B) {
			p := newPair(b, Policy{}, 9000)
			f := p.station(size.n)
			b.SetBytes(int64(size.n) * batchLen)
			for b.Loop() {
				p.bare(f)
			}
		})
	}
}

// No frame costs an allocation, whatever way it goes.
func TestNoAllocation(t *testing.T) {
	policy := DefaultPolicy()
	many := frame.Rate{PerSecond: 1 << 30, Burst: 1 << 30}
	policy.Relay, policy.Filter, policy.TxStorm, policy.RxStorm = true, false, many, many
	p := newPair(t, policy, 9000)
	table, err := (*MACTable)(nil).Set(0, []Entry{{MAC: ether.Addr{0x52}, Mask: ether.Addr{0xff}, DLID: 2}}, 1)
	must(t, err)
	p.out.SetMACTable(table)
	src := p.out.MAC()
	for name, b := range map[string][]byte{
		"LMAC": p.station(1514), "jumbo": p.station(9014), "broadcast": eth(ether.Broadcast, src, 60, 0),
		"MAC table": eth(ether.Addr{0x52, 1}, src, 60, 0), "tagged": tagged(ether.Addr{0x52, 1}, src, 7, 1518),
		"of a VM": eth(ether.Broadcast, ether.Addr{0x54, 0, 0, 0, 0, 1}, 60, 0),
		"IGMP":    igmp4(src, 0x16, "239.1.2.3"), "MLD": mld(src, 4, "ff05::1:3"),
	} {
		p.forward(b)
		p.forward(b)
		if n := testing.AllocsPerRun(20, func() {
			if p.forward(b) != batchLen {
				t.Errorf("%s: frames are missing", name)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations for %d frames", name, n, batchLen)
		}
	}
	p.out.SetHost(&cable{room: 1 << 30, release: true})
	for name, b := range map[string][]byte{
		"ARP": arpFrame(ether.Broadcast, arp.Packet{Op: arp.Request, SenderMAC: src, SenderIP: ip4A, TargetIP: ip4B}, 0),
		"ND": nd(src, icmp.MulticastMAC(icmp.SolicitedNode(ip6B)), ip6A, icmp.SolicitedNode(ip6B), icmp.NeighborSolicitation,
			icmp.Neighbor{Target: ip6B, Options: icmp.Options{SourceMAC: src}}),
	} {
		for _, ip := range []netip.Addr{ip4B, ip6B} {
			p.out.known.learn(neighborKey{ip, 0}, neighbor{mac: ether.Addr{0x54}})
		}
		ask := func() {
			p.forward(b)
			p.vfrom.Poll(0)
		}
		before := p.out.Stats().Answered
		ask()
		if n := testing.AllocsPerRun(20, ask); n != 0 || p.out.Stats().Answered != before+22*batchLen {
			t.Errorf("%s: %v allocations for %d answers, %d answered", name, n, batchLen, p.out.Stats().Answered-before)
		}
	}
}

var (
	ip4A, ip4B = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	ip6A, ip6B = netip.MustParseAddr("fe80::a"), netip.MustParseAddr("fe80::b")
)
