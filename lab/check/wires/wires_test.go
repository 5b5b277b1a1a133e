// Package wires runs what Tapir can do on each kind of wire: scripts, programs and clocks.
package wires

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/check/testenv/cycles"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/perfconf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/host/process"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/script"
	tapwires "tapir/nic/tap/wires"
	"tapir/wire/frame"
)

var interop = flag.Bool("interop", false, "run what belongs to make interop, too")

var must = testenv.Must

// tapir is the program under test.
var tapir string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "tapir-wires")
	if err != nil {
		panic(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o711), os.Setenv("XDG_RUNTIME_DIR", dir)); err != nil {
		panic(err)
	}
	if tapir, err = testenv.Build(filepath.Join(dir, "bin")); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// kinds are all kinds of wires; those before dev need no right.
var kinds = tapwires.All

// bed are two namespaces that a veth connects: a has 192.0.2.1, b 192.0.2.2.
type bed struct {
	a, b *link.Space
	dir  string
}

func newBed(t testing.TB, mtu int) *bed {
	t.Helper()
	d := &bed{testenv.Space(t, link.Quiet), testenv.Space(t, link.Quiet), t.TempDir()}
	must(t, d.a.Net.AddVeth("v", d.b.Net, "v"))
	for s, addr := range map[*link.Space]string{d.a: "192.0.2.1/24", d.b: "192.0.2.2/24"} {
		must(t, s.Net.SetMTU("v", mtu), s.Net.AddAddr("v", netip.MustParsePrefix(addr)), s.Net.Up("v"), s.Net.Up("lo"))
	}
	return d
}

// ends are the texts of both ends of a wire.
func (d *bed) ends(t testing.TB, kind string) (a, b string) {
	path := filepath.Join(d.dir, "cable")
	switch kind {
	case "udp":
		return "udp:192.0.2.1:7000,192.0.2.2:7000", "udp:192.0.2.2:7000,192.0.2.1:7000"
	case "vxlan":
		return "vxlan:7,192.0.2.2", "vxlan:7,192.0.2.1"
	case "dev":
		return "dev:v", "dev:v"
	case "tapdev":
		return testenv.Macvtap(t, d.a.NS, "v"), testenv.Macvtap(t, d.b.NS, "v")
	}
	if kind == "tap" { // on a bridge with v
		for _, s := range []*link.Space{d.a, d.b} {
			must(t, s.Net.AddBridge("br"), s.Net.Join("v", "br"), s.AddTAP("t", "br", true, 1600), s.Net.Up("br"))
		}
		return "t", "t"
	}
	return kind + ":" + path, kind + ":" + path
}

// scripts are about 90 of the library, from all its parts; all of them with -interop.
func scripts(t *testing.T) (all []*script.Script) {
	t.Helper()
	for protocol, every := range map[string]int{"iwarp": 16, "tcp": 16, "roce": 6, "16b": 3, "ptp": 2} {
		names, err := filepath.Glob("../../tool/script/testdata/" + protocol + "/*/*.wire")
		must(t, err)
		if *interop {
			every = 1
		}
		for i := 0; i < len(names); i += every {
			text, err := os.ReadFile(names[i])
			must(t, err)
			s, err := script.Parse(names[i], string(text))
			must(t, err)
			all = append(all, s)
		}
	}
	if len(all) < 80 {
		t.Fatalf("%d scripts", len(all))
	}
	return all
}

// Scripts hold with each of their frames carried over a wire.
func TestScripts(t *testing.T) {
	all := scripts(t)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			ns := testenv.Space(t, link.Quiet)
			must(t, ns.Net.Up("lo"))
			must(t, ns.NS.Do(func() error {
				o, err := script.OpenOver(kind)
				if err != nil {
					return err
				}
				for _, s := range all {
					if err := s.RunOver(nil, o); err != nil {
						t.Error(err)
					}
				}
				if o.Carried() < 3*len(all) {
					t.Errorf("only %d frames of %d scripts passed", o.Carried(), len(all))
				}
				return o.Close()
			}))
		})
	}
}

