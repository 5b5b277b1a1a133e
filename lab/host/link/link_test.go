package link

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"tapir/lab/host/netns"
)

func newNet(t *testing.T) *Net {
	t.Helper()
	s, err := NewSpace(Quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.Net
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLinksAndAddresses(t *testing.T) {
	n := newNet(t)
	must(t, n.ns.Sysctl("ipv6/conf/default/disable_ipv6", "0"), n.AddTAP("tap7", false), n.AddBridge("br7"))
	mac, _ := net.ParseMAC("02:00:00:00:00:07")
	must(t, n.SetMTU("tap7", 9000), n.SetMAC("tap7", mac), n.Join("tap7", "br7"), n.Up("tap7"))
	v4, v6 := netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00::1/64")
	must(t, n.AddAddr("br7", v4), n.AddAddr("br7", v6))
	addrs, err := n.Addrs("br7")
	must(t, err)
	if !slices.Contains(addrs, v4) || !slices.Contains(addrs, v6) {
		t.Errorf("addresses %v", addrs)
	}
	mtu, err := n.MTU("tap7")
	must(t, err)
	got, err := n.MAC("tap7")
	must(t, err)
	up, err := n.IsUp("tap7")
	must(t, err)
	if mtu != 9000 || got.String() != mac.String() || !up {
		t.Errorf("MTU %d, MAC %v, up %v", mtu, got, up)
	}
	must(t, n.DelAddr("br7", v4), n.Down("tap7"), n.Delete("tap7"))
	if n.Exists("tap7") || !n.Exists("br7") {
		t.Error("the wrong link was deleted")
	}
}

func TestErrorsNameTheLink(t *testing.T) {
	n := newNet(t)
	for what, err := range map[string]error{
		"up": n.Up("none0"), "join": n.Join("lo", "none0"), "tap": n.AddTAP("a-name-too-long-for-a-link", false),
	} {
		if err == nil || !strings.Contains(err.Error(), "none0") && what == "up" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPair(t *testing.T) {
	p, err := NewPair(9000, true)
	must(t, err)
	defer p.Close()
	for _, s := range []*Space{p.A, p.B} {
		names, err := s.Net.Names()
		must(t, err)
		slices.Sort(names)
		if want := []string{"br0", "lo", "tap0", "veth0"}; !slices.Equal(names, want) {
			t.Errorf("links %v, want %v", names, want)
		}
		if mtu, err := s.Net.MTU(PairTAP); err != nil || mtu != 9000 {
			t.Errorf("MTU %d, %v", mtu, err)
		}
		var filter []byte
		s.NS.Do(func() error {
			filter, err = os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables")
			return nil
		})
		if err == nil && strings.TrimSpace(string(filter)) != "0" {
			t.Errorf("bridge netfilter is on: %q", filter)
		}
	}
}

func TestCurrentNamespaceOpens(t *testing.T) {
	ns, err := netns.Current()
	must(t, err)
	defer ns.Close()
	n, err := In(ns)
	must(t, err)
	defer n.Close()
	if !n.Exists("lo") {
		t.Error("no lo here")
	}
}
