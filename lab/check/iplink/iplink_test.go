// Package iplink compares what the stock ip link shows of VFs of a NIC, and says of wrong
// calls, with what it does of netdevsim in Linux.
package iplink

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/peer"
)

var (
	interop = flag.Bool("interop", false, "ask netdevsim in a guest")
	record  = flag.Bool("record", false, "ask netdevsim in a guest, and keep what it says")
)

// built is the program tapir.
var built = sync.OnceValues(func() (string, error) { return testenv.Build(dir) })

var dir string // of this run

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "tapir-iplink"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const recording = "testdata/netdevsim.txt"

//go:embed testdata/calls.sh
var calls string

// differ tells where two texts of calls differ first.
func differ(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	call := ""
	for i := range max(len(g), len(w)) {
		at := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return "(the end)"
		}
		if strings.HasPrefix(at(w), "$ ") {
			call = at(w)
		}
		if at(g) != at(w) {
			t.Fatalf("line %d, after %s:\n%s\nnetdevsim:\n%s", i+1, call, at(g), at(w))
		}
	}
}

// program runs a shell's text with a NIC whose PF is eth1, and returns what it prints.
func program(t *testing.T, sriov, text string, options ...string) string {
	t.Helper()
	dir := t.TempDir()
	tapir, err := built()
	testenv.Must(t, err)
	config, script := filepath.Join(dir, "nic.yaml"), filepath.Join(dir, "calls.sh")
	testenv.Must(t, os.WriteFile(config, []byte("nics: [{name: pf, tap: wire0, host_tap: eth1, ip: 10.0.0.1/24, sriov: {"+sriov+"}}]\n"), 0o600),
		os.WriteFile(script, []byte(text), 0o600))
	t.Setenv("XDG_RUNTIME_DIR", dir)
	s := testenv.Space(t, link.Quiet)
	nic := exec.CommandContext(t.Context(), tapir, "nic", "-c", config)
	nic.Stderr = os.Stderr
	out, err := nic.StdoutPipe()
	testenv.Must(t, err, s.NS.Start(nic))
	defer func() {
		testenv.Must(t, nic.Process.Signal(os.Interrupt), nic.Wait())
	}()
	_, err = out.Read(make([]byte, 1)) // the line that says that it is ready
	testenv.Must(t, err)
	got, err := testenv.Run(t, s.NS, append(append([]string{tapir, "run", "--nic", "pf"}, options...), "--", "sh", script, "eth1")...)
	if err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	return got
}

// Calls of ip link about VFs under tapir run: text, JSON, messages and exit codes are those
// of netdevsim.
func TestCalls(t *testing.T) {
	want, err := os.ReadFile(recording)
	testenv.Must(t, err)
	differ(t, program(t, "totalvfs: 8", calls), string(want))
}

// A PF has the files of its PCI device, by which programs make VFs and find them: with the
// errors of Linux, by each way to the supervisor.
func TestFiles(t *testing.T) {
	const text = `d=/sys/class/net/$1/device
cat $d/sriov_totalvfs $d/sriov_numvfs $d/vendor
say() { python3 -c '
import os, sys
try: os.write(os.open(sys.argv[1], os.O_WRONLY), sys.argv[2].encode())
except OSError as e: print(e.strerror)' $d/sriov_numvfs "$@"; }
say 9; say no; echo 3 >$d/sriov_numvfs && say 2; say 3
(echo 4 >$d/sriov_numvfs) 2>/dev/null || echo refused
cat $d/sriov_numvfs $d/virtfn2/physfn/sriov_numvfs
readlink $d/virtfn0 $d/virtfn2; readlink $d/virtfn3 || echo no VF 3
ls -d $d/virtfn* | wc -l; ls $d/virtfn1/net /sys/bus/pci/devices/$(basename $(readlink $d/virtfn2))/net $d/net
ip link set dev pfv1 name net1; ip link set dev net1 netns /proc/self/ns/net && echo moved
until [ "$(ls $d/virtfn1/net)" = net1 ]; do sleep 0.05; done
tapir=$(readlink /proc/$PPID/exe); tapir vf numvfs pf 0 2>/dev/null || $tapir vf numvfs pf 0
cat $d/sriov_numvfs; ls -d $d/virtfn0 2>/dev/null || echo no VF
`
	const want = `8
0
0x1077
Numerical result out of range
Invalid argument
Device or resource busy
refused
3
3
../7470:01:02.0
../7470:01:02.2
no VF 3
3
/sys/bus/pci/devices/7470:01:02.2/net:
pfv2

/sys/class/net/eth1/device/net:
eth1

/sys/class/net/eth1/device/virtfn1/net:
pfv1
moved
0
no VF
`
	for _, via := range []string{"trap", "preload"} {
		t.Run(via, func(t *testing.T) { differ(t, program(t, "totalvfs: 8", text, "--via", via), want) })
	}
}

