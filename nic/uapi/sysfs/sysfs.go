// Package sysfs shows programs under a supervisor (nic/uapi/trap) the files by
// which a Linux kernel tells of its RDMA devices, so that stock libibverbs and
// librdmacm find those of NICs that the kernel does not know:
//
//	/sys/class/infiniband_verbs, /sys/class/infiniband   devices, ports, GIDs     device.go
//	/sys/class/infiniband/DEVICE/device/net/NAME         its network interface    netdev.go
//	/sys/class/infiniband_mad                            ports with MAD agents    device.go
//	/sys/class/misc/rdma_cm, /dev/infiniband             the devices' names        device.go
//	/sys/module/siw/parameters, /sys/kernel/debug/siw    as the siw driver has     siw.go
//
// Directories and what never changes are real files, in a directory that goes
// with the process; what a NIC must be asked is made when it is opened. Other
// devices, of the machine's kernel, are not seen: where nobody serves RDMA netlink
// (nic/uapi/nldev), it is refused, so that the libraries read these files.
package sysfs

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/trap/mirror"
)

// Tree is a Handler that serves the files.
type Tree struct{ *mirror.Mirror }

const dirPrefix = "tapir-sysfs-"

// New makes an empty tree: no path is shown yet. Close removes it; that of a
// process that was killed is removed by the next one's New.
func New() (*Tree, error) {
	m, err := mirror.Make(dirPrefix)
	if err != nil {
		return nil, err
	}
	return &Tree{m}, nil
}

// Dir makes a directory and those above it.
func (t *Tree) Dir(path string) error { return os.MkdirAll(t.Root()+path, 0o755) }

// File makes a file with this text, and the directories above it.
func (t *Tree) File(path, text string) error {
	if err := t.Dir(filepath.Dir(path)); err != nil {
		return err
	}
	return os.WriteFile(t.Root()+path, []byte(text), 0o444)
}

// Live makes a file that says what text returns then; see mirror.Mirror.Make.
func (t *Tree) Live(path string, text func() (string, error)) error {
	if err := t.File(path, ""); err != nil {
		return err
	}
	t.Make(path, func() ([]byte, error) {
		s, err := text()
		return []byte(s), err
	})
	return nil
}

// Library makes a library that programs find at path. Who loads it before any path is
// shown needs the real one that it returns, empty if the file system of the tree lets
// nothing be executed.
func (t *Tree) Library(path, text string) (real string, err error) {
	if err := t.File(path, text); err != nil {
		return "", err
	}
	t.Make(path, func() ([]byte, error) { return []byte(text), nil })
	t.Show(path)
	var fs unix.Statfs_t
	if err := unix.Statfs(t.Root(), &fs); err != nil || fs.Flags&unix.ST_NOEXEC != 0 {
		return "", err
	}
	return t.Root() + path, nil
}

// Rules implements trap.Handler.
func (t *Tree) Rules() []trap.Rule {
	return append(t.Mirror.Rules(), trap.Rule{Nr: unix.SYS_SOCKET, When: []trap.Cond{
		{Arg: 0, Mask: ^uint32(0), Value: unix.AF_NETLINK}, {Arg: 2, Mask: ^uint32(0), Value: unix.NETLINK_RDMA}}})
}

// Serve implements trap.Handler.
func (t *Tree) Serve(c *trap.Call) trap.Answer {
	if c.Nr() == unix.SYS_SOCKET {
		if c.Int(0) == unix.AF_NETLINK && c.Int(2) == unix.NETLINK_RDMA {
			return trap.Fail(unix.EPROTONOSUPPORT) // as of a kernel without the RDMA subsystem
		}
		return trap.Pass()
	}
	return t.Mirror.Serve(c)
}
