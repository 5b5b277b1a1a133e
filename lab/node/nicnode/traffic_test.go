package nicnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/perfconf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/lab/tool/perf"
	"tapir/wire/frame"
)

// verify moves data both ways between two nodes and fails unless the memory
// at each target is right.
func verify(t *testing.T, server, client *Node) {
	t.Helper()
	ended := make(chan error, 2)
	run := func(n *Node, job perfconf.Job) {
		must(t, n.DoWait(func(now frame.Time) {
			_, err := perf.Start(n.Device, job, now, func(r perf.Report, err error) {
				for _, c := range r.Checks {
					if err == nil && !c.Verified {
						err = fmt.Errorf("%+v", c)
					}
				}
				ended <- err
			}, func(perf.Progress) {})
			if err != nil {
				ended <- err
			}
		}))
	}
	sizes := []int{8, 4096, 1 << 20}
	run(server, perfconf.Job{Op: perfconf.Verify, Sizes: sizes})
	run(client, perfconf.Job{Op: perfconf.Verify, Sizes: sizes, Remote: server.cfg.IP[0].Addr()})
	for range 2 {
		must(t, testenv.Await(t, ended, "the end of the exchange"))
	}
}

func TestRDMABetweenTAPs(t *testing.T) {
	for _, frames := range []string{"wire", "gso", "jumbo"} {
		t.Run(frames, func(t *testing.T) {
			mtu := map[string]int{"jumbo": 9000}[frames]
			p := testenv.Pair(t, max(mtu, 1500), frames != "wire")
			a := start(t, Config{Name: "a", TAP: link.PairTAP, Frames: frames, IP: prefixes("10.0.0.1/24")}, node.Env{NS: p.A.NS})
			b := start(t, Config{Name: "b", TAP: link.PairTAP, Frames: frames, IP: prefixes("10.0.0.2/24")}, node.Env{NS: p.B.NS})
			if a.Hints() != nil {
				t.Errorf("a port of a bridge gets hints: %q", a.Hints())
			}
			verify(t, a, b)
			if da, db := a.Drops(), b.Drops(); da.Total()+db.Total() != 0 {
				t.Errorf("drops %v, %v", da, db)
			}
		})
	}
}

func TestRDMAInMemory(t *testing.T) {
	for _, frames := range []string{"wire", "gso"} {
		t.Run(frames, func(t *testing.T) {
			wa, wb, err := link.NewWire("mem0", "mem1", frames != "wire")
			must(t, err)
			a := start(t, Config{Name: "a", Frames: frames, IP: prefixes("10.0.0.1/24")}, node.Env{Wire: wa})
			b := start(t, Config{Name: "b", Frames: frames, IP: prefixes("10.0.0.2/24")}, node.Env{Wire: wb})
			if !strings.Contains(a.Ready(), " mem=mem0 ") || a.WireKind() != "mem" {
				t.Error(a.Ready())
			}
			verify(t, a, b)
		})
	}
}

// A NIC on the loopback interface has the addresses of that, makes no interface, and
// reaches itself alone; without loopback_enabled it does not start.
func TestLoopbackInterface(t *testing.T) {
	ns, links := room(t)
	for _, frames := range []string{"wire", "gso"} {
		n := start(t, Config{Name: "siw", TAP: "lo", Frames: frames}, node.Env{NS: ns})
		if got := names(t, links); !slices.Equal(got, []string{"lo"}) {
			t.Errorf("links %v", got)
		}
		if !strings.HasSuffix(n.Ready(), " ip=127.0.0.1/8,::1/128 tap=lo frames="+frames) {
			t.Error(n.Ready())
		}
		verify(t, n, n)
		must(t, n.Close())
	}
	c := Config{Name: "siw", TAP: "lo"}
	must(t, c.Set("loopback_enabled", "0"))
	if _, err := Start(t.Context(), c, node.Env{NS: ns}); err == nil || !strings.Contains(err.Error(), "siw: tap lo is the loopback interface, and loopback_enabled is 0") {
		t.Error(err)
	}
	c = Config{Name: "siw", TAP: "lo", VLAN: 3}
	if _, err := Start(t.Context(), c, node.Env{NS: ns}); err == nil || !strings.Contains(err.Error(), "leave out host_tap, tap_ip, tap_fd and vlan") {
		t.Error(err)
	}
}

