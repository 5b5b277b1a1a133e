package storage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/process"
)

// iserRig is two NICs on a wire, each a process: nic0, and nic1 for programs of strangers.
type iserRig struct {
	t     *testing.T
	tapir string
	space *link.Space
	dir   string
	nics  [2]*process.Process
}

func newISERRig(t *testing.T, kind string) *iserRig {
	dir := t.TempDir()
	tapir, err := testenv.Build(filepath.Join(dir, "bin"))
	must(t, err)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	r := &iserRig{t: t, tapir: tapir, space: testenv.Space(t, nil), dir: dir}
	must(t, r.space.Net.Up("lo"))
	for i := range r.nics {
		r.nics[i] = r.nic(i, kind)
	}
	return r
}

// nic starts one of the NICs.
func (r *iserRig) nic(i int, kind string) *process.Process {
	name := fmt.Sprintf("nic%d", i)
	return r.start("ready "+name, "nic", "--name", name, "--wire", "shm:"+r.dir+"/cable", "--ip",
		fmt.Sprintf("10.80.0.%d/24", i+1), "--personality", kind)
}

// start starts tapir until the end of the test, and waits for what it says.
func (r *iserRig) start(says string, argv ...string) *process.Process {
	r.t.Helper()
	p, err := process.Start(r.t.Context(), r.space.NS, process.Options{Argv: append([]string{r.tapir}, argv...)})
	must(r.t, err)
	r.t.Cleanup(p.Stop)
	if says != "" {
		must(r.t, p.Await(r.t.Context(), says))
	}
	return p
}

// run runs tapir to its end.
func (r *iserRig) run(argv ...string) (string, error) {
	return testenv.Run(r.t, r.space.NS, append([]string{"timeout", "60", r.tapir}, argv...)...)
}

// inLibiscsi are the suites that libiscsi does not survive or pass by iSER, with tgt as the target
// neither: docs/howto/iscsi.md says how.
var inLibiscsi = []string{"ALL.ExtendedCopy", "ALL.GetLBAStatus", "ALL.Inquiry", "ALL.ModeSense6", "ALL.ProutReserve",
	"ALL.Read10", "ALL.Reserve6", "ALL.Write10", "ALL.iSCSIResiduals", "ALL.iSCSITMF", "ALL.iSCSIcmdsn", "ALL.iSCSIdatasn"}

// killed is how a suite ends when libiscsi's thread for events has written to a connection that is freed: now
// and then, mostly by RoCE (docs/howto/iscsi.md).
var killed = regexp.MustCompile("exit status 13[49]")

