package sw

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

var (
	near4, far  = netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("10.0.2.1")
	near6, far6 = netip.MustParseAddr("fd00:1::1"), netip.MustParseAddr("fd00:2::1")
	gateway4    = netip.MustParseAddr("10.0.1.254")
	gateway6    = netip.MustParseAddr("fd00:1::fe")
)

// leaf is a switch with stations at ports 0 and 1, and two ways to others by ports 2 and 3.
func leaf() swconf.Config {
	c := swconf.Config{Routing: swconf.Routing{Gateways: []netip.Addr{gateway4, gateway6}}}
	for _, text := range []string{"10.0.0.0/8=port2", "10.0.1.0/24", "10.0.2.0/24=port2|port3", "fd00:1::/64", "fd00:2::/64=port2|port3"} {
		r, err := swconf.ParseRoute(text)
		if err != nil {
			panic(err)
		}
		c.Routes = append(c.Routes, r)
	}
	return c
}

// udp is a frame to the router with a datagram.
func udp(src, dst netip.Addr, ttl uint8, sport uint16) string {
	h := ip.Header{Version: 4, TTL: ttl, Proto: ip.ProtoUDP, Src: src, Dst: dst, PayloadLen: 8}
	e := ether.Header{Dst: routerMAC, Src: host(1), Type: ether.TypeIPv4}
	if src.Is6() {
		h.Version, e.Type = 6, ether.TypeIPv6
	}
	b := e.AppendTo(nil)
	n := len(b)
	b = append(b, make([]byte, h.HeaderLen())...)
	h.Put(b[n:])
	return string(append(b, byte(sport>>8), byte(sport), 0x12, 0xb7, 0, 8, 0, 0))
}

// announce is a gratuitous ARP request, or a neighbor advertisement to all.
func announce(a netip.Addr, mac ether.Addr) string {
	if a.Is4() {
		p := arp.Packet{Op: arp.Request, SenderMAC: mac, SenderIP: a, TargetIP: a}
		return string(p.AppendTo(ether.Header{Dst: anyone, Src: mac, Type: ether.TypeARP}.AppendTo(nil)))
	}
	return nd(icmp.NeighborAdvertisement, mac, a, netip.MustParseAddr("ff02::1"), icmp.Neighbor{Target: a, Options: icmp.Options{TargetMAC: mac}})
}

func nd(typ uint8, mac ether.Addr, src, dst netip.Addr, n icmp.Neighbor) string {
	m := n.Message(typ, nil)
	h := ip.Header{Version: 6, TTL: icmp.NDHopLimit, Proto: ip.ProtoICMPv6, Src: src, Dst: dst, PayloadLen: m.Len()}
	b := ether.Header{Dst: icmp.MulticastMAC(dst), Src: mac, Type: ether.TypeIPv6}.AppendTo(nil)
	at := len(b) + h.HeaderLen()
	b = append(b, make([]byte, h.HeaderLen()+m.Len())...)
	h.Put(b[ether.HeaderLen:])
	m.Put(b[at:])
	icmp.SetChecksum6(src, dst, b[at:])
	return string(b)
}

// A router answers for its gateways, sends packets on with one hop less and the addresses of
// the next link, and the longest prefix counts. What it cannot send is dropped with a reason.
// Ports to other routers bridge nothing.
func TestRoutes(t *testing.T) {
	b := newBed(t, 4, leaf())
	b.send(0, announce(near4, host(1)))
	b.send(0, announce(near6, host(1)))
	b.run(time.Millisecond)
	if len(b.wires[1].take()) != 2 || len(b.wires[2].take())+len(b.wires[3].take()) != 0 {
		t.Error("announcements go to the stations, and not to routers")
	}
	request := arp.Packet{Op: arp.Request, SenderMAC: host(1), SenderIP: near4, TargetIP: gateway4}
	b.send(0, string(request.AppendTo(ether.Header{Dst: anyone, Src: host(1), Type: ether.TypeARP}.AppendTo(nil))))
	b.send(0, nd(icmp.NeighborSolicitation, host(1), near6, icmp.SolicitedNode(gateway6), icmp.Neighbor{Target: gateway6, Options: icmp.Options{SourceMAC: host(1)}}))
	b.run(time.Millisecond)
	got := b.wires[0].take()
	if len(got) != 2 || len(b.wires[1].take()) != 0 {
		t.Fatalf("%d answers", len(got))
	}
	if p, err := arp.Parse([]byte(got[0].b[ether.HeaderLen:])); err != nil || p.Op != arp.Reply || p.SenderMAC != routerMAC || p.SenderIP != gateway4 {
		t.Errorf("%+v, %v", p, err)
	}
	h, payload, err := ip.Parse([]byte(got[1].b[ether.HeaderLen:]))
	m, _ := icmp.Parse(payload)
	if n, err2 := m.Neighbor(); err != nil || err2 != nil || !icmp.Verify6(h.Src, h.Dst, payload) || n.Options.TargetMAC != routerMAC || h.Dst != near6 || !n.Solicited {
		t.Errorf("%+v, %v, %v", n, err, err2)
	}
	for _, c := range []struct {
		in, out  int // out -1: any of 2 and 3; -2: dropped
		src, dst netip.Addr
		ttl      uint8
		why      frame.DropReason
	}{
		{2, 0, far, near4, 64, 0}, {3, 0, far6, near6, 64, 0}, {0, -1, near4, far, 2, 0}, {0, -1, near6, far6, 2, 0},
		{0, 2, near4, netip.MustParseAddr("10.9.0.1"), 255, 0},
		{0, -2, near4, netip.MustParseAddr("192.0.2.1"), 64, DropNoRoute}, {0, -2, near4, far, 1, DropTTL}, {0, -2, near6, far6, 0, DropTTL},
		{2, -2, far, netip.MustParseAddr("10.0.1.9"), 64, DropNeighbor},
	} {
		before := b.s.Counts(c.in).RxDrops[c.why]
		sent := udp(c.src, c.dst, c.ttl, 50000)
		b.send(c.in, sent)
		b.run(time.Millisecond)
		out, got := -2, []left(nil)
		for i, w := range b.wires {
			if l := w.take(); len(l) > 0 {
				out, got = i, append(got, l...)
			}
		}
		if c.out == -2 {
			if len(got) != 0 || b.s.Counts(c.in).RxDrops[c.why] != before+1 {
				t.Errorf("%v to %v: not dropped as %v", c.src, c.dst, c.why)
			}
			continue
		}
		if len(got) != 1 || out != c.out && (c.out != -1 || out < 2) {
			t.Errorf("%v to %v: %d frames, by port %d", c.src, c.dst, len(got), out)
			continue
		}
		next := routerMAC
		if c.out == 0 {
			next = host(1)
		}
		h, _, err := ip.Parse([]byte(got[0].b[ether.HeaderLen:])) // checks the checksum
		if err != nil || h.TTL != c.ttl-1 || ether.Addr([]byte(got[0].b[:6])) != next || ether.Addr([]byte(got[0].b[6:12])) != routerMAC || got[0].b[40:] != sent[40:] {
			t.Errorf("%v to %v: TTL %d, %x, %v", c.src, c.dst, h.TTL, got[0].b[:12], err)
		}
	}
	b.send(2, eth(anyone, host(7), "from another switch"))
	b.run(time.Millisecond)
	if b.s.Counts(2).RxDrops[DropNotRouted] != 1 || len(b.wires[0].take()) != 0 {
		t.Error("a port to a router bridges")
	}
	b.send(0, udp(near4, far, 64, 1)[:30])
	if b.s.Counts(0).RxDrops[drop.Malformed] != 1 {
		t.Error("half a packet is routed")
	}
}

