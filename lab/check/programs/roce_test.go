package programs

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/host/process"
	"tapir/lab/tool/tshark"
)

// roceCells are programs that exchange the numbers of their queue pairs by themselves, over
// the sockets of the operating system, on GIDs of RoCE v1 (2), v2 (3) and IPv6 (5).
var roceCells = [][2]string{
	{"ibv_rc_pingpong -g 3 -n 100", "100 iters"}, {"ibv_rc_pingpong -g 2 -n 100", "100 iters"},
	{"ibv_rc_pingpong -g 5 -n 100 -m 512 -s 30000", "100 iters"}, {"ibv_uc_pingpong -g 3 -n 100", "100 iters"},
	{"ibv_ud_pingpong -g 3 -n 100", "100 iters"}, {"ibv_srq_pingpong -g 3 -n 100", "100 iters"},
	{"ib_write_bw -x 3 -n 20 -F", "65536"}, {"ib_read_bw -x 3 -n 20 -F", "65536"},
	{"ib_atomic_bw -x 3 -n 20 -F", "8 "}, {"ib_send_bw -x 3 -n 20 -F -c UD", "1024"},
}

// roceLab is a lab of two NICs with RoCE.
func roceLab(t *testing.T) *Lab { return roceLabWith(t) }

// roceLabWith is roceLab with more flags.
func roceLabWith(t *testing.T, flags ...string) *Lab {
	t.Helper()
	l, err := New(context.WithoutCancel(t.Context()), tapir, t.TempDir(),
		append([]string{"--personality", "roce"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// says runs a program on the server's NIC to its end, and returns what it printed.
func (l *Lab) says(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*within)
	defer cancel()
	p, err := process.Start(ctx, l.pair.A.NS, process.Options{Dir: l.dir, Argv: l.under(server, Auto, argv)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.Wait(ctx); err != nil {
		t.Fatalf("%v: %v: %s", argv, err, p.Tail())
	}
	return p.Said()
}

// TestRoCE runs stock programs between two NICs with RoCE under a capture, in which tshark
// finds nothing wrong.
func TestRoCE(t *testing.T) {
	ctx := t.Context()
	l := roceLab(t)
	file, stop, err := l.Capture(ctx, "roce.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range roceCells {
		t.Run(c[0], func(t *testing.T) {
			cell := Cell{Name: c[0], Server: c[0], Client: c[0] + " " + IPv4, Want: c[1], Socket: true}
			runCell(t, l, cell, Auto)
		})
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	bad, err := tshark.Lines(ctx, file, tshark.Options{Disable: []string{"rpcordma"}}, "-Y", "_ws.malformed")
	if err != nil || len(bad) != 0 {
		t.Errorf("tshark: malformed %.3q, %v", bad, err)
	}
	frames, err := tshark.Lines(ctx, file, tshark.Options{}, "-Y", "infiniband", "-c", "2000")
	if err != nil || len(frames) < 1000 {
		t.Errorf("tshark: %d frames of RoCE, %v", len(frames), err)
	}
}

// roceConnections are programs that connect by rdma_cm: in the port spaces of TCP, UDP and
// IB, over IPv4 and IPv6. cmtime makes 100 connections, mckey's server joins a group.
var roceConnections = []Cell{
	{Name: "rping", Server: "rping -s -V -C 20", Client: "rping -c -V -C 20 -a " + IPv4},
	{Name: "rping v6", Server: "rping -s -V -C 5 -S 60000 -a ::", Client: "rping -c -V -C 5 -S 60000 -a " + IPv6},
	{Name: "ucmatose", Server: "ucmatose -c 4 -m", Client: "ucmatose -c 4 -m -s " + IPv4, Want: "return status 0"},
	{Name: "ucmatose ib", Server: "ucmatose -P ib -b " + IPv4, Client: "ucmatose -P ib -s " + IPv4,
		Want: "return status 0"},
	{Name: "udaddy", Server: "udaddy -c 4", Client: "udaddy -c 4 -s " + IPv4, Want: "return status 0"},
	{Name: "udaddy v6", Server: "udaddy -f ip6 -b " + IPv6, Client: "udaddy -f ip6 -s " + IPv6,
		Want: "return status 0"},
	{Name: "cmtime", Server: "cmtime", Client: "cmtime -c 100 -s " + IPv4, Want: "connect", Stays: true},
	{Name: "mckey", Server: "mckey -b " + IPv4 + " -m 239.1.2.3 -C 5", Client: "mckey -b 10.9.0.2 -m 239.1.2.3 -C 5 -s",
		Want: "return status 0", Joins: true},
	{Name: "ib_send_bw", Server: "ib_send_bw -R -F -n 50", Client: "ib_send_bw -R -F -n 50 " + IPv4, Want: "#bytes",
		Known: []string{"RDMA_CM_EVENT_REJECTED; error: 8"}},
}

// TestRoCEConnections runs programs that connect by rdma_cm between two NICs with RoCE.
func TestRoCEConnections(t *testing.T) {
	l := roceLab(t)
	for _, c := range roceConnections {
		t.Run(c.Name, func(t *testing.T) {
			runCell(t, l, c, Auto)
		})
	}
}

// TestRoCEDevice: what libibverbs, the rdma and ibstat tools and the files of sysfs say of a NIC
// with RoCE, whose setting pkeys is the table of partition keys.
func TestRoCEDevice(t *testing.T) {
	l := roceLabWith(t, "--pkeys", "0xffff,0x8001")
	for _, c := range []struct {
		run  string
		want []string
	}{
		{"ibv_devinfo -v", []string{"transport: InfiniBand (0)", "atomic_cap: ATOMIC_HCA (1)", "active_mtu: 1024 (3)",
			"link_layer: Ethernet", "GID[ 3]: ::ffff:10.9.0.1, RoCE v2", "max_sge: 4", "max_qp_wr: 32767"}},
		{"ibstat", []string{"CA type: Tapir RoCE", "Hardware version: 0x1", "State: Active", "Link layer: Ethernet", "Capability mask: 0x04010000"}},
		{"rdma link", []string{"link rxe0/1 state ACTIVE physical_state LINK_UP"}},
		{"rdma -d dev", []string{"node_type ca", "RC_RNR_NAK_GEN"}},
		{"cat /sys/class/infiniband/rxe0/node_type /sys/class/infiniband/rxe0/ports/1/gid_attrs/types/3",
			[]string{"1: CA", "RoCE v2"}},
		{"cat /sys/class/infiniband/rxe0/ports/1/pkeys/0 /sys/class/infiniband/rxe0/ports/1/pkeys/1" +
			" /sys/class/infiniband/rxe0/ports/1/pkeys/2", []string{"0xffff 0x8001 0x0000"}},
	} {
		text := l.says(t, strings.Fields(c.run)...)
		said := strings.Join(strings.Fields(text), " ")
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %q:\n%s", c.run, want, text)
			}
		}
	}
}

// rocePyverbsFail are rdma-core's tests of pyverbs that fail: they ask for what no NIC of this
// program has. rocePyverbsSkips are parts of the reasons why others are skipped.
var (
	rocePyverbsFail = []string{
		// a smaller queue is refused while it is full: here it keeps its size
		"test_cq.CQTest.test_resize_cq",
		"test_qpex.QpExTestCase.test_full_rq_bad_flow",      // more datagrams than receives: they are dropped
		"test_qpex.QpExTestCase.test_qp_ex_rc_atomic_write", // a newer operation
	}
	rocePyverbsSkips = []string{
		"ODP is not supported", "Device memory is not supported", "Importing a device is not supported",
		"Allocating dmabuf is not supported", "dmabuf", "huge pages", // of the machine
		"Create Raw Packet QP", "Rereg MR is not supported",
		"Create XRCD is not supported", "Extended CQ is not supported", "Parent Domain is not supported", // of librxe
		"Create QP type 8 is not supported", // RAW_PACKET
	}
)

// rocePyverbsOK is how many tests pass at least.
const rocePyverbsOK = 90

// TestPyverbsRoCE runs all of rdma-core's tests of pyverbs on a NIC with RoCE.
func TestPyverbsRoCE(t *testing.T) {
	l := roceLab(t)
	unpack(t, filepath.Join(l.dir, "tests"))
	run, err := filepath.Abs("testdata/run.py")
	if err != nil {
		t.Fatal(err)
	}
	said := l.says(t, "/usr/bin/python3", run, l.dir, "rxe0")
	for _, why := range skips(said) {
		if !slices.ContainsFunc(rocePyverbsSkips, func(known string) bool { return strings.Contains(why, known) }) {
			t.Errorf("skipped for another reason than those known: %s", why)
		}
	}
	passed := 0
	for name, what := range outcomes(said) {
		switch {
		case what == "ok":
			passed++
		case what != "skipped" && !slices.Contains(rocePyverbsFail, name):
			t.Errorf("%s: %s", name, what)
		}
	}
	if passed < rocePyverbsOK {
		t.Errorf("%d tests pass, want %d:\n%s", passed, rocePyverbsOK, said)
	}
	t.Logf("%d tests pass", passed)
}

// skips are the reasons of skipped tests in what run.py prints.
func skips(text string) (reasons []string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines[:len(lines)-1] {
		if strings.HasPrefix(line, "skipped ") {
			reasons = append(reasons, strings.TrimSpace(lines[i+1]))
		}
	}
	return reasons
}
