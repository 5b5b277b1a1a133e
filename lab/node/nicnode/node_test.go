package nicnode

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

var (
	must     = testenv.Must
	in       = testenv.Run
	prefixes = testenv.Prefixes
	await    = testenv.Until
)

// With this variable set the test binary is a program that runs one NIC on
// the TAP of that name until its input ends.
const asProgram = "TAPIR_NODE_TEST_TAP"

func TestMain(m *testing.M) {
	name := os.Getenv(asProgram)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	n, err := Start(context.Background(), Config{TAP: name, IP: prefixes("10.0.0.1/24")}, node.Env{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(n.Ready())
	for _, h := range n.Hints() {
		fmt.Println(h)
	}
	fmt.Println("end")
	io.Copy(io.Discard, os.Stdin)
	if err := n.Close(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// room is a namespace for one test. That the machine's own links are
// untouched is checked when the test ends.
func room(t *testing.T) (*netns.NS, *link.Net) {
	t.Helper()
	before := testenv.Links(t)
	t.Cleanup(func() {
		if after := testenv.Links(t); !slices.Equal(after, before) {
			t.Errorf("interfaces before %v, after %v", before, after)
		}
	})
	s := testenv.Space(t, nil)
	must(t, s.Net.Up("lo"), s.NS.Sysctl("ipv6/conf/default/accept_dad", "0"))
	return s.NS, s.Net
}

func start(t *testing.T, cfg Config, env node.Env) *Node {
	t.Helper()
	n, err := Start(t.Context(), cfg, env)
	must(t, err)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func names(t *testing.T, n *link.Net) []string {
	t.Helper()
	list, err := n.Names()
	must(t, err)
	slices.Sort(list)
	return list
}

func TestPing(t *testing.T) {
	for _, frames := range []string{"wire", "gso", "jumbo"} {
		t.Run(frames, func(t *testing.T) {
			ns, links := room(t)
			n := start(t, Config{TAP: "tap0", Frames: frames, IP: prefixes("10.0.0.1/24"), IP6: prefixes("fd00::1/64"),
				TAPIP: prefixes("10.0.0.254/24", "fd00::fe/64"),
			}, node.Env{NS: ns})
			if h := n.Hints(); len(h) != 0 {
				t.Errorf("hints %q", h)
			}
			size := "1400"
			if frames == "jumbo" {
				size = "8900"
			}
			for _, to := range []string{"10.0.0.1", "fd00::1"} {
				if out, err := in(t, ns, "ping", "-c", "3", "-i", "0.01", "-w", "30", "-M", "do", "-s", size, to); err != nil {
					t.Errorf("ping %s: %v\n%s", to, err, out)
				}
			}
			if d := n.Drops(); d.Total() != 0 {
				t.Errorf("drops %v", d)
			}
			must(t, n.Close())
			if got := names(t, links); !slices.Equal(got, []string{"lo"}) {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

func TestReadyLine(t *testing.T) {
	ns, _ := room(t)
	n := start(t, Config{TAP: "tap3", MAC: ether.Addr{2, 0, 0, 0, 0, 7}, IP: prefixes("10.0.0.1/24"), IP6: prefixes("fd00::1/64")}, node.Env{NS: ns})
	want := "ready nic0 mac=02:00:00:00:00:07 ip=10.0.0.1/24,fd00::1/64 tap=tap3 frames=wire"
	if got := n.Ready(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	hints := []string{"ip addr add 10.0.0.254/24 dev tap3", "ip addr add fd00::ffff:ffff:ffff:ffff/64 dev tap3 nodad"}
	if !slices.Equal(n.Hints(), hints) {
		t.Errorf("hints %q", n.Hints())
	}
	for _, h := range n.Hints() {
		if out, err := in(t, ns, strings.Fields(h)...); err != nil {
			t.Errorf("%s: %v %s", h, err, out)
		}
	}
	if out, err := in(t, ns, "ping", "-c", "1", "-w", "30", "10.0.0.1"); err != nil {
		t.Errorf("after the hints: %v\n%s", err, out)
	}
}

// A TAP that was there before stays, as it was.
func TestFoundTAPStays(t *testing.T) {
	for _, frames := range []string{"wire", "gso"} {
		ns, links := room(t)
		must(t, links.AddTAP("tap0", false), links.AddAddr("tap0", netip.MustParsePrefix("10.0.0.253/24")))
		before, err := links.Get("tap0")
		must(t, err)
		n := start(t, Config{TAP: "tap0", Frames: frames, IP: prefixes("10.0.0.1/24"), TAPIP: prefixes("10.0.0.254/24", "10.0.0.253/24")}, node.Env{NS: ns})
		if out, err := in(t, ns, "ping", "-c", "1", "-w", "30", "10.0.0.1"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		must(t, n.Close())
		after, err := links.Get("tap0")
		must(t, err)
		if before.Up != after.Up || !slices.Equal(before.Addrs, after.Addrs) || before.MTU != after.MTU {
			t.Errorf("%s: before %+v, after %+v", frames, before, after)
		}
	}
}

func TestStartErrors(t *testing.T) {
	ns, links := room(t)
	must(t, links.AddTAP("small", false), links.AddBridge("br0"), links.AddAddr("br0", netip.MustParsePrefix("10.0.0.9/24")))
	held := start(t, Config{Name: "first", TAP: fmt.Sprint("held", os.Getpid()), IP: prefixes("10.9.0.1/24")}, node.Env{NS: ns})
	before := names(t, links)
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no address", Config{TAP: "t"}, "nic0: no address"},
		{"held", Config{TAP: held.TAP(), IP: prefixes("10.0.0.1/24")}, "held by another process (pid "},
		{"not a TAP", Config{TAP: "br0", IP: prefixes("10.0.0.1/24")}, "is not a TAP"},
		{"clash", Config{TAP: "t", IP: prefixes("10.0.0.9/24")}, "address 10.0.0.9 is the kernel's own on br0: choose another one, or run `ip addr del 10.0.0.9/24 dev br0`"},
		{"clash with tap_ip", Config{TAP: "t", IP: prefixes("10.0.0.1/24"), TAPIP: prefixes("10.0.0.1/24")}, "tap_ip 10.0.0.1 is the NIC's own"},
		{"MTU of a found TAP", Config{TAP: "small", Frames: "jumbo", IP: prefixes("10.0.0.1/24")}, "run `ip link set dev small mtu 9000`"},
		{"long name", Config{TAP: "a-name-too-long-for-a-link", IP: prefixes("10.0.0.1/24")}, "at most 15"},
		{"not a descriptor", Config{TAPFD: 999, IP: prefixes("10.0.0.1/24")}, "file descriptor 999 is not an attached TAP"},
		{"gateway off the link", Config{TAP: "t", IP: prefixes("10.0.0.1/24"), Gateways: []netip.Addr{netip.MustParseAddr("10.2.0.1")}}, "gateway 10.2.0.1"},
		{"network address", Config{TAP: "t", IP: prefixes("10.0.0.0/24")}, "10.0.0.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := Start(t.Context(), tt.cfg, node.Env{NS: ns})
			if err == nil {
				n.Close()
				t.Fatal("started")
			}
			if s := err.Error(); !strings.Contains(s, tt.want) || strings.Contains(s, "\n") {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
			if after := names(t, links); !slices.Equal(before, after) {
				t.Errorf("links before %v, after %v", before, after)
			}
		})
	}
}

func TestTAPRemoved(t *testing.T) {
	ns, links := room(t)
	n, err := Start(t.Context(), Config{TAP: "tap0", IP: prefixes("10.0.0.1/24")}, node.Env{NS: ns})
	must(t, err)
	defer n.Close()
	must(t, links.Delete("tap0"))
	testenv.Await(t, n.Done(), "the NIC ends without its TAP")
	if err := n.Err(); err == nil || err.Error() != "tap0: the TAP was removed" {
		t.Errorf("stopped because of %v", err)
	}
	if n.Do(func(frame.Time) {}) || n.DoWait(func(frame.Time) {}) == nil {
		t.Error("work is accepted after the end")
	}
	if err := n.Close(); err == nil {
		t.Error("Close forgot the reason")
	}
}

// ordinary starts this binary in ns as a user without any capability and
// returns what it says before "end".
func ordinary(t *testing.T, ns *netns.NS, tapName string) (said []string, finish func() error) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	dir := testenv.PublicDir(t)
	cmd := testenv.Unprivileged(t, t.Context(), dir, testenv.Copy(t, dir, self))
	cmd.Env = append(cmd.Env, asProgram+"="+tapName)
	input, err := cmd.StdinPipe()
	must(t, err)
	output, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, ns.Start(cmd))
	lines := bufio.NewScanner(output)
	for lines.Scan() && lines.Text() != "end" {
		said = append(said, lines.Text())
	}
	return said, func() error { input.Close(); return cmd.Wait() }
}

// A TAP made for an ordinary user is all that this user needs.
func TestOrdinaryUserOnOwnTAP(t *testing.T) {
	ns, links := room(t)
	if out, err := in(t, ns, "ip", "tuntap", "add", "dev", "tap0", "mode", "tap", "user", "65534"); err != nil {
		t.Fatal(out)
	}
	said, finish := ordinary(t, ns, "tap0")
	want := []string{"ip link set dev tap0 up", "ip addr add 10.0.0.254/24 dev tap0"}
	if len(said) != 3 || !strings.HasPrefix(said[0], "ready nic0 ") || !slices.Equal(said[1:], want) {
		t.Fatalf("it says %q", said)
	}
	for _, hint := range said[1:] {
		if out, err := in(t, ns, strings.Fields(hint)...); err != nil {
			t.Fatalf("%s: %s", hint, out)
		}
	}
	if out, err := in(t, ns, "ping", "-c", "1", "-w", "30", "10.0.0.1"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	must(t, finish())
	if !links.Exists("tap0") {
		t.Error("the TAP is gone")
	}
}

func TestOrdinaryUserWithoutTAP(t *testing.T) {
	ns, links := room(t)
	said, finish := ordinary(t, ns, "tap0")
	if finish() == nil {
		t.Error("it runs")
	}
	want := "nic0: TAP tap0: CAP_NET_ADMIN is missing: as root run `ip tuntap add dev tap0 mode tap user "
	if len(said) != 1 || !strings.HasPrefix(said[0], want) || !strings.Contains(said[0], "setcap cap_net_admin+ep") {
		t.Errorf("it says %q", said)
	}
	if links.Exists("tap0") {
		t.Error("it made a TAP")
	}
}

func TestReadyDescriptor(t *testing.T) {
	ns, links := room(t)
	q, err := links.OpenTAP(tap.Config{Name: "tap9"})
	must(t, err)
	fd, err := syscall.Dup(q.Fd())
	must(t, err, q.Close())
	n := start(t, Config{TAPFD: fd, IP: prefixes("10.0.0.1/24"), TAPIP: prefixes("10.0.0.254/24")}, node.Env{NS: ns})
	if n.TAP() != "tap9" {
		t.Errorf("TAP %q", n.TAP())
	}
	if out, err := in(t, ns, "ping", "-c", "1", "-w", "30", "10.0.0.1"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A descriptor from another namespace works too; its kernel side is out of
// reach.
func TestForeignDescriptor(t *testing.T) {
	ns, links := room(t)
	q, err := links.OpenTAP(tap.Config{Name: "tap9"})
	must(t, err)
	fd, err := syscall.Dup(q.Fd())
	must(t, err, q.Close(), links.AddAddr("tap9", netip.MustParsePrefix("10.0.0.254/24")), links.Up("tap9"))
	elsewhere, _ := room(t)
	_ = start(t, Config{TAPFD: fd, IP: prefixes("10.0.0.1/24")}, node.Env{NS: elsewhere})
	if out, err := in(t, ns, "ping", "-c", "1", "-w", "30", "10.0.0.1"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
