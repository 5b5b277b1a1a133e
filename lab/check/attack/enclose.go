package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/host/netns"
)

// insideEnv marks the process that works inside the namespaces.
const insideEnv = "ATTACK_INSIDE"

// cgroupEnv names the control group, made outside, for the row that limits memory.
const cgroupEnv = "ATTACK_CGROUP"

// enclose runs this program again with args inside network, mount and PID
// namespaces of its own, and returns when it has ended. With the first process of
// the PID namespace everything in them ends.
func enclose(ctx context.Context, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		return err
	}
	defer removeSoon(dir) // a mount point that is empty outside of the namespace
	cmd := exec.CommandContext(ctx, self, append([]string{"init", dir}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	if group := makeGroup(filepath.Base(dir)); group != "" {
		cmd.Env = append(cmd.Env, cgroupEnv+"="+group)
		defer removeSoon(group)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if !netns.Privileged() {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err = cmd.Start(); err != nil {
		return fmt.Errorf("make namespaces: %w: run as root, or see: tapir doctor", err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errExit
	}
	return err
}

// makeGroup makes a control group whose memory can be limited, of either version
// (cgroups(7)); empty: it cannot be.
func makeGroup(name string) string {
	for _, top := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		group := filepath.Join(top, name)
		if _, err := os.Stat(filepath.Join(top, "cgroup.procs")); err != nil || os.Mkdir(group, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(groupFile(group)); err == nil {
			return group
		}
		_ = os.Remove(group)
	}
	return ""
}

// groupFile is the limit of a control group's memory.
func groupFile(group string) string {
	if v1 := filepath.Join(group, "memory.limit_in_bytes"); filepath.Base(filepath.Dir(group)) == "memory" {
		return v1
	}
	return filepath.Join(group, "memory.max")
}

// removeSoon removes an empty directory, or a control group, which processes that
// were killed may still use.
func removeSoon(dir string) {
	for deadline := time.Now().Add(settles); os.Remove(dir) != nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
}

// initRole is the first process of the PID namespace: it mounts /proc, and memory
// in place of the directory for sockets and files, starts the rest, and reaps.
func initRole(args []string) error {
	dir := args[0]
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"tmpfs", dir, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "size=512m,mode=700"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range []string{"TMPDIR", "XDG_RUNTIME_DIR", "HOME"} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o700),
			os.Setenv(name, filepath.Join(dir, name))); err != nil {
			return err
		}
	}
	p, err := os.StartProcess(self, append([]string{self}, args[1:]...), &os.ProcAttr{Files: []*os.File{nil, os.Stdout,
		os.Stderr}})
	if err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, 0, nil); {
		case err == unix.EINTR:
		case err != nil:
			return err
		case pid == p.Pid && status.ExitStatus() != 0:
			return exitError(max(1, status.ExitStatus()))
		case pid == p.Pid:
			return nil
		}
	}
}

// processes are the others in the PID namespace, but for its first one: their
// numbers and command lines.
func processes() map[int]string {
	list := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && len(line) > 0 { // else it has ended
			list[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return list
}

// settles is how long what has been killed may take until it is gone.
const settles = 15 * time.Second

// strangers waits until this process is alone, kills what stays, and names it.
func strangers() (names []string) {
	var list map[int]string
	for deadline := time.Now().Add(settles); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if list = processes(); len(list) == 0 {
			return nil
		}
	}
	for pid, name := range list {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
