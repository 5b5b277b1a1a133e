// Package netns makes and enters network namespaces. A namespace is held by
// a file descriptor, never by a name, so that it needs no mount, works
// without root inside a user namespace, and is gone when its holder is.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// NS is a network namespace.
type NS struct{ f *os.File }

const threadNS = "/proc/thread-self/ns/net"

// onThread runs fn on an OS thread of its own. A thread that fn leaves in
// another namespace is not used again.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open(threadNS)
		if err != nil {
			done <- err
			return
		}
		defer home.Close()
		err = fn()
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// New makes a namespace. Its loopback device is down, as the kernel makes it.
func New() (*NS, error) {
	ns := &NS{}
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return explain(err)
		}
		ns.f, err = os.Open(threadNS)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ns, nil
}

func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return errors.New("make a network namespace: not permitted: run as root, or as a user who may make user " +
			"namespaces (tapir doctor tells)")
	case errors.Is(err, unix.ENOSPC):
		return errors.New("make a network namespace: the limit user.max_net_namespaces is reached")
	}
	return fmt.Errorf("make a network namespace: %w", err)
}

// Current returns the namespace of the process.
func Current() (*NS, error) {
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	return &NS{f}, nil
}

// Open returns the namespace that a file stands for, such as
// /run/netns/NAME, which `ip netns add NAME` makes, or /proc/PID/ns/net.
func Open(path string) (*NS, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	ns := &NS{f}
	kind, err := unix.IoctlRetInt(ns.Fd(), unix.NS_GET_NSTYPE)
	if err != nil || kind != unix.CLONE_NEWNET {
		f.Close()
		return nil, fmt.Errorf("%s is no network namespace", path)
	}
	return ns, nil
}

// Path is where `ip netns` keeps the namespace called name, or name itself if it
// is a path.
func Path(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "/run/netns/" + name
}

// Fd is the descriptor that holds the namespace.
func (n *NS) Fd() int { return int(n.f.Fd()) }

// Close lets go of the namespace. The kernel removes it, with every link in
// it, when nothing else uses it.
func (n *NS) Close() error { return n.f.Close() }

// IsCurrent tells whether the calling thread is inside the namespace.
func (n *NS) IsCurrent() bool {
	here, err := os.Stat(threadNS)
	if err != nil {
		return false
	}
	there, err := n.f.Stat()
	return err == nil && os.SameFile(here, there)
}

// Do runs fn on a thread inside the namespace. fn must not start goroutines
// that rely on it. Entering another namespace needs CAP_SYS_ADMIN; where the
// caller is already, nothing.
func (n *NS) Do(fn func() error) error {
	if n.IsCurrent() {
		return fn()
	}
	return onThread(func() error {
		if err := unix.Setns(n.Fd(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return fn()
	})
}

// Start starts cmd inside the namespace.
func (n *NS) Start(cmd *exec.Cmd) error { return n.Do(cmd.Start) }

// Sysctl writes one value below /proc/sys/net of the namespace, such as
// "ipv6/conf/all/disable_ipv6". A kernel without the key is not an error.
func (n *NS) Sysctl(key, value string) error {
	return n.Do(func() error {
		err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
}
