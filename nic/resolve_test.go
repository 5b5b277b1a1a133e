package nic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Whoever asks for a station is told when it answers, however late; what is
// known is told at once, and who has cancelled is not told.
func TestResolve(t *testing.T) {
	w := newWorld(t)
	n := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24", "fd00::1/64"), Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.9")}})
	n.dev.LinkUp(w.now)
	s := w.station("02:00:00:00:00:02", "10.0.0.2", "fd00::2", "10.0.0.9")
	var told []ether.Addr
	ask := func(a string) (func(), bool) {
		return n.dev.IP.Resolve(netip.MustParseAddr(a), func(mac ether.Addr, _ frame.Time) { told = append(told, mac) })
	}
	s.mute = true
	for _, a := range []string{"10.0.0.2", "fd00::2", "192.0.2.1"} {
		if _, ok := ask(a); !ok {
			t.Fatalf("no way to %s", a)
		}
	}
	cancel, _ := ask("10.0.0.2")
	w.run(10 * time.Second)
	if len(told) > 0 || s.asked < 24 {
		t.Fatalf("told %v of silent stations, asked %d times", told, s.asked)
	}
	cancel()
	cancel()
	s.mute = false
	w.run(2 * time.Second)
	if len(told) != 3 || told[0] != s.mac || told[1] != s.mac || told[2] != s.mac {
		t.Fatalf("told %v", told)
	}
	told = nil
	asked := s.asked
	_, known := ask("10.0.0.2")
	_, own := ask("fd00::1")
	w.run(time.Millisecond)
	if !known || !own || len(told) != 2 || told[0] != s.mac || told[1] != n.dev.cfg.MAC || s.asked != asked {
		t.Errorf("told %v, asked %d times more", told, s.asked-asked)
	}
	if _, ok := ask("2001:db8::1"); ok {
		t.Error("a way without a gateway")
	}
}

func TestRoute(t *testing.T) {
	w := newWorld(t)
	n := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/8", "10.1.0.1/16"), Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.9")}})
	for _, c := range []struct {
		to, from string
		bits     int
		ok       bool
	}{{"10.1.0.2", "10.0.0.1", 16, true}, {"10.2.0.2", "10.0.0.1", 8, true}, {"192.0.2.1", "10.0.0.1", 0, true}, {"2001:db8::1", "", 0, false}} {
		from, bits, ok := n.dev.IP.Route(netip.MustParseAddr(c.to))
		if ok != c.ok || bits != c.bits || ok && from.String() != c.from {
			t.Errorf("to %s: %v, %d bits, %v", c.to, from, bits, ok)
		}
	}
}
