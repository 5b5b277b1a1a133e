package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/swconf"
	"tapir/lab/conf/targetconf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/node/swnode"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/fcoe"
	"tapir/lab/tool/tshark"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// channel is a NIC that can be an end node of FCoE.
func channel(t *testing.T, addr string, cfg nicconf.Config, env node.Env) *fcoe.NIC {
	t.Helper()
	must(t, cfg.Set("personality", "fcoe"), cfg.Set("ip", addr))
	n, err := nicnode.Start(t.Context(), cfg, env)
	must(t, err)
	t.Cleanup(func() { n.Close() })
	return &fcoe.NIC{Device: n.Device, Thread: n}
}

// serves has a NIC serve a disk, until end is called.
func serves(t *testing.T, n *fcoe.NIC, vn2vn bool, unit string) (end func()) {
	t.Helper()
	l, err := targetconf.ParseLUN(unit)
	must(t, err)
	raw, err := json.Marshal(fcoe.Job{Op: fcoe.TargetOp, VN2VN: vn2vn, Ports: []fcoe.Port{{LUNs: []disk.LUN{l}}}})
	must(t, err)
	end, err = n.Jobs()[fcoe.TargetOp](raw, nil, nil)
	must(t, err)
	return end
}

// uses has a NIC do a work with a disk.
func uses(t *testing.T, n *fcoe.NIC, task fcoe.Task) disk.Outcome {
	t.Helper()
	task.Op = fcoe.InitiatorOp
	raw, err := json.Marshal(task)
	must(t, err)
	type result struct {
		out any
		err error
	}
	c := make(chan result, 1)
	_, err = n.Jobs()[fcoe.InitiatorOp](raw, nil, func(out any, err error) { c <- result{out, err} })
	must(t, err)
	r := testenv.Await(t, c, "the initiator")
	must(t, r.err)
	return r.out.(disk.Outcome)
}

// writes writes and verifies 16 MiB.
func writes(t *testing.T, n *fcoe.NIC, task fcoe.Task) {
	t.Helper()
	for _, v := range []disk.Verb{disk.Write, disk.Verify} {
		task.Work = disk.DefaultWork(v)
		task.Length, task.Seed = 16<<20, 5
		if out := uses(t, n, task); out.Octets != task.Length {
			t.Errorf("%s: %+v", v, out)
		}
	}
}

// captures writes what passes an interface to a file until the test ends, and judges it then: nothing
// is malformed, and each CRC is right.
func captures(t *testing.T, ns *netns.NS, iface string) {
	t.Helper()
	needs(t, "tcpdump", "tshark")
	file := filepath.Join(t.TempDir(), "wire.pcap")
	dump := exec.Command("tcpdump", "-i", iface, "-U", "-w", file, "-B", "32768")
	must(t, ns.Start(dump))
	testenv.Until(t, "tcpdump to begin", func() bool { st, err := os.Stat(file); return err == nil && st.Size() > 0 })
	t.Cleanup(func() {
		_ = dump.Process.Signal(os.Interrupt)
		_ = dump.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		rows, err := tshark.Fields(ctx, file, tshark.Options{Filter: "_ws.malformed || fcoe.crc.status == 0 || fip"},
			"_ws.malformed", "fcoe.crc.status", "frame.number", "_ws.col.Info")
		if err != nil || len(rows) == 0 {
			t.Errorf("%d frames of FIP, %v", len(rows), err)
		}
		for _, r := range rows {
			if r[0] != "" || r[1] == "0" {
				t.Errorf("malformed, or with a wrong CRC: %q", r)
			}
		}
	})
}

// TestFCoEPair: of two NICs on TAPs with a cable between them one writes 16 MiB to the other's disk, and
// verifies them, by VN2VN.
func TestFCoEPair(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	captures(t, p.A.NS, link.PairTAP)
	a := channel(t, "10.80.0.1/24", nicconf.Config{Name: "a", TAP: link.PairTAP}, node.Env{NS: p.A.NS})
	b := channel(t, "10.80.0.2/24", nicconf.Config{Name: "b", TAP: link.PairTAP}, node.Env{NS: p.B.NS})
	end := serves(t, a, true, "mem:16M")
	writes(t, b, fcoe.Task{VN2VN: true})
	end()
}

