package ipc

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrDenied says that process_vm_readv(2) is forbidden: /proc/PID/mem may serve.
var ErrDenied = errors.New("access to the memory is denied")

// Move copies p from address addr of a process, of which pid may be any thread,
// or there if write is set. It waits for pages that another process provides.
// Errors: EFAULT, ErrDenied.
func Move(pid int, addr uint64, p []byte, write bool) error {
	if len(p) == 0 {
		return nil
	}
	local := [1]unix.Iovec{{Base: &p[0], Len: uint64(len(p))}}
	remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
	move := unix.ProcessVMReadv
	if write {
		move = unix.ProcessVMWritev
	}
	switch n, err := move(pid, local[:], remote[:], 0); {
	case err == unix.EPERM, err == unix.ENOSYS:
		return ErrDenied
	case err != nil, n != len(p):
		return unix.EFAULT
	}
	return nil
}
