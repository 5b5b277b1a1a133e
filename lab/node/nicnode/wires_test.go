package nicnode

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/nic/verbs"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// ends are two ends of a wire of a kind, in the namespaces of near and far.
func ends(t *testing.T, kind string, near, far *netns.NS) (a, b string) {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	must(t, os.WriteFile(key, []byte(strings.Repeat("0f", 32)), 0o600))
	path := dir + "/cable"
	switch kind {
	case "shm":
		return "shm:" + path, "shm:" + path
	case "stream":
		return "stream:" + path, "stream:" + path
	case "stream over TCP":
		return "stream:listen:192.0.2.1:7000,192.0.2.2", "stream:connect:192.0.2.1:7000"
	case "udp with a key":
		return "udp:192.0.2.1:7000,192.0.2.2:7000,key=" + key, "udp::7000,192.0.2.1:7000,key=" + key
	case "vxlan with a key":
		return "vxlan:7,192.0.2.2,key=" + key, "vxlan:7,192.0.2.1,key=" + key
	case "dev":
		return "dev:v", "dev:v"
	case "tapdev":
		return testenv.Macvtap(t, near, "v"), testenv.Macvtap(t, far, "v")
	}
	t.Fatal(kind)
	return
}

// Two NICs exchange verified traffic over each kind of wire, in all frame modes, and between
// different ones.
func TestWires(t *testing.T) {
	for _, kind := range []string{"shm", "stream", "stream over TCP", "udp with a key", "vxlan with a key", "dev",
		"tapdev"} {
		for _, frames := range [][2]string{{"wire", "wire"}, {"gso", "gso"}, {"jumbo", "jumbo"}, {"gso", "wire"}} {
			t.Run(kind+" "+frames[0]+" "+frames[1], func(t *testing.T) {
				mtu := 1600
				if frames[0] == "jumbo" {
					mtu = 9100
				}
				near, far, _ := cable(t, mtu)
				x, y := ends(t, kind, near, far)
				a := start(t, Config{Name: "a", Wire: x, Frames: frames[0], IP: prefixes("10.0.0.1/24")}, node.Env{NS: near})
				b := start(t, Config{Name: "b", Wire: y, Frames: frames[1], IP: prefixes("10.0.0.2/24")}, node.Env{NS: far})
				verify(t, a, b)
				for _, n := range []*Node{a, b} {
					if d := n.Drops(); d.Total() > 3 || d[drop.TxQueue] > 0 { // a greeting may cost a frame
						t.Errorf("%s: drops %v", n.Name(), d.Total())
					}
				}
				if !strings.Contains(a.Ready(), " wire="+x+" ") {
					t.Error(a.Ready())
				}
			})
		}
	}
}

// The ports of a card are wires as well as TAPs: functions on them have each their peers. The
// first of a port and another that comes later share it.
func TestWiresOfCard(t *testing.T) {
	for _, kind := range []string{"shm", "vxlan with a key", "dev"} {
		t.Run(kind, func(t *testing.T) {
			near, far, _ := cable(t, 1600)
			x, y := ends(t, kind, near, far)
			all, err := nicconf.Parse("n.yaml", []byte("nics:\n- {name: card, port_mode: 2x25G, mf_mode: npar, frames: gso, "+
				"ports: ['"+x+"', t0], functions: [{name: f0, port: 0, ip: 10.0.0.1/24}, {name: f1, port: 0, ip: 10.0.0.3/24}]}\n"))
			must(t, err)
			cards := node.NewCards()
			f0 := start(t, all[0], node.Env{NS: near, Cards: cards})
			b := start(t, Config{Name: "b", Wire: y, Frames: "gso", IP: prefixes("10.0.0.2/24")}, node.Env{NS: far})
			verify(t, f0, b)
			f1 := start(t, all[1], node.Env{NS: near, Cards: cards})
			verify(t, b, f1)
			if !strings.Contains(f1.Ready(), " wire="+x+" ") {
				t.Error(f1.Ready())
			}
		})
	}
}

