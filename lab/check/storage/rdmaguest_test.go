package storage

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/swconf"
	"tapir/lab/conf/targetconf"
	"tapir/lab/host/peer"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/node/swnode"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/iscsi"
	"tapir/lab/tool/nvme"
	"tapir/wire/frame"
)

const nvmeName = "nqn.2026-11.tapir:nic0"

// nvmeHost has the guest connect to a subsystem of the NIC. The kernel's module is asked by the file that
// the program nvme writes to.
const nvmeHost = `
modprobe -a nvme_rdma ext4
disk() { ls /dev | grep -m 1 '^nvme[0-9]*n1$'; }
join() {
	echo transport=rdma,traddr=$1,trsvcid=4420,nqn=` + nvmeName + `,nr_io_queues=1,keep_alive_tmo=3,reconnect_delay=1 >/dev/nvme-fabrics
}
live() { cat /sys/class/nvme/nvme*/state | grep -c live; }
leave() { for c in /sys/class/nvme/nvme*; do echo 1 >$c/delete_controller; done; }
` + stream + filesystem

// nvmeTarget has the guest serve a file in memory, to anyone.
const nvmeTarget = `
modprobe -a configfs nvmet nvmet_rdma
[ -d /sys/kernel/config/nvmet ] || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/nvmet
truncate -s 64M /tmp/disk
mkdir -p subsystems/nqn.guest/namespaces/1 ports/1
echo 1 >subsystems/nqn.guest/attr_allow_any_host
echo 1 >subsystems/nqn.guest/namespaces/1/buffered_io
echo -n /tmp/disk >subsystems/nqn.guest/namespaces/1/device_path
echo 1 >subsystems/nqn.guest/namespaces/1/enable
echo rdma >ports/1/addr_trtype
echo ipv4 >ports/1/addr_adrfam
echo 10.80.0.2 >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/nqn.guest ports/1/subsystems/
`

// rdmaRig is a guest and two NICs at a switch. The NICs serve one disk.
type rdmaRig struct {
	guest
	nics [2]*nicnode.Node
	nvme [2]*nvme.NIC
	file string // the disk
}

// nics at the switch have these addresses, the guest the next ones.
var rdmaAddrs = [2]string{nicAddr, nicAddr2}

