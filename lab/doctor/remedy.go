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

func (m *machine) newKernel() string {
	if m.wsl && strings.HasPrefix(m.release, "4.4.") {
		return "wsl.exe --set-version DISTRIBUTION 2"
	}
	if m.wsl {
		return "wsl.exe --update"
	}
	where := ""
	if m.container {
		where = "on the container's host: "
	}
	reboot := " && " + m.sudo("reboot")
	switch m.manager {
	case "apt-get":
		return where + m.sudo("apt-get update") + " && " + m.sudo("apt-get full-upgrade") + reboot
	case "dnf":
		return where + m.sudo("dnf upgrade --refresh") + reboot
	case "pacman":
		return where + m.sudo("pacman -Syu") + reboot
	case "apk":
		return where + m.sudo("apk upgrade --update") + reboot
	}
	return where + "boot Linux 5.9 or later, with CONFIG_SECCOMP_FILTER=y"
}

// passTUN gives a container the node.
func (m *machine) passTUN() string { return "docker run " + tunFlags }

// loadTUN loads the driver.
func (m *machine) loadTUN() string {
	switch {
	case m.container:
		return "on the container's host: sudo modprobe tun"
	case m.wsl:
		return "wsl.exe --update"
	}
	return m.sudo("modprobe tun")
}

// makeTUN makes the node appear. With the driver in place only the node is
// missing, as in a container or a chroot.
func (m *machine) makeTUN() string {
	misc, _ := m.read("proc/misc")
	loaded := false
	for line := range strings.Lines(misc) {
		f := strings.Fields(line)
		loaded = loaded || len(f) == 2 && f[1] == "tun"
	}
	switch {
	case m.container:
		return m.passTUN()
	case loaded:
		return m.sudo("mkdir -p /dev/net") + " && " + m.sudo("mknod -m 666 /dev/net/tun c 10 200")
	}
	return m.loadTUN()
}

// openTUNTo lets every user open the node, as udev's own rules do. Making a
// TAP still needs CAP_NET_ADMIN.
func (m *machine) openTUNTo() string {
	if m.container {
		return "on the container's host: sudo chmod 666 /dev/net/tun"
	}
	return m.sudo("chmod 666 /dev/net/tun")
}

// ownTAP gets this user a TAP without any further capability.
func (m *machine) ownTAP() string {
	if m.container {
		return m.passTUN()
	}
	if m.UID == 0 {
		return "capsh --print # run from a shell that keeps CAP_NET_ADMIN"
	}
	return "sudo ip tuntap add dev tap0 mode tap user " + m.User
}

// packages are the names of the packages that hold a tool.
var packages = map[string]map[string]string{
	"apt-get": {"ip": "iproute2", "tshark": "tshark", "tcpdump": "tcpdump"},
	"dnf":     {"ip": "iproute", "tshark": "wireshark-cli", "tcpdump": "tcpdump"},
	"pacman":  {"ip": "iproute2", "tshark": "wireshark-cli", "tcpdump": "tcpdump"},
	"apk":     {"ip": "iproute2", "tshark": "tshark", "tcpdump": "tcpdump"},
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