// TestFCoEThroughSwitch: the same through the FCF of a switch, to a virtual port of the target too; also in the VLAN
// that the FCF offers, without which the NICs are.
func TestFCoEThroughSwitch(t *testing.T) {
	if !netns.Privileged() {
		t.Skip("only root may make network namespaces here")
	}
	for _, vlan := range []uint16{0, 100} {
		t.Run(fmt.Sprintf("vlan %d", vlan), func(t *testing.T) {
			s := testenv.Space(t, link.Quiet)
			ports := inFabric(t, s, vlan)
			a := channel(t, "10.80.0.1/24", nicconf.Config{Name: "a", TAP: "nic0"}, node.Env{NS: s.NS})
			b := channel(t, "10.80.0.2/24", nicconf.Config{Name: "b", TAP: "nic1"}, node.Env{NS: s.NS})
			for i, tap := range []string{"nic0", "nic1"} {
				must(t, s.Net.Join(tap, ports[i]), s.Net.Up(tap))
			}
			captures(t, s.NS, "nic0")
			end := serves(t, a, false, "mem:16M")
			writes(t, b, fcoe.Task{})
			writes(t, b, fcoe.Task{NPIV: 0x2001020000000099})
			end()
		})
	}
}

// TestFCoEKilledTarget: kill -9 ends the process of a target while an initiator writes to its file. A new one
// goes on with the file, the initiator with what was not acknowledged, and nothing is lost that was.
func TestFCoEKilledTarget(t *testing.T) {
	r := newISERRig(t, "fcoe")
	file := filepath.Join(t.TempDir(), "disk")
	serve := []string{"fcoe", "target", "nic0", "--vn2vn", "--lun", "sparse:" + file + ":64M"}
	r.start("nic0 serves", serve...)
	writer := r.start("", "fcoe", "initiator", "write", "nic1", "fcoe://any/0", "--vn2vn", "--length", "64M", "--size", "16K",
		"--depth", "4", "--seed", "9")
	testenv.Until(t, "a part of the file", func() bool {
		st, err := os.Stat(file)
		return err == nil && st.Sys().(*syscall.Stat_t).Blocks > 4<<20/512
	})
	r.nics[0].Kill()
	if writer.HasEnded() {
		t.Fatalf("the writer was faster than the kill: %s", writer.Said())
	}
	r.nics[0] = r.nic(0, "fcoe")
	r.start("nic0 serves", serve...)
	must(t, writer.Await(t.Context(), "write: 67108864 octets"))
	out, err := r.run("fcoe", "initiator", "verify", "nic1", "fcoe://any/0", "--vn2vn", "--length", "64M", "--seed", "9")
	if err != nil || !strings.Contains(out, "verify: 67108864 octets") {
		t.Errorf("%v: %s", err, out)
	}
}

// inFabric starts a switch with an FCF, with bridges at its two ports.
func inFabric(t *testing.T, s *link.Space, vlan uint16) (bridges []string) {
	t.Helper()
	n, err := swnode.Start(swconf.Config{Name: "fabric", FCF: swconf.FCF{On: true, VLAN: vlan},
		Ports: []swconf.PortConfig{{TAP: "tap0"}, {TAP: "tap1"}}}, node.Env{NS: s.NS})
	must(t, err)
	t.Cleanup(func() { n.Close() })
	bridges = []string{"br0", "br1"}
	for i, bridge := range bridges {
		must(t, s.Net.AddBridge(bridge), s.Net.Join(n.Config().Ports[i].Name, bridge), s.Net.Up(bridge))
	}
	return bridges
}

// guestDisk has a guest that is in the fabric or segment by eth0 write and read 16 MiB of the disk that
// it finds.
const guestDisk = `
for i in $(seq 1200); do [ -e /dev/sda ] && break; sleep 0.1; done
cat /sys/class/fc_host/host*/port_type /sys/class/fc_remote_ports/*/roles
[ -e /dev/sda ]
head -c 16777216 /dev/urandom >/tmp/data
dd if=/tmp/data of=/dev/sda bs=64k conv=fsync
echo 3 >/proc/sys/vm/drop_caches
dd if=/dev/sda bs=64k count=256 | cmp - /tmp/data
echo 1 >/sys/block/sda/device/delete
`

