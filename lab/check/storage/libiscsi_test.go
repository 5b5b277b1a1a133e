package storage

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/targetconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/iscsi"
	"tapir/nic/fastlinq"
)

var interop = flag.Bool("interop", false, "run all families of iscsi-test-cu")

var must = testenv.Must

const (
	nicAddr = "10.80.0.1"
	target  = "iqn.2026-11.tapir:nic0"
	wire    = "tap0"
	// offloaded is a memory LUN of which the NIC's iSCSI function has the sessions.
	offloaded = "offload"
)

// needs skips a test whose programs are not installed, which .ci/tools does for Debian.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}

// world is a NIC on a TAP of a namespace.
type world struct {
	space   *link.Space
	storage *iscsi.NIC
}

func start(t *testing.T, frames string, set ...string) world {
	t.Helper()
	s := testenv.Space(t, nil)
	prefixes := testenv.Prefixes(nicAddr+"/24", "10.80.0.2/24")
	cfg := nicconf.Config{Name: "nic0", TAP: wire, IP: prefixes[:1], TAPIP: []netip.Prefix{prefixes[1]}, Frames: frames}
	for _, v := range set {
		name, value, _ := strings.Cut(v, "=")
		must(t, cfg.Set(name, value))
	}
	n, err := nicnode.Start(t.Context(), cfg, node.Env{NS: s.NS})
	must(t, err)
	t.Cleanup(func() { n.Close() })
	return world{s, &iscsi.NIC{Device: n.Device, Thread: n}}
}

// serve starts a target on a NIC's TCP.
func serve(t *testing.T, frames string, target iscsi.Node) *link.Space {
	t.Helper()
	w := start(t, frames)
	offer(t, w.storage, target)
	return w.space
}

// offer serves a target until the test ends.
func offer(t *testing.T, storage *iscsi.NIC, target iscsi.Node) {
	t.Helper()
	function := fastlinq.Of(storage.Device.Hardware)
	job, err := json.Marshal(iscsi.Job{Op: iscsi.Op, Targets: []iscsi.Node{target},
		Offload: function != nil && fastlinq.ISCSI(function) != nil})
	must(t, err)
	cancel, err := storage.Jobs()[iscsi.Op](job, nil, nil)
	must(t, err)
	t.Cleanup(cancel)
}

// lun is a LUN of a kind.
func lun(t *testing.T, kind string) disk.LUN {
	t.Helper()
	l, err := targetconf.ParseLUN(map[string]string{targetconf.Mem: "mem:64M", offloaded: "mem:64M",
		"4096": "mem:64M,block=4096", targetconf.Sparse: "sparse:" + filepath.Join(t.TempDir(), "disk") + ":64M"}[kind])
	must(t, err)
	return l
}

var results = regexp.MustCompile(`tests +(\d+) +(\d+) +(\d+) +(\d+)`)

// TestLibiscsi runs the tests of libiscsi against a target on a NIC, which the kernel's TCP
// reaches through the TAP: those of SCSI, or with sessions in the NIC's
// iSCSI function those of writes, and with -interop all, which wait often. None fails
// but UnmapSingle where a physical block is larger than a logical one: it asks for the state
// of a block and wants that of the next physical one. Tests of commands that the target does
// not have count as passed there.
func TestLibiscsi(t *testing.T) {
	needs(t, "iscsi-test-cu")
	kinds := []string{targetconf.Mem, offloaded}
	if *interop {
		kinds = append(kinds, targetconf.Sparse, "4096")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var set []string
			if kind == offloaded {
				set = []string{"personality=iscsi", "iscsi_is_target=1"}
			}
			w := start(t, "gso", set...)
			offer(t, w.storage, iscsi.Node{LUNs: []disk.LUN{lun(t, kind)}})
			s := w.space
			argv := []string{"iscsi-test-cu", "-d", "-t", "SCSI", "iscsi://" + nicAddr + "/" + target + "/0"}
			switch {
			case *interop:
				argv = append(argv[:2], argv[4:]...)
			case kind == offloaded:
				argv[3] = "SCSI.Write16"
			}
			out, err := testenv.Run(t, s.NS, argv...)
			m := results.FindStringSubmatch(out)
			expected := "0"
			if kind == targetconf.Sparse {
				expected = fmt.Sprint(strings.Count(out, "UnmapSingle ...FAILED"))
			}
			if f := fastlinq.ISCSI(fastlinq.Of(w.storage.Device.Hardware)); f != nil && f.Totals().RxPDUs < 100 {
				t.Errorf("the function has had %+v", f.Totals())
			}
			if m == nil || m[4] != expected || (err != nil) != (expected != "0") {
				t.Fatalf("%v: %v\n%s", err, m, failures(out))
			}
			t.Logf("%s tests, %s passed, %d skipped in part or whole", m[1], m[3], strings.Count(out, "[SKIPPED]"))
		})
	}
}

