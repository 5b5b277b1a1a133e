package nldev

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	vishvananda "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/uapi/netlink"
	"tapir/nic/uapi/sysfs"
	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/trap/traptest"
)

func TestMain(m *testing.M) {
	traptest.Main(m, map[string]func(){"vishvananda": listAll}, traptest.Nothing)
}

// devices are two: one with an object of each kind, made by this process, and one
// without any.
func devices() []Device {
	attr := func() (sysfs.Attr, error) {
		return sysfs.Attr{NodeGUID: "0200:00ff:fe00:0001", SystemImageGUID: "0200:00ff:fe00:0002", Firmware: "1.2.3",
			State: "ACTIVE", Phys: "LINK_UP", Caps: 1<<10 | 1<<21}, nil
	}
	counters := func() ([]sysfs.Counter, error) {
		return []sysfs.Counter{{Name: "rdma_fpdus_in", Value: 7}, {Name: "rdma_fpdus_out", Value: 1 << 40}}, nil
	}
	pid := os.Getpid()
	objects := []Resource{
		{Kind: "ctx", Num: 1, PID: pid, Users: 2},
		{Kind: "pd", Num: 2, PID: pid, Users: 3, Context: 1},
		{Kind: "cq", Num: 3, PID: pid, Users: 2, Context: 1, Entries: 63},
		{Kind: "mr", Num: 4, PID: pid, Context: 1, PD: 2, STag: 0x1234, Len: 4096},
		{Kind: "qp", Num: 5, PID: pid, Context: 1, PD: 2, SRQ: 7, State: "RTS"},
		{Kind: "qp", Num: 6, Context: 1, PD: 2, State: "RESET"},
		{Kind: "srq", Num: 7, PID: pid, Context: 1, PD: 2},
		{Kind: "cm_id", Num: 8, PID: pid, State: "LISTEN", Local: netip.MustParseAddrPort("0.0.0.0:7174")},
		{Kind: "cm_id", Num: 9, PID: pid, QP: 5, State: "CONNECTED", Local: netip.MustParseAddrPort("[fd78::1]:7174"),
			Remote: netip.MustParseAddrPort("[fd78::2]:49152")}}
	return []Device{
		{&sysfs.Device{Index: 0, Netdev: "lo", Attr: attr, HWCounters: counters}, func() ([]Resource, error) { return objects, nil }},
		{&sysfs.Device{Index: 1, Netdev: "none", Attr: attr, HWCounters: counters}, func() ([]Resource, error) { return nil, nil }}}
}

// run runs a program to its end and returns what it wrote.
func run(t *testing.T, via trap.Via, argv ...string) string {
	t.Helper()
	p := netlink.New()
	Register(p, devices()...)
	return traptest.Output(t, trap.Options{Argv: argv, Handlers: []trap.Handler{p}, Via: via}, testenv.Guard)
}

