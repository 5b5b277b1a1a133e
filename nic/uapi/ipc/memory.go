package ipc

import (
	"errors"

	"golang.org/x/sys/unix"
)

// watched is how many octets at the end of what is written a program may watch
// to learn that all is there.
const watched = 64

// BeforeEnd is how many of n octets are written to a program before the end of
// them is.
func BeforeEnd(n int) int { return max(0, n-watched) }

// ErrElsewhere says that the memory must be reached by /proc/PID/mem, opened now.
var ErrElsewhere = errors.New("the memory is to be found elsewhere")

// Move copies p from address addr of a process, of which pid may be any thread,
// or there if write is set. The kernel copies one element behind the other,
// within one as it likes: what is watched is an element of its own. Errors:
// EFAULT, ErrElsewhere.
func Move(pid int, addr uint64, p []byte, write bool) error {
	if len(p) == 0 {
		return nil
	}
	local := [1]unix.Iovec{{Base: &p[0], Len: uint64(len(p))}}
	remote := [2]unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
	var n int
	var err error
	if write {
		k := BeforeEnd(len(p))
		remote[0].Len = k
		remote[1] = unix.RemoteIovec{Base: uintptr(addr) + uintptr(k), Len: len(p) - k}
		n, err = unix.ProcessVMWritev(pid, local[:], remote[:], 0)
	} else {
		n, err = unix.ProcessVMReadv(pid, local[:], remote[:1], 0)
	}
	switch {
	case err == unix.EPERM, err == unix.ENOSYS:
		return ErrElsewhere
	case err != nil, n != len(p):
		return unix.EFAULT
	}
	return nil
}
