package storage

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/targetconf"
	"tapir/lab/host/peer"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/iscsi"
)

// guest is a guest of Linux at the other end of the wire of a NIC, which has nicAddr and nicAddr2;
// the guest has the next addresses.
type guest struct {
	*peer.Guest
	storage *iscsi.NIC
}

const nicAddr2 = "10.81.0.1"

// guestImage is what guests boot from; a test that needs one is skipped outside of make interop.
func guestImage(t *testing.T) peer.Image {
	t.Helper()
	if !*interop {
		t.Skip("`make interop` runs it: a guest takes its time")
	}
	if err := peer.Available(); err != nil {
		t.Skip(err)
	}
	image, err := peer.Build(t.Context(), peer.CacheDir(), os.Stderr)
	must(t, err)
	return image
}

// boot starts a NIC and a guest.
func boot(t *testing.T) guest {
	t.Helper()
	image := guestImage(t)
	socket := filepath.Join(t.TempDir(), "wire")
	g, err := peer.Start(t.Context(), image, peer.Config{Stream: socket, Life: 20 * time.Minute,
		IP: testenv.Prefixes("10.80.0.2/24", "10.81.0.2/24")})
	must(t, err)
	t.Cleanup(g.Stop)
	n, err := nicnode.Start(t.Context(), nicconf.Config{Name: "nic0", Wire: "stream:" + socket,
		IP: testenv.Prefixes(nicAddr+"/24", nicAddr2+"/24")}, node.Env{})
	must(t, err)
	t.Cleanup(func() { n.Close() })
	return guest{g, &iscsi.NIC{Device: n.Device, Thread: n}}
}

// does runs a shell's text in the guest, which succeeds, and returns what it prints.
func (g guest) does(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	must(t, g.Put(t.Context(), "/tmp/script", 0o700, []byte("#!/bin/sh\nset -e\n"+text)))
	if code, err := g.Run(t.Context(), 6*time.Minute, "sh -x /tmp/script 2>&1", &out); err != nil || code != 0 {
		console, _ := g.Console() // the guest's exit code is the error
		t.Fatalf("%d, %v: %s\n%s", code, err, &out, console[max(0, len(console)-2000):])
	}
	return out.String()
}

// login is the beginning of what open-iscsi does.
const login = `
modprobe -a iscsi_tcp sd_mod ext4 dm_multipath dm_round_robin
pidof iscsid || iscsid
disks() { ls -d /sys/class/iscsi_session/session*/device/target*/*/block/* 2>/dev/null | sed 's,.*/,,'; }
` + stream + filesystem

// digests has open-iscsi discover. It is to use both digests, and to keep nothing for a path that is lost.
const digests = `
iscsiadm -m discovery -t sendtargets -p ` + nicAddr + `
put() { iscsiadm -m node -o update -n "$1" -v "$2"; }
put 'node.conn[0].iscsi.HeaderDigest' CRC32C
put 'node.conn[0].iscsi.DataDigest' CRC32C
put 'node.conn[0].timeo.noop_out_interval' 2
put 'node.conn[0].timeo.noop_out_timeout' 2
put node.session.timeo.replacement_timeout 0
`

// stream is a function of the shell that prints $1 times 16 MiB, of which no two MiB are the same.
const stream = `
[ -e /tmp/seed ] || head -c 16777216 /dev/urandom >/tmp/seed
stream() { for i in $(seq $1); do tail -c +$((i * 4097 + 1)) /tmp/seed; head -c $((i * 4097)) /tmp/seed; done; }
`

// filesystem is a function of the shell that makes a file system on the disk $1, writes $2 times 16 MiB
// to a file in it, and reads them again from the disk.
const filesystem = `
filesystem() {
	mke2fs -q -t ext4 $1
	mkdir -p /tmp/m
	mount $1 /tmp/m
	stream $2 >/tmp/m/file
	umount /tmp/m
	echo 3 >/proc/sys/vm/drop_caches
	e2fsck -fn $1
	mount -o ro $1 /tmp/m
	stream $2 | cmp - /tmp/m/file
	ls -l /tmp/m
	umount /tmp/m
}
`