// The MTU of the host's interface reaches a NIC on a wire, and no further than the wire has room
// for; the other end of the wire sees when the interface goes down.
func TestWireFollowsHost(t *testing.T) {
	near, far, _ := cable(t, 1600)
	dir := t.TempDir()
	for _, c := range []struct{ kind, x, y string }{{"shm", "shm:" + dir + "/c", "shm:" + dir + "/c"},
		{"vxlan", "vxlan:7,192.0.2.2", "vxlan:7,192.0.2.1"}} {
		t.Run(c.kind, func(t *testing.T) {
			a := start(t, Config{Name: "a", Wire: c.x, HostTAP: "eth0", IPFromHost: true}, node.Env{NS: near})
			b := start(t, Config{Name: "b", Wire: c.y, IP: prefixes("10.0.0.2/24")}, node.Env{NS: far})
			mtu := func() (n int) {
				must(t, a.DoWait(func(frame.Time) { n = a.Device.Config().MTU }))
				return n
			}
			ip := func(words string) {
				if out, err := in(t, near, strings.Fields("ip "+words)...); err != nil {
					t.Error(out, err)
				}
			}
			set := func(words string) { ip("link set eth0 " + words) }
			set("up")
			ip("addr add 10.0.0.1/24 dev eth0")
			testenv.Until(t, "the NIC follows", func() (has bool) {
				must(t, a.DoWait(func(frame.Time) {
					has = slices.Contains(a.Device.Config().Addrs, netip.MustParsePrefix("10.0.0.1/24"))
				}))
				return has
			})
			verify(t, b, a)
			set("mtu 1400")
			testenv.Until(t, "the NIC follows", func() bool { return mtu() == 1400 })
			set("mtu 1551") // VXLAN has room for 1550
			if c.kind == "shm" {
				testenv.Until(t, "the NIC follows", func() bool { return mtu() == 1551 })
				up := func() (up bool) {
					must(t, b.DoWait(func(frame.Time) { up = b.Device.Verbs.PortAttr().State == verbs.PortActive }))
					return up
				}
				set("down")
				testenv.Until(t, "the other end notices", func() bool { return !up() })
				set("up")
				testenv.Until(t, "the other end notices", up)
				verify(t, b, a)
				return
			}
			testenv.Until(t, "the interface is put back", func() bool {
				out, err := in(t, near, "cat", "/sys/class/net/eth0/mtu")
				return err == nil && strings.TrimSpace(out) == "1400"
			})
		})
	}
}

// A NIC outlives its peer, and works with the next one.
func TestWirePeerRestarts(t *testing.T) {
	for _, kind := range []string{"shm", "stream", "udp with a key"} {
		t.Run(kind, func(t *testing.T) {
			near, far, _ := cable(t, 1600)
			x, y := ends(t, kind, near, far)
			a := start(t, Config{Name: "a", Wire: x, Frames: "gso", IP: prefixes("10.0.0.1/24")}, node.Env{NS: near})
			for range 3 {
				b, err := Start(t.Context(), Config{Name: "b", Wire: y, Frames: "gso", IP: prefixes("10.0.0.2/24")},
					node.Env{NS: far})
				must(t, err)
				verify(t, a, b)
				must(t, b.Close())
			}
		})
	}
}

// An interface that vanishes ends a NIC with one line that says so.
func TestWireInterfaceVanishes(t *testing.T) {
	for _, kind := range []string{"dev", "tapdev"} {
		near, _, links := cable(t, 1500)
		wire, name := "dev:v", "v"
		if kind == "tapdev" {
			wire, name = testenv.Macvtap(t, near, "v"), "mvv"
		}
		n, err := Start(t.Context(), Config{Name: "a", Wire: wire, IP: prefixes("10.0.0.1/24")}, node.Env{NS: near})
		must(t, err, links.Down("v"), links.Up("v"))
		must(t, links.Delete("v"))
		select {
		case <-n.Done():
		case <-time.After(10 * time.Second):
			t.Error("the NIC does not notice")
		}
		if err := n.Close(); err == nil || err.Error() != name+": the interface was removed" {
			t.Error(err)
		}
	}
}

