package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func ok(name, found string) Check { return Check{Name: name, State: OK, Found: found} }

// when is c if something is so, else none. cmp.Or of several is the first that
// applies.
func when(is bool, c Check) Check {
	if !is {
		return Check{}
	}
	return c
}

// Kernel releases: TAPs and user namespaces work as needed from 4.0 on; a
// supervisor of system calls needs SECCOMP_IOCTL_NOTIF_ADDFD of 5.9.
const (
	oldestMajor              = 4
	notifyMajor, notifyMinor = 5, 9
)

func (m *machine) kernel() Check {
	var major, minor int
	if _, err := fmt.Sscanf(m.release, "%d.%d", &major, &minor); err != nil {
		return Check{"kernel", Warn, fmt.Sprintf("release %q is not understood", m.release), m.newKernel()}
	}
	return cmp.Or(
		when(major < oldestMajor, Check{"kernel", Fail, m.release + ": older than 4.0", m.newKernel()}),
		when(major < notifyMajor || major == notifyMajor && minor < notifyMinor,
			Check{"kernel", Warn, m.release + ": NICs work; tapir run needs 5.9", m.newKernel()}),
		ok("kernel", m.release))
}

func (m *machine) tun() Check {
	const name, node = "tun", "/dev/net/tun"
	err := m.tunErr
	return cmp.Or(
		when(err == nil, ok(name, node+" opens")),
		when(is(err, syscall.ENOENT, syscall.ENOTDIR), Check{name, Fail, node + " does not exist", m.makeTUN()}),
		when(is(err, syscall.ENXIO, syscall.ENODEV),
			Check{name, Fail, node + " is there but its driver is not", m.loadTUN()}),
		when(is(err, syscall.EACCES),
			Check{name, Fail, node + m.mode("dev/net/tun") + " may not be opened by this user", m.openToAll()}),
		when(is(err, syscall.EPERM),
			Check{name, Fail, node + " is kept from this process by a device rule", m.ruleTUN()}),
		Check{name, Fail, fmt.Sprintf("%s: %v", node, err), m.loadTUN()})
}

// mode describes the permission bits of a node, if they can be seen.
func (m *machine) mode(name string) string {
	info, err := fs.Stat(m.FS, name)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (mode %04o)", info.Mode().Perm())
}

func (m *machine) tap() Check {
	const name = "tap"
	if m.tunErr != nil {
		return Check{name, Fail, "not without /dev/net/tun", m.tun().Remedy}
	}
	if m.can(capNetAdmin) {
		err := m.TryHere()
		return cmp.Or(when(err == nil, ok(name, "made and removed one here (CAP_NET_ADMIN)")),
			Check{name, Fail, fmt.Sprintf("with CAP_NET_ADMIN, but: %v", err), m.ownTAP()})
	}
	t := m.trial
	return cmp.Or(
		when(t.Start != nil || t.Net != nil,
			Check{name, Fail, "no CAP_NET_ADMIN here, and no user namespace to have it in", m.ownTAP()}),
		when(t.TAP != nil, Check{name, Fail, fmt.Sprintf("in a user namespace: %v", t.TAP), m.ownTAP()}),
		ok(name, "made and removed one in a user namespace"))
}

func (m *machine) userNamespaces() Check {
	const name = "user namespaces"
	err := cmp.Or(m.trial.Start, m.trial.Net)
	if err == nil {
		return ok(name, "made one, with a network namespace in it")
	}
	why, remedy := m.whyNoUserNS(err)
	c := Check{name, Fail, why, remedy}
	switch {
	case m.can(capNetAdmin) && m.can(capSysAdmin):
		c.State, c.Found = Info, "not needed by this user; "+why
	case m.can(capNetAdmin):
		c.State, c.Found = Warn, "NICs work, the demo's namespaces do not: "+why
	}
	return c
}

