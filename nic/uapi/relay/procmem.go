package relay

import (
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/procmaps"
)

// memFile is the memory that a process had when its supervisor opened it, with
// the supervisor's rights: /proc/PID/mem and /proc/PID/maps. The kernel lets the
// first pass over the protection of pages, as a debugger needs it, so the second
// is asked before each access. It also tells where an access could wait for
// somebody: pages of a file that another process or machine serves. No such
// page is touched. On pages that a userfaultfd(2) has not filled in, the kernel
// itself fails an access by /proc/PID/mem instead of waiting.
type memFile struct {
	mem, maps *os.File
	devices   *procmaps.Filesystems
	bulk      *bulk // nil: not to be used

	mu       sync.Mutex        // of what follows
	list     []procmaps.Extent // what was mapped when it was asked last
	listed   time.Time
	believed time.Duration
}

// errLeft says that the process has another memory now.
var errLeft = unix.ESRCH

// move copies from or to address addr. Errors: EFAULT, errLeft.
func (f *memFile) move(addr uint64, p []byte, write bool) error {
	if len(p) == 0 {
		return nil
	}
	if f.bulk.move(addr, p, write) {
		return nil
	}
	if err := f.check(addr, uint64(len(p)), write); err != nil {
		return err
	}
	return f.copy(addr, p, write)
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

// check checks that [addr, addr+n) is mapped readable, and writable if write is
// set, with pages that the kernel has by itself. It believes for a moment what it
// was told last. Errors: EFAULT, errLeft.
func (f *memFile) check(addr, n uint64, write bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.listed) < f.believed && procmaps.Covered(f.list, addr, addr+n, write, f.devices) {
		return nil
	}
	f.list, f.listed, f.believed = f.list[:0], now, queryFor
	for at := addr; at < addr+n; {
		q := procmapQuery{size: uint64(unsafe.Sizeof(procmapQuery{})), addr: at}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.maps.Fd(), procmapQueryIoctl, uintptr(unsafe.Pointer(&q)))
		switch {
		case errno == unix.ENOTTY: // an older kernel
			return f.checkList(addr, n, write)
		case errno == unix.ESRCH:
			return errLeft
		case errno != 0:
			return unix.EFAULT
		}
		f.list = append(f.list, procmaps.Extent{From: q.vmaStart, To: q.vmaEnd,
			Readable: q.vmaFlags&procmapReadable != 0, Writable: q.vmaFlags&procmapWritable != 0,
			Dev: unix.Mkdev(q.devMajor, q.devMinor)})
		at = q.vmaEnd
	}
	if !procmaps.Covered(f.list, addr, addr+n, write, f.devices) {
		return unix.EFAULT
	}
	return nil
}

// How long what a process has mapped is believed: the answer of the ioctl, which
// costs as much as a short access, and the whole list, which takes longer to read
// than most accesses. What a program unmaps, the kernel refuses at once even so.
const (
	queryFor = time.Millisecond
	listFor  = 10 * time.Millisecond
)

// forget has the next access ask again.
func (f *memFile) forget() {
	f.mu.Lock()
	f.listed = time.Time{}
	f.mu.Unlock()
}

// checkList is check by the list of mappings; f.mu is held.
func (f *memFile) checkList(addr, n uint64, write bool) error {
	f.list, f.listed, f.believed = procmaps.Read(f.maps), time.Now(), listFor
	switch {
	case f.list == nil:
		return errLeft
	case !procmaps.Covered(f.list, addr, addr+n, write, f.devices):
		return unix.EFAULT
	}
	return nil
}

// watched is how many octets at the end of what is written a program may watch
// to learn that all is there.
const watched = 64

// beforeEnd is how many of n octets are written to a program before the end of
// them is.
func beforeEnd(n int) int { return max(0, n-watched) }

// copy copies by mem, the end of what is written last. Errors: EFAULT, errLeft.
func (f *memFile) copy(addr uint64, p []byte, write bool) error {
	defer runtime.KeepAlive(f)
	fd := int(f.mem.Fd())
	var n int
	var err error
	if k := beforeEnd(len(p)); write && k > 0 {
		n, err = unix.Pwritev(fd, [][]byte{p[:k], p[k:]}, int64(addr)) // one behind the other
	} else if write {
		n, err = unix.Pwrite(fd, p, int64(addr))
	} else {
		n, err = unix.Pread(fd, p, int64(addr))
	}
	switch {
	case n == len(p):
		return nil
	case n == 0 && err == nil:
		return errLeft
	}
	return unix.EFAULT
}