// rootless is what a user without any right does with two NICs: rping, verified transfers,
// the demo and a script, then an end. Its argument is a kind.
const rootless = `set -eu
grep -q 'CapEff:	0000000000000000' /proc/self/status
test ! -w /dev/net/tun
mkdir -m 700 run
export XDG_RUNTIME_DIR=$PWD/run
case $1 in
shm|stream) a=$1:$PWD/cable b=$1:$PWD/cable;;
udp) a=udp:127.0.0.1:7000,127.0.0.1:7001 b=udp:127.0.0.1:7001,127.0.0.1:7000;;
vxlan) a=vxlan:7,127.0.0.2,127.0.0.1 b=vxlan:7,127.0.0.1,127.0.0.2;;
esac
t=./tapir
$t nic --name a --wire $a --ip 10.0.0.1/24 --frames gso &
$t nic --name b --wire $b --ip 10.0.0.2/24 &
trap 'kill 0' EXIT
$t wait a b
$t run --nic a -- rping -s -a 10.0.0.1 -C 10 -V & s=$!
i=0
until $t run --nic b -- rping -c -a 10.0.0.1 -C 10 -V || test $i -gt 50; do i=$((i+1)); sleep 0.1; done
wait $s
$t perf verify --nic a & s=$!
$t wait a
until $t perf verify --nic b 10.0.0.1; do i=$((i+1)); test $i -lt 100; sleep 0.1; done
wait $s
$t demo --wire $1
$t script --wire $1 x.wire
$t stop a b
trap - EXIT
wait
ls
echo all of $1
`

