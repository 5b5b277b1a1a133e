package nic

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	nicip "tapir/nic/ip"
	"tapir/nic/show"
	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

var (
	nic4, nic6   = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	peer4, peer6 = netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")
)

// pair is a NIC and a scripted neighbor on one wire.
func pair(t *testing.T, cfg Config) (*world, *node, *station) {
	w := newWorld(t)
	if cfg.Name == "" {
		cfg.Name = "nic0"
	}
	if cfg.Addrs == nil {
		cfg.Addrs = prefixes("10.0.0.1/24", "fd00::1/64")
	}
	n := w.nic(cfg)
	s := w.station("02:00:00:00:00:99", "10.0.0.2", "fd00::2", "fe80::2")
	return w, n, s
}

func TestPing(t *testing.T) {
	for _, c := range []struct {
		name      string
		src, dst  netip.Addr
		size, mtu int
		parts     int // frames of the answer
	}{
		{"v4", peer4, nic4, 56, 1500, 1},
		{"v6", peer6, nic6, 56, 1500, 1},
		{"v4 empty", peer4, nic4, 0, 1500, 1},
		{"v4 full", peer4, nic4, 1472, 1500, 1},
		{"v6 full", peer6, nic6, 1452, 1500, 1},
		{"v4 one over", peer4, nic4, 1473, 1500, 2},
		{"v4 3000", peer4, nic4, 3000, 1500, 3},
		{"v6 3000", peer6, nic6, 3000, 1500, 3},
		{"v4 60000 from a small MTU", peer4, nic4, 60000, 576, 41},
		{"link-local", netip.MustParseAddr("fe80::2"), icmp.LinkLocal(ether.Addr{2, 0, 0, 0, 0, 1}), 8, 1500, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, n, s := pair(t, Config{MAC: ether.Addr{2, 0, 0, 0, 0, 1}})
			s.ping(n.dev, c.src, c.dst, c.size, c.mtu)
			w.run(time.Second)
			got := s.take()
			if len(got) != c.parts || s.asked != 1 {
				t.Fatalf("%d frames, asked %d times", len(got), s.asked)
			}
			var body []byte
			for _, r := range got {
				if int(r.ip.FragOffset) != len(body) || r.ip.Src != c.dst || r.ip.Dst != c.src || r.eth.Src != n.dev.cfg.MAC ||
					r.ip.HeaderLen()+len(r.body) > 1500 {
					t.Fatalf("frame %+v", r.ip)
				}
				body = append(body, r.body...)
			}
			want := echoBody(c.src, c.dst, c.size)
			m, _ := icmp.Parse(body)
			ok := icmp.Verify4(body) && m.Type == icmp.EchoReply4
			if c.src.Is6() {
				ok = icmp.Verify6(c.dst, c.src, body) && m.Type == icmp.EchoReply6
			}
			if !ok || !bytes.Equal(body[4:], want[4:]) {
				t.Fatalf("answer differs from the question (checksum and type right: %v)", ok)
			}
			if w.pool.Lent() != 0 {
				t.Fatalf("%d frames leaked", w.pool.Lent())
			}
		})
	}
}

func TestAnswersARPAndND(t *testing.T) {
	w, n, s := pair(t, Config{})
	s.arp(arp.Request, peer4, ether.Broadcast, nic4)
	group := icmp.SolicitedNode(nic6)
	ask := icmp.Neighbor{Target: nic6, Options: icmp.Options{SourceMAC: s.mac}}
	s.neighbor(icmp.NeighborSolicitation, ask, peer6, group, icmp.MulticastMAC(group))
	s.neighbor(icmp.NeighborSolicitation, icmp.Neighbor{Target: nic6}, netip.IPv6Unspecified(), group, icmp.MulticastMAC(group))
	w.run(time.Millisecond)
	got := s.take()
	if len(got) != 3 {
		t.Fatalf("%d answers", len(got))
	}
	if p := got[0].arp; p.Op != arp.Reply || p.SenderMAC != n.dev.cfg.MAC || p.SenderIP != nic4 || p.TargetIP != peer4 || got[0].eth.Dst != s.mac {
		t.Errorf("ARP reply %+v", p)
	}
	for i, solicited := range []bool{true, false} {
		r := got[i+1]
		m, _ := icmp.Parse(r.body)
		na, err := m.Neighbor()
		if err != nil || na.Target != nic6 || na.Options.TargetMAC != n.dev.cfg.MAC || !na.Override || na.Solicited != solicited || r.ip.TTL != 255 {
			t.Errorf("advertisement %d: %+v %v", i, na, err)
		}
	}
	if s.asked != 0 {
		t.Error("the NIC asked for a neighbor that had introduced itself")
	}
	// Both introduced themselves, so a ping is answered without a question.
	s.ping(n.dev, peer4, nic4, 8, 1500)
	s.ping(n.dev, peer6, nic6, 8, 1500)
	w.run(time.Millisecond)
	if len(s.take()) != 2 || s.asked != 0 {
		t.Errorf("asked %d times", s.asked)
	}
}