// words are those of the manual pages of rdma(8), and what each says; $PID stands for
// this process and its name.
const words = `
dev | 0: rxe0: node_type rnic fw 1.2.3 node_guid 0200:00ff:fe00:0001 sys_image_guid 0200:00ff:fe00:0002 / 1: rxe1: node_type rnic fw 1.2.3 node_guid 0200:00ff:fe00:0001 sys_image_guid 0200:00ff:fe00:0002
-d dev show rxe1 | 1: rxe1: node_type rnic fw 1.2.3 node_guid 0200:00ff:fe00:0001 sys_image_guid 0200:00ff:fe00:0002 adaptive-moderation off / caps: <PORT_ACTIVE_EVENT, MEM_MGT_EXTENSIONS>
dev show rxe2 | Wrong device name - rxe2
dev set rxe0 name rdma_0 | error: Operation not supported
dev set rxe0 adaptive-moderation on | error: Operation not supported
link | link rxe0/1 state ACTIVE physical_state LINK_UP netdev lo / link rxe1/1 state ACTIVE physical_state LINK_UP
link show rxe0/1 | link rxe0/1 state ACTIVE physical_state LINK_UP netdev lo
link show rxe0/2 | Wrong device name
link add rxe_lo type rxe netdev lo | error: Operation not supported
link delete rxe0 | error: Operation not supported
resource show | 0: rxe0: pd 1 cq 1 qp 2 cm_id 2 mr 1 ctx 1 srq 1 / 1: rxe1: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0
resource show rxe1 | 1: rxe1: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0
res show qp | link rxe0/- lqpn 6 rqpn 0 type RC state RESET rq-psn 0 sq-psn 0 path-mig-state MIGRATED pdn 2 comm [tapir] / link rxe0/1 lqpn 5 rqpn 0 type RC state RTS rq-psn 0 sq-psn 0 path-mig-state MIGRATED pdn 2 $PID
res show qp link rxe0/1 | link rxe0/1 lqpn 5 rqpn 0 type RC state RTS rq-psn 0 sq-psn 0 path-mig-state MIGRATED pdn 2 $PID
-dd res show qp link rxe0/- | link rxe0/- lqpn 6 rqpn 0 type RC state RESET rq-psn 0 sq-psn 0 path-mig-state MIGRATED pdn 2 comm [tapir]
res show qp link rxe0/1 lqpn 0-5 | link rxe0/1 lqpn 5 rqpn 0 type RC state RTS rq-psn 0 sq-psn 0 path-mig-state MIGRATED pdn 2 $PID
res show qp link rxe0/1 lqpn 99 | 
res show qp link rxe1 | 
-r res show qp | error: Invalid argument
res show cm_id | link rxe0/1 cm-idn 8 qp-type RC state LISTEN ps TCP $PID src-addr 0.0.0.0:7174 / link rxe0/1 cm-idn 9 lqpn 5 qp-type RC state CONNECT ps TCP $PID src-addr fd78::1:7174 dst-addr fd78::2:49152
res show cm_id dst-port 49152 | link rxe0/1 cm-idn 9 lqpn 5 qp-type RC state CONNECT ps TCP $PID src-addr fd78::1:7174 dst-addr fd78::2:49152
res show cq cqn 3 | dev rxe0 cqn 3 cqe 63 users 2 ctxn 1 $PID
res show mr | dev rxe0 mrn 4 rkey 0x1234 lkey 0x1234 mrlen 4096 pdn 2 $PID
-r res show mr | error: Invalid argument
res show pd pdn 2 | dev rxe0 pdn 2 users 3 ctxn 1 $PID
res show ctx ctxn 1 | dev rxe0 ctxn 1 $PID
res show srq | dev rxe0 srqn 7 type BASIC lqpn 5 pdn 2 $PID
statistic | link rxe0/1 rdma_fpdus_in 7 rdma_fpdus_out 1099511627776 / link rxe1/1 rdma_fpdus_in 7 rdma_fpdus_out 1099511627776
statistic show link rxe1/1 | link rxe1/1 rdma_fpdus_in 7 rdma_fpdus_out 1099511627776
statistic qp show | 
statistic qp show link rxe0 qp-type UD | 
statistic qp mode | link rxe0/1 mode qp auto off / link rxe1/1 mode qp auto off
statistic qp set link rxe0/1 auto type on | error: Operation not supported
statistic qp set link rxe0/1 auto off | 
statistic qp bind link rxe0/1 lqpn 5 | error: Operation not supported
statistic qp unbind link rxe0/1 cntn 4 lqpn 5 | error: Operation not supported
statistic show mr | dev rxe0 mrn 4
statistic mode supported link rxe0/1 | 
statistic unset link rxe0/1 optional-counters | error: Operation not supported
system | netns shared copy-on-fork on
system set netns exclusive | error: Operation not supported
system set netns shared | `