// A user without a right, on a machine that keeps its TUN device to root, runs RDMA
// programs on NICs, and nothing is left.
func TestRootless(t *testing.T) {
	for _, kind := range kinds[:4] {
		if kind == "udp" && !*interop || kind == "stream" && !*interop {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			dir := testenv.PublicDir(t)
			testenv.Copy(t, dir, tapir)
			text, err := os.ReadFile("../../tool/script/testdata/iwarp/5040-5.2.1/read.wire")
			must(t, err, os.WriteFile(filepath.Join(dir, "x.wire"), text, 0o644))
			s := testenv.Space(t, link.Quiet)
			must(t, s.Net.Up("lo"))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := testenv.UnprivilegedNoTUN(t, ctx, dir, "sh", "-c", rootless, "sh", kind)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			must(t, s.NS.Start(cmd))
			if err := cmd.Wait(); err != nil || !strings.HasSuffix(out.String(), "all of "+kind+"\n") {
				t.Fatalf("%v\n%s", err, out.String())
			}
			left, err := os.ReadDir(filepath.Join(dir, "run", "tapir"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			if len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if _, err := os.Stat(filepath.Join(dir, "cable")); err == nil {
				t.Error("the wire's socket is left")
			}
		})
	}
}

func start(t testing.TB, s *link.Space, name, wire string, more func(*nicconf.Config)) *nicnode.Node {
	t.Helper()
	c := nicconf.Config{Name: name, Frames: "gso",
		IP: testenv.Prefixes(map[string]string{"a": "10.0.0.1/24", "b": "10.0.0.2/24"}[name])}
	if c.Wire = wire; !tapwires.Is(wire) {
		c.Wire, c.TAP = "", wire
	}
	if more != nil {
		more(&c)
	}
	n, err := nicnode.Start(t.Context(), c, node.Env{NS: s.NS})
	must(t, err)
	return n
}

// verify has client write to, read from and send to server, octet by octet.
func verify(t testing.TB, server, client *nicnode.Node, size int, at string) {
	t.Helper()
	ended := make(chan error, 2)
	run := func(n *nicnode.Node, job perfconf.Job) {
		must(t, n.DoWait(func(now frame.Time) {
			_, err := perf.Start(n.Device, job, now, func(r perf.Report, err error) {
				for _, c := range r.Checks {
					if !c.Verified {
						err = errors.Join(err, fmt.Errorf("%+v", c))
					}
				}
				ended <- err
			}, func(perf.Progress) {})
			if err != nil {
				ended <- err
			}
		}))
	}
	sizes := []int{8, size}
	run(server, perfconf.Job{Op: perfconf.Verify, Sizes: sizes})
	run(client, perfconf.Job{Op: perfconf.Verify, Sizes: sizes, Remote: netip.MustParseAddr(at)})
	for range 2 {
		must(t, testenv.Await(t, ended, "the end of the exchange"))
	}
}

// NICs that start, exchange data and end leave no descriptor, memory, file or interface.
func TestLeavesNothing(t *testing.T) {
	n := 9
	if *interop {
		n = 100
	}
	for _, kind := range append([]string{"tap"}, kinds...) {
		t.Run(kind, func(t *testing.T) {
			d := newBed(t, 1600)
			x, y := d.ends(t, kind)
			cycles.Flat(t, n, func(int) {
				a, b := start(t, d.a, "a", x, nil), start(t, d.b, "b", y, nil)
				verify(t, a, b, 4096, "10.0.0.1")
				must(t, a.Close(), b.Close())
			})
			if left, err := os.ReadDir(d.dir); err != nil || len(left) > 0 {
				t.Errorf("files: %v, %v", left, err)
			}
			for _, s := range []*link.Space{d.a, d.b} {
				names, err := s.Net.Names()
				must(t, err)
				// Without those of the test.
				names = slices.DeleteFunc(names, func(name string) bool {
					return slices.Contains([]string{"mvv", "t", "br"}, name)
				})
				if slices.Sort(names); !slices.Equal(names, []string{"lo", "v"}) {
					t.Errorf("interfaces: %v", names)
				}
				if out := in(t, s.NS, "ip -d link show v"); !strings.HasPrefix(kind, "tap") && !strings.Contains(out, "promiscuity 0") {
					t.Errorf("the interface stays promiscuous: %s", out)
				}
			}
		})
	}
}

const ptpConfig = `[global]
network_transport L2
logAnnounceInterval -2
logSyncInterval -4
logMinDelayReqInterval -4
summary_interval -4
tx_timestamp_timeout 500
`

// ptp4l has its Sync messages on a wire: at both ends it runs on the clock and the stamps of
// a NIC, by the NIC's host TAP, and one follows the other.
func TestPTP4l(t *testing.T) {
	for _, kind := range kinds {
		if kind != "shm" && !*interop {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			d := newBed(t, 1600)
			x, y := d.ends(t, kind)
			begin := func(s *link.Space, name, wire string, argv ...string) *process.Process {
				p, err := process.Start(t.Context(), s.NS, process.Options{Dir: d.dir, Argv: append([]string{tapir}, argv...)})
				must(t, err)
				t.Cleanup(p.Stop)
				return p
			}
			var slave *process.Process
			for i, s := range []*link.Space{d.a, d.b} {
				name, wire := []string{"a", "b"}[i], []string{x, y}[i]
				nic := begin(s, name, wire, "nic", "--name", name+kind, "--wire", wire, "--ip", fmt.Sprintf("10.0.0.%d/24", i+1),
					"--host-tap", "eth0", "--phc-ppb", fmt.Sprint(i*37000))
				must(t, nic.Await(t.Context(), "ready "), s.Net.Up("eth0"))
				config := filepath.Join(d.dir, name+".cfg")
				text := ptpConfig + "uds_address " + filepath.Join(d.dir, name) + "\npriority1 " + fmt.Sprint(i+1) + "\n"
				must(t, os.WriteFile(config, []byte(text), 0o600))
				slave = begin(s, name, wire, "run", "--nic", name+kind, "--", "ptp4l", "-H", "-f", config, "-i", "eth0", "-m", "-q")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			must(t, slave.Await(ctx, "UNCALIBRATED to SLAVE"))
			must(t, slave.Await(ctx, " s2 freq"))
			t.Log(slave.Line(" s2 freq"))
		})
	}
}

// in runs a program in a namespace.
func in(t *testing.T, ns *netns.NS, command string) string {
	t.Helper()
	out, err := testenv.Run(t, ns, strings.Fields(command)...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// Stock tcpdump sees the frames of a NIC on shared memory by `tapir capture --tap`.
func TestCaptureOnATAP(t *testing.T) {
	d := newBed(t, 1600)
	x, y := d.ends(t, "shm")
	b := start(t, d.b, "b", y, nil)
	defer func() { must(t, b.Close()) }()
	run := func(what string, argv ...string) *process.Process {
		p, err := process.Start(t.Context(), d.a.NS, process.Options{Dir: d.dir, Argv: argv})
		must(t, err)
		t.Cleanup(p.Stop)
		must(t, p.Await(t.Context(), what))
		return p
	}
	run("ready ", tapir, "nic", "--name", "watched", "--wire", x, "--ip", "10.0.0.1/24", "--frames", "gso")
	mirror := run("watched is on mon0", tapir, "capture", "watched", "--tap", "mon0")
	file := filepath.Join(d.dir, "mon0.pcap")
	dump := run("listening on mon0", "tcpdump", "-i", "mon0", "-n", "-w", file, "-U", "-s", "0", "tcp or arp")
	server := run("", tapir, "perf", "verify", "--nic", "watched", "--size", "8,4096")
	must(t, b.DoWait(func(now frame.Time) {
		_, err := perf.Start(b.Device, perfconf.Job{Op: perfconf.Verify, Sizes: []int{8, 4096},
			Remote: netip.MustParseAddr("10.0.0.1")}, now, func(perf.Report, error) {}, nil)
		if err != nil {
			t.Error(err)
		}
	}))
	must(t, server.Wait(t.Context()))
	testenv.Until(t, "tcpdump has the end", func() bool {
		out := in(t, d.a.NS, "tcpdump -n -r "+file)
		return strings.Contains(out, "10.0.0.1.18515 > 10.0.0.2.") && strings.Contains(out, "10.0.0.1.18515: Flags [F")
	})
	dump.Stop()
	mirror.Stop()
	if !strings.Contains(mirror.Said(), "packets mirrored, 0 left out") {
		t.Error(mirror.Said())
	}
	if names, err := d.a.Net.Names(); err != nil || slices.Contains(names, "mon0") {
		t.Errorf("interfaces %v, %v", names, err)
	}
}

// A VXLAN device of Linux is the peer of a VXLAN wire in both roles, with MTUs from 1280 to
// 9000 and with loss: behind it another NIC connects, and is connected to.
func TestKernelVXLAN(t *testing.T) {
	for _, c := range []struct {
		mtu, ppm int
		server   string
	}{{1280, 0, "a"}, {1500, 0, "b"}, {9000, 0, "a"}, {1500, 10000, "a"}, {1500, 10000, "b"}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			d := newBed(t, c.mtu)
			// A veth takes frames without the checksums of what they encapsulate, which no real
			// card would send.
			must(t, d.a.Net.NoOffloads("v"), d.b.Net.NoOffloads("v"))
			if c.ppm > 0 {
				for _, s := range []*link.Space{d.a, d.b} {
					if err := s.Net.Drop("v", c.ppm, 1000); err != nil {
						t.Fatal(err)
					}
				}
			}
			in(t, d.b.NS, "ip link add vx type vxlan id 7 remote 192.0.2.1 local 192.0.2.2 dstport 4789 dev v")
			in(t, d.b.NS, "ip link set vx up")
			frames := func(mode string) func(*nicconf.Config) {
				return func(c *nicconf.Config) { c.Frames = mode }
			}
			mode := "gso"
			if c.mtu > 8000 {
				mode = "jumbo"
			}
			a, b := start(t, d.a, "a", "vxlan:7,192.0.2.2", frames(mode)), start(t, d.b, "b", "dev:vx", frames(mode))
			defer func() { must(t, a.Close(), b.Close()) }()
			nodes := map[string][2]*nicnode.Node{"a": {a, b}, "b": {b, a}}[c.server]
			verify(t, nodes[0], nodes[1], 256<<10, map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"}[c.server])
		})
	}
}
