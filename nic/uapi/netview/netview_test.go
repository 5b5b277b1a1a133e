package netview

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/uapi/netlink"
	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/trap/traptest"
)

func TestMain(m *testing.M) {
	traptest.Main(m, map[string]func(){"interfaces": interfaces, "resolve": resolve}, traptest.Nothing)
}

// view are two NICs: one at the loopback interface, which is there, and one at a
// netdev that is not.
func view() []NIC {
	network := func(n Network) func() (Network, error) { return func() (Network, error) { return n, nil } }
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	return []NIC{
		{"lo", network(Network{MAC: mac, MTU: 1500,
			Addrs:     []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")},
			Gateways:  []netip.Addr{netip.MustParseAddr("192.0.2.254")},
			Neighbors: []Neighbor{{netip.MustParseAddr("192.0.2.2"), mac, "REACHABLE"}, {netip.MustParseAddr("192.0.2.3"), nil, "INCOMPLETE"}}})},
		{"tapirnone", network(Network{MAC: mac, MTU: 9000, Addrs: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/25")}})}}
}

func run(t *testing.T, via trap.Via, argv ...string) string {
	t.Helper()
	p := netlink.New()
	Register(p, view()...)
	Stamps(p, map[string]Stamping{"lo": {7, 1 << 6, 1 << 1, 1 << 12}})
	return traptest.Output(t, trap.Options{Argv: argv, Handlers: []trap.Handler{p}, Via: via}, testenv.Guard)
}

// has wants lines to be in what a program wrote, and others not.
func has(t *testing.T, got string, want, not []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q is not in\n%s", w, got)
		}
	}
	for _, n := range not {
		if strings.Contains(got, n) {
			t.Errorf("%q is in\n%s", n, got)
		}
	}
}

// TestIPRoute2: stock ip(8) shows what the NICs have beside what the kernel has,
// limited as it is asked to.
func TestIPRoute2(t *testing.T) {
	for _, via := range []trap.Via{trap.Seccomp, trap.Preload} {
		t.Run(via.String(), func(t *testing.T) {
			for _, c := range []struct {
				script string
				want   []string
				not    []string
			}{
				{"ip addr", []string{"inet 127.0.0.1/8 scope host lo", "inet 192.0.2.1/24 scope global lo", "inet6 2001:db8::1/64 scope global",
					"tapirnone: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000", "link/ether 02:00:00:00:00:01", "inet 198.51.100.1/25 scope global tapirnone"}, nil},
				{"ip -4 addr show dev lo", []string{"192.0.2.1/24"}, []string{"2001:db8", "198.51.100.1"}},
				{"ip -4 addr show dev tapirnone", []string{"198.51.100.1/25"}, []string{"192.0.2.1", "127.0.0.1"}},
				{"ip route", []string{"192.0.2.0/24 dev lo proto kernel scope link src 192.0.2.1", "default via 192.0.2.254 dev lo"}, []string{"2001:db8"}},
				{"ip -6 route", []string{"2001:db8::/64 dev lo proto kernel metric 256"}, []string{"192.0.2"}},
				{"ip route get 192.0.2.9", []string{"192.0.2.9 dev lo proto kernel scope link src 192.0.2.1"}, nil},
				{"ip route get 127.0.0.1", []string{"local 127.0.0.1 dev lo"}, nil},
				{"ip neigh show dev lo nud all", []string{"192.0.2.2 lladdr 02:00:00:00:00:01 REACHABLE", "192.0.2.3 INCOMPLETE"}, nil},
			} {
				has(t, run(t, via, "sh", "-c", c.script), c.want, c.not)
			}
		})
	}
}

// TestEthtool: stock ethtool asks for time stamping by generic netlink, and for the rest
// the kernel.
func TestEthtool(t *testing.T) {
	for _, via := range []trap.Via{trap.Seccomp, trap.Preload} {
		got := run(t, via, "sh", "-c", "ethtool -T lo; ethtool lo")
		has(t, got, []string{"\thardware-raw-clock\nPTP Hardware Clock: 7\n", "Transmit Timestamp Modes:\n\ton\n",
			"Filter Modes:\n\tptpv2-event\n", "Settings for lo:\n\tLink detected: yes"}, []string{"software", "rror"})
	}
}

// TestOtherNamespace: a program in a network namespace of its own sees that alone.
func TestOtherNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	has(t, run(t, trap.Seccomp, "unshare", "-n", "ip", "addr"), []string{"lo: "}, []string{"192.0.2.1", "tapirnone"})
}

func interfaces() {
	list, err := net.Interfaces()
	for _, i := range list {
		addrs, err := i.Addrs()
		println(i.Name, i.MTU, err == nil)
		for _, a := range addrs {
			println(a.String())
		}
	}
	println(err == nil)
}

// TestInterfaces: the standard library of a static Go program sees them too.
func TestInterfaces(t *testing.T) {
	got := run(t, trap.Seccomp, "/proc/self/exe", traptest.Program+"interfaces")
	has(t, got, []string{"lo 65536 true\n127.0.0.1/8\n", "192.0.2.1/24\n2001:db8::1/64\n", "tapirnone 9000 true\n198.51.100.1/25\n"}, []string{"false"})
}

// resolve supervises a stock program in this process's namespace.
func resolve() {
	p := netlink.New()
	Register(p, view()...)
	program, err := trap.Start(trap.Options{Argv: []string{"getent", "ahosts", "localhost"}, Stdout: os.Stdout, Stderr: os.Stderr,
		Handlers: []trap.Handler{p}})
	if err != nil {
		println(err.Error())
		return
	}
	_, _ = program.Wait()
}

// TestAddrConfig: where the kernel has an address of IPv6 alone, libc's getaddrinfo
// with AI_ADDRCONFIG finds addresses of IPv4 as such, since a NIC has one.
func TestAddrConfig(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]bool{"getent ahosts localhost": false, exe + " " + traptest.Program + "resolve": true} {
		out, err := exec.Command("unshare", "-n", "sh", "-c", "ip link set lo up && ip addr add fd00::1/64 dev lo && exec "+program).CombinedOutput()
		if got := strings.HasPrefix(string(out), "127.0.0.1 "); got != want {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
}

// FuzzRequest: a program asks anything, and the kernel answers anything.
func FuzzRequest(f *testing.F) {
	kinds := []uint16{unix.RTM_GETADDR, unix.RTM_GETLINK, unix.RTM_GETROUTE, unix.RTM_GETNEIGH}
	for i := range kinds {
		f.Add(uint8(i), uint16(unix.NLM_F_DUMP), []byte{unix.AF_INET})
		f.Add(uint8(i), uint16(0), append(make([]byte, 12), 8, 0, 1, 0, 192, 0, 2, 9))
	}
	s := &server{view()}
	serve := []netlink.Service{s.addresses, s.links, s.routes, s.neighbors}
	f.Fuzz(func(t *testing.T, which uint8, flags uint16, body []byte) {
		i := int(which) % len(kinds)
		q := &netlink.Request{Message: netlink.Message{Type: kinds[i], Flags: flags, Body: body},
			Kernel: func() ([]netlink.Message, error) { return nil, unix.ENETUNREACH }}
		_, _ = serve[i](q)
		q.Kernel = func() ([]netlink.Message, error) { return []netlink.Message{{Body: body}}, nil }
		_, _ = serve[i](q)
	})
}
