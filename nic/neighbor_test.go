package nic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/ip"
	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/icmp"
)

func TestSilentNeighbor(t *testing.T) {
	for _, c := range []struct{ src, dst netip.Addr }{{peer4, nic4}, {peer6, nic6}} {
		w, n, s := pair(t, Config{})
		s.mute = true
		for range ip.MaxPending + 3 {
			s.ping(n.dev, c.src, c.dst, 8, 1500)
		}
		w.run(2500 * time.Millisecond)
		if s.asked != ip.SolicitTries || len(n.drops) != 3 || n.drops[0].Drop != drop.Neighbor {
			t.Fatalf("asked %d times, %d drops", s.asked, len(n.drops))
		}
		w.run(time.Second)
		if n.counter("tx_drop_neighbor_unreachable") != ip.MaxPending+3 || n.counter("neighbors_lost") != 1 || w.pool.Lent() != 0 {
			t.Fatalf("drops %d, lent %d", n.counter("tx_drop_neighbor_unreachable"), w.pool.Lent())
		}
		// The next packet begins anew, and what waits is sent in order.
		s.mute = false
		s.ping(n.dev, c.src, c.dst, 8, 1500)
		s.ping(n.dev, c.src, c.dst, 9, 1500)
		w.run(time.Second)
		if got := s.take(); len(got) != 2 || len(got[0].body) != 16 || len(got[1].body) != 17 {
			t.Fatalf("%d answers", len(got))
		}
	}
}

func TestNeighborIsProbed(t *testing.T) {
	w, n, s := pair(t, Config{})
	ping := func() int {
		s.ping(n.dev, peer4, nic4, 8, 1500)
		w.run(time.Millisecond)
		return len(s.take())
	}
	if ping() != 1 || s.asked != 1 {
		t.Fatal("first ping")
	}
	w.run(ip.ReachableTime)
	if ping() != 1 || s.asked != 1 {
		t.Fatal("a stale entry is to be used at once")
	}
	w.run(ip.DelayFirstProbe)
	if s.asked != 2 {
		t.Fatalf("asked %d times after the delay", s.asked)
	}
	w.run(ip.DelayFirstProbe + ip.RetransTime*ip.SolicitTries)
	if s.asked != 2 || ping() != 1 {
		t.Fatal("a confirmed entry was probed again")
	}
	w.run(ip.ReachableTime)
	s.mute = true
	ping()
	w.run(ip.DelayFirstProbe + (ip.SolicitTries+1)*ip.RetransTime)
	if s.asked != 2+ip.SolicitTries || n.counter("neighbors_lost") != 1 {
		t.Fatalf("asked %d times, lost %d", s.asked, n.counter("neighbors_lost"))
	}
}

func TestNeighborMoves(t *testing.T) {
	w, n, s := pair(t, Config{})
	s.ping(n.dev, peer4, nic4, 8, 1500)
	s.ping(n.dev, peer6, nic6, 8, 1500)
	w.run(time.Millisecond)
	s.take()
	s.mac = ether.Addr{2, 0, 0, 0, 0, 0x55}
	s.arp(arp.Request, peer4, ether.Broadcast, peer4) // gratuitous
	na := icmp.Neighbor{Target: peer6, Options: icmp.Options{TargetMAC: s.mac}}
	s.neighbor(icmp.NeighborAdvertisement, na, peer6, ip.AllNodes, icmp.MulticastMAC(ip.AllNodes))
	w.run(time.Millisecond)
	if n.dev.IP.Station(peer4) != s.mac || n.dev.IP.Station(peer6) == s.mac {
		t.Fatal("ARP moves at once, ND only with the override flag")
	}
	na.Override = true
	s.neighbor(icmp.NeighborAdvertisement, na, peer6, ip.AllNodes, icmp.MulticastMAC(ip.AllNodes))
	w.run(time.Millisecond)
	if n.dev.IP.Station(peer6) != s.mac {
		t.Fatal("ND with the override flag")
	}
}

// Who was not asked can take an address over once a second; unasked answers make
// no entry; each try of another station is counted.
func TestNeighborIsNotOverwritten(t *testing.T) {
	w, n, s := pair(t, Config{})
	s.ping(n.dev, peer4, nic4, 8, 1500)
	w.run(time.Millisecond)
	s.take()
	w.run(2 * ip.LockTime)
	owner := ether.Addr{2, 0, 0, 0, 0, 0x44}
	s.mac = owner
	s.arp(arp.Reply, peer4, n.dev.cfg.MAC, nic4)
	w.run(time.Millisecond)
	if n.dev.IP.Station(peer4) != owner {
		t.Fatal("a station that has moved is not believed")
	}
	s.mac = ether.Addr{2, 0, 0, 0, 0, 0x55}
	for _, op := range []uint16{arp.Reply, arp.Request} {
		s.arp(op, peer4, n.dev.cfg.MAC, nic4)
		w.run(time.Millisecond)
		if n.dev.IP.Station(peer4) != owner {
			t.Fatalf("operation %d has moved a fresh entry", op)
		}
	}
	if n.counter("neighbor_conflicts") != 3 {
		t.Errorf("%d conflicts", n.counter("neighbor_conflicts"))
	}
	stranger := netip.MustParseAddr("10.0.0.77")
	s.arp(arp.Reply, stranger, n.dev.cfg.MAC, nic4)
	w.run(ip.LockTime)
	if !n.dev.IP.Station(stranger).IsZero() {
		t.Error("an unasked answer has made an entry")
	}
	s.arp(arp.Reply, peer4, n.dev.cfg.MAC, nic4)
	w.run(time.Millisecond)
	if n.dev.IP.Station(peer4) != s.mac || n.counter("neighbor_conflicts") != 4 {
		t.Error("a station that has moved is not believed after a second")
	}
}

func TestNeighborCacheIsBounded(t *testing.T) {
	w, n, s := pair(t, Config{Addrs: prefixes("10.0.0.1/16")})
	a := netip.MustParseAddr("10.0.1.0")
	for range ip.MaxNeighbors + 50 {
		a = a.Next()
		s.arp(arp.Request, a, ether.Broadcast, nic4)
		w.run(time.Microsecond * 100)
	}
	if n.counter("neighbors") != ip.MaxNeighbors {
		t.Fatalf("%d entries", n.counter("neighbors"))
	}
	if n.dev.IP.Station(a) != s.mac {
		t.Fatal("the newest entry is gone")
	}
	s.arp(arp.Request, netip.MustParseAddr("192.0.2.1"), ether.Broadcast, nic4)
	w.run(time.Millisecond)
	if !n.dev.IP.Station(netip.MustParseAddr("192.0.2.1")).IsZero() {
		t.Fatal("learned a neighbor that is not on the link")
	}
}