// TestOpenISCSI: Linux's initiator in a guest uses a disk of a NIC, with header and data digests: it makes a
// file system, writes 256 MiB, reads them again and checks the file system. Then it has two paths to the
// disk, which dm-multipath makes one, and loses one of them while it writes: no octet is lost.
func TestOpenISCSI(t *testing.T) {
	g := boot(t)
	unit, err := targetconf.ParseLUN("mem:400M")
	must(t, err)
	offer(t, g.storage, iscsi.Node{LUNs: []disk.LUN{unit}})
	t.Run("filesystem", func(t *testing.T) {
		g.does(t, login+digests+`
iscsiadm -m node -p `+nicAddr+` --login
until [ "$(disks)" ]; do sleep 0.1; done
filesystem /dev/$(disks) 16
iscsiadm -m session -P 2 | grep -c 'Digest: CRC32C'
iscsiadm -m node --logout
`)
	})
	t.Run("multipath", func(t *testing.T) {
		out := g.does(t, login+digests+`
iscsiadm -m discovery -t sendtargets -p `+nicAddr2+`
iscsiadm -m node -p `+nicAddr+` --login
iscsiadm -m node -p `+nicAddr2+` --login
until [ "$(disks | wc -l)" = 2 ]; do sleep 0.1; done
n=$(cat /sys/block/$(disks | head -n 1)/size)
dmsetup create both --table "0 $n multipath 0 0 1 1 round-robin 0 2 1 $(for d in $(disks); do cat /sys/block/$d/dev; echo 1; done | xargs)"
dmsetup mknodes
(sleep 2; ip route add unreachable `+nicAddr2+` table local; ip route flush cache) &
for i in 0 1 2; do stream 1 | dd of=/dev/mapper/both bs=1M seek=$((i * 16)) iflag=fullblock conv=fsync; sleep 2; done
dmsetup status both
echo 3 >/proc/sys/vm/drop_caches
stream 1 >/tmp/want
for i in 0 1 2; do dd if=/dev/mapper/both bs=1M skip=$((i * 16)) count=16 | cmp - /tmp/want; done
`)
		if !strings.Contains(out, " F 1 ") || !strings.Contains(out, " A 0 ") {
			t.Errorf("of the paths, one has not failed: %s", out)
		}
	})
}

// lio makes a disk of 64 MiB in the guest's memory and serves it by iSCSI, to anyone.
const lio = `
modprobe -a configfs target_core_mod target_core_file iscsi_target_mod
[ -d /sys/kernel/config/target ] || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/target
mkdir -p core/fileio_0/disk
truncate -s 64M /tmp/disk
echo fd_dev_name=/tmp/disk,fd_dev_size=67108864 >core/fileio_0/disk/control
echo 1 >core/fileio_0/disk/enable
mkdir -p iscsi/IQN/tpgt_1/lun/lun_0 iscsi/IQN/tpgt_1/np/ADDR:3260
cd iscsi/IQN/tpgt_1
ln -s /sys/kernel/config/target/core/fileio_0/disk lun/lun_0/disk
for a in authentication=0 generate_node_acls=1 demo_mode_write_protect=0 cache_dynamic_acls=1; do
	echo ${a#*=} >attrib/${a%=*}
done
echo 1 >enable
`

// TestInitiatorAgainstLIO: an initiator on a NIC uses a disk of Linux's target in a guest, with digests and
// without, with the target's immediate data and R2Ts as it likes them.
func TestInitiatorAgainstLIO(t *testing.T) {
	g := boot(t)
	const iqn = "iqn.2026-11.lio:disk"
	g.does(t, strings.NewReplacer("IQN", iqn, "ADDR", "10.80.0.2").Replace(lio))
	portal := netip.MustParseAddrPort("10.80.0.2:3260")
	use(t, g.storage, portal, iqn, 0)
	g.does(t, "cd /sys/kernel/config/target/iscsi/"+iqn+"/tpgt_1/param; echo No >ImmediateData; echo 4096 >MaxBurstLength")
	use(t, g.storage, portal, iqn, 0)
}
