package relay

import (
	"errors"
	"io"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
)

// memFile is the memory that a process had when its supervisor opened it:
// /proc/PID/mem and /proc/PID/maps. The kernel lets the first pass over the
// protection of pages, as a debugger needs it, so the second is asked before.
type memFile struct{ mem, maps *os.File }

// openMem has the supervisor open the memory of a process.
func (s *space) openMem() (*memFile, error) {
	mem, err := s.ask(memory, s.pid)
	if err != nil {
		return nil, err
	}
	list, err := s.ask(maps, s.pid)
	if err != nil {
		mem.Close()
		return nil, err
	}
	return &memFile{mem, list}, nil
}

// move copies from or to address addr. Errors: EFAULT, ipc.ErrElsewhere.
func (f *memFile) move(addr uint64, p []byte, write bool) error {
	if f.allows(addr, uint64(len(p)), write) {
		return f.copy(addr, p, write)
	}
	if f.copy(addr, make([]byte, 1), false) == ipc.ErrElsewhere {
		return ipc.ErrElsewhere // where this may be allowed
	}
	return unix.EFAULT
}

// procmapQuery is struct procmap_query of linux/fs.h, since Linux 6.11.
type procmapQuery struct {
	size, flags, addr                              uint64
	vmaStart, vmaEnd, vmaFlags, pageSize, off, ino uint64
	devMajor, devMinor, nameSize, buildIDSize      uint32
	nameAddr, buildIDAddr                          uint64
}

const (
	procmapQueryIoctl = 0xc0686611 // _IOWR('f', 17, struct procmap_query)
	procmapReadable   = 1
	procmapWritable   = 2
)

// allows tells whether [addr, addr+n) is mapped readable, and writable if write
// is set.
func (f *memFile) allows(addr, n uint64, write bool) bool {
	flags := uint64(procmapReadable)
	if write {
		flags |= procmapWritable
	}
	for at := addr; at < addr+n; {
		q := procmapQuery{size: uint64(unsafe.Sizeof(procmapQuery{})), flags: flags, addr: at}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.maps.Fd(), procmapQueryIoctl, uintptr(unsafe.Pointer(&q)))
		switch {
		case errno == unix.ENOTTY: // an older kernel
			return covered(io.NewSectionReader(f.maps, 0, math.MaxInt64), addr, addr+n, write)
		case errno != 0:
			return false
		}
		at = q.vmaEnd
	}
	return true
}

// copy copies by mem, the end of what is written last.
func (f *memFile) copy(addr uint64, p []byte, write bool) error {
	var n int
	var err error
	if write {
		k := ipc.BeforeEnd(len(p))
		if k > 0 {
			n, err = f.mem.WriteAt(p[:k], int64(addr))
		}
		if n == k {
			var end int
			end, err = f.mem.WriteAt(p[k:], int64(addr)+int64(k))
			n += end
		}
	} else {
		n, err = f.mem.ReadAt(p, int64(addr))
	}
	switch {
	case n == len(p):
		return nil
	case n == 0 && (err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrShortWrite)):
		// it has another memory now
		return ipc.ErrElsewhere
	}
	return unix.EFAULT
}
