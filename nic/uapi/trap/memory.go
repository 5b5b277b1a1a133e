package trap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pathMax is the longest path with its final zero, PATH_MAX of the kernel.
const pathMax = 4096

// foreign reaches the memory of another process: by process_vm_readv(2), or by
// /proc/PID/mem where that is forbidden or not wanted.
type foreign struct{ procMem bool }

// read fills p from address addr of a process and returns how much of it is
// mapped.
func (f foreign) read(pid int, addr uint64, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !f.procMem {
		n, err := unix.ProcessVMReadv(pid, local(p), remote(addr, len(p)), 0)
		if !denied(err) {
			return n, err
		}
	}
	mem, err := openMem(pid, os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	return mem.ReadAt(p, int64(addr))
}

// write stores p at address addr of a process and returns how much of it is
// mapped and writable.
func (f foreign) write(pid int, addr uint64, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !f.procMem {
		n, err := unix.ProcessVMWritev(pid, local(p), remote(addr, len(p)), 0)
		if !denied(err) {
			return n, err
		}
	}
	mem, err := openMem(pid, os.O_WRONLY)
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	return mem.WriteAt(p, int64(addr))
}

func denied(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) }

func openMem(pid, flags int) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), flags, 0)
}

func local(p []byte) []unix.Iovec {
	v := []unix.Iovec{{Base: &p[0]}}
	v[0].SetLen(len(p))
	return v
}

func remote(addr uint64, n int) []unix.RemoteIovec {
	return []unix.RemoteIovec{{Base: uintptr(addr), Len: n}}
}

// text reads a zero-terminated string of at most pathMax octets. It asks for
// no octet of a page behind the string's last, which may be unmapped.
func (f foreign) text(pid int, addr uint64) (string, error) {
	const page = 4096
	var s []byte
	var buf [256]byte
	for len(s) < pathMax {
		n := min(len(buf), int(page-addr%page))
		n, err := f.read(pid, addr, buf[:n])
		if n <= 0 {
			return "", errors.Join(unix.EFAULT, err)
		}
		if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
			return string(append(s, buf[:end]...)), nil
		}
		s = append(s, buf[:n]...)
		addr += uint64(n)
	}
	return "", unix.ENAMETOOLONG
}

// Get reads a value of fixed size from address addr of the caller, in this
// machine's byte order: a kernel structure. Error: EFAULT.
func Get[T any](c *Call, addr uint64) (v T, err error) {
	err = c.Read(addr, octets(&v))
	return v, err
}

// Put stores a value of fixed size at address addr of the caller. Error:
// EFAULT.
func Put[T any](c *Call, addr uint64, v *T) error { return c.Write(addr, octets(v)) }

// octets is the memory of a value that holds no pointer.
func octets[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