// guestTarget makes a guest that is in it a target of tcm_fc, with a disk of 32 MiB for the port $1.
const guestTarget = `
modprobe tcm_fc
mount -t configfs config /sys/kernel/config 2>/dev/null || true
me=20:00:$(cat /sys/class/net/eth0/address)
cd /sys/kernel/config/target
mkdir -p core/rd_mcp_0/disk
echo rd_pages=8192 >core/rd_mcp_0/disk/control
echo 1 >core/rd_mcp_0/disk/enable
mkdir -p fc/$me
t=$PWD/fc/$me/tpgt_1
mkdir $t
mkdir $t/lun/lun_0
ln -s $PWD/core/rd_mcp_0/disk $t/lun/lun_0/disk
mkdir $t/acls/$1
mkdir $t/acls/$1/lun_0
ln -s $t/lun/lun_0 $t/acls/$1/lun_0/disk
echo $me >/tmp/me
`

// withGuest has Linux use the disk of a NIC, and the NIC the disk of Linux.
func withGuest(t *testing.T, g guest, n *fcoe.NIC, vn2vn bool) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		_ = n.Thread.DoWait(func(frame.Time) {
			for _, c := range n.Device.Counters() {
				if c.Value > 0 {
					t.Logf("%s %d", c.Name, c.Value)
				}
			}
		})
		t.Log(g.does(t, "ip -s link show eth0; cat /sys/class/fc_host/host*/statistics/* || true; ethtool -S eth0 || true"))
	})
	create := "create"
	if vn2vn {
		create = "create_vn2vn"
	}
	g.does(t, "modprobe -a fcoe sd_mod\nip link set eth0 up\necho eth0 >/sys/module/libfcoe/parameters/"+create)
	end := serves(t, n, vn2vn, "mem:16M") // not before: a frame that comes as Linux 6.1 makes its port ends it
	g.does(t, guestDisk)
	end()
	own := fc.FromMAC(0x2000, n.Device.Config().MAC)
	g.does(t, "set -- "+own.String()+guestTarget)
	me, err := fc.ParseWWN(strings.TrimSpace(lastLine(g.does(t, "cat /tmp/me"))))
	must(t, err)
	out := uses(t, n, fcoe.Task{VN2VN: vn2vn, Work: disk.DefaultWork(disk.Discover)})
	if !slices.ContainsFunc(out.Targets, func(s string) bool { return strings.HasPrefix(s, me.String()) }) {
		t.Errorf("the guest is not among %q", out.Targets)
	}
	writes(t, n, fcoe.Task{VN2VN: vn2vn, Target: me})
}

// lastLine is the last of a text.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// TestLinuxByVN2VN: Linux in a guest and a NIC meet without a fabric. Linux writes and reads 16 MiB of the
// NIC's disk, then the NIC those of Linux.
func TestLinuxByVN2VN(t *testing.T) {
	image := guestImage(t)
	socket := filepath.Join(t.TempDir(), "wire")
	p, err := peer.Start(t.Context(), image, peer.Config{Stream: socket, Life: 20 * time.Minute,
		IP: testenv.Prefixes("10.80.0.2/24")})
	must(t, err)
	t.Cleanup(p.Stop)
	n := channel(t, "10.80.0.1/24", nicconf.Config{Name: "nic0", Wire: "stream:" + socket}, node.Env{})
	withGuest(t, guest{Guest: p}, n, true)
}

// TestLinuxAndNICInFabric: the same through the FCF of a switch.
func TestLinuxAndNICInFabric(t *testing.T) {
	image := guestImage(t)
	if !netns.Privileged() {
		t.Skip("only root may make network namespaces here")
	}
	s := testenv.Space(t, link.Quiet)
	bridges := inFabric(t, s, 0)
	p, err := peer.Start(t.Context(), image, peer.Config{NS: s.NS, Bridge: bridges[0], Life: 20 * time.Minute,
		IP: testenv.Prefixes("10.80.0.2/24")})
	must(t, err)
	t.Cleanup(p.Stop)
	n := channel(t, "10.80.0.1/24", nicconf.Config{Name: "nic0", TAP: "nic0"}, node.Env{NS: s.NS})
	must(t, s.Net.Join("nic0", bridges[1]), s.Net.Up("nic0"))
	captures(t, s.NS, "nic0")
	withGuest(t, guest{Guest: p}, n, false)
}
