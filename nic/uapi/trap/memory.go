package trap

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
)

// pathMax is the longest path with its final zero, PATH_MAX of the kernel.
const pathMax = 4096

// foreign reaches the memory of another process: by process_vm_readv(2), or by
// /proc/PID/mem where that is forbidden or not wanted.
type foreign struct{ procMem bool }

// move copies p from address addr of a process, or there if write is set. Error:
// EFAULT.
func (f foreign) move(pid int, addr uint64, p []byte, write bool) error {
	if !f.procMem {
		if err := ipc.Move(pid, addr, p, write); err != ipc.ErrDenied {
			return err
		}
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return unix.EFAULT
	}
	defer mem.Close()
	access := mem.ReadAt
	if write {
		access = mem.WriteAt
	}
	if n, _ := access(p, int64(addr)); n != len(p) {
		return unix.EFAULT
	}
	return nil
}

// text reads a zero-terminated string of at most pathMax octets. It asks for
// no octet of a page behind the string's last, which may be unmapped.
func (f foreign) text(pid int, addr uint64) (string, error) {
	const page = 4096
	var s []byte
	var buf [256]byte
	for len(s) < pathMax {
		n := min(len(buf), int(page-addr%page))
		if err := f.move(pid, addr, buf[:n], false); err != nil {
			return "", err
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