func newRDMARig(t *testing.T) *rdmaRig {
	image := guestImage(t)
	dir := t.TempDir()
	r := &rdmaRig{file: dir + "/disk"}
	vm, err := peer.Start(t.Context(), image, peer.Config{Stream: dir + "/guest", Life: 25 * time.Minute,
		IP: testenv.Prefixes("10.80.0.2/24", "10.81.0.2/24")})
	must(t, err)
	t.Cleanup(vm.Stop)
	r.guest = guest{Guest: vm}
	s, err := swnode.Start(swconf.Config{Ports: []swconf.PortConfig{{Wire: "stream:" + dir + "/guest"},
		{Wire: "shm:" + dir + "/nic0"}, {Wire: "shm:" + dir + "/nic1"}}}, node.Env{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return r
}

// start starts the NICs until the end of the test.
func (r *rdmaRig) start(t *testing.T, personality string) {
	for i := range r.nics {
		name := fmt.Sprintf("nic%d", i)
		cfg := nicconf.Config{Name: name, Wire: "shm:" + filepath.Dir(r.file) + "/" + name, IP: testenv.Prefixes(rdmaAddrs[i] + "/24")}
		must(t, cfg.Set("personality", personality))
		n, err := nicnode.Start(t.Context(), cfg, node.Env{})
		must(t, err)
		t.Cleanup(func() { n.Close() })
		r.nics[i], r.nvme[i] = n, &nvme.NIC{Device: n.Device, Thread: n, Layer: n.Layer()}
	}
	r.storage = &iscsi.NIC{Device: r.nics[0].Device, Thread: r.nics[0], CA: r.nics[0].CA()}
}

// serve serves the disk by NVMe on both NICs.
func (r *rdmaRig) serve(t *testing.T) {
	unit, err := targetconf.ParseLUN("sparse:" + r.file + ":400M")
	must(t, err)
	for i, n := range r.nvme {
		job, err := json.Marshal(nvme.Job{Op: nvme.TargetOp, NQN: nvmeName, LUNs: []disk.LUN{unit}, FirstID: uint16(1 + 100*i)})
		must(t, err)
		cancel, err := n.Jobs()[nvme.TargetOp](job, nil, nil)
		must(t, err)
		t.Cleanup(cancel)
	}
}

// cut cuts the link of a NIC, or mends it.
func (r *rdmaRig) cut(i int, cut bool) {
	n := r.nics[i]
	n.Do(func(now frame.Time) {
		if cut {
			n.Device.LinkDown(now)
		} else {
			n.Device.LinkUp(now)
		}
	})
}

// TestLinuxRDMA: Linux in a guest and NICs use each other's disks by RDMA, over iWARP with siw and over RoCE
// with rxe. The guest makes a file system on a disk of a NIC, by NVMe and by iSER, writes, and reads again
// what it wrote; by NVMe also when the link was cut for longer than the keep-alive timeout, and when one of
// two paths is cut. A NIC discovers, writes and verifies a disk of the guest.
func TestLinuxRDMA(t *testing.T) {
	r := newRDMARig(t)
	for _, personality := range []string{"iwarp", "roce"} {
		t.Run(personality, func(t *testing.T) {
			if personality == "roce" {
				must(t, r.LoadRXE(t.Context()))
			} else { // as a server, the stock driver loses the wake-up for a quick first request
				must(t, r.LoadSiw(t.Context(), "rx_kick=1"))
			}
			r.start(t, personality)
			r.serve(t)
			t.Run("nvme", func(t *testing.T) { judgeNVMeTarget(t, r) })
			t.Run("paths", func(t *testing.T) { judgeNVMePaths(t, r) })
			t.Run("initiator", func(t *testing.T) { judgeNVMeInitiator(t, r.guest, r.nvme[0]) })
			t.Run("iser", func(t *testing.T) { judgeISERTarget(t, r) })
		})
	}
}

// judgeNVMeTarget has the guest use a disk of the NIC.
func judgeNVMeTarget(t *testing.T, r *rdmaRig) {
	r.does(t, nvmeHost+`
join `+nicAddr+`
until disk; do sleep 0.1; done
filesystem /dev/$(disk) 16
blkdiscard /dev/$(disk)
echo 3 >/proc/sys/vm/drop_caches
cmp -n 1048576 /dev/$(disk) /dev/zero
`)
	go func() {
		for _, cut := range []bool{true, false} {
			time.Sleep(4 * time.Second)
			r.cut(0, cut)
		}
	}()
	r.does(t, nvmeHost+`
for i in 0 1 2 3; do dd if=/tmp/seed of=/dev/$(disk) bs=1M seek=$((i * 16)) iflag=fullblock conv=fsync; sleep 2; done
echo 3 >/proc/sys/vm/drop_caches
for i in 0 1 2 3; do dd if=/dev/$(disk) bs=1M skip=$((i * 16)) count=16 | cmp - /tmp/seed; done
dmesg | grep -i 'nvme.*reconnect'
leave
`)
}

// judgeNVMePaths has the guest's multipath use two paths in turn. One is cut while it writes, and comes back.
func judgeNVMePaths(t *testing.T, r *rdmaRig) {
	r.does(t, nvmeHost+`
join `+nicAddr+`
join `+nicAddr2+`
until [ "$(live)" = 2 ] && disk; do sleep 0.1; done
for p in /sys/class/nvme-subsystem/*/iopolicy; do echo round-robin >$p; done
`)
	before, cut := r.written(), make(chan struct{})
	go func() {
		defer close(cut)
		for n := before; n[0] < before[0]+1<<20 || n[1] < before[1]+1<<20; n = r.written() {
			if t.Context().Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		r.cut(1, true)
	}()
	r.does(t, nvmeHost+`
for i in 0 1 2 3; do dd if=/tmp/seed of=/dev/$(disk) bs=1M seek=$((i * 16)) iflag=fullblock conv=fsync; done
until [ "$(live)" = 1 ]; do sleep 0.1; done
for i in 4 5; do dd if=/tmp/seed of=/dev/$(disk) bs=1M seek=$((i * 16)) iflag=fullblock conv=fsync; done
`)
	testenv.Await(t, cut, "octets by both paths")
	r.cut(1, false)
	r.does(t, nvmeHost+`
until [ "$(live)" = 2 ]; do sleep 0.1; done
echo 3 >/proc/sys/vm/drop_caches
for i in 0 1 2 3 4 5; do dd if=/dev/$(disk) bs=1M skip=$((i * 16)) count=16 | cmp - /tmp/seed; done
! dmesg | grep -i 'i/o error'
leave
`)
}

// written is how much the NICs have been written.
func (r *rdmaRig) written() (octets [2]uint64) {
	for i, n := range r.nvme {
		_ = r.nics[i].DoWait(func(frame.Time) { // unless the test is over
			for _, c := range n.Counters() {
				if c.Name == "nvme_octets_written" {
					octets[i] = c.Value
				}
			}
		})
	}
	return octets
}

// judgeISERTarget has the guest's ib_iser use a disk of the NIC.
func judgeISERTarget(t *testing.T, r *rdmaRig) {
	unit, err := targetconf.ParseLUN("mem:400M")
	must(t, err)
	job, err := json.Marshal(iscsi.Job{Op: iscsi.Op, ISER: true, Targets: []iscsi.Node{{LUNs: []disk.LUN{unit}}}})
	must(t, err)
	cancel, err := r.storage.Jobs()[iscsi.Op](job, nil, nil)
	must(t, err)
	t.Cleanup(cancel)
	r.does(t, login+`
modprobe -a ib_iser
iscsiadm -m node -o new -T `+target+` -p `+nicAddr+`:3260 -I iser
iscsiadm -m node -T `+target+` -o update -n node.session.timeo.replacement_timeout -v 300 # of a busy machine
iscsiadm -m node -T `+target+` -p `+nicAddr+`:3260 --login
until [ "$(disks)" ]; do sleep 0.1; done
[ "$(cat /sys/class/iscsi_transport/iser/handle)" ]
filesystem /dev/$(disks) 4
iscsiadm -m session -P 1 | grep 'Iface Transport: iser'
iscsiadm -m node -T `+target+` --logout
iscsiadm -m node -T `+target+` -o delete
`)
}

// judgeNVMeInitiator has the NIC use a disk of the guest.
func judgeNVMeInitiator(t *testing.T, g guest, express *nvme.NIC) {
	g.does(t, nvmeTarget)
	task := nvme.Task{Op: nvme.InitiatorOp, Portals: []netip.AddrPort{netip.MustParseAddrPort("10.80.0.2:4420")},
		NQN: "nqn.guest", NSID: 1, KeepAlive: 30 * time.Second,
		Work: disk.Work{Size: 64 << 10, Depth: 8, Seed: 9, Length: 4 << 20}}
	for _, v := range []disk.Verb{disk.Discover, disk.Write, disk.Verify} {
		task.Verb, task.NQN = v, "nqn.guest"
		raw, err := json.Marshal(task)
		must(t, err)
		type result struct {
			out any
			err error
		}
		c := make(chan result, 1)
		_, err = express.Jobs()[nvme.InitiatorOp](raw, nil, func(out any, err error) { c <- result{out, err} })
		must(t, err)
		r := testenv.Await(t, c, "the initiator")
		if r.err != nil {
			t.Fatalf("%s: %v", v, r.err)
		}
		out := r.out.(disk.Outcome)
		if v == disk.Discover && !slices.Contains(out.Targets, "nqn.guest 10.80.0.2:4420") || v != disk.Discover && out.Octets != task.Length {
			t.Errorf("%s: %+v", v, out)
		}
	}
	g.does(t, `
cd /sys/kernel/config/nvmet
rm ports/1/subsystems/nqn.guest
rmdir ports/1
echo 0 >subsystems/nqn.guest/namespaces/1/enable
rmdir subsystems/nqn.guest/namespaces/1 subsystems/nqn.guest
rmmod nvmet_rdma
`)
}
