package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Probe is all that the checks see of a machine. Host returns the real one.
type Probe struct {
	FS       fs.FS  // the root directory; /proc, /sys and /dev are read through it
	UID      int    // effective user id
	User     string // login name, for remedies that name a user
	LookPath func(tool string) (string, error)
	Output   func(ctx context.Context, path string, args ...string) (string, error) // stdout and stderr
	OpenTUN  func() error                                                           // opens /dev/net/tun and closes it
	// makes a TAP in this network namespace and removes it
	TryHere func() error
	// the same in new user and network namespaces
	TryUser func(ctx context.Context) Trial
	TryRun  func() error            // runs a program as tapir run does
	TryWire func(kind string) error // opens a wire of a kind
	Access  func(path string) error // whether this user may read and write a file
}

// Trial is what happened in a new user namespace.
type Trial struct {
	Start error // the user namespace could not be made
	Net   error // it was made, but is without power: no network namespace in it
	TAP   error // no TAP could be made in there
}

// Host is the probe of this machine.
func Host() Probe {
	name := "$USER"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return Probe{
		FS:       os.DirFS("/"),
		UID:      os.Geteuid(),
		User:     name,
		LookPath: lookPath,
		Output: func(ctx context.Context, path string, args ...string) (string, error) {
			out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
			return string(out), err
		},
		OpenTUN: func() error {
			fd, err := openTUN()
			if err == nil {
				err = syscall.Close(fd)
			}
			return err
		},
		TryHere: tryTAP,
		TryUser: tryUser,
		TryRun:  tryRun,
		TryWire: tryWire,
		Access:  func(path string) error { return syscall.Access(path, readWrite) },
	}
}

// readWrite is what access(2) is asked.
const readWrite = 4 | 2

// lookPath also looks where an ordinary user's PATH often does not.
func lookPath(tool string) (string, error) {
	path, err := exec.LookPath(tool)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, tool)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// machine is a Probe with what several checks need to know.
type machine struct {
	Probe
	release   string // kernel release, such as 6.1.0-18-amd64
	manager   string // apt-get, dnf, pacman, apk or nothing
	container string // docker, podman, other, or empty outside containers
	wsl       bool
	caps      uint64 // effective capabilities
	tunErr    error
	trial     Trial
}

// Capability numbers of linux/capability.h.
const (
	capNetAdmin  = 12
	capSysPtrace = 19
	capSysAdmin  = 21
)

func (p Probe) survey(ctx context.Context) *machine {
	m := &machine{Probe: p}
	m.release, _ = m.read("proc/sys/kernel/osrelease")
	m.wsl = strings.Contains(strings.ToLower(m.release), "microsoft")
	m.container = m.containerKind()
	for _, name := range []string{"apt-get", "dnf", "pacman", "apk"} {
		if _, err := p.LookPath(name); err == nil {
			m.manager = name
			break
		}
	}
	m.caps = m.capabilities()
	m.tunErr = p.OpenTUN()
	m.trial = p.TryUser(ctx)
	return m
}

// containerKind tells what keeps this process from the host, if anything.
// Disk images made from containers keep /.dockerenv, so it counts only where
// the root is not the whole of a disk. In a user namespace other than the
// first, modules and device nodes cannot be made either.
func (m *machine) containerKind() string {
	switch {
	case m.exists("run/.containerenv"):
		return "podman"
	case m.exists(".dockerenv") && !m.wholeDisk():
		return "docker"
	case m.exists("run/systemd/container"):
		return "other"
	}
	ids, found := m.read("proc/self/uid_map")
	if found && !slices.Equal(strings.Fields(ids), []string{"0", "0", "4294967295"}) {
		return "other"
	}
	return ""
}

// wholeDisk tells whether the root directory is the top of a file system that
// lies on a block device.
func (m *machine) wholeDisk() bool {
	mounts, _ := m.read("proc/self/mountinfo")
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 10 || f[4] != "/" {
			continue
		}
		dash := slices.Index(f, "-")
		return f[3] == "/" && dash > 0 && dash+2 < len(f) && strings.HasPrefix(f[dash+2], "/dev/")
	}
	return false
}

// read returns the trimmed text of a file, and whether it could be read.
func (m *machine) read(name string) (string, bool) {
	b, err := fs.ReadFile(m.FS, name)
	return strings.TrimSpace(string(b)), err == nil
}

func (m *machine) exists(name string) bool {
	_, err := fs.Stat(m.FS, name)
	return err == nil
}

func (m *machine) capabilities() uint64 {
	status, _ := m.read("proc/self/status")
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, _ := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return caps
		}
	}
	return 0
}

func (m *machine) can(capability int) bool { return m.caps>>capability&1 == 1 }

// is tells whether err is one of the error numbers.
func is(err error, numbers ...syscall.Errno) bool {
	for _, n := range numbers {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}
