package doctor

import "strings"

// tunFlags are the arguments of docker and podman that a NIC needs.
const tunFlags = "--device /dev/net/tun --cap-add NET_ADMIN IMAGE"

// sudo is the command as this user has to type it.
func (m *machine) sudo(command string) string {
	if m.UID == 0 {
		return command
	}
	return "sudo " + command
}

// onHost is the same for what a container cannot do for itself.
func (m *machine) onHost(command string) string {
	if m.container != "" {
		return "on the container's host: sudo " + command
	}
	return m.sudo(command)
}

func (m *machine) newKernel() string {
	switch {
	case m.wsl && strings.HasPrefix(m.release, "4.4."):
		return "wsl.exe --set-version DISTRIBUTION 2"
	case m.wsl:
		return "wsl.exe --update"
	case m.container != "":
		return "on the container's host: tapir doctor"
	}
	reboot := " && " + m.sudo("reboot")
	switch m.manager {
	case "apt-get":
		return m.sudo("apt-get update") + " && " + m.sudo("apt-get full-upgrade") + reboot
	case "dnf":
		return m.sudo("dnf upgrade --refresh") + reboot
	case "pacman":
		return m.sudo("pacman -Syu") + reboot
	case "apk":
		return m.sudo("apk upgrade --update-cache") + reboot
	}
	return "boot Linux 5.9 or later, with CONFIG_SECCOMP_FILTER=y"
}

// passTUN gives a container the node, and the capability where that is the
// way its maker grants it.
func (m *machine) passTUN() string {
	switch m.container {
	case "docker", "podman":
		return m.container + " run " + tunFlags
	}
	return "start the container with the node bound in, such as: bwrap --dev-bind /dev/net/tun /dev/net/tun"
}

// allowUserNS starts a container that may make user namespaces.
func (m *machine) allowUserNS() string {
	switch m.container {
	case "docker", "podman":
		return m.container + " run --security-opt seccomp=unconfined --security-opt apparmor=unconfined " + tunFlags
	}
	return "start the container without a limit on user namespaces, such as: bwrap without --disable-userns"
}

// preload does without seccomp.
const preload = "tapir run --via preload -- PROGRAM"

// allowSeccomp starts a container that may supervise programs.
func (m *machine) allowSeccomp() string {
	switch m.container {
	case "docker", "podman":
		return m.container + " run --security-opt seccomp=unconfined IMAGE"
	}
	return preload
}

// loadTUN loads the driver.
func (m *machine) loadTUN() string {
	if m.wsl && m.container == "" {
		return "wsl.exe --update"
	}
	return m.onHost("modprobe tun")
}

// makeTUN makes the node appear. With the driver in place only the node is
// missing, as in a chroot.
func (m *machine) makeTUN() string {
	misc, _ := m.read("proc/misc")
	loaded := false
	for line := range strings.Lines(misc) {
		f := strings.Fields(line)
		loaded = loaded || len(f) == 2 && f[1] == "tun"
	}
	switch {
	case m.container != "":
		return m.passTUN()
	case loaded:
		return m.sudo("mkdir -p /dev/net") + " && " + m.sudo("mknod -m 666 /dev/net/tun c 10 200")
	}
	return m.loadTUN()
}

// openToAll lets every user open the node, as udev's own rules do. Making a
// TAP still needs CAP_NET_ADMIN.
func (m *machine) openToAll() string { return m.onHost("chmod 666 /dev/net/tun") }

// ruleTUN lets the process past a device rule.
func (m *machine) ruleTUN() string {
	if m.container != "" {
		return m.passTUN()
	}
	return "systemd-run --pty --same-dir tapir doctor"
}

// ownTAP gets this user a TAP without any further capability.
func (m *machine) ownTAP() string {
	switch {
	case m.container == "docker", m.container == "podman":
		return m.passTUN()
	case m.container != "":
		return m.allowUserNS()
	case m.UID == 0:
		return "systemd-run --pty --same-dir tapir doctor"
	}
	return "sudo ip tuntap add dev tap0 mode tap user " + m.User
}

// packages are the names of the packages that hold a tool.
var packages = map[string]map[string]string{
	"apt-get": {"ip": "iproute2", "tshark": "tshark", "tcpdump": "tcpdump", "rdma-core": "ibverbs-providers"},
	"dnf":     {"ip": "iproute", "tshark": "wireshark-cli", "tcpdump": "tcpdump", "rdma-core": "libibverbs"},
	"pacman":  {"ip": "iproute2", "tshark": "wireshark-cli", "tcpdump": "tcpdump", "rdma-core": "rdma-core"},
	"apk":     {"ip": "iproute2", "tshark": "tshark", "tcpdump": "tcpdump", "rdma-core": "rdma-core"},
}

func (m *machine) install(tool string) string {
	pkg := packages[m.manager][tool]
	switch m.manager {
	case "apt-get":
		return m.sudo("apt-get install -y " + pkg)
	case "dnf":
		return m.sudo("dnf install -y " + pkg)
	case "pacman":
		return m.sudo("pacman -S --needed " + pkg)
	case "apk":
		return m.sudo("apk add " + pkg)
	}
	return "install " + tool + " with this system's package manager"
}
