package storage

import (
	"encoding/json"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/iscsi"
)

// tgt starts tgtd with a disk in a namespace, in a directory. It ends with the test.
const tgt = `
export TGT_IPC_SOCKET=$PWD/tgt.sock
adm() { tgtadm -C 0 --lld iscsi --mode "$@"; }
truncate -s 64M disk
until adm target --op new --tid 1 -T iqn.2026-11.tgt:disk 2>/dev/null; do sleep 0.05; done
set -e
adm logicalunit --op new --tid 1 --lun 1 -b $PWD/disk
adm target --op bind --tid 1 -I ALL
`

// TestInitiatorAgainstTgt: an initiator on a NIC uses the disk of another implementation,
// which the kernel's TCP carries: it discovers, writes and verifies, with digests and
// without.
func TestInitiatorAgainstTgt(t *testing.T) {
	w := start(t, "wire")
	serveTgt(t, w.space)
	use(t, w.storage, netip.MustParseAddrPort("10.80.0.2:3260"), "iqn.2026-11.tgt:disk", 1)
}

// serveTgt starts tgtd with a disk in a namespace.
func serveTgt(t *testing.T, s *link.Space) {
	t.Helper()
	needs(t, "tgtd", "tgtadm")
	dir := t.TempDir()
	daemon := exec.Command("tgtd", "-f", "-C", "0")
	daemon.Env = append(daemon.Environ(), "TGT_IPC_SOCKET="+dir+"/tgt.sock")
	daemon.Dir = dir
	must(t, s.NS.Start(daemon))
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait() // it was killed
	})
	if out, err := testenv.Run(t, s.NS, "sh", "-c", "cd "+dir+"\n"+tgt); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// perform has an initiator do a task.
func perform(t *testing.T, storage *iscsi.NIC, task iscsi.Task) disk.Outcome {
	t.Helper()
	out, err := attempt(t, storage, task)
	must(t, err)
	return out
}

// attempt has an initiator try a task.
func attempt(t *testing.T, storage *iscsi.NIC, task iscsi.Task) (disk.Outcome, error) {
	t.Helper()
	raw, err := json.Marshal(task)
	must(t, err)
	type result struct {
		out any
		err error
	}
	c := make(chan result, 1)
	_, err = storage.Jobs()[iscsi.InitiatorOp](raw, nil, func(out any, err error) { c <- result{out, err} })
	if err != nil {
		return disk.Outcome{}, err
	}
	r := testenv.Await(t, c, "the initiator")
	out, _ := r.out.(disk.Outcome) // none with an error
	return out, r.err
}

// use has an initiator on a NIC discover a target, and write and verify 16 MiB of a unit of it, with digests
// and without.
func use(t *testing.T, storage *iscsi.NIC, portal netip.AddrPort, target string, lun int) {
	t.Helper()
	task := iscsi.Task{Op: iscsi.InitiatorOp, Portal: portal, Target: target, LUN: lun,
		Work: disk.Work{Size: 256 << 10, Depth: 16, Seed: 9, Length: 16 << 20}}
	run := func(v disk.Verb, digests bool) disk.Outcome {
		t.Helper()
		task.Verb, task.Target, task.Digests = v, target, digests
		return perform(t, storage, task)
	}
	if out := run(disk.Discover, false); !strings.HasPrefix(strings.Join(out.Targets, " "), target+" "+portal.String()+",1") {
		t.Errorf("targets: %q", out.Targets)
	}
	for _, digests := range []bool{false, true} {
		task.Seed++
		if out := run(disk.Write, digests); out.Octets != task.Length || out.Commands != 64 {
			t.Errorf("%+v", out)
		}
		run(disk.Verify, !digests)
	}
}
