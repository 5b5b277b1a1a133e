package nic

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/ip"
	"tapir/nic/toe"
	"tapir/wire/arp"
	"tapir/wire/ether"
)

// What the operating system makes of its interface, the NIC is.
func TestFollowsTheHost(t *testing.T) {
	w := newWorld(t)
	n := w.nic(Config{Name: "nic0", HostAddrs: true})
	s := w.station("02:00:00:00:00:99", "10.0.0.2")
	if len(n.dev.IP.Addrs()) != 0 {
		t.Fatalf("addresses %v before there are any", n.dev.IP.Addrs())
	}
	set := func(want string, list ...string) {
		t.Helper()
		err := n.dev.SetAddrs(prefixes(list...), w.now)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, want %q", list, err, want)
		}
	}
	set("", "10.0.0.1/24", "fd00::1/64")
	set("10.0.0.0/24", "10.0.0.1/24", "10.0.0.0/24")
	if got := n.dev.IP.Addrs(); !slices.Equal(got, prefixes("10.0.0.1/24")) {
		t.Errorf("addresses %v", got)
	}

	mac := ether.Addr{2, 0, 0, 0, 0x11, 0x22}
	w.run(time.Millisecond)
	s.take() // the announcements
	if err := n.dev.SetMAC(mac, w.now); err != nil {
		t.Fatal(err)
	}
	w.run(time.Millisecond)
	heard := s.take()
	if len(heard) != 1 || heard[0].eth.Src != mac {
		t.Fatalf("announced by %+v", heard)
	}
	s.arp(arp.Request, peer4, ether.Broadcast, nic4)
	w.run(time.Millisecond)
	s.ping(n.dev, peer4, nic4, 100, 1500)
	w.run(time.Millisecond)
	if got := s.take(); len(got) != 2 || got[1].eth.Src != mac {
		t.Errorf("%d answers: %+v", len(got), got)
	}
	for _, bad := range []ether.Addr{{}, {1, 0, 0, 0, 0, 1}} {
		if n.dev.SetMAC(bad, w.now) == nil || n.dev.Config().MAC != mac {
			t.Errorf("MAC %v", bad)
		}
	}

	if err := n.dev.SetMTU(ip.MaxMTU+1, w.now); err == nil || n.dev.Config().MTU != 1500 {
		t.Errorf("%v, MTU %d", err, n.dev.Config().MTU)
	}
	if err := n.dev.SetMTU(700, w.now); err != nil || n.dev.Verbs.PortAttr().MTU != 700 {
		t.Errorf("%v, MTU %d", err, n.dev.Verbs.PortAttr().MTU)
	}
	s.ping(n.dev, peer4, nic4, 1000, 700)
	w.run(time.Millisecond)
	for _, r := range s.take() {
		if r.ip.PayloadLen+20 > 700 {
			t.Errorf("a packet of %d octets", r.ip.PayloadLen+20)
		}
	}
}

// A NIC whose last address goes asks nobody for anything any more.
func TestSilentWithoutAddress(t *testing.T) {
	w := newWorld(t)
	n := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24", "fd00::1/64"), HostAddrs: true})
	s := w.station("02:00:00:00:00:99") // answers nothing
	for _, to := range []string{"10.0.0.9", "fd00::9"} {
		own := n.dev.IP.Source(netip.MustParseAddr(to))
		if _, err := n.dev.TCP().Connect(netip.AddrPortFrom(own, 0), netip.AddrPortFrom(netip.MustParseAddr(to), 7), &quiet{}, w.now); err != nil {
			t.Fatal(err)
		}
	}
	w.run(time.Millisecond)
	if asked := s.take(); len(asked) < 2 {
		t.Fatalf("asked %d times", len(asked))
	}
	if err := n.dev.SetAddrs(nil, w.now); err != nil {
		t.Fatal(err)
	}
	w.run(time.Minute)
	if asked := s.take(); len(asked) != 0 {
		t.Errorf("asked %d times", len(asked))
	}
}

// TestMTUFalls: connections cut their segments to the new MTU and go on.
func TestMTUFalls(t *testing.T) {
	w := newWorld(t)
	a := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24")})
	b := w.nic(Config{Name: "nic1", Addrs: prefixes("10.0.0.2/24")})
	client, server := dial(w, a, b, netip.MustParseAddr("10.0.0.2"), 1<<16)
	exercise(w, client, server, 1<<16)
	mss := func(n *node) (mss int) {
		n.dev.TCP().Conns(func(c *toe.Conn) bool { mss = c.Info().MSS; return true })
		return mss
	}
	before := mss(a)
	for _, n := range []*node{a, b} {
		if err := n.dev.SetMTU(1000, w.now); err != nil {
			t.Fatal(err)
		}
	}
	exercise(w, client, server, 1<<16)
	if after := mss(a); after != before-500 {
		t.Errorf("segments of %d octets, before %d", after, before)
	}
}
