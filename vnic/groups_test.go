package vnic

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tapir/opa"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// igmp4 is a frame with an IGMP message about a group.
func igmp4(src ether.Addr, typ byte, group string) []byte {
	b := eth(multicastMAC4(netip.MustParseAddr(group)), src, 60, 0)
	binary.BigEndian.PutUint16(b[12:], ether.TypeIPv4)
	h := ip.Header{Version: 4, TTL: 1, Proto: protoIGMP, PayloadLen: 8, Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr(group)}
	m := b[14+h.Put(b[14:]):]
	m[0] = typ
	copy(m[4:], h.Dst.AsSlice())
	binary.BigEndian.PutUint16(m[2:], ip.Checksum(m[:8], 0))
	return b
}

// mld is a frame with an MLDv2 report of one record behind a router alert.
func mld(src ether.Addr, record byte, group string) []byte {
	b := make([]byte, 14+40+8+28)
	to := netip.MustParseAddr("ff02::16")
	ether.Header{Dst: icmp.MulticastMAC(to), Src: src, Type: ether.TypeIPv6}.Put(b)
	h := ip.Header{Version: 6, TTL: 1, Proto: ip.ProtoICMPv6, PayloadLen: 36, Src: netip.MustParseAddr("fe80::1"), Dst: to}
	h.Put(b[14:])
	b[14+6] = ip.ProtoHopByHop
	copy(b[54:], []byte{ip.ProtoICMPv6, 0, 5, 2, 0, 0, 1, 0})
	m := b[62:]
	m[0], m[7], m[8] = 143, 1, record
	copy(m[12:], netip.MustParseAddr(group).AsSlice())
	binary.BigEndian.PutUint16(m[2:], ip.Checksum(m, ip.PseudoSum(h.Src, to, ip.ProtoICMPv6, len(m))))
	return b
}

// A group that someone behind a vport joins is told to the Ethernet Manager;
// the group's own multicast LID then concerns that vport and no other.
func TestGroups(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 4, make)
		var hosts []*host
		for _, n := range fab.nodes {
			hosts = append(hosts, n.join(t, 0, 2, Policy{Snoop: true}))
		}
		a, member, other, gateway := hosts[0], hosts[1], hosts[2], hosts[3]
		gateway.nd.SetPolicy(Policy{AllGroups: true})
		vm := ether.Addr{0x52, 0, 0, 0, 0, 1}
		four, six := ether.Addr{1, 0, 0x5e, 1, 2, 3}, ether.Addr{0x33, 0x33, 0, 1, 0, 3}
		member.send(igmp4(vm, 0x16, "239.1.2.3"))
		member.send(mld(vm, 4, "ff05::1:3"))
		member.send(igmp4(vm, 0x16, "224.0.0.251")) // for all stations anyway
		routed := mld(vm, 4, "ff05::1:4")           // not from this link
		routed[14+7] = 2
		member.send(routed)
		if list, gen := member.nd.MulticastMACs(); !slices.Equal(list, []ether.Addr{four, six}) || gen != 2 {
			t.Fatalf("groups %v (%d)", list, gen)
		}
		for _, h := range hosts {
			h.table(t, Entry{MAC: four, DLID: opa.FirstMulticast + 0x100}, Entry{MAC: six, DLID: opa.FirstMulticast + 0x101})
		}
		fab.run()
		for _, h := range hosts {
			h.take() // the reports, which everybody gets
		}
		stream := eth(four, a.mac, 60, 1)
		sends := func(what string, b []byte, to ...*host) {
			t.Helper()
			a.send(b)
			fab.run()
			for _, h := range hosts[1:] {
				if got := len(h.take()); (got == 1) != slices.Contains(to, h) {
					t.Errorf("%s: node %d got %d frames", what, h.nd.port.lower.LID(), got)
				}
			}
		}
		sends("a stream", stream, member, gateway)
		sends("an IPv6 stream", eth(six, a.mac, 60, 1), member, gateway)
		sends("a group without LID of its own", eth(ether.Addr{1, 0, 0x5e, 9, 9, 9}, a.mac, 60, 1), member, other, gateway)
		other.send(igmp4(vm, 0x11, "224.0.0.1")) // a query: a router is behind it
		fab.run()
		for _, h := range hosts {
			h.take()
		}
		sends("past a router", stream, member, other, gateway)
		member.send(igmp4(vm, 0x17, "239.1.2.3"))
		fab.run()
		for _, h := range hosts {
			h.take()
		}
		sends("while others may contradict", stream, member, other, gateway)
		fab.now += frame.Time(lastMember)
		fab.run()
		sends("after the last member", stream, other, gateway)
		fab.now += frame.Time(membership)
		fab.run()
		sends("after the router's time", stream, gateway)
		if list, gen := member.nd.MulticastMACs(); len(list) != 0 || gen != 4 {
			t.Errorf("groups left: %v (%d)", list, gen)
		}
		if s := member.nd.Stats(); s.Joins != 2 || s.Leaves != 1 {
			t.Errorf("%d joins, %d leaves", s.Joins, s.Leaves)
		}
	})
}

