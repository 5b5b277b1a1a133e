package relay

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
	"tapir/nic/verbs"
)

// bulkFrom is the number of octets from which process_vm_readv(2) and its
// counterpart are used. /proc/PID/mem copies them twice, page by page.
const bulkFrom = 12 << 10

// scatterWithin is how far places lie apart, at most, that are written together.
const scatterWithin = 64 << 10

// bulk copies long pieces of a process's memory, and many short ones, by
// process_vm_readv(2), with this process's own rights. So it is made only for a
// supervisor that has them all.
type bulk struct {
	pid     int
	pagemap *os.File

	mu sync.Mutex // of what follows
	// The pages of [from, to) were there at seen.
	from, to uint64
	seen     time.Time
}

// lookAhead is how many octets are looked at together before one reads, as more of a
// long message is about to be read.
const lookAhead = 1 << 20

// newBulk returns nil where it cannot be used.
func newBulk(pid int) *bulk {
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil
	}
	return &bulk{pid: pid, pagemap: f}
}

// pageScan is struct pm_scan_arg of linux/fs.h, since Linux 6.7; pageRegion struct
// page_region.
type pageScan struct {
	size, flags, start, end, walkEnd uint64
	vec                              *pageRegion
	vecLen, maxPages                 uint64
	inverted, mask, anyOf, returned  uint64
}

type pageRegion struct{ start, end, _ uint64 }

const (
	pageScanIoctl = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)
	pageWritten   = 1 << 1     // userfaultfd(2) does not protect it from writes
	pageFile      = 1 << 2
	pagePresent   = 1 << 3
)

// readable is present for reads. It looks ahead, and believes for queryFor what it has seen.
func (b *bulk) readable(addr, n uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if addr >= b.from && addr+n <= b.to && now.Sub(b.seen) < queryFor {
		return true
	}
	from, to := b.scan(addr, max(n, min(lookAhead, -addr)), false)
	if from > addr || to < addr+n {
		return false
	}
	b.from, b.to, b.seen = from, to, now
	return true
}

// present tells whether all pages of [addr, addr+n) are there, so that an access
// waits for nobody; writing to one of a file may, even so.
func (b *bulk) present(addr, n uint64, write bool) bool {
	from, to := b.scan(addr, n, write)
	return from <= addr && addr+n <= to
}

// scan finds the first pages in [addr, addr+n) that are there.
func (b *bulk) scan(addr, n uint64, write bool) (from, to uint64) {
	page := uint64(os.Getpagesize())
	var found pageRegion
	scan := pageScan{start: addr &^ (page - 1), end: (addr + n + page - 1) &^ (page - 1), vec: &found, vecLen: 1,
		mask: pagePresent, returned: pagePresent}
	scan.size = uint64(unsafe.Sizeof(scan))
	if write {
		scan.mask, scan.inverted = pagePresent|pageWritten|pageFile, pageFile
	}
	regions, _, errno := unix.Syscall(unix.SYS_IOCTL, b.pagemap.Fd(), pageScanIoctl, uintptr(unsafe.Pointer(&scan)))
	if errno != 0 || regions != 1 {
		return 1, 0
	}
	return found.start, found.end
}

// move copies if it can do so at once, and has done it if so. The kernel copies one
// element behind the other: the end of what is written is one of its own.
func (b *bulk) move(addr uint64, p []byte, write bool) (done bool) {
	n := uint64(len(p))
	switch {
	case b == nil || n < bulkFrom || addr+n < addr:
		return false
	case write && !b.present(addr, n, true), !write && !b.readable(addr, n):
		return false
	}
	k := beforeEnd(len(p))
	local := [1]unix.Iovec{{Base: &p[0], Len: uint64(len(p))}}
	remote := [2]unix.RemoteIovec{{Base: uintptr(addr), Len: k}, {Base: uintptr(addr) + uintptr(k), Len: len(p) - k}}
	move := unix.ProcessVMReadv
	if write {
		move = unix.ProcessVMWritev
	}
	moved, err := move(b.pid, local[:], remote[:], 0)
	return err == nil && moved == len(p)
}

// scatter writes p to places of the memory from base on if it can do so at once, and
// has done it if so. The kernel copies one element behind the other.
func (b *bulk) scatter(base uint64, p []byte, places []verbs.Place) (done bool) {
	lo, hi := places[0].Off, uint64(0)
	for _, at := range places {
		lo, hi = min(lo, at.Off), max(hi, at.Off+uint64(at.N))
	}
	if b == nil || hi-lo > scatterWithin || !b.present(base+lo, hi-lo, true) {
		return false
	}
	for len(places) > 0 {
		var remote [64]unix.RemoteIovec
		k, n := min(len(places), len(remote)), 0
		for i, at := range places[:k] {
			remote[i] = unix.RemoteIovec{Base: uintptr(base + at.Off), Len: at.N}
			n += at.N
		}
		local := [1]unix.Iovec{{Base: &p[0], Len: uint64(n)}}
		if m, err := unix.ProcessVMWritev(b.pid, local[:], remote[:k], 0); err != nil || m != n {
			return false
		}
		p, places = p[n:], places[k:]
	}
	return true
}

// hasOurRights tells whether process pid has every right that this one has, as far
// as access to other processes goes: the same user and groups, no less capabilities,
// in the same user namespace, no more filters for system calls, the same label.
func hasOurRights(pid int) bool {
	our, _ := trap.ProcFields("/proc/self/status")
	their, _ := trap.ProcFields(fmt.Sprintf("/proc/%d/status", pid)) // empty if it is gone
	for _, key := range []string{"Uid", "Gid", "Groups", "Seccomp_filters"} {
		if our[key] != their[key] {
			return false
		}
	}
	ours, err := strconv.ParseUint(our["CapEff"], 16, 64)
	theirs, failed := strconv.ParseUint(their["CapEff"], 16, 64)
	if err != nil || failed != nil || ours&^theirs != 0 {
		return false
	}
	for _, name := range []string{"ns/user", "ns/pid"} {
		link, err := os.Readlink("/proc/self/" + name)
		if other, failed := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name)); err != nil || failed != nil ||
			other != link {
			return false
		}
	}
	label, _ := os.ReadFile("/proc/self/attr/current") // none without a security module
	other, _ := os.ReadFile(fmt.Sprintf("/proc/%d/attr/current", pid))
	return string(label) == string(other)
}