func TestAnnouncesItself(t *testing.T) {
	w, n, s := pair(t, Config{})
	n.dev.LinkUp(w.now)
	w.run(time.Millisecond)
	var arps, probes, advertisements int
	for _, r := range s.take() {
		switch {
		case r.eth.Type == ether.TypeARP:
			if r.arp.SenderIP == nic4 && r.arp.TargetIP == nic4 && r.eth.Dst.IsBroadcast() {
				arps++
			}
		case r.ip.Src.IsUnspecified():
			probes++
		default:
			advertisements++
		}
	}
	if arps != 1 || probes != 2 || advertisements != 2 {
		t.Errorf("%d ARP, %d probes, %d advertisements", arps, probes, advertisements)
	}
	s.arp(arp.Reply, nic4, n.dev.cfg.MAC, nic4)
	w.run(time.Millisecond)
	if n.counter("address_conflicts") != 1 {
		t.Error("a second owner of the address went unnoticed")
	}
}

func TestVLAN(t *testing.T) {
	w, n, s := pair(t, Config{VLAN: 100})
	s.ping(n.dev, peer4, nic4, 8, 1500)
	w.run(time.Millisecond)
	if len(s.take()) != 0 || n.counter("rx_drop_wrong_vlan") != 1 {
		t.Fatal("an untagged frame was taken")
	}
	s.vlan = 100
	s.ping(n.dev, peer4, nic4, 8, 1500)
	w.run(time.Millisecond)
	got := s.take()
	if len(got) != 1 || got[0].eth.NTags != 1 || got[0].eth.Tags[0].VID() != 100 {
		t.Fatalf("%+v", got)
	}
}

func TestGateway(t *testing.T) {
	far4, far6 := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	w, n, s := pair(t, Config{Gateways: []netip.Addr{peer4, netip.MustParseAddr("fe80::2")}})
	s.ping(n.dev, far4, nic4, 8, 1500)
	s.ping(n.dev, far6, nic6, 8, 1500)
	w.run(time.Millisecond)
	got := s.take()
	if len(got) != 2 || got[0].eth.Dst != s.mac || got[0].ip.Dst != far4 || got[1].ip.Dst != far6 || s.asked != 2 {
		t.Fatalf("asked %d, %+v", s.asked, got)
	}
	if a := n.dev.IP.Source(far6); a != nic6 {
		t.Errorf("source for a far host: %v", a)
	}

	w, n, s = pair(t, Config{})
	s.ping(n.dev, far4, nic4, 8, 1500)
	w.run(time.Millisecond)
	if len(s.take()) != 0 || n.counter("tx_drop_no_route") != 1 {
		t.Error("an answer without a route was not counted")
	}
}

