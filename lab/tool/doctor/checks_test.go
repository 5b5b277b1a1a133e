package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// world is a machine made up for a test. Its zero-argument form newWorld is
// one where an ordinary user lacks nothing.
type world struct {
	files fstest.MapFS
	tools map[string]string // name -> what it says of its version
	tun   error
	here  error
	trial Trial
	run   error
	wires map[string]error // by kind
	shut  string           // a file that this user may not read and write
	uid   int
}

// rxe is where Debian has the provider of libibverbs.
const rxe = "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"

func newWorld() *world {
	w := &world{uid: 1000, tools: map[string]string{
		"apt-get": "apt 2.6.1",
		"ip":      "ip utility, iproute2-6.1.0, libbpf 1.1.2",
		"tshark":  "Running as user \"root\".\nTShark (Wireshark) 4.0.17 (Git v4.0.17).",
		"tcpdump": "tcpdump version 4.99.3\nlibpcap version 1.10.3",
	}, files: fstest.MapFS{"dev/net/tun": &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o600}}}
	w.set("proc/sys/kernel/osrelease", "6.1.0-18-amd64")
	w.set(rxe, "")
	w.set("sys/class/net/eth0/type", "1")
	w.set("sys/class/net/lo/type", "772")
	w.set("dev/tap7", "")
	w.set("proc/sys/kernel/seccomp/actions_avail", "kill_process errno user_notif allow")
	w.set("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n")
	w.set("proc/self/uid_map", "         0          0 4294967295")
	return w
}

func (w *world) set(name, text string) {
	w.files[name] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644}
}

func (w *world) root() {
	w.uid = 0
	w.set("proc/self/status", "CapEff:\t000001ffffffffff")
}

// only swaps the package manager.
func (w *world) only(manager string) {
	delete(w.tools, "apt-get")
	w.tools[manager] = manager
}

func (w *world) refuse(err error) { w.trial = Trial{Start: err} }

func (w *world) probe() Probe {
	return Probe{
		FS: w.files, UID: w.uid, User: "ann",
		LookPath: func(tool string) (string, error) {
			if _, found := w.tools[tool]; !found {
				return "", errors.New("not found")
			}
			return "/usr/bin/" + tool, nil
		},
		Output: func(_ context.Context, path string, _ ...string) (string, error) {
			out := w.tools[strings.TrimPrefix(path, "/usr/bin/")]
			if out == "broken" {
				return "", errors.New("exit status 127")
			}
			return out, nil
		},
		OpenTUN: func() error { return w.tun },
		TryHere: func() error { return w.here },
		TryUser: func(context.Context) Trial { return w.trial },
		TryRun:  func() error { return w.run },
		TryWire: func(kind string) error { return w.wires[kind] },
		Access: func(path string) error {
			if path == w.shut {
				return syscall.EACCES
			}
			return nil
		},
	}
}

// breaks has a kind of wires fail.
func breaks(kind string, err error) func(*world) {
	return func(w *world) { w.wires = map[string]error{kind: err} }
}

func docker(w *world) {
	w.set(".dockerenv", "")
	w.set("proc/self/mountinfo", "900 800 0:50 / / rw,relatime - overlay overlay rw")
}

