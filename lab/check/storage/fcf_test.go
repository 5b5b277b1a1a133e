package storage

import (
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/swconf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
	"tapir/lab/node"
	"tapir/lab/node/sw/fcf"
	"tapir/lab/node/swnode"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// fabricTarget has the guest log in by eth1 with a disk of 32 MiB, which eth0 will see.
const fabricTarget = `
modprobe -a fcoe sd_mod tcm_fc
mount -t configfs config /sys/kernel/config 2>/dev/null || true
wwpn() { echo "20:00:$(cat /sys/class/net/$1/address)"; }
ip link set eth1 up
echo eth1 >/sys/module/libfcoe/parameters/create
until grep -q Online /sys/class/fc_host/host*/port_state; do sleep 0.1; done
cd /sys/kernel/config/target
mkdir -p core/rd_mcp_0/disk
echo rd_pages=8192 >core/rd_mcp_0/disk/control
echo 1 >core/rd_mcp_0/disk/enable
t=fc/$(wwpn eth1)/tpgt_1
mkdir -p fc/$(wwpn eth1)
mkdir $t
mkdir $t/lun/lun_0
ln -s $PWD/core/rd_mcp_0/disk $t/lun/lun_0/disk
mkdir $t/acls/$(wwpn eth0)
mkdir $t/acls/$(wwpn eth0)/lun_0
ln -s $PWD/$t/lun/lun_0 $t/acls/$(wwpn eth0)/lun_0/disk
`

// fabricInitiator has it log in by eth0, find the disk, and write and read 16 MiB.
const fabricInitiator = `
echo eth0 >/sys/module/libfcoe/parameters/create
for i in $(seq 1200); do [ -e /dev/sda ] && break; sleep 0.1; done
cat /sys/class/fc_host/host*/port_type /sys/class/fc_remote_ports/*/roles
[ -e /dev/sda ]
head -c 16777216 /dev/urandom >/tmp/data
dd if=/tmp/data of=/dev/sda bs=64k conv=fsync
echo 3 >/proc/sys/vm/drop_caches
dd if=/dev/sda bs=64k count=256 | cmp - /tmp/data
`

// TestLinuxInFabric: Linux in a guest logs in to the FCF of a switch with two ports, by FIP. One is a
// target of its own, which the other finds by the name server, and writes and reads 16 MiB. Their
// links are cleared then, and they log in again.
func TestLinuxInFabric(t *testing.T) {
	image := guestImage(t)
	if !netns.Privileged() {
		t.Skip("only root may make network namespaces here")
	}
	s := testenv.Space(t, link.Quiet)
	n, err := swnode.Start(swconf.Config{Name: "fabric", FCF: swconf.FCF{On: true},
		Ports: []swconf.PortConfig{{TAP: "tap0"}, {TAP: "tap1"}}}, node.Env{NS: s.NS})
	must(t, err)
	t.Cleanup(func() { n.Close() })
	for i, bridge := range []string{"br0", "br1"} {
		must(t, s.Net.AddBridge(bridge), s.Net.Join(n.Config().Ports[i].Name, bridge), s.Net.Up(bridge))
	}
	p, err := peer.Start(t.Context(), image, peer.Config{NS: s.NS, Bridge: "br0", More: []string{"br1"}, Life: 20 * time.Minute,
		IP: testenv.Prefixes("10.80.0.2/24")})
	must(t, err)
	t.Cleanup(p.Stop)
	g := guest{Guest: p}
	logins := func() (all []fcf.Login, c fcf.Counts) {
		must(t, n.DoWait(func(frame.Time) { all, c = n.Switch().FCF().Logins(), n.Switch().FCF().Counts() }))
		return all, c
	}
	g.does(t, fabricTarget)
	g.does(t, fabricInitiator)
	all, c := logins()
	if len(all) != 2 || !all[0].Types.Has(fc.TypeFCP) || !all[1].Types.Has(fc.TypeFCP) || !all[0].Registered || c.Frames < 10_000 || c.RSCNs == 0 {
		t.Errorf("%+v, %+v", all, c)
	}
	testenv.Until(t, "keep-alives", func() bool {
		_, c := logins()
		return c.KeepAlives > 1
	})
	must(t, n.DoWait(n.Switch().Leave))
	testenv.Until(t, "both log in again", func() bool {
		all, now := logins()
		return len(all) == 2 && now.FLOGIs >= c.FLOGIs+2
	})
	_, c = logins()
	t.Logf("%+v", c)
	if c.Refused != 0 || c.RSCNsLost != 0 {
		t.Errorf("%+v", c)
	}
}