func TestDropsAreCountedAndRecorded(t *testing.T) {
	echo := func() []byte {
		return packet(ip.Header{Proto: ip.ProtoICMP, Src: peer4, Dst: nic4}, echoBody(peer4, nic4, 8))
	}
	flip := func(b []byte, at int) []byte { b[at] ^= 1; return b }
	for _, c := range []struct {
		name   string
		typ    uint16
		packet []byte
		want   frame.DropReason
	}{
		{"IP checksum", ether.TypeIPv4, flip(echo(), 8), drop.IPChecksum},
		{"ICMP checksum", ether.TypeIPv4, flip(echo(), 30), drop.L4Checksum},
		{"cut off", ether.TypeIPv4, echo()[:30], drop.Truncated},
		{"version", ether.TypeIPv6, echo(), drop.Malformed},
		{"EtherType", 0x1234, echo(), drop.EtherType},
		{"protocol", ether.TypeIPv4, packet(ip.Header{Proto: 200, Src: peer4, Dst: nic4}, nil), drop.IPProtocol},
		{"another host", ether.TypeIPv4, packet(ip.Header{Proto: 1, Src: peer4, Dst: peer4}, nil), drop.NotOurIP},
		{"source", ether.TypeIPv4, packet(ip.Header{Proto: 1, Src: netip.MustParseAddr("224.0.0.1"), Dst: nic4}, nil), drop.Source},
		{"source route", ether.TypeIPv4, packet(ip.Header{Proto: 1, Src: peer4, Dst: nic4, Options: []byte{131, 3, 4, 0}}, nil), drop.IPOptions},
		{"oversize", ether.TypeIPv4, packet(ip.Header{Proto: 1, Src: peer4, Dst: nic4}, make([]byte, 1481)), drop.Oversize},
		{"ND from off the link", ether.TypeIPv6, packet(ip.Header{Proto: 58, TTL: 254, Src: peer6, Dst: nic6},
			icmpBytes((&icmp.Neighbor{Target: nic6}).Message(icmp.NeighborSolicitation, nil), peer6, nic6)), drop.Malformed},
		{"router advertisement", ether.TypeIPv6, packet(ip.Header{Proto: 58, TTL: 255, Src: peer6, Dst: nic6},
			icmpBytes((&icmp.Router{}).Message(icmp.RouterAdvertisement, nil), peer6, nic6)), drop.Unused},
		{"TCP checksum", ether.TypeIPv4, flip(segment(peer4, nic4, tcp.Header{SrcPort: 5, DstPort: 6, Flags: tcp.SYN}, nil), 24), drop.L4Checksum},
		{"UDP checksum", ether.TypeIPv4, packet(ip.Header{Proto: 17, Src: peer4, Dst: nic4}, []byte{0, 5, 0, 6, 0, 8, 1, 1}), drop.L4Checksum},
		{"TCP to a group", ether.TypeIPv6, packet(ip.Header{Proto: 6, Src: peer6, Dst: nicip.AllNodes}, make([]byte, 20)), drop.Source},
		{"ARP", ether.TypeARP, make([]byte, 28), drop.Malformed},
	} {
		w, n, s := pair(t, Config{})
		s.transmit(n.dev.cfg.MAC, c.typ, c.packet)
		w.run(time.Millisecond)
		if len(n.drops) != 1 || n.drops[0].Drop != c.want || n.counter(show.DropName(c.want)) != 1 {
			t.Errorf("%s: records %+v", c.name, n.drops)
		}
		if got := s.take(); (len(got) != 0) != (c.want == drop.IPProtocol) { // which is reported
			t.Errorf("%s: answers %+v", c.name, got)
		}
		if w.pool.Lent() != 0 {
			t.Errorf("%s: %d frames leaked", c.name, w.pool.Lent())
		}
	}
}

// segment encodes a TCP segment.
func segment(src, dst netip.Addr, h tcp.Header, data []byte) []byte {
	b := make([]byte, h.Len(), h.Len()+len(data))
	h.Put(b)
	b = append(b, data...)
	binary.BigEndian.PutUint16(b[tcp.ChecksumOffset:], ip.Checksum(b, ip.PseudoSum(src, dst, ip.ProtoTCP, len(b))))
	return packet(ip.Header{Proto: ip.ProtoTCP, Src: src, Dst: dst}, b)
}

func TestClosedPorts(t *testing.T) {
	for _, c := range []struct{ src, dst netip.Addr }{{peer4, nic4}, {peer6, nic6}} {
		w, n, s := pair(t, Config{})
		s.transmit(n.dev.cfg.MAC, etherType(c.src), segment(c.src, c.dst, tcp.Header{SrcPort: 5, DstPort: 6, Seq: 100, Flags: tcp.SYN, Window: 9}, nil))
		w.run(time.Millisecond)
		got := s.take()
		if len(got) != 1 {
			t.Fatalf("%d answers", len(got))
		}
		h, _, err := tcp.Parse(got[0].body)
		if err != nil || !h.Flags.Has(tcp.RST|tcp.ACK) || h.Ack != 101 || h.SrcPort != 6 {
			t.Errorf("answer to a SYN: %+v %v", h, err)
		}
		udp := []byte{0, 5, 0, 6, 0, 8, 0, 0}
		binary.BigEndian.PutUint16(udp[6:], ip.Checksum(udp, ip.PseudoSum(c.src, c.dst, ip.ProtoUDP, 8)))
		for range 30 {
			s.ip(n.dev.cfg.MAC, ip.Header{Proto: ip.ProtoUDP, Src: c.src, Dst: c.dst}, udp)
		}
		w.run(time.Millisecond)
		got = s.take()
		if len(got) != nicip.ErrorBurst {
			t.Fatalf("%d ICMP errors to 30 datagrams, want %d", len(got), nicip.ErrorBurst)
		}
		m, _ := icmp.Parse(got[0].body)
		q, quoted, err := m.Quoted()
		if err != nil || q.Src != c.src || !bytes.Equal(quoted, udp) {
			t.Errorf("quoted %+v % x %v", q, quoted, err)
		}
		if n.counter("rx_drop_no_listener") != 31 {
			t.Errorf("drops: %d", n.counter("rx_drop_no_listener"))
		}
	}
}
