package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func ok(name, found string) Check { return Check{Name: name, State: OK, Found: found} }

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
	c := Check{Name: "kernel", Found: m.release}
	switch {
	case major < oldestMajor:
		c.State, c.Found, c.Remedy = Fail, m.release+": older than 4.0", m.newKernel()
	case major < notifyMajor || major == notifyMajor && minor < notifyMinor:
		c.State, c.Found, c.Remedy = Warn, m.release+": NICs work; tapir run needs 5.9", m.newKernel()
	default:
		c.State = OK
	}
	return c
}

func (m *machine) tun() Check {
	const name, node = "tun", "/dev/net/tun"
	err := m.tunErr
	switch {
	case err == nil:
		return ok(name, node+" opens")
	case is(err, syscall.ENOENT, syscall.ENOTDIR):
		return Check{name, Fail, node + " does not exist", m.makeTUN()}
	case is(err, syscall.ENXIO, syscall.ENODEV):
		return Check{name, Fail, node + " is there but its driver is not", m.loadTUN()}
	case is(err, syscall.EACCES):
		return Check{name, Fail, node + m.mode("dev/net/tun") + " may not be opened by this user", m.openToAll()}
	case is(err, syscall.EPERM):
		return Check{name, Fail, node + " is kept from this process by a device rule", m.ruleTUN()}
	}
	return Check{name, Fail, fmt.Sprintf("%s: %v", node, err), m.loadTUN()}
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
		if err == nil {
			return ok(name, "made and removed one here (CAP_NET_ADMIN)")
		}
		return Check{name, Fail, fmt.Sprintf("with CAP_NET_ADMIN, but: %v", err), m.ownTAP()}
	}
	switch t := m.trial; {
	case t.Start != nil || t.Net != nil:
		return Check{name, Fail, "no CAP_NET_ADMIN here, and no user namespace to have it in", m.ownTAP()}
	case t.TAP != nil:
		return Check{name, Fail, fmt.Sprintf("in a user namespace: %v", t.TAP), m.ownTAP()}
	}
	return ok(name, "made and removed one in a user namespace")
}

func (m *machine) userNamespaces() Check {
	const name = "user namespaces"
	err := m.trial.Start
	if err == nil {
		err = m.trial.Net
	}
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
	switch {
	case !found:
		return Check{name, Warn,
			"this kernel does not list its seccomp actions; tapir run needs user_notif, or --via preload",
			m.newKernel()}
	case !slices.Contains(strings.Fields(actions), "user_notif"):
		return Check{name, Warn, "this kernel has no user_notif; tapir run needs it, or --via preload", m.newKernel()}
	}
	err := m.TryRun()
	switch {
	case err == nil:
		return ok(name, "ran a program under a supervisor")
	case is(err, syscall.EBUSY):
		return Check{name, Warn, "another supervisor already listens to this process tree", preload}
	case is(err, syscall.EPERM, syscall.EACCES):
		return Check{name, Warn, "a seccomp profile keeps this process from seccomp(2)", m.allowSeccomp()}
	}
	return Check{name, Warn, fmt.Sprintf("a program under a supervisor: %v", bare(err)), preload}
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
	switch {
	case !found:
		return ok(name, "not in this kernel")
	case scope == "0" || scope == "1":
		return ok(name, what)
	case scope == "3":
		return Check{name, Warn,
			what + ": no process may read another's memory until the next boot; tapir run needs it",
			m.onHost("sh -c 'echo kernel.yama.ptrace_scope=1 >/etc/sysctl.d/99-ptrace.conf && reboot'")}
	case m.can(capSysPtrace):
		return ok(name, what+", with CAP_SYS_PTRACE")
	}
	return Check{name, Warn, what + ": tapir run may not read its programs' memory",
		m.onHost("sysctl -w kernel.yama.ptrace_scope=1")}
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

var version = regexp.MustCompile(`\d+(\.\d+)+`)

// tools says what is missed without each.
var tools = map[string]string{
	"ip":      "to add addresses to a TAP by hand",
	"tshark":  "to read captures; the tests need it",
	"tcpdump": "to look at a TAP; the tests need it",
}

func (m *machine) tool(ctx context.Context, name, flag string) Check {
	path, err := m.LookPath(name)
	if err != nil {
		return Check{name, Warn, "not found (" + tools[name] + ")", m.install(name)}
	}
	out, err := m.Output(ctx, path, flag)
	v := version.FindString(out)
	switch {
	case strings.Contains(out, "BusyBox"):
		return Check{name, Warn, path + " is BusyBox's and knows no tuntap", m.install(name)}
	case err != nil:
		return Check{name, Warn, fmt.Sprintf("%s %s: %v", path, flag, err), m.install(name)}
	case v == "":
		return ok(name, path)
	}
	return ok(name, v+" ("+path+")")
}