// With TTLs of every value the checksum stays right.
func TestTTLChecksum(t *testing.T) {
	b := newBed(t, 4, leaf())
	for ttl := 2; ttl < 256; ttl++ {
		for sport := range uint16(20) {
			src := netip.AddrFrom4([4]byte{10, 0, byte(ttl), byte(sport * 13)})
			b.send(0, udp(src, netip.MustParseAddr("10.9.0.1"), uint8(ttl), sport))
		}
		b.run(time.Millisecond)
		for _, l := range b.wires[2].take() {
			if h, _, err := ip.Parse([]byte(l.b[ether.HeaderLen:])); err != nil || int(h.TTL) != ttl-1 {
				t.Fatalf("TTL %d: %v", ttl, err)
			}
		}
	}
}

// Flows spread evenly by both hashes and stay on their way. Of the flows that one switch sends
// the same way, another with the same seed does so, too; one with another seed halves them
// again. Fragments of a packet take one way.
func TestECMP(t *testing.T) {
	flow := func(r *router, sport uint16, n int) int {
		h, payload, err := ip.Parse([]byte(udp(near4, far, 64, sport)[ether.HeaderLen:]))
		if err != nil {
			t.Fatal(err)
		}
		return r.path(&h, payload, n)
	}
	for _, hash := range []swconf.Hash{swconf.CRC32, swconf.XOR} {
		first, same, other := &router{hash: hash, seed: 1}, &router{hash: hash, seed: 1}, &router{hash: hash, seed: 2}
		const flows = 4096
		var all, again [2]int
		for sport := range uint16(flows) {
			way := flow(first, sport, 2)
			all[way]++
			if flow(first, sport, 2) != way || flow(same, sport, 2) != way {
				t.Fatal("a flow changes its way")
			}
			if way == 0 {
				again[flow(other, sport, 2)]++
			}
		}
		if d := all[0] - all[1]; d < -flows/16 || d > flows/16 {
			t.Errorf("%v: %d flows", hash, all)
		}
		if d := again[0] - again[1]; d < -flows/16 || d > flows/16 {
			t.Errorf("%v: another seed has %d of the flows", hash, again)
		}
		plain := &router{hash: hash}
		if n := []int{flow(plain, 1, 3), flow(plain, 2, 3), flow(plain, 3, 3), flow(plain, 4, 3), flow(plain, 5, 3)}; slices.Max(n) > 2 || slices.Max(n) == slices.Min(n) {
			t.Errorf("of three ways %d", n)
		}
		h, payload, _ := ip.Parse([]byte(udp(near4, far, 64, 7)[ether.HeaderLen:]))
		if n := testing.AllocsPerRun(100, func() { plain.path(&h, payload, 2) }); n != 0 {
			t.Errorf("%v allocations a packet", n)
		}
		h.MF = true
		for x := range byte(50) {
			payload[1] = x
			if plain.path(&h, payload, 2) != plain.path(&ip.Header{Version: 4, Proto: h.Proto, Src: h.Src, Dst: h.Dst, FragOffset: 8}, nil, 2) {
				t.Fatal("fragments part")
			}
		}
	}
}