func TestRemedies(t *testing.T) {
	const dockerTUN = "docker run --device /dev/net/tun --cap-add NET_ADMIN IMAGE"
	const dockerUser = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined " +
		"--device /dev/net/tun --cap-add NET_ADMIN IMAGE"
	const bwrapTUN = "start the container with the node bound in, such as: bwrap --dev-bind /dev/net/tun /dev/net/tun"
	const bwrapUser = "start the container without a limit on user namespaces, such as: bwrap without --disable-userns"
	const premade = "sudo ip tuntap add dev tap0 mode tap user ann"
	const systemd = "systemd-run --pty --same-dir tapir doctor"
	const noTool = "proc/sys/kernel/seccomp/actions_avail"
	old := func(manager string) func(*world) {
		return func(w *world) { w.set("proc/sys/kernel/osrelease", "5.4.0"); w.only(manager) }
	}
	without := func(tool, manager string) func(*world) {
		return func(w *world) { delete(w.tools, tool); w.only(manager) }
	}
	tests := []struct {
		name   string
		change func(*world)
		check  string
		state  State
		found  string // part of it
		remedy string
	}{
		{"kernel", func(w *world) {}, "kernel", OK, "6.1.0-18-amd64", ""},
		{"kernel at the limit", func(w *world) { w.set("proc/sys/kernel/osrelease", "5.9.0") }, "kernel", OK, "5.9.0", ""},
		{"kernel too old", func(w *world) { w.set("proc/sys/kernel/osrelease", "3.10.0-1160.el7"); w.only("dnf") },
			"kernel", Fail, "older than 4.0", "sudo dnf upgrade --refresh && sudo reboot"},
		{"kernel old apt", old("apt-get"), "kernel", Warn, "tapir run needs 5.9",
			"sudo apt-get update && sudo apt-get full-upgrade && sudo reboot"},
		{"kernel old dnf", old("dnf"), "kernel", Warn, "5.9", "sudo dnf upgrade --refresh && sudo reboot"},
		{"kernel old pacman", old("pacman"), "kernel", Warn, "5.9", "sudo pacman -Syu && sudo reboot"},
		{"kernel old apk", old("apk"), "kernel", Warn, "5.9", "sudo apk upgrade --update-cache && sudo reboot"},
		{"kernel old elsewhere", old("nix"), "kernel", Warn, "5.9", "boot Linux 5.9 or later, with CONFIG_SECCOMP_FILTER=y"},
		{"kernel old in docker", func(w *world) { old("apt-get")(w); docker(w) }, "kernel", Warn, "5.9",
			"on the container's host: tapir doctor"},
		{"kernel unknown", func(w *world) { w.set("proc/sys/kernel/osrelease", "Tux") }, "kernel", Warn,
			`"Tux" is not understood`, "sudo apt-get update && sudo apt-get full-upgrade && sudo reboot"},
		{"WSL1", func(w *world) { w.set("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft") }, "kernel", Warn, "5.9",
			"wsl.exe --set-version DISTRIBUTION 2"},
		{"WSL2 old", func(w *world) { w.set("proc/sys/kernel/osrelease", "4.19.104-microsoft-standard") }, "kernel", Warn,
			"5.9", "wsl.exe --update"},

		{"tun", func(w *world) {}, "tun", OK, "opens", ""},
		{"tun absent", func(w *world) { w.tun = syscall.ENOENT }, "tun", Fail, "does not exist", "sudo modprobe tun"},
		{"tun absent for root", func(w *world) { w.tun = syscall.ENOENT; w.root() }, "tun", Fail, "does not exist",
			"modprobe tun"},
		{"tun without node", func(w *world) { w.tun = syscall.ENOENT; w.set("proc/misc", "200 tun\n229 fuse") }, "tun",
			Fail, "does not exist", "sudo mkdir -p /dev/net && sudo mknod -m 666 /dev/net/tun c 10 200"},
		{"tun absent in docker", func(w *world) { w.tun = syscall.ENOENT; docker(w) }, "tun", Fail, "does not exist",
			dockerTUN},
		{"tun absent in podman", func(w *world) { w.tun = syscall.ENOENT; w.set("run/.containerenv", "") }, "tun", Fail,
			"does not exist", strings.Replace(dockerTUN, "docker", "podman", 1)},
		{"tun absent in bwrap", func(w *world) { w.tun = syscall.ENOENT; w.set("proc/self/uid_map", "1001 0 1") }, "tun",
			Fail, "does not exist", bwrapTUN},
		{"tun absent in nspawn", func(w *world) {
			w.tun = syscall.ENOENT
			w.set("run/systemd/container",
				"systemd-nspawn")
		}, "tun", Fail, "does not exist", bwrapTUN},
		{"tun absent, image made from docker", func(w *world) {
			w.tun = syscall.ENOENT
			w.set(".dockerenv", "")
			w.set("proc/self/mountinfo", "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw")
		}, "tun", Fail, "does not exist", "sudo modprobe tun"},
		{"tun absent on WSL", func(w *world) {
			w.tun = syscall.ENOENT
			w.set("proc/sys/kernel/osrelease",
				"5.15.90-microsoft")
		}, "tun", Fail, "does not exist", "wsl.exe --update"},
		{"tun driver", func(w *world) { w.tun = syscall.ENODEV }, "tun", Fail, "driver is not", "sudo modprobe tun"},
		{"tun driver in docker", func(w *world) { w.tun = syscall.ENXIO; docker(w) }, "tun", Fail, "driver is not",
			"on the container's host: sudo modprobe tun"},
		{"tun mode", func(w *world) { w.tun = syscall.EACCES }, "tun", Fail, "(mode 0600) may not be opened",
			"sudo chmod 666 /dev/net/tun"},
		{"tun mode, node out of sight", func(w *world) { w.tun = syscall.EACCES; delete(w.files, "dev/net/tun") }, "tun",
			Fail, "/dev/net/tun may not be opened", "sudo chmod 666 /dev/net/tun"},
		{"tun mode in docker", func(w *world) { w.tun = syscall.EACCES; docker(w) }, "tun", Fail, "may not be opened",
			"on the container's host: sudo chmod 666 /dev/net/tun"},
		{"tun device rule in docker", func(w *world) { w.tun = syscall.EPERM; docker(w) }, "tun", Fail, "device rule",
			dockerTUN},
		{"tun device rule", func(w *world) { w.tun = syscall.EPERM }, "tun", Fail, "device rule", systemd},
		{"tun otherwise", func(w *world) { w.tun = syscall.EIO }, "tun", Fail, "input/output error", "sudo modprobe tun"},

		{"tap as user", func(w *world) {}, "tap", OK, "in a user namespace", ""},
		{"tap as root", func(w *world) { w.root() }, "tap", OK, "CAP_NET_ADMIN", ""},
		{"tap without tun", func(w *world) { w.tun = syscall.EACCES }, "tap", Fail, "not without",
			"sudo chmod 666 /dev/net/tun"},
		{"tap without user namespace", func(w *world) { w.refuse(syscall.EPERM) }, "tap", Fail, "no CAP_NET_ADMIN", premade},
		{"tap refused in it", func(w *world) { w.trial.TAP = syscall.EPERM }, "tap", Fail,
			"in a user namespace: operation not permitted", premade},
		{"tap refused to root", func(w *world) { w.root(); w.here = syscall.EPERM }, "tap", Fail,
			"with CAP_NET_ADMIN, but: operation not permitted", systemd},
		{"tap in docker", func(w *world) { docker(w); w.uid = 0; w.refuse(syscall.EPERM) }, "tap", Fail,
			"no CAP_NET_ADMIN", dockerTUN},
		{"tap in bwrap", func(w *world) { w.set("proc/self/uid_map", "1001 0 1"); w.refuse(syscall.ENOSPC) }, "tap", Fail,
			"no CAP_NET_ADMIN", bwrapUser},
		{"tap, root without power", func(w *world) { w.uid = 0; w.refuse(syscall.EPERM) }, "tap", Fail,
			"no CAP_NET_ADMIN", systemd},

		{"wire shm", func(w *world) {}, "wire shm", OK, "two ends met in shared memory; needs no right", ""},
		{"wire stream", func(w *world) {}, "wire stream", OK, "Unix socket; needs no right", ""},
		{"wire udp", func(w *world) {}, "wire udp", OK, "needs no right", ""},
		{"wire udp, no lo", breaks("udp", syscall.EADDRNOTAVAIL), "wire udp", Warn, "loopback interface is down",
			"sudo ip link set lo up"},
		{"wire vxlan", func(w *world) {}, "wire vxlan", OK, "UDP port 4789", ""},
		{"wire vxlan, port taken", breaks("vxlan", syscall.EADDRINUSE), "wire vxlan", Warn, "UDP port 4789 is taken",
			vxlanPort},
		{"wire shm, refused", breaks("shm", syscall.EPERM), "wire shm", Warn, "a security profile", systemd},
		{"wire shm, refused in docker", func(w *world) { docker(w); breaks("shm", syscall.EPERM)(w) }, "wire shm", Warn,
			"a security profile", "docker run --security-opt seccomp=unconfined IMAGE"},
		{"wire shm, old kernel", breaks("shm", syscall.ENOSYS), "wire shm", Warn, syscall.ENOSYS.Error(),
			"sudo apt-get update && sudo apt-get full-upgrade && sudo reboot"},
		{"wire dev", func(w *world) {}, "wire dev", OK, "packet socket (CAP_NET_RAW): dev:eth0", ""},
		{"wire dev, many", func(w *world) {
			for i := range 6 {
				w.set(fmt.Sprintf("sys/class/net/eth%d/type", i), "1")
			}
		}, "wire dev", OK, "dev:eth0, dev:eth1, dev:eth2, dev:eth3, and 2 more", ""},
		{"wire dev, no right", breaks("dev", syscall.EPERM), "wire dev", Info, "needs CAP_NET_RAW",
			"sudo setcap cap_net_raw+ep $(command -v tapir)"},
		{"wire dev, no right in docker", func(w *world) { docker(w); breaks("dev", syscall.EPERM)(w) }, "wire dev", Info,
			"needs CAP_NET_RAW", "docker run --cap-add NET_RAW IMAGE"},
		{"wire dev, no interface", func(w *world) { delete(w.files, "sys/class/net/eth0/type") }, "wire dev", Info,
			"Ethernet interface is not", "sudo ip link add eth1 type veth peer name eth2"},
		{"wire dev, no packet sockets", breaks("dev", syscall.EAFNOSUPPORT), "wire dev", Info, "no packet sockets",
			"sudo modprobe af_packet"},
		{"wire dev, otherwise", breaks("dev", syscall.ENOMEM), "wire dev", Info, "cannot allocate",
			"sudo setcap cap_net_raw+ep $(command -v tapir)"},
		{"wire tapdev", func(w *world) {}, "wire tapdev", OK, "tapdev:/dev/tap7", ""},
		{"wire tapdev, shut", func(w *world) { w.shut = "/dev/tap7" }, "wire tapdev", Info, "/dev/tap7 may not be opened",
			"sudo chown ann /dev/tap7"},
		{"wire tapdev, none", func(w *world) { delete(w.files, "dev/tap7") }, "wire tapdev", Info, "no macvtap",
			"sudo ip link add link eth1 name mv0 type macvtap mode bridge"},

		{"userns", func(w *world) {}, "user namespaces", OK, "made one", ""},
		{"userns limit 0", func(w *world) {
			w.refuse(syscall.ENOSPC)
			w.set("proc/sys/user/max_user_namespaces", "0")
		}, "user namespaces", Fail, "limit user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"userns limit used up", func(w *world) {
			w.refuse(syscall.ENOSPC)
			w.set("proc/sys/user/max_user_namespaces", "7")
		}, "user namespaces", Fail, "is 7", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"userns Debian", func(w *world) {
			w.refuse(syscall.EPERM)
			w.set("proc/sys/kernel/unprivileged_userns_clone", "0")
		}, "user namespaces", Fail, "unprivileged_userns_clone is 0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"userns Ubuntu", func(w *world) {
			w.trial = Trial{Net: syscall.EPERM, TAP: syscall.EPERM}
			w.set("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")
		}, "user namespaces", Fail, "AppArmor", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"userns Ubuntu with a profile", func(w *world) {
			w.set("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")
		}, "user namespaces", OK, "made one", ""},
		{"userns docker on Ubuntu", func(w *world) {
			w.refuse(syscall.EPERM)
			docker(w)
			w.set("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")
		}, "user namespaces", Fail, "container refuses", dockerUser},
		{"userns bwrap", func(w *world) { w.refuse(syscall.EPERM); w.set("proc/self/uid_map", "0 1001 1") },
			"user namespaces", Fail, "container refuses", bwrapUser},
		{"userns bwrap --disable-userns", func(w *world) {
			w.set("proc/self/uid_map", "1001 0 1")
			w.set("proc/sys/user/max_user_namespaces", "2147483647")
			w.refuse(syscall.ENOSPC)
		}, "user namespaces", Fail, "limit on user namespaces in this container", bwrapUser},
		{"userns not built in", func(w *world) {
			w.refuse(&fs.PathError{Op: "fork/exec", Path: "/proc/self/exe",
				Err: syscall.EINVAL})
		}, "user namespaces", Fail, "refused: invalid argument", "sudo tapir demo"},
		{"userns too slow", func(w *world) { w.refuse(context.DeadlineExceeded) }, "user namespaces", Fail, "deadline",
			"sudo tapir demo"},
		{"userns root", func(w *world) { w.root(); w.refuse(syscall.EPERM) }, "user namespaces", Info, "not needed",
			"sudo tapir demo"},
		{"userns NET_ADMIN only", func(w *world) {
			docker(w)
			w.uid = 0
			w.set("proc/self/status", "CapEff:\t00000000a80435fb")
			w.refuse(syscall.EPERM)
		}, "user namespaces", Warn, "NICs work", dockerUser},

		{"pause", func(w *world) { w.set("sys/class/net/tap0/tun_flags", "0x1002") }, "PAUSE frames", OK, "no TAP", ""},
		{"pause bridged", func(w *world) {
			w.set("sys/class/net/tap0/tun_flags", "0x1002")
			w.set("sys/class/net/tap0/brport/state", "3")
		}, "PAUSE frames", Info, "tap0 is in a Linux bridge", "tapir sw --port TAP --port TAP in place of the bridge, or a cable"},
		{"seccomp", func(w *world) {}, "seccomp notify", OK, "ran a program", ""},
		{"seccomp taken", func(w *world) { w.run = fmt.Errorf("supervise: %w", syscall.EBUSY) }, "seccomp notify", Warn,
			"another supervisor", "tapir run --via preload -- PROGRAM"},
		{"seccomp forbidden", func(w *world) { w.run = syscall.EPERM }, "seccomp notify", Warn, "a seccomp profile",
			"tapir run --via preload -- PROGRAM"},
		{"seccomp forbidden in docker", func(w *world) { docker(w); w.run = syscall.EPERM }, "seccomp notify", Warn,
			"a seccomp profile", "docker run --security-opt seccomp=unconfined IMAGE"},
		{"seccomp fails", func(w *world) { w.run = errors.New("it ended with code 3") }, "seccomp notify", Warn,
			"it ended with code 3", "tapir run --via preload -- PROGRAM"},
		{"seccomp unlisted", func(w *world) { delete(w.files, noTool) }, "seccomp notify", Warn, "does not list",
			"sudo apt-get update && sudo apt-get full-upgrade && sudo reboot"},
		{"seccomp old", func(w *world) { w.set(noTool, "kill trap errno allow") }, "seccomp notify", Warn,
			"no user_notif", "sudo apt-get update && sudo apt-get full-upgrade && sudo reboot"},

		{"yama absent", func(w *world) {}, "yama", OK, "not in this kernel", ""},
		{"yama 1", func(w *world) { w.set("proc/sys/kernel/yama/ptrace_scope", "1") }, "yama", OK, "ptrace_scope 1", ""},
		{"yama 2", func(w *world) { w.set("proc/sys/kernel/yama/ptrace_scope", "2") }, "yama", Warn, "ptrace_scope 2",
			"sudo sysctl -w kernel.yama.ptrace_scope=1"},
		{"yama 2 for root", func(w *world) { w.root(); w.set("proc/sys/kernel/yama/ptrace_scope", "2") }, "yama", OK,
			"CAP_SYS_PTRACE", ""},
		{"yama 2 in docker", func(w *world) { docker(w); w.set("proc/sys/kernel/yama/ptrace_scope", "2") }, "yama", Warn,
			"ptrace_scope 2", "on the container's host: sudo sysctl -w kernel.yama.ptrace_scope=1"},
		{"yama 3", func(w *world) { w.set("proc/sys/kernel/yama/ptrace_scope", "3") }, "yama", Warn,
			"until the next boot", "sudo sh -c 'echo kernel.yama.ptrace_scope=1 >/etc/sysctl.d/99-ptrace.conf && reboot'"},

		{"bridge", func(w *world) {}, "bridge netfilter", OK, "off", ""},
		{"bridge switched off", func(w *world) { w.set("proc/sys/net/bridge/bridge-nf-call-iptables", "0") },
			"bridge netfilter", OK, "off", ""},
		{"bridge on", func(w *world) {
			w.set("proc/sys/net/bridge/bridge-nf-call-iptables", "1")
			w.set("proc/sys/net/bridge/bridge-nf-call-ip6tables", "0")
			w.set("proc/sys/net/bridge/bridge-nf-call-arptables", "1")
		}, "bridge netfilter", Info, "iptables, arptables",
			"sudo sysctl -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-arptables=0"},

		{"ip", func(w *world) {}, "ip", OK, "6.1.0 (/usr/bin/ip)", ""},
		{"ip without number", func(w *world) { w.tools["ip"] = "ip utility, iproute2-ss190107" }, "ip", OK, "/usr/bin/ip",
			""},
		{"ip of BusyBox", func(w *world) { w.tools["ip"] = "BusyBox v1.36.1 multi-call binary."; w.only("apk") }, "ip",
			Warn, "BusyBox", "sudo apk add iproute2"},
		{"ip broken", func(w *world) { w.tools["ip"] = "broken" }, "ip", Warn, "exit status 127",
			"sudo apt-get install -y iproute2"},
		{"rdma-core", func(w *world) {}, "rdma-core", OK, "/" + rxe, ""},
		{"rdma-core elsewhere", func(w *world) {
			delete(w.files, rxe)
			w.set("usr/lib64/libibverbs/librxe-rdmav64.so",
				"")
		}, "rdma-core", OK, "/usr/lib64", ""},
		{"no rdma-core apt", func(w *world) { delete(w.files, rxe) }, "rdma-core", Warn, "no librxe",
			"sudo apt-get install -y ibverbs-providers"},
		{"no rdma-core dnf", func(w *world) { delete(w.files, rxe); w.only("dnf") }, "rdma-core", Warn, "no librxe",
			"sudo dnf install -y libibverbs"},
		{"tshark", func(w *world) {}, "tshark", OK, "4.0.17", ""},
		{"tcpdump", func(w *world) {}, "tcpdump", OK, "4.99.3", ""},
		{"no ip apt", without("ip", "apt-get"), "ip", Warn, "not found", "sudo apt-get install -y iproute2"},
		{"no ip dnf", without("ip", "dnf"), "ip", Warn, "not found", "sudo dnf install -y iproute"},
		{"no ip pacman", without("ip", "pacman"), "ip", Warn, "not found", "sudo pacman -S --needed iproute2"},
		{"no tshark apt", without("tshark", "apt-get"), "tshark", Warn, "not found", "sudo apt-get install -y tshark"},
		{"no tshark dnf", without("tshark", "dnf"), "tshark", Warn, "not found", "sudo dnf install -y wireshark-cli"},
		{"no tshark pacman", without("tshark", "pacman"), "tshark", Warn, "not found",
			"sudo pacman -S --needed wireshark-cli"},
		{"no tshark apk", without("tshark", "apk"), "tshark", Warn, "not found", "sudo apk add tshark"},
		{"no tcpdump as root", func(w *world) { w.root(); without("tcpdump", "apt-get")(w) }, "tcpdump", Warn,
			"not found", "apt-get install -y tcpdump"},
		{"no tcpdump elsewhere", without("tcpdump", "nix"), "tcpdump", Warn, "not found",
			"install tcpdump with this system's package manager"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			for _, c := range w.probe().Run(t.Context()) {
				if (c.State == OK) != (c.Remedy == "") {
					t.Errorf("%s: %s with remedy %q", c.Name, c.State, c.Remedy)
				}
				if c.Name != tt.check {
					continue
				}
				if c.State != tt.state || !strings.Contains(c.Found, tt.found) || c.Remedy != tt.remedy {
					t.Errorf("got  %s %q\n     %q\nwant %s %q\n     %q", c.State, c.Found, c.Remedy, tt.state, tt.found, tt.remedy)
				}
			}
		})
	}
}

