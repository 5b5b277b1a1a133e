package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"tapir/nic/tap"
	"tapir/nic/tap/tunnel"
	"tapir/nic/tap/wires"
)

// localWire is a kind of wires that needs no right.
type localWire struct{ kind, found string }

var localWires = []localWire{
	{"shm", "two ends met in shared memory"},
	{"stream", "two ends met at a Unix socket"},
	{"udp", "opened a socket at the loopback interface"},
	{"vxlan", "opened UDP port 4789 at the loopback interface"},
}

// vxlanPort is another port than 4789, at both ends.
const vxlanPort = "give both ends another port: --wire vxlan:VNI,REMOTE:14789,LOCAL:14789"

func (m *machine) localWire(w localWire) Check {
	name := "wire " + w.kind
	err := m.TryWire(w.kind)
	return cmp.Or(
		when(err == nil, ok(name, w.found+"; needs no right")),
		when(is(err, syscall.EADDRINUSE),
			Check{name, Warn, "UDP port 4789 is taken, as a VXLAN device of the kernel does", vxlanPort}),
		when(is(err, syscall.EADDRNOTAVAIL, syscall.ENETUNREACH),
			Check{name, Warn, "the loopback interface is down; other addresses were not tried",
				m.sudo("ip link set lo up")}),
		when(is(err, syscall.EPERM, syscall.EACCES),
			Check{name, Warn, fmt.Sprintf("a security profile keeps this process from it: %v", bare(err)),
				m.allowSockets()}),
		Check{name, Warn, fmt.Sprint(bare(err)), m.newKernel()})
}

// allowSockets starts a process that may use sockets.
func (m *machine) allowSockets() string {
	if m.container == "docker" || m.container == "podman" {
		return m.container + " run --security-opt seccomp=unconfined IMAGE"
	}
	return "systemd-run --pty --same-dir tapir doctor"
}

// wireDev is a packet socket on an interface.
func (m *machine) wireDev() Check {
	const name = "wire dev"
	err := m.TryWire("dev")
	var list []string
	all, _ := fs.Glob(m.FS, "sys/class/net/*/type")
	for _, file := range all {
		if kind, _ := m.read(file); kind == "1" { // ARPHRD_ETHER
			list = append(list, "dev:"+filepath.Base(filepath.Dir(file)))
		}
	}
	slices.Sort(list)
	const most = 4
	if len(list) > most {
		list = append(list[:most], fmt.Sprintf("and %d more", len(list)-most))
	}
	give := m.sudo("setcap cap_net_raw+ep $(command -v tapir)")
	if m.container == "docker" || m.container == "podman" {
		give = m.container + " run --cap-add NET_RAW IMAGE"
	}
	return cmp.Or(
		when(err == nil && len(list) == 0,
			Check{name, Info, "CAP_NET_RAW is here, an Ethernet interface is not",
				m.sudo("ip link add eth1 type veth peer name eth2")}),
		when(err == nil, ok(name, "opened a packet socket (CAP_NET_RAW): "+strings.Join(list, ", "))),
		when(is(err, syscall.EPERM, syscall.EACCES),
			Check{name, Info, "not for this user: it needs CAP_NET_RAW", give}),
		when(is(err, syscall.EAFNOSUPPORT),
			Check{name, Info, "this kernel has no packet sockets", m.onHost("modprobe af_packet")}),
		Check{name, Info, fmt.Sprintf("packet socket: %v", bare(err)), give})
}

// wireTapdev is the device file of a macvtap interface.
func (m *machine) wireTapdev() Check {
	const name = "wire tapdev"
	taps, _ := fs.Glob(m.FS, "dev/tap[0-9]*")
	var open, shut []string
	for _, file := range taps {
		if m.Access("/"+file) == nil { // to open it would take frames from who has it
			open = append(open, "tapdev:/"+file)
		} else {
			shut = append(shut, "/"+file)
		}
	}
	return cmp.Or(
		when(len(open) > 0, ok(name, strings.Join(open, ", "))),
		when(len(shut) > 0, Check{name, Info, strings.Join(shut, ", ") + " may not be opened by this user",
			m.onHost("chown " + m.User + " " + strings.Join(shut, " "))}),
		Check{name, Info, "no macvtap interface is here",
			m.onHost("ip link add link eth1 name mv0 type macvtap mode bridge")})
}

// tryWire opens a wire of a kind for an instant. Of a wire that stays on this host both ends
// are opened.
func tryWire(kind string) error {
	if kind == "dev" {
		fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			err = syscall.Close(fd)
		}
		return err
	}
	var all []tap.Wire
	var err error
	add := func(w tap.Wire, e error) {
		if err = errors.Join(err, e); e == nil {
			all = append(all, w)
		}
	}
	switch kind {
	case "udp":
		w, err := tunnel.Open(tunnel.Spec{Kind: tunnel.UDP, Local: netip.MustParseAddrPort("127.0.0.1:0"),
			Remote: netip.MustParseAddrPort("127.0.0.1:9")}, false)
		add(w, err)
	case "vxlan":
		add(wires.Open("vxlan:1,127.0.0.1", false))
	default:
		dir, err := os.MkdirTemp("", "tapir-doctor")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		for range 2 {
			add(wires.Open(kind+":"+filepath.Join(dir, "wire"), false))
		}
	}
	for _, w := range all {
		err = errors.Join(err, w.Close())
	}
	return err
}