// TestRDMATool: iproute2's rdma says what it says of a device of the kernel's, and the
// same through the preloaded library.
func TestRDMATool(t *testing.T) {
	var script strings.Builder
	want := ""
	for line := range strings.SplitSeq(strings.TrimSpace(words), "\n") {
		arguments, says, _ := strings.Cut(line, "|")
		fmt.Fprintf(&script, "echo '# %[1]s'; rdma %[1]s 2>&1\n", strings.TrimSpace(arguments))
		want += "# " + strings.TrimSpace(arguments) + "\n"
		for part := range strings.SplitSeq(says, " / ") {
			if part = strings.TrimSpace(part); part != "" {
				want += part + "\n"
			}
		}
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	want = strings.ReplaceAll(want, "$PID", fmt.Sprintf("pid %d comm %s", os.Getpid(), strings.TrimSpace(string(comm))))
	for _, via := range []trap.Via{trap.Seccomp, trap.Preload} {
		t.Run(via.String(), func(t *testing.T) {
			var got strings.Builder
			for line := range strings.Lines(run(t, via, "sh", "-c", script.String())) {
				fmt.Fprintln(&got, strings.TrimSpace(line))
			}
			g, w := strings.Split(got.String(), "\n"), strings.Split(want, "\n")
			for i := range max(len(g), len(w)) {
				if i >= len(g) || i >= len(w) || g[i] != w[i] {
					t.Fatalf("line %d is\n%q\nwant\n%q\nin\n%s", i, g[min(i, len(g)-1)], w[min(i, len(w)-1)], got.String())
				}
			}
		})
	}
}

// TestRDMAToolJSON: keys and types of values are those of a guest with rxe.
func TestRDMAToolJSON(t *testing.T) {
	for arguments, want := range map[string]string{
		"link": `[{"ifindex":0,"ifname":"rxe0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"lo","netdev_index":1},` +
			`{"ifindex":1,"ifname":"rxe1","port":1,"state":"ACTIVE","physical_state":"LINK_UP"}]`,
		"res show cm_id lqpn 5": fmt.Sprintf(`[{"ifindex":0,"ifname":"rxe0","port":1,"cm-idn":9,"lqpn":5,"qp-type":"RC","state":"CONNECT",`+
			`"ps":"TCP","pid":%d,"comm":"nldev.test","src-addr":"fd78::1:7174","dst-addr":"fd78::2:49152"}]`, os.Getpid()),
	} {
		got := run(t, trap.Seccomp, append([]string{"rdma", "-j"}, strings.Fields(arguments)...)...)
		if compact(t, got) != compact(t, want) {
			t.Errorf("rdma -j %s: %s\nwant %s", arguments, got, want)
		}
	}
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// listAll calls the RDMA functions of a Go library that container tools use.
func listAll() {
	links, err := vishvananda.RdmaLinkList()
	for _, l := range links {
		fmt.Println(l.Attrs.Index, l.Attrs.Name, l.Attrs.FirmwareVersion, l.Attrs.NodeGuid, l.Attrs.SysImageGuid, l.Attrs.NumPorts)
	}
	fmt.Println(len(links), err)
	link, err := vishvananda.RdmaLinkByName("rxe1")
	fmt.Println(link.Attrs.Index, err)
	fmt.Println(vishvananda.RdmaSystemGetNetnsMode())
	resources, err := vishvananda.RdmaResourceList()
	for _, r := range resources {
		fmt.Println(r.Name, r.RdmaResourceSummaryEntries)
	}
	fmt.Println(err)
	statistic, err := vishvananda.RdmaStatistic(link)
	fmt.Println(statistic.RdmaPortStatistics[0].Statistics, err)
	fmt.Println(vishvananda.RdmaLinkSetName(link, "rdma_0"), vishvananda.RdmaLinkAdd("q", "rxe", "lo"))
}

// TestGoLibrary: a static Go program sees the same. The library prints the octets of a
// GUID in the order of the kernel's number.
func TestGoLibrary(t *testing.T) {
	want := "0 rxe0 1.2.3 01:00:00:fe:ff:00:00:02 02:00:00:fe:ff:00:00:02 1\n" +
		"1 rxe1 1.2.3 01:00:00:fe:ff:00:00:02 02:00:00:fe:ff:00:00:02 1\n2 <nil>\n1 <nil>\nshared <nil>\n" +
		"rxe0 map[cm_id:2 cq:1 ctx:1 mr:1 pd:1 qp:2 srq:1]\nrxe1 map[cm_id:0 cq:0 ctx:0 mr:0 pd:0 qp:0 srq:0]\n<nil>\n" +
		"map[rdma_fpdus_in:7 rdma_fpdus_out:1099511627776] <nil>\noperation not supported operation not supported\n"
	if got := run(t, trap.Seccomp, "/proc/self/exe", traptest.Program+"vishvananda"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestUnprivileged: who may not administer the network sees no keys and changes
// nothing.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, whose rights a program drops")
	}
	got := run(t, trap.Seccomp, "setpriv", "--bounding-set", "-net_admin", "sh", "-c",
		"rdma res show mr; rdma system set netns shared 2>&1; rdma -r res show mr 2>&1")
	want := fmt.Sprintf("dev rxe0 mrn 4 mrlen 4096 pdn 2 pid %d comm nldev.test \nerror: Operation not permitted\nerror: Operation not permitted\n", os.Getpid())
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// FuzzRequest: a program asks anything.
func FuzzRequest(f *testing.F) {
	var a netlink.Attributes
	a.Uint32(attrDevIndex, 0)
	a.Uint32(attrPortIndex, 1)
	for cmd := range handlers {
		f.Add(cmd, uint16(unix.NLM_F_REQUEST|unix.NLM_F_DUMP), []byte(a), true)
		f.Add(cmd, uint16(unix.NLM_F_REQUEST), []byte(a), false)
	}
	s := &server{devices()}
	f.Fuzz(func(t *testing.T, cmd, flags uint16, body []byte, admin bool) {
		if _, known := handlers[cmd]; !known {
			return
		}
		q := &netlink.Request{Message: netlink.Message{Type: clientNLDEV<<clientShift | cmd, Flags: flags, Body: body}, Admin: admin}
		list, err := s.serve(q)
		for _, m := range list {
			if _, bad := netlink.ParseAttributes(m.Body); bad != nil && err == nil {
				t.Errorf("an answer cannot be read: %x", m.Body)
			}
		}
		if handlers[cmd].admin && !admin && err != unix.EPERM {
			t.Errorf("command %d of an unprivileged program: %v", cmd, err)
		}
	})
}