func TestHealthy(t *testing.T) {
	for _, c := range newWorld().probe().Run(t.Context()) {
		if c.State != OK {
			t.Errorf("%s is %s: %s", c.Name, c.State, c.Found)
		}
	}
}

func TestParseTrial(t *testing.T) {
	tests := []struct {
		out  string
		want Trial
	}{
		{"trial 0 0\n", Trial{}},
		{"trial 1 1\n", Trial{Net: syscall.EPERM, TAP: syscall.EPERM}},
		{"trial 0 2\n", Trial{TAP: syscall.ENOENT}},
	}
	for _, tt := range tests {
		if got := parseTrial(tt.out); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.out, got, tt.want)
		}
	}
	if got := parseTrial("Usage: tapir\n"); got.Start == nil {
		t.Errorf("another program's answer was taken for the trial's: %v", got)
	}
}

func TestTryUserIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := tryUser(ctx); !errors.Is(got.Start, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", got.Start)
	}
}

func TestFormat(t *testing.T) {
	checks := []Check{
		{Name: "kernel", State: OK, Found: "6.1.0"},
		{Name: "user namespaces", State: Fail, Found: "refused", Remedy: "sudo tapir demo"},
		{Name: "ip", State: Warn, Found: "not found", Remedy: "apk add iproute2"},
	}
	var out bytes.Buffer
	if err := Format(&out, checks); err != nil {
		t.Fatal(err)
	}
	const want = `ok    kernel           6.1.0
fail  user namespaces  refused
                       remedy: sudo tapir demo
warn  ip               not found
                       remedy: apk add iproute2
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	if got := Failing(checks); len(got) != 1 || got[0].Name != "user namespaces" {
		t.Errorf("failing: %v", got)
	}
	text, err := json.Marshal(checks[0])
	if err != nil || string(text) != `{"name":"kernel","state":"ok","found":"6.1.0"}` {
		t.Errorf("%s, %v", text, err)
	}
}