func (m *machine) whyNoUserNS(err error) (why, remedy string) {
	limit, _ := m.read("proc/sys/user/max_user_namespaces")
	clone, _ := m.read("proc/sys/kernel/unprivileged_userns_clone")
	armor, _ := m.read("proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	switch {
	case m.container != "" && is(err, syscall.ENOSPC):
		return "the limit on user namespaces in this container is reached", m.allowUserNS()
	case limit == "0" || is(err, syscall.ENOSPC):
		return "the limit user.max_user_namespaces is " + limit, m.onHost("sysctl -w user.max_user_namespaces=15000")
	case clone == "0":
		return "kernel.unprivileged_userns_clone is 0", m.onHost("sysctl -w kernel.unprivileged_userns_clone=1")
	case armor == "1" && m.container == "":
		return "AppArmor keeps them from ordinary programs (Ubuntu 23.10 and later)",
			m.onHost("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
	case m.container != "":
		return fmt.Sprintf("the container refuses them: %v", bare(err)), m.allowUserNS()
	}
	return fmt.Sprintf("refused: %v", bare(err)), "sudo tapir demo"
}

// bare is the error number under err, without the path that was being run.
func bare(err error) error {
	var n syscall.Errno
	if errors.As(err, &n) {
		return n
	}
	return err
}

func (m *machine) seccomp() Check {
	const name = "seccomp notify"
	actions, found := m.read("proc/sys/kernel/seccomp/actions_avail")
	if c := cmp.Or(
		when(!found, Check{name, Warn,
			"this kernel does not list its seccomp actions; tapir run needs user_notif, or --via preload",
			m.newKernel()}),
		when(!slices.Contains(strings.Fields(actions), "user_notif"),
			Check{name, Warn, "this kernel has no user_notif; tapir run needs it, or --via preload", m.newKernel()}),
	); c != (Check{}) {
		return c
	}
	err := m.TryRun()
	return cmp.Or(
		when(err == nil, ok(name, "ran a program under a supervisor")),
		when(is(err, syscall.EBUSY),
			Check{name, Warn, "another supervisor already listens to this process tree", preload}),
		when(is(err, syscall.EPERM, syscall.EACCES),
			Check{name, Warn, "a seccomp profile keeps this process from seccomp(2)", m.allowSeccomp()}),
		Check{name, Warn, fmt.Sprintf("a program under a supervisor: %v", bare(err)), preload})
}

// rdmaLibraries looks for the provider of libibverbs that unmodified RDMA
// programs drive a NIC with.
func (m *machine) rdmaLibraries() Check {
	const name, lib = "rdma-core", "librxe-rdmav*.so"
	for _, dir := range []string{"usr/lib/*/libibverbs/", "usr/lib64/libibverbs/", "usr/lib/libibverbs/"} {
		if found, _ := fs.Glob(m.FS, dir+lib); len(found) > 0 { // the pattern is good
			return ok(name, "/"+found[0])
		}
	}
	return Check{name, Warn, "no " + lib + " (RDMA programs under tapir run need it)", m.install(name)}
}

func (m *machine) yama() Check {
	const name = "yama"
	scope, found := m.read("proc/sys/kernel/yama/ptrace_scope")
	what := "ptrace_scope " + scope
	return cmp.Or(
		when(!found, ok(name, "not in this kernel")),
		when(scope == "0" || scope == "1", ok(name, what)),
		when(scope == "3", Check{name, Warn,
			what + ": no process may read another's memory until the next boot; tapir run needs it",
			m.onHost("sh -c 'echo kernel.yama.ptrace_scope=1 >/etc/sysctl.d/99-ptrace.conf && reboot'")}),
		when(m.can(capSysPtrace), ok(name, what+", with CAP_SYS_PTRACE")),
		Check{name, Warn, what + ": tapir run may not read its programs' memory",
			m.onHost("sysctl -w kernel.yama.ptrace_scope=1")})
}

func (m *machine) bridge() Check {
	const name = "bridge netfilter"
	var on []string
	for _, key := range []string{"iptables", "ip6tables", "arptables"} {
		if v, found := m.read("proc/sys/net/bridge/bridge-nf-call-" + key); found && v != "0" {
			on = append(on, key)
		}
	}
	if len(on) == 0 {
		return ok(name, "off")
	}
	set := ""
	for _, key := range on {
		set += " net.bridge.bridge-nf-call-" + key + "=0"
	}
	return Check{name, Info, "bridged frames pass " + strings.Join(on, ", ") +
		" here; matters only to a TAP that joins a bridge of this namespace", m.sudo("sysctl -w" + set)}
}

// pause finds TAPs in Linux bridges, which forward no PAUSE frame.
func (m *machine) pause() Check {
	const name = "PAUSE frames"
	taps, _ := fs.Glob(m.FS, "sys/class/net/*/tun_flags")
	for _, flags := range taps {
		tap := path.Dir(flags)
		if m.exists(tap + "/brport") {
			return Check{name, Info, path.Base(tap) + " is in a Linux bridge, which drops PAUSE and PFC frames: NICs " +
				"behind it lose frames instead", "tapir sw --port TAP --port TAP in place of the bridge, or a cable"}
		}
	}
	return ok(name, "no TAP here is in a Linux bridge, which would drop them")
}

var version = regexp.MustCompile(`\d+(\.\d+)+`)

// tools says what is missed without each.
var tools = map[string]string{
	"ip":      "to add addresses to a TAP by hand",
	"tshark":  "to read captures; the tests need it",
	"tcpdump": "to look at a TAP; the tests need it",
}

func (m *machine) tool(ctx context.Context, name, flag string) Check {
	file, err := m.LookPath(name)
	if err != nil {
		return Check{name, Warn, "not found (" + tools[name] + ")", m.install(name)}
	}
	out, err := m.Output(ctx, file, flag)
	v := version.FindString(out)
	return cmp.Or(
		when(strings.Contains(out, "BusyBox"),
			Check{name, Warn, file + " is BusyBox's and knows no tuntap", m.install(name)}),
		when(err != nil, Check{name, Warn, fmt.Sprintf("%s %s: %v", file, flag, err), m.install(name)}),
		when(v == "", ok(name, file)),
		ok(name, v+" ("+file+")"))
}
