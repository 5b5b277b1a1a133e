package siw

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
	"tapir/lab/host/process"
)

// isert makes a disk of 64 MiB in the guest's memory and serves it by iSER, to anyone. It takes no
// immediate data: libiscsi declares some and sends none.
const isert = `set -e
modprobe -a configfs target_core_mod target_core_file iscsi_target_mod ib_isert
[ -d /sys/kernel/config/target ] || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/target
mkdir -p core/fileio_0/disk
truncate -s 64M /tmp/disk
echo fd_dev_name=/tmp/disk,fd_dev_size=67108864 >core/fileio_0/disk/control
echo 1 >core/fileio_0/disk/enable
echo SERIAL >core/fileio_0/disk/wwn/vpd_unit_serial
mkdir -p iscsi/IQN/tpgt_1/lun/lun_0 iscsi/IQN/tpgt_1/np/ADDR:3260
cd iscsi/IQN/tpgt_1
ln -s /sys/kernel/config/target/core/fileio_0/disk lun/lun_0/disk
echo 1 >np/ADDR:3260/iser
for a in authentication=0 generate_node_acls=1 demo_mode_write_protect=0 cache_dynamic_acls=1; do
	echo ${a#*=} >attrib/${a%=*}
done
echo No >param/ImmediateData
echo 1 >enable
`

// TestISERTarget has libiscsi log in by iSER, on a NIC with RoCE, to the Linux kernel's target
// over rxe: what it writes, which the target fetches by Reads, is on the disk, and the target
// answers reads by Writes. Each program logs in once: at the second login of one process, as
// iscsi-test-cu makes it, the first request of libiscsi fails with a local protection error. RD-26
func TestISERTarget(t *testing.T) {
	if err := peer.Available(); err != nil {
		t.Skip(err)
	}
	if !netns.Privileged() {
		t.Skip("only root may make network namespaces and TAPs here")
	}
	for _, name := range []string{"iscsi-inq", "iscsi-readcapacity16", "iscsi-perf"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed: apt install libiscsi-bin", name)
		}
	}
	image, err := peer.Build(t.Context(), peer.CacheDir(), os.Stderr)
	testenv.Must(t, err)
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir) // other NICs of this machine are not to be found
	tapir, err := testenv.Build(filepath.Join(dir, "program"))
	testenv.Must(t, err)
	w, err := NewWorld(t.Context(), image, 10*time.Minute, false)
	testenv.Must(t, err)
	t.Cleanup(w.Close)
	c := &Cell{RoCE: true}
	testenv.Must(t, w.loadDriver(t.Context(), c))
	const iqn, serial = "iqn.2026-11.tapir:disk", "tapir-0042"
	var said bytes.Buffer
	script := strings.NewReplacer("IQN", iqn, "SERIAL", serial, "ADDR", guest4.Addr().String()).Replace(isert)
	testenv.Must(t, w.Guest.Put(t.Context(), "/tmp/isert", 0o700, []byte("#!/bin/sh\n"+script)))
	if code, err := w.Guest.Run(t.Context(), time.Minute, "sh -x /tmp/isert 2>&1", &said); err != nil || code != 0 {
		t.Fatalf("%d, %v: %s", code, err, &said)
	}
	n, err := w.startNIC(t.Context(), c, w.nextPort())
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(dir, "write")
	if out, err := exec.Command("cc", "-o", program, "testdata/write.c", "-l:libiscsi.so.7").CombinedOutput(); err != nil {
		t.Skipf("cannot build the program (apt install gcc libc6-dev libiscsi7): %v\n%s", err, out)
	}
	portal := guest4.Addr().String() + ":3260"
	disk := "iser://" + portal + "/" + iqn + "/0"
	for _, c := range [][2]string{
		{"iscsi-inq " + disk, "Vendor:LIO-ORG"}, {"iscsi-inq -e 1 -c 128 " + disk, serial},
		{"iscsi-readcapacity16 " + disk, "Total size:67108864"},
		{program + " " + portal + " " + iqn, "written"}, {"iscsi-perf -t 2 -m 8 -b 128 " + disk, "iops average"},
	} {
		for end := time.Now().Add(patience); ; {
			p, err := process.Start(t.Context(), w.NS, process.Options{Dir: dir,
				Argv: append([]string{tapir, "run", "--nic", n.Name(), "--"}, strings.Fields(c[0])...)})
			testenv.Must(t, err)
			err = p.Wait(t.Context())
			if err == nil && strings.Contains(p.Said(), c[1]) {
				break
			}
			// libiscsi gives up after a second without an event: the guest may stand still for longer.
			if !strings.Contains(p.Said(), "revents is not POLLIN") || time.Now().After(end) {
				t.Fatalf("%s: %v: %s", c[0], err, p.Said())
			}
		}
	}
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(i*7 + i/4096)
	}
	said.Reset()
	_, err = w.Guest.Run(t.Context(), time.Minute, "head -c 1048576 /tmp/disk | sha256sum", &said)
	testenv.Must(t, err)
	if sum := fmt.Sprintf("%x", sha256.Sum256(want)); !strings.HasPrefix(said.String(), sum) {
		t.Errorf("the disk has %s, want %s", &said, sum)
	}
}