// startAll starts several NICs in one process, each on a loop of its own; all
// or none.
func startAll(ctx context.Context, all []Config, env node.Env) ([]*Node, error) {
	var nodes []*Node
	for i := range all {
		n, err := Start(ctx, all[i], env)
		if err != nil {
			return nil, errors.Join(err, node.CloseAll(nodes))
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func TestStartAllOrNone(t *testing.T) {
	ns, links := room(t)
	env := node.Env{NS: ns}
	good := Config{Name: "a", TAP: "tap0", IP: prefixes("10.0.0.1/24")}
	for _, bad := range []Config{
		{Name: "b", TAP: "tap0", IP: prefixes("10.0.1.1/24")},
		{Name: "b", TAP: "lo", HostTAP: "tap1", IP: prefixes("10.0.1.1/24")},
	} {
		if nodes, err := startAll(t.Context(), []Config{good, bad}, env); err == nil {
			t.Errorf("%d nodes run", len(nodes))
		}
		if got := names(t, links); len(got) != 1 {
			t.Errorf("left behind: %v", got)
		}
	}
	nodes, err := startAll(t.Context(), []Config{good, {Name: "b", IP: prefixes("10.0.1.1/24")}}, env)
	must(t, err)
	if len(nodes) != 2 || nodes[1].TAP() == "" || len(names(t, links)) != 3 {
		t.Errorf("links %v", names(t, links))
	}
	must(t, node.CloseAll(nodes))
}

// tcpEcho has the kernel of ns serve one TCP connection.
func tcpEcho(t *testing.T, ns *netns.NS, at string) {
	t.Helper()
	var l net.Listener
	must(t, ns.Do(func() (err error) {
		l, err = net.Listen("tcp", at)
		return err
	}))
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
}

func tcpExchange(ns *netns.NS, to string) error {
	return ns.Do(func() error {
		c, err := net.DialTimeout("tcp", to, 30*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, "hello"); err != nil {
			return err
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
			return fmt.Errorf("%q came back: %w", b, err)
		}
		return nil
	})
}

// With a host TAP the operating system and the NIC share MAC and address:
// RDMA goes to the NIC, everything else to the kernel, both ways.
func TestHostTAP(t *testing.T) {
	for _, frames := range []string{"wire", "gso"} {
		t.Run(frames, func(t *testing.T) {
			p := testenv.Pair(t, 1500, frames != "wire")
			a := start(t, Config{Name: "a", TAP: link.PairTAP, HostTAP: "host0", Frames: frames, IP: prefixes("10.0.0.1/24")}, node.Env{NS: p.A.NS})
			b := start(t, Config{Name: "b", TAP: link.PairTAP, Frames: frames, IP: prefixes("10.0.0.2/24")}, node.Env{NS: p.B.NS})
			mac, err := p.A.Net.MAC("host0")
			must(t, err)
			if mac.String() != a.Device.Config().MAC.String() {
				t.Errorf("host TAP %v, NIC %v", mac, a.Device.Config().MAC)
			}
			must(t, p.B.Net.AddAddr("br0", netip.MustParsePrefix("10.0.0.3/24")))
			tcpEcho(t, p.A.NS, "10.0.0.1:8080")
			tcpEcho(t, p.B.NS, "10.0.0.3:8080")
			for _, to := range []string{"10.0.0.2", "10.0.0.3"} {
				if out, err := in(t, p.A.NS, "ping", "-c", "2", "-i", "0.01", "-w", "30", to); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			}
			if err := tcpExchange(p.B.NS, "10.0.0.1:8080"); err != nil {
				t.Errorf("to the kernel's listener: %v", err)
			}
			if err := tcpExchange(p.A.NS, "10.0.0.3:8080"); err != nil {
				t.Errorf("from the kernel: %v", err)
			}
			verify(t, a, b)
			verify(t, b, a)
			must(t, a.Close())
			if p.A.Net.Exists("host0") {
				t.Error("the host TAP stayed")
			}
		})
	}
}

// The port of a listener of the NIC is taken from the kernel, and the other
// way round.
func TestHostPortsAreReserved(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	a := start(t, Config{Name: "a", TAP: link.PairTAP, HostTAP: "host0", IP: prefixes("10.0.0.1/24")}, node.Env{NS: p.A.NS})
	serve := func(port uint16) error {
		var err error
		must(t, a.DoWait(func(now frame.Time) {
			_, err = perf.Start(a.Device, perfconf.Job{Op: perfconf.Verify, Port: port}, now, func(perf.Report, error) {}, func(perf.Progress) {})
		}))
		return err
	}
	listen := func(at string) error {
		return p.A.NS.Do(func() error {
			l, err := net.Listen("tcp", at)
			if err == nil {
				l.Close()
			}
			return err
		})
	}
	must(t, listen("10.0.0.1:7000"), serve(7000))
	if err := listen("10.0.0.1:7000"); err == nil {
		t.Error("the kernel got the NIC's port")
	}
	tcpEcho(t, p.A.NS, "10.0.0.1:7001")
	if err := serve(7001); err == nil || !strings.Contains(err.Error(), "7001") {
		t.Errorf("the NIC got the kernel's port: %v", err)
	}
}

// Close takes the connections down in order, so that the peer sees an end
// and not an error.
func TestCloseIsOrderly(t *testing.T) {
	wa, wb, err := link.NewWire("mem0", "mem1", false)
	must(t, err)
	a := start(t, Config{Name: "a", IP: prefixes("10.0.0.1/24")}, node.Env{Wire: wa})
	b := start(t, Config{Name: "b", IP: prefixes("10.0.0.2/24")}, node.Env{Wire: wb})
	served := make(chan error, 1)
	must(t, a.DoWait(func(now frame.Time) {
		_, err := perf.Start(a.Device, perfconf.Job{Op: perfconf.WriteBW}, now, func(_ perf.Report, err error) { served <- err }, func(perf.Progress) {})
		must(t, err)
	}))
	must(t, b.DoWait(func(now frame.Time) {
		job := perfconf.Job{Op: perfconf.WriteBW, Duration: time.Minute, Remote: a.cfg.IP[0].Addr()}
		_, err := perf.Start(b.Device, job, now, func(perf.Report, error) {}, func(perf.Progress) {})
		must(t, err)
	}))
	until(t, a, "data flows", func() bool {
		qps := a.Device.ShowQP()
		return len(qps) == 1 && qps[0].RxBytes > 0
	})
	begun := time.Now()
	must(t, b.Close())
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("Close took %v: it waited for the job", took)
	}
	testenv.Await(t, served, "the peer is told")
	until(t, a, "the peer's connection is gone", a.Device.Idle)
}

// until waits for what is asked of a node on its thread.
func until(t *testing.T, n *Node, what string, ok func() bool) {
	t.Helper()
	for yes, end := false, time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		must(t, n.DoWait(func(frame.Time) { yes = ok() }))
		if yes {
			return
		}
		if time.Now().After(end) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

// What others could use against a NIC is new with each start, unless a seed
// says otherwise; the MAC address is not.
func TestSecretsAreNewWithEachStart(t *testing.T) {
	secrets := func(seed *uint64) string {
		wa, _, err := link.NewWire("mem0", "mem1", false)
		must(t, err)
		n := start(t, Config{Name: "a", Seed: seed, IP: prefixes("10.0.0.1/24")}, node.Env{Wire: wa})
		defer n.Close()
		warned := strings.Contains(strings.Join(n.Hints(), "\n"), "a: for tests only: ")
		if warned != (seed != nil) {
			t.Error(n.Hints())
		}
		var s strings.Builder
		must(t, n.DoWait(func(frame.Time) {
			pd, err := n.Device.Verbs.AllocPD()
			must(t, err)
			for range 4 {
				mr, err := pd.RegMR(nil, 0)
				must(t, err)
				fmt.Fprintf(&s, "%x ", mr.RKey())
				must(t, mr.Dereg())
			}
			must(t, pd.Dealloc())
			s.WriteString(n.Device.Config().MAC.String())
		}))
		return s.String()
	}
	a, b, one, two := secrets(nil), secrets(nil), secrets(new(uint64(1))), secrets(new(uint64(1)))
	if a == b || a == one || one != two {
		t.Errorf("keys and MAC address without a seed:\n%s\n%s\nwith one:\n%s\n%s", a, b, one, two)
	}
	if a[strings.LastIndex(a, " "):] != b[strings.LastIndex(b, " "):] {
		t.Errorf("the MAC address changed: %s, %s", a, b)
	}
}