// What was remembered of another vESW, or under another policy, is not told.
func TestListsForget(t *testing.T) {
	n := newFabric(t, 1, newFakeHFI).nodes[0]
	vm := ether.Addr{0x52, 0, 0, 0, 0, 1}
	for name, change := range map[string]func(h *host){
		"another vESW":   func(h *host) { h.reconfigure(t, func(c *Config) { c.VESWID = 3 }) },
		"another policy": func(h *host) { h.nd.SetPolicy(Policy{}) },
	} {
		h := n.join(t, 0, 2, Policy{Snoop: true, Learn: true, Report: true})
		h.send(igmp4(vm, 0x16, "239.1.2.3"))
		uc, _ := h.nd.UnicastMACs()
		mc, _ := h.nd.MulticastMACs()
		if len(uc) != 1 || len(mc) != 1 {
			t.Fatalf("%s: %v, %v before", name, uc, mc)
		}
		change(h)
		uc, ug := h.nd.UnicastMACs()
		mc, mg := h.nd.MulticastMACs()
		if len(uc) != 0 || len(mc) != 0 || ug != 3 || mg != 2 {
			t.Errorf("%s: %v (%d), %v (%d)", name, uc, ug, mc, mg)
		}
		n.Remove(0)
	}
}

// arpFrame is an ARP packet as its sender sends it.
func arpFrame(dst ether.Addr, p arp.Packet, tci int) []byte {
	h := ether.Header{Dst: dst, Src: p.SenderMAC, Type: ether.TypeARP}
	if tci > 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: uint16(tci)}
	}
	b := p.AppendTo(h.AppendTo(nil))
	return append(b, make([]byte, 60-len(b))...)
}

func TestARPSuppression(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 3, make)
		var hosts []*host
		for _, n := range fab.nodes {
			hosts = append(hosts, n.join(t, 0, 2, Policy{Suppress: true, Learn: true}))
		}
		a, b := hosts[0], hosts[1]
		ipA, ipB := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		for _, tci := range []int{0, 7} {
			request := arp.Packet{Op: arp.Request, SenderMAC: a.mac, SenderIP: ipA, TargetIP: ipB}
			ask := arpFrame(ether.Broadcast, request, tci)
			passes := func(what string, f []byte, want int) {
				t.Helper()
				a.send(f)
				fab.run()
				if got := len(b.take()); got != want {
					t.Errorf("%s: %d frames passed, want %d", what, got, want)
				}
			}
			passes("an unknown address", ask, 1)
			b.send(arpFrame(ether.Broadcast, arp.Packet{Op: arp.Request, SenderMAC: b.mac, SenderIP: ipB, TargetIP: netip.MustParseAddr("10.0.0.9")}, tci))
			fab.run()
			a.take()
			passes("a known address", ask, 0)
			a.wants(t, "the answer", arpFrame(a.mac, arp.Packet{Op: arp.Reply, SenderMAC: b.mac, SenderIP: ipB, TargetMAC: a.mac, TargetIP: ipA}, tci))
			passes("another VLAN", arpFrame(ether.Broadcast, request, 9), 1)
			passes("to one station", arpFrame(b.mac, request, tci), 1)
			probe, announce := request, request
			probe.SenderIP = netip.AddrFrom4([4]byte{})
			announce.SenderIP = ipB
			passes("a probe", arpFrame(ether.Broadcast, probe, tci), 1)
			announce.SenderMAC = ether.Addr{0x52, 0, 0, 0, 0, 8}
			passes("an announcement", arpFrame(ether.Broadcast, announce, tci), 1)
			passes("an address that moved here", ask, 1)
		}
		// Not believed: a packet that names another station than sent it.
		lie := arpFrame(ether.Broadcast, arp.Packet{Op: arp.Reply, SenderMAC: b.mac, SenderIP: netip.MustParseAddr("10.0.0.66"), TargetIP: ipA}, 0)
		copy(lie[6:], []byte{0x52, 0, 0, 0, 0, 7})
		b.send(lie)
		fab.run()
		if _, ok := a.nd.known.byIP[neighborKey{netip.MustParseAddr("10.0.0.66"), 0}]; ok {
			t.Error("a lie is believed")
		}
		if s := a.nd.Stats(); s.Answered != 2 || fab.pool.Lent() != 0 {
			t.Errorf("%d answered, %d frames lost", s.Answered, fab.pool.Lent())
		}
	})
}

