package nicnode

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
)

// NICs whose wire is a UDP socket work in all frame modes, and make no interface.
func TestTunnel(t *testing.T) {
	for _, frames := range []string{"wire", "gso", "jumbo"} {
		for _, wires := range [][2]string{
			{"udp:127.0.0.1:7000,127.0.0.1:7001", "udp:127.0.0.1:7001,127.0.0.1:7000"},
			{"vxlan:42,127.0.0.2,127.0.0.1", "vxlan:42,127.0.0.1,127.0.0.2"},
		} {
			t.Run(frames+" "+wires[0], func(t *testing.T) {
				ns, links := room(t)
				a := start(t, Config{Name: "a", Wire: wires[0], Frames: frames, IP: prefixes("10.0.0.1/24")}, node.Env{NS: ns})
				b := start(t, Config{Name: "b", Wire: wires[1], Frames: frames, IP: prefixes("10.0.0.2/24")}, node.Env{NS: ns})
				if got := strings.Join(names(t, links), " "); got != "lo" {
					t.Errorf("links %s", got)
				}
				if !strings.Contains(a.Ready(), " wire="+strings.SplitN(wires[0], ",", 2)[0]) {
					t.Error(a.Ready())
				}
				verify(t, a, b)
			})
		}
	}
}

// far is a namespace on the other end of a cable with an MTU, and near's namespace: near
// has 192.0.2.1, far 192.0.2.2.
func cable(t *testing.T, mtu int) (near, far *netns.NS, farLinks *link.Net) {
	t.Helper()
	near, nearLinks := room(t)
	far, farLinks = room(t)
	must(t, nearLinks.AddVeth("v", farLinks, "v"))
	for links, addr := range map[*link.Net]string{nearLinks: "192.0.2.1/24", farLinks: "192.0.2.2/24"} {
		must(t, links.SetMTU("v", mtu), links.AddAddr("v", netip.MustParsePrefix(addr)), links.Up("v"))
	}
	return near, far, farLinks
}

// A VXLAN device of the kernel is the peer of a NIC whose wire is VXLAN: both ways, with
// the longest packets that fit, and with another VNI not at all.
func TestTunnelToKernel(t *testing.T) {
	for _, mtu := range []int{1280, 1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			near, far, _ := cable(t, mtu)
			for _, c := range []string{"link add vx type vxlan id 42 remote 192.0.2.1 local 192.0.2.2 dstport 4789 dev v",
				"addr add 10.0.0.9/24 dev vx", "link set vx up"} {
				if out, err := in(t, far, append([]string{"ip"}, strings.Fields(c)...)...); err != nil {
					t.Fatalf("ip %s: %v\n%s", c, err, out)
				}
			}
			frames := map[bool]string{true: "jumbo", false: "wire"}[mtu > 1500]
			n := start(t, Config{Name: "a", Wire: "vxlan:42,192.0.2.2", Frames: frames, IP: prefixes("10.0.0.1/24")},
				node.Env{NS: near})
			if got := n.cfg.MTU; got != mtu-50 {
				t.Errorf("MTU %d, want %d", got, mtu-50)
			}
			ping := func() error {
				out, err := in(t, far, "ping", "-c", "3", "-i", "0.01", "-w", "20", "-M", "do", "-s", fmt.Sprint(mtu-50-28),
					"10.0.0.1")
				t.Log(string(out))
				return err
			}
			must(t, ping(), n.Close())
			n = start(t, Config{Name: "a", Wire: "vxlan:43,192.0.2.2", IP: prefixes("10.0.0.1/24")}, node.Env{NS: near})
			if out, err := in(t, far, "ping", "-c", "1", "-W", "0.2", "10.0.0.1"); err == nil {
				t.Errorf("with another VNI: %s", out)
			}
			if d := n.Drops(); d.Total() == 0 {
				t.Error("frames of another VNI are not counted")
			}
		})
	}
}

// What cannot be is refused with its key, and nothing is left.
func TestTunnelRefused(t *testing.T) {
	near, _, _ := cable(t, 1400)
	for want, c := range map[string]Config{
		"wire takes the place of a TAP":            {Wire: "udp::7000,192.0.2.2:7000", TAP: "tap0"},
		"wire vxlan:1,192.0.2.2 has room for 1350": {Wire: "vxlan:1,192.0.2.2", MTU: 1500},
		"bind to 192.0.2.7:7000":                   {Wire: "udp:192.0.2.7:7000,192.0.2.2:7000"},
		"connect to 198.51.100.1:7000":             {Wire: "udp::7000,198.51.100.1:7000"},
		"wire: expected":                           {Wire: "udp:7000"},
	} {
		c.IP = prefixes("10.0.0.1/24")
		if n, err := Start(t.Context(), c, node.Env{NS: near}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
			if err == nil {
				must(t, n.Close())
			}
		}
	}
}