// devlink shows the ports of PF and VFs, and sets the address of a VF, with Linux's
// explanations of what it refuses.
func TestDevlink(t *testing.T) {
	const text = `devlink dev show; devlink port show
p=pci/7470:01:00.0
devlink port function set $p/2 hw_addr 02:00:00:00:00:77 && ip link show $1 | grep 'vf 1'
devlink -j port show $p/2
for wrong in "$p/2 hw_addr 01:00:00:00:00:77" "$p/3 hw_addr 02:00:00:00:00:78" "$p/0 hw_addr 02:00:00:00:00:79" \
	"pci/0000:00:00.0/0 hw_addr 02:00:00:00:00:79" "$p/1 state active"; do
	devlink port function set $wrong 2>&1; echo rc $?
done
`
	const want = `pci/7470:01:00.0
pci/7470:01:00.0/0: type eth netdev eth1 flavour physical port 0 splittable false
pci/7470:01:00.0/1: type eth flavour pcivf controller 0 pfnum 0 vfnum 0 external false splittable false
  function:
    hw_addr 02:00:00:00:00:09
pci/7470:01:00.0/2: type eth flavour pcivf controller 0 pfnum 0 vfnum 1 external false splittable false
  function:
    hw_addr 00:00:00:00:00:00
    vf 1     link/ether 02:00:00:00:00:77 brd ff:ff:ff:ff:ff:ff, spoof checking off, link-state auto, trust off, query_rss off
{"port":{"pci/7470:01:00.0/2":{"type":"eth","flavour":"pcivf","controller":0,"pfnum":0,"vfnum":1,"external":false,"splittable":false,"function":{"hw_addr":"02:00:00:00:00:77"}}}}
Error: Non-unicast hardware address unsupported.
kernel answers: Invalid argument
rc 1
kernel answers: No such device
rc 1
Error: Function does not support hw_addr setting.
kernel answers: Operation not supported
rc 1
kernel answers: No such device
rc 1
Error: Function does not support state setting.
kernel answers: Operation not supported
rc 1
`
	differ(t, program(t, "numvfs: 2, vfs: [{mac: '02:00:00:00:00:09'}]", text), want)
}

// The counters of each VF are the same in ip -s, in ethtool -S of the PF and of the VF, and in
// metrics.
func TestStatistics(t *testing.T) {
	const text = `t=$(readlink /proc/$PPID/exe)
python3 -c '
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("pfv0", 0))
for i in range(7): s.send(b"\377" * 6 + bytes.fromhex("02000000000688b5") + bytes(46))'
of() { $t ethtool -S $1 | sed -n "s/^ *$2: //p"; }
until [ "$(of pfv1 rx_packets)" -ge 7 ]; do sleep 0.01; done
n=$(of pfv1 rx_packets); [ "$(of eth1 vf1_rx_packets)" = "$n" ] && echo PF
[ "$(ip -s -j link show eth1 | sed 's/.*"vf":1,.*"stats":{"rx":{"bytes":[0-9]*,"packets":\([0-9]*\).*/\1/')" = "$n" ] && echo ip
python3 - $XDG_RUNTIME_DIR/tapir/pf.sock <<'P' | grep "^tapir_nic_vf_rx_packets_total{nic=\"pf\",vf=\"1\"} $n$" >/dev/null && echo metrics
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.send(b"GET /metrics HTTP/1.0\r\n\r\n")
print(b"".join(iter(lambda: s.recv(65536), b"")).decode())
P
$t ethtool -k pfv1 2>&1; [ $? = 1 ]
`
	const want = `PF
ip
metrics
tapir: pfv1 is a virtual function of pf: of those there is -S, and tapir vf show pf
`
	differ(t, program(t, "vfs: [{mac: '02:00:00:00:00:06'}, {}]", text), want)
}

// guest is what guests boot.
func guest(t *testing.T, ctx context.Context) peer.Image {
	t.Helper()
	testenv.Must(t, peer.Available())
	image, err := peer.Build(ctx, peer.CacheDir(), os.Stderr)
	testenv.Must(t, err)
	return image
}

// A QEMU guest has a VF by macvtap, as docs/howto/vf.md says, and answers.
func TestQEMU(t *testing.T) {
	if !*interop {
		t.Skip("`make interop` runs it: a guest takes its time")
	}
	image := guest(t, t.Context())
	file := func(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }
	text := fmt.Sprintf(`ip link add link pfv1 name guest1 type macvtap mode passthru
ip link set pfv1 up
ip link set guest1 up
timeout 300 qemu-system-x86_64 -nodefaults -display none -m 512 -no-reboot -kernel %s -initrd %s \
	-append "quiet peer.ip=10.0.0.30/24 peer.life=280" -netdev tap,id=n0,fd=3 \
	-device virtio-net-pci,netdev=n0,mac=$(ip -br link show guest1 | awk '{print $3}') \
	3<>/dev/tap$(ip -o link show guest1 | cut -d: -f1) 2>/dev/null &
for i in $(seq 280); do ping -c 1 -W 1 10.0.0.30 >/dev/null && break; done
ping -q -c 5 -i 0.1 -W 5 10.0.0.30 | grep -o "[0-9]* received"
ip neigh show 10.0.0.30 | grep -o "lladdr [0-9a-f:]*"
kill %%1; wait
`, file(image.Kernel), file(image.Initrd))
	differ(t, program(t, "vfs: [{}, {mac: '02:00:00:00:00:11'}]", text), "5 received\nlladdr 02:00:00:00:00:11\n")
}

// The recording is what netdevsim of Debian's kernel says now.
func TestNetdevsim(t *testing.T) {
	if !*interop && !*record {
		t.Skip("`make interop` runs it: a guest takes its time")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	image := guest(t, ctx)
	s := testenv.Space(t, link.Quiet)
	testenv.Must(t, s.Net.AddBridge("br0"))
	g, err := peer.Start(ctx, image, peer.Config{NS: s.NS, Bridge: "br0", IP: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}})
	testenv.Must(t, err)
	defer g.Stop()
	var out bytes.Buffer
	code, err := g.Run(ctx, time.Minute, `modprobe -a psample udp_tunnel && insmod /lib/netdevsim.ko &&
echo "1 1 4" >/sys/bus/netdevsim/new_device && cat >/tmp/calls.sh <<'END' && sh /tmp/calls.sh eth1
`+calls+"END\n", &out)
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, out.String())
	}
	if *record {
		testenv.Must(t, os.WriteFile(recording, out.Bytes(), 0o644))
		return
	}
	want, err := os.ReadFile(recording)
	testenv.Must(t, err)
	differ(t, out.String(), string(want))
}