// nd is a frame with a neighbor solicitation or advertisement.
func nd(src, dst ether.Addr, from, to netip.Addr, typ uint8, n icmp.Neighbor) []byte {
	m := n.Message(typ, nil)
	b := make([]byte, 14+40+m.Len())
	ether.Header{Dst: dst, Src: src, Type: ether.TypeIPv6}.Put(b)
	h := ip.Header{Version: 6, TTL: icmp.NDHopLimit, Proto: ip.ProtoICMPv6, PayloadLen: m.Len(), Src: from, Dst: to}
	h.Put(b[14:])
	m.Put(b[54:])
	icmp.SetChecksum6(from, to, b[54:])
	return b
}

func TestNDSuppression(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 2, make)
		a, b := fab.nodes[0].join(t, 0, 2, Policy{Suppress: true, Age: time.Minute}), fab.nodes[1].join(t, 0, 2, Policy{})
		ipA, ipB, all := netip.MustParseAddr("fe80::a"), netip.MustParseAddr("fe80::b"), netip.MustParseAddr("ff02::1")
		solicited := icmp.SolicitedNode(ipB)
		ask := nd(a.mac, icmp.MulticastMAC(solicited), ipA, solicited, icmp.NeighborSolicitation, icmp.Neighbor{Target: ipB, Options: icmp.Options{SourceMAC: a.mac}})
		probe := nd(a.mac, icmp.MulticastMAC(solicited), netip.IPv6Unspecified(), solicited, icmp.NeighborSolicitation, icmp.Neighbor{Target: ipB})
		passes := func(what string, f []byte, want int) {
			t.Helper()
			a.send(f)
			fab.run()
			if got := len(b.take()); got != want {
				t.Errorf("%s: %d frames passed, want %d", what, got, want)
			}
		}
		passes("an unknown address", ask, 1)
		b.send(nd(b.mac, icmp.MulticastMAC(all), ipB, all, icmp.NeighborAdvertisement,
			icmp.Neighbor{Target: ipB, Router: true, Override: true, Options: icmp.Options{TargetMAC: b.mac}}))
		fab.run()
		a.take()
		passes("a known address", ask, 0)
		a.wants(t, "the answer", nd(b.mac, a.mac, ipB, ipA, icmp.NeighborAdvertisement,
			icmp.Neighbor{Target: ipB, Router: true, Solicited: true, Override: true, Options: icmp.Options{TargetMAC: b.mac}}))
		passes("a probe for duplicates", probe, 1)
		spoiled := slices.Clone(ask)
		spoiled[60] ^= 1
		passes("a wrong checksum", spoiled, 1)
		fab.now += frame.Time(61 * time.Second)
		fab.run()
		passes("after its time", ask, 1)
		if fab.pool.Lent() != 0 {
			t.Errorf("%d frames lost", fab.pool.Lent())
		}
	})
}
