package tap

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// explain turns what the kernel answered to Open into one line with a remedy.
func explain(name string, err error) error {
	what := "TAP " + name
	if name == "" {
		what = "new TAP"
		name = "tap0"
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("%s: %w", what, ErrNoDriver)
	case errors.Is(err, unix.EBUSY):
		if pid := Holder(name); pid != "" {
			return fmt.Errorf("%s is held by another process (pid %s): stop it or choose another name: %w", what, pid,
				unix.EBUSY)
		}
		return fmt.Errorf("%s is held by another process: stop it or choose another name: %w", what, unix.EBUSY)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%s: an interface of that name exists and is not a TAP: choose another name: %w", what,
			unix.EINVAL)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: /dev/net/tun cannot be opened: as root run `chmod 666 /dev/net/tun`: %w", what,
			unix.EACCES)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: CAP_NET_ADMIN is missing: as root run `ip tuntap add dev %s mode tap user %s` "+
			"or `setcap cap_net_admin+ep %s`: %w", what, name, user(), self(), unix.EPERM)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func user() string {
	if u := os.Getenv("USER"); u != "" {
		return u
	}
	return fmt.Sprint(os.Getuid())
}

func self() string {
	if exe, err := os.Executable(); err == nil {
		return exe
	}
	return os.Args[0]
}

// Holder is the pid of the process that has a queue of the TAP name open, or
// empty if it cannot be told. TAPs of other network namespaces may share the
// name, so of several holders only one in our own namespace counts.
func Holder(name string) string {
	var holders []string
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != "/dev/net/tun" {
			continue
		}
		pid := strings.Split(link, "/")[2]
		if tapOf(filepath.Join("/proc", pid, "fdinfo", filepath.Base(link))) == name {
			holders = append(holders, pid)
		}
	}
	if len(holders) == 1 {
		return holders[0]
	}
	ours, _ := os.Readlink("/proc/thread-self/ns/net")
	for _, pid := range holders {
		if ns, err := os.Readlink("/proc/" + pid + "/ns/net"); err == nil && ns == ours {
			return pid
		}
	}
	return ""
}

// tapOf reads the interface's name from a tun descriptor's fdinfo.
func tapOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, ok := strings.CutPrefix(s.Text(), "iff:"); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}