// counter is one of a NIC's or of its wire's.
func counter(t *testing.T, n *Node, name string) (value uint64) {
	t.Helper()
	must(t, n.DoWait(func(frame.Time) {
		for _, c := range n.Device.Counters() {
			if c.Name == name {
				value = c.Value
			}
		}
		for _, r := range node.WireRows(n.wire) {
			if r.Name == name {
				value = r.Value
			}
		}
	}))
	return value
}

// Two NICs with one MAC address behind a tunnel are counted by either.
func TestWireSameMAC(t *testing.T) {
	near, far, _ := cable(t, 1600)
	mac := ether.Addr{2, 0, 0, 0, 0, 9}
	x, y := "vxlan:7,192.0.2.2", "vxlan:7,192.0.2.1"
	a := start(t, Config{Name: "a", Wire: x, MAC: mac, IP: prefixes("10.0.0.1/24")}, node.Env{NS: near})
	start(t, Config{Name: "b", Wire: y, MAC: mac, IP: prefixes("10.0.0.2/24")}, node.Env{NS: far}) // it announces itself
	testenv.Until(t, "the other notices", func() bool { return counter(t, a, "address_conflicts") > 0 })
}

// A VXLAN wire hears its peer alone: frames of another station with the right VNI, and
// datagrams that are no VXLAN, are counted and go nowhere.
func TestWireStrangers(t *testing.T) {
	near, far, links := cable(t, 1600)
	must(t, links.AddAddr("v", netip.MustParsePrefix("192.0.2.3/24")))
	n := start(t, Config{Name: "a", Wire: "vxlan:42,192.0.2.2", IP: prefixes("10.0.0.1/24")}, node.Env{NS: near})
	for _, c := range []string{"link add vx type vxlan id 42 remote 192.0.2.1 local 192.0.2.3 dstport 4789 dev v",
		"addr add 10.0.0.9/24 dev vx", "link set vx up"} {
		if out, err := in(t, far, append([]string{"ip"}, strings.Fields(c)...)...); err != nil {
			t.Fatalf("ip %s: %v\n%s", c, err, out)
		}
	}
	testenv.Until(t, "strangers are counted", func() bool {
		if out, err := in(t, far, "ping", "-c", "1", "-W", "0.2", "10.0.0.1"); err == nil {
			t.Fatalf("a stranger is answered: %s", out)
		}
		return counter(t, n, "strangers") > 0
	})
	junk := counter(t, n, "not_ours")
	must(t, far.Do(func() error {
		c, err := net.Dial("udp", "192.0.2.1:4789")
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(make([]byte, 1400))
		return err
	}))
	testenv.Until(t, "it is counted", func() bool { return counter(t, n, "not_ours") > junk })
}

// An MTU that shrinks under a NIC costs the frames that are longer, which are counted; what
// they held is sent again once they pass.
func TestWireMTUShrinks(t *testing.T) {
	near, far, _ := cable(t, 1500)
	a := start(t, Config{Name: "a", Wire: "dev:v", IP: prefixes("10.0.0.1/24")}, node.Env{NS: near})
	b := start(t, Config{Name: "b", Wire: "dev:v", IP: prefixes("10.0.0.2/24")}, node.Env{NS: far})
	setMTU := func(mtu string) {
		if out, err := in(t, near, "ip", "link", "set", "v", "mtu", mtu); err != nil {
			t.Error(out, err)
		}
	}
	setMTU("1000")
	before := a.Drops()
	counted := make(chan bool)
	go func() {
		var d frame.Drops
		for range 30000 {
			if d = a.Drops(); d.Total() > before.Total() {
				break
			}
			time.Sleep(time.Millisecond)
		}
		setMTU("1500")
		counted <- d.Total() > before.Total()
	}()
	verify(t, a, b)
	if !<-counted {
		t.Error("nothing is counted")
	}
}
