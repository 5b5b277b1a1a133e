package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// userEnv marks a process that Reexec started, so that it does not go
// further down. It has the user's number outside.
const userEnv = "TAPIR_USER_NAMESPACE"

// Privileged tells whether this process may make network namespaces and the
// links in them: CAP_SYS_ADMIN and CAP_NET_ADMIN.
func Privileged() bool {
	const need = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range bytes.Lines(status) {
		if hex, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			caps, err := strconv.ParseUint(string(bytes.TrimSpace(hex)), 16, 64)
			return err == nil && caps&need == need
		}
	}
	return false
}

// Reexeced tells whether this process is one that Reexec started.
func Reexeced() bool { return os.Getenv(userEnv) != "" }

// UID is the user's number, that outside of the user namespace if Reexec made one.
func UID() int {
	if outside, err := strconv.Atoi(os.Getenv(userEnv)); err == nil {
		return outside
	}
	return os.Getuid()
}

// Reexec runs this program with args again as root of a new user namespace
// and network namespace, with this process's standard streams, and returns
// when it has ended. That is how an ordinary user gets the rights to make
// namespaces and TAPs. The child dies with its parent.
func Reexec(ctx context.Context, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), userEnv+"="+strconv.Itoa(os.Getuid()))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
		Setpgid:     true, // an interrupt from the terminal comes once, through the parent
	}
	if err := cmd.Start(); err != nil {
		return explainUser(err)
	}
	return cmd.Wait()
}

func explainUser(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("make a user namespace: %w: this system does not let ordinary users make one; run as "+
			"root, or see tapir doctor", err)
	}
	return fmt.Errorf("make a user namespace: %w", err)
}
