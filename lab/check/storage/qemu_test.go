package storage

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/iscsi"
)

// bootSector is a program of a PC that reads the second sector of its disk by the BIOS, prints the text there to
// the first serial port, writes it to the third sector and ends QEMU.
const bootSector = "\x31\xc0\x8e\xd8\x8e\xc0\x8e\xd0\xbc\x00\x7c" + // ds, es, ss:sp = 0, 0, 0:0x7c00
	"\xbb\x00\x7e\xb8\x01\x02\xb9\x02\x00\xb6\x00\xcd\x13" + // int 0x13: read sector 2 to 0x7e00
	"\xb8\x01\x03\xb9\x03\x00\xcd\x13" + // int 0x13: write sector 3
	"\xbe\x00\x7e\xac\x84\xc0\x74\x06\xba\xf8\x03\xee\xeb\xf5" + // until 0: out 0x3f8
	"\xba\xf4\x00\xb0\x10\xee\xf4" // out 0xf4, hlt

// TestQEMU: qemu-img copies an image to a disk of a NIC and compares, qemu-io writes, discards and verifies, and
// a guest boots from the disk, reads and writes it.
func TestQEMU(t *testing.T) {
	needs(t, "qemu-img", "qemu-io", "qemu-system-x86_64")
	if files, _ := filepath.Glob("/usr/lib/*/qemu/block-iscsi.so"); files == nil {
		t.Skip("QEMU's block driver of iSCSI is not installed: apt install qemu-block-extra")
	}
	s := serve(t, "gso", iscsi.Node{LUNs: []disk.LUN{lun(t, targetconf.Mem)}})
	url := "iscsi://" + nicAddr + "/" + target + "/0"
	run := func(argv ...string) string {
		t.Helper()
		out, err := testenv.Run(t, s.NS, argv...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
		return out
	}
	const text = "read from the disk\n"
	image := make([]byte, 64<<20)
	rnd := rand.NewChaCha8([32]byte{25})
	_, _ = rnd.Read(image[:16<<20]) // which never fails
	clear(image[:1024])
	copy(image, bootSector)
	copy(image[510:], "\x55\xaa")
	copy(image[512:], text)
	file := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(file, image, 0o600))
	run("qemu-img", "convert", "-n", "-W", "-f", "raw", "-O", "raw", file, url)
	run("qemu-img", "compare", "-f", "raw", "-F", "raw", file, url)
	if out := run("qemu-io", "-f", "raw", "-c", "write -P 0x5a 20M 3M", "-c", "aio_write -P 0xa5 23M 64k", "-c", "aio_flush",
		"-c", "discard 21M 1M", "-c", "read -P 0x5a 20M 1M", "-c", "read -P 0 21M 1M", "-c", "read -P 0x5a 22M 1M",
		"-c", "read -P 0xa5 23M 64k", "-c", "flush", url); strings.Contains(out, "erification failed") {
		t.Errorf("qemu-io: %s", out)
	}
	out, err := testenv.Run(t, s.NS, "timeout", "60", "qemu-system-x86_64", "-nodefaults", "-display", "none", "-m", "16", "-accel", "tcg",
		"-drive", "file="+url+",format=raw,if=virtio", "-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4")
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 0x10<<1|1 || !strings.Contains(out, text) {
		t.Fatalf("the guest: %v\n%s", err, out)
	}
	run("qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=512", "count=3", "if="+url, "of="+file+".back")
	back, err := os.ReadFile(file + ".back")
	must(t, err)
	if want := append(image[:1024:1024], image[512:1024]...); !bytes.Equal(back, want) {
		t.Errorf("the first sectors are %q", back)
	}
}