// TestLibiscsiISER: libiscsi in tapir run uses a target in iSER, over either transport; with
// -interop it runs all suites but those that it does not survive. QEMU reads and writes by it. What is
// on the wire tshark can read.
func TestLibiscsiISER(t *testing.T) {
	needs(t, "iscsi-test-cu", "iscsi-readcapacity16", "tshark", "qemu-io")
	if files, _ := filepath.Glob("/usr/lib/*/qemu/block-iscsi.so"); files == nil {
		t.Skip("QEMU's block driver of iSCSI is not installed: apt install qemu-block-extra")
	}
	for _, kind := range []string{"iwarp", "roce"} {
		t.Run(kind, func(t *testing.T) {
			r := newISERRig(t, kind)
			r.start("nic0 serves", "iscsi", "target", "nic0", "--lun", "mem:64M", "--iser")
			url := "iser://" + nicAddr + "/" + target + "/0"
			file := filepath.Join(t.TempDir(), "iser.pcapng")
			dump := r.start("capturing", "capture", "nic0", "-w", file)
			if out, err := r.run("run", "--nic", "nic1", "--", "iscsi-readcapacity16", url); err != nil || !strings.Contains(out, "Total size:67108864") {
				t.Fatalf("%v\n%s", err, out)
			}
			suites := []string{"ALL.ReadCapacity16"}
			if *interop {
				list, _ := exec.Command("iscsi-test-cu", "-l").Output() // which ends with 1
				suites = regexp.MustCompile(`(?m)^ALL\.\w+$`).FindAllString(string(list), -1)
			}
			passed := 0
			for _, suite := range suites {
				if slices.Contains(inLibiscsi, suite) {
					continue
				}
				out, err := r.run("run", "--nic", "nic1", "--", "iscsi-test-cu", "-d", "-t", suite, url)
				for again := 0; again < 2 && err != nil && killed.MatchString(err.Error()); again++ {
					t.Logf("%s: %v; once more", suite, err)
					out, err = r.run("run", "--nic", "nic1", "--", "iscsi-test-cu", "-d", "-t", suite, url)
				}
				if err != nil {
					t.Errorf("%s: %v\n%s", suite, err, failures(out))
				} else {
					passed++
				}
				dump.Stop() // the first one is enough
			}
			t.Logf("%d suites passed", passed)
			out, err := r.run("run", "--nic", "nic1", "--", "qemu-io", "-c", "write -P 0x5a 0 256k", "-c", "write -P 0xa5 1M 4k",
				"-c", "read -P 0x5a 0 256k", "-c", "read -P 0xa5 1M 4k", "-c", "read -P 0 2M 256k",
				`json:{"driver":"raw","file":{"driver":"iscsi","transport":"iser","portal":"`+nicAddr+`","target":"`+target+
					`","lun":0,"initiator-name":"iqn.2026-11.test:qemu"}}`)
			if err != nil || strings.Contains(out, "erification failed") || strings.Count(out, "read 262144/262144") != 2 {
				t.Errorf("qemu-io: %v\n%s", err, out)
			}
			bad, err := exec.Command("tshark", "-r", file, "--disable-protocol", "rpcordma", "-Y", "_ws.malformed").Output()
			must(t, err)
			if len(bad) > 0 {
				t.Errorf("malformed:\n%s", bad)
			}
		})
	}
}

// tgtISER gives tgtd a disk that is reached in iSER.
const tgtISER = `
adm() { tgtadm -C 0 --lld iser --mode "$@"; }
truncate -s 64M disk
until adm target --op new --tid 1 -T iqn.2026-11.tgt:disk 2>/dev/null; do sleep 0.05; done
set -e
adm logicalunit --op new --tid 1 --lun 1 -b $PWD/disk
adm target --op bind --tid 1 -I ALL
adm target --op bind --tid 1 -Q iqn.2026-11.tapir:nic0
`

// TestInitiatorAgainstTgtISER: an initiator uses a disk of tgtd, which is in tapir run, in iSER.
func TestInitiatorAgainstTgtISER(t *testing.T) {
	if !*interop {
		t.Skip("`make interop` runs it: tgtd takes its time")
	}
	needs(t, "tgtd", "tgtadm")
	r := newISERRig(t, "iwarp")
	dir := t.TempDir()
	t.Setenv("TGT_IPC_SOCKET", dir+"/tgt.sock")
	r.start("", "run", "--nic", "nic1", "--", "tgtd", "-f", "-C", "0", "--iser", "pool_sz_mb=64", "--iscsi", "portal=127.0.0.1:3262")
	script := exec.Command("timeout", "20", "sh", "-c", tgtISER)
	script.Dir = dir
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, verb := range []string{"write", "verify"} {
		out, err := r.run("iscsi", "initiator", verb, "iser://10.80.0.2/iqn.2026-11.tgt:disk/1", "--nic", "nic0", "--seed", "7",
			"--length", "16M")
		if err != nil || !strings.Contains(out, "16777216 octets") {
			t.Fatalf("%s: %v\n%s", verb, err, out)
		}
	}
	if st, err := os.Stat(dir + "/disk"); err != nil || st.Size() != 64<<20 {
		t.Errorf("the disk: %v, %v", st, err)
	}
}
