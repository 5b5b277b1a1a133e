package nicnode

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/wire/frame"
)

// deviceConfig is the NIC's present configuration.
func deviceConfig(t *testing.T, n *Node) (c nic.Config) {
	t.Helper()
	must(t, n.DoWait(func(frame.Time) { c = n.Device.Config() }))
	return c
}

// notes is a log that may be written while it is read.
type notes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

// A NIC with --ip-from-host is what the operating system makes of the host TAP,
// at the start and later on.
func TestFromHost(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	links := p.A.Net
	mac := net.HardwareAddr{2, 0, 0, 0, 0x77, 1}
	must(t, links.AddTAP("host0", false), links.SetMAC("host0", mac), links.SetMTU("host0", 1400),
		links.AddAddr("host0", netip.MustParsePrefix("10.0.0.1/24")))
	log := &notes{}
	a := start(t, Config{Name: "a", TAP: link.PairTAP, HostTAP: "host0", IPFromHost: true}, node.Env{NS: p.A.NS, Log: log})
	b := start(t, Config{Name: "b", TAP: link.PairTAP, IP: prefixes("10.0.0.2/24")}, node.Env{NS: p.B.NS})
	if want := "ready a mac=02:00:00:00:77:01 ip=10.0.0.1/24 tap=tap0 frames=wire"; a.Ready() != want {
		t.Errorf("got  %s\nwant %s", a.Ready(), want)
	}
	if c := deviceConfig(t, a); c.MTU != 1400 || !slices.Equal(c.Addrs, prefixes("10.0.0.1/24")) {
		t.Errorf("MTU %d, addresses %v", c.MTU, c.Addrs)
	}
	verify(t, a, b)

	must(t, links.DelAddr("host0", netip.MustParsePrefix("10.0.0.1/24")), links.AddAddr("host0", netip.MustParsePrefix("10.0.0.7/24")))
	await(t, "the NIC follows the addresses", func() bool { return slices.Equal(deviceConfig(t, a).Addrs, prefixes("10.0.0.7/24")) })
	a.cfg.IP = prefixes("10.0.0.7/24") // where verify looks for it
	verify(t, a, b)

	mac[5]++
	must(t, links.SetMTU("host0", 1300), links.SetMAC("host0", mac))
	await(t, "the NIC follows MTU and MAC", func() bool {
		c := deviceConfig(t, a)
		return c.MTU == 1300 && bytes.Equal(c.MAC[:], mac)
	})
	verify(t, b, a)

	must(t, links.SetMTU("host0", 9000))
	await(t, "an MTU that the wire has not is taken back", func() bool {
		mtu, err := links.MTU("host0")
		must(t, err)
		return mtu == 1300 && strings.Contains(log.String(), "host0 keeps its MTU of 1300: MTU 9000 is more than the 1500 of tap0: run `ip link set dev tap0 mtu 9000`")
	})
	// Linux gives IPv6 up below 1280 octets.
	add6 := func() {
		must(t, p.A.NS.Sysctl("ipv6/conf/host0/disable_ipv6", "0"), links.AddAddr("host0", netip.MustParsePrefix("fd00::1/64")))
	}
	add6()
	six := func() bool {
		return slices.ContainsFunc(deviceConfig(t, a).Addrs, func(p netip.Prefix) bool { return p.Addr().Is6() })
	}
	await(t, "the NIC has an IPv6 address", six)
	must(t, links.SetMTU("host0", 1000))
	await(t, "the NIC has an MTU of 1000", func() bool { return deviceConfig(t, a).MTU == 1000 && !six() })
	must(t, links.SetMTU("host0", 1500))
	add6()
	await(t, "the NIC has an IPv6 address again", func() bool { return deviceConfig(t, a).MTU == 1500 && six() })
	for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n")[1:] {
		t.Error(line)
	}
	must(t, a.Close())
	if has, err := links.MAC("host0"); err != nil || !bytes.Equal(has, mac) {
		t.Errorf("at the end the host TAP has %v: %v", has, err)
	}
}

// What the operating system says of a link, as ip monitor prints it.
type monitor struct {
	notes
	cmd *exec.Cmd
}

func (m *monitor) end() {
	_ = m.cmd.Process.Kill() // it may have ended
	_ = m.cmd.Wait()
}

// saw tells whether a line about dev has all of the words.
func (m *monitor) saw(dev string, words ...string) bool {
	for s := bufio.NewScanner(strings.NewReader(m.String())); s.Scan(); {
		line := s.Text()
		if strings.Contains(line, " "+dev+":") && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

func watchLinks(t *testing.T, s *link.Space) *monitor {
	m := &monitor{cmd: exec.Command("ip", "monitor", "link")}
	m.cmd.Stdout = m
	must(t, s.NS.Start(m.cmd))
	t.Cleanup(m.end)
	await(t, "ip monitor listens", func() bool {
		must(t, s.Net.SetAlias(link.PairTAP, fmt.Sprint(time.Now().UnixNano())))
		return m.saw(link.PairTAP)
	})
	return m
}

// The cable's state is the interface's, and the interface's the cable's.
func TestCarrierFollows(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	links := p.A.Net
	start(t, Config{Name: "a", TAP: link.PairTAP, HostTAP: "host0", IP: prefixes("10.0.0.1/24")}, node.Env{NS: p.A.NS})
	live := func(name string) bool {
		i, err := links.Get(name)
		must(t, err)
		return i.Live
	}
	await(t, "both are alive", func() bool { return live("host0") && live(link.PairTAP) })
	m := watchLinks(t, p.A)

	must(t, links.Down(link.PairTAP))
	await(t, "the host TAP loses its carrier", func() bool { return !live("host0") && m.saw("host0", "NO-CARRIER", "state DOWN") })
	must(t, links.Up(link.PairTAP))
	await(t, "the host TAP has its carrier again", func() bool { return live("host0") })

	must(t, links.Down("host0"))
	await(t, "the cable is dead", func() bool { return !live(link.PairTAP) && m.saw(link.PairTAP, "NO-CARRIER") })
	must(t, links.Up("host0"))
	await(t, "both are alive again", func() bool { return live("host0") && live(link.PairTAP) })
}

// A NIC that ends while its host TAP changes has nothing to complain of.
func TestEndsInSilence(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	for i := range 30 {
		log := &notes{}
		n, err := Start(t.Context(), Config{Name: "a", TAP: "wire", HostTAP: "host0", IPFromHost: true}, node.Env{NS: p.A.NS, Log: log})
		must(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for mtu := 1400; p.A.Net.SetMTU("host0", mtu) == nil; mtu = 2800 - mtu + i {
			}
		}()
		time.Sleep(time.Duration(i) * time.Millisecond)
		must(t, n.Close())
		<-ended
		if log.String() != "" {
			t.Fatalf("it said %q", log.String())
		}
	}
}