// failures are the lines of a report that matter.
func failures(out string) string {
	var list []string
	for line := range strings.SplitSeq(out, "\n") {
		if strings.Contains(line, "FAIL") || strings.Contains(line, ".c:") || strings.Contains(line, "Test:") {
			list = append(list, line)
		}
	}
	return strings.Join(list[max(0, len(list)-200):], "\n")
}

// TestDissector has tshark read sessions with and without digests: no PDU is malformed.
func TestDissector(t *testing.T) {
	needs(t, "iscsi-test-cu", "tcpdump", "tshark")
	s := serve(t, "wire", iscsi.Node{LUNs: []disk.LUN{lun(t, targetconf.Mem)}})
	file := filepath.Join(t.TempDir(), "iscsi.pcap")
	dump := exec.Command("tcpdump", "-i", wire, "-U", "-w", file, "-B", "32768", "tcp port 3260")
	must(t, s.NS.Start(dump))
	testenv.Until(t, "tcpdump to begin", func() bool { st, err := os.Stat(file); return err == nil && st.Size() > 0 })
	for _, digest := range []string{"none", "crc32c"} {
		url := fmt.Sprintf("iscsi://%s/%s/0?header_digest=%s", nicAddr, target, digest)
		for _, family := range []string{"SCSI.Read10", "iSCSI.iSCSITMF", "SCSI.Inquiry", "iSCSI.iSCSIResiduals"} {
			if out, err := testenv.Run(t, s.NS, "iscsi-test-cu", "-d", "-f", "-t", family, url); err != nil {
				t.Fatalf("%s: %v\n%s", family, err, out)
			}
		}
	}
	must(t, dump.Process.Signal(os.Interrupt))
	_ = dump.Wait() // tcpdump's end is not what is tested
	count := func(filter string) int {
		out, err := exec.Command("tshark", "-r", file, "-Y", filter).Output()
		must(t, err)
		return strings.Count(string(out), "\n")
	}
	if n := count("iscsi"); n < 1000 {
		t.Errorf("%d frames with iSCSI", n)
	}
	if n := count("_ws.malformed"); n > 0 {
		t.Errorf("%d frames are malformed", n)
	}
}

// TestCHAP: libiscsi proves who it is, and is refused if it cannot.
func TestCHAP(t *testing.T) {
	needs(t, "iscsi-inq")
	s := serve(t, "wire", iscsi.Node{LUNs: []disk.LUN{lun(t, targetconf.Mem)}, CHAP: []string{"alice", "correct-horse"}})
	for secret, ok := range map[string]bool{"correct-horse": true, "battery-staple": false} {
		out, err := testenv.Run(t, s.NS, "iscsi-inq", "iscsi://alice%"+secret+"@"+nicAddr+"/"+target+"/0")
		if (err == nil) != ok {
			t.Errorf("%s: %v\n%s", secret, err, out)
		}
	}
}
