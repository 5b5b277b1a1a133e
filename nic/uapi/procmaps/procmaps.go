// Package procmaps tells which pages of a process's Read the kernel has by itself:
// those of a file that another process or machine serves come when that pleases.
package procmaps

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// localTypes are the file systems whose pages this machine's kernel reads by
// itself. Pages of others, as those of FUSE and NFS, come when a process or
// another machine pleases.
var localTypes = []string{
	"bcachefs", "btrfs", "devtmpfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hugetlbfs", "iso9660",
	"jfs", "nilfs2", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "squashfs", "tmpfs", "ubifs", "udf", "vfat",
	"xfs", "zfs",
}

// Filesystems are the devices, as proc_pid_maps(5) has them, of the file systems
// that a supervisor sees.
type Filesystems struct {
	mu    sync.Mutex
	known map[uint64]bool // whether a device is local
	pid   int             // the supervisor
}

// NewFilesystems returns what the process pid sees.
func NewFilesystems(pid int) *Filesystems {
	f := &Filesystems{pid: pid, known: map[uint64]bool{0: true}} // 0: no file
	const hugeFlags = unix.MFD_CLOEXEC | unix.MFD_HUGETLB
	// Shared memory without a name lies in mounts that no list shows.
	for _, flags := range []int{unix.MFD_CLOEXEC, hugeFlags, hugeFlags | unix.MFD_HUGE_2MB,
		hugeFlags | unix.MFD_HUGE_1GB} {
		fd, err := unix.MemfdCreate("tapir-device", flags)
		if err != nil {
			continue // this machine has no pages of that size
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			f.known[st.Dev] = true
		}
		_ = unix.Close(fd)
	}
	return f
}

// Local tells whether the pages of a file on a device come without waiting for
// another process or machine.
func (f *Filesystems) Local(dev uint64) bool {
	if dev == 0 {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	local, known := f.known[dev]
	if known {
		return local
	}
	for _, who := range []string{strconv.Itoa(f.pid), "self"} {
		if list, err := os.Open("/proc/" + who + "/mountinfo"); err == nil { // else what is there is not known
			f.read(list)
			_ = list.Close()
		}
	}
	return f.known[dev]
}

// read takes in a list as of proc_pid_mountinfo(5).
func (f *Filesystems) read(list io.Reader) {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		mount, kind, _ := strings.Cut(lines.Text(), " - ")
		var major, minor uint32
		fields := strings.Fields(mount)
		if len(fields) < 3 {
			continue
		}
		if _, err := fmt.Sscanf(fields[2], "%d:%d", &major, &minor); err != nil {
			continue
		}
		kind, _, _ = strings.Cut(kind, " ")
		f.known[unix.Mkdev(major, minor)] = slices.Contains(localTypes, kind)
	}
}

// Extent is a mapping of a process.
type Extent struct {
	From, To           uint64 // addresses, without To
	Readable, Writable bool
	Dev                uint64 // of the file; 0: none
}

// Read reads a list as of proc_pid_maps(5) from its beginning.
func Read(list io.ReaderAt) (all []Extent) {
	for lines := bufio.NewScanner(io.NewSectionReader(list, 0, 1<<62)); lines.Scan(); {
		var e Extent
		var rights string
		var off uint64
		var major, minor uint32
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %x %x:%x", &e.From, &e.To, &rights, &off, &major, &minor)
		if n != 6 {
			return nil // not what the kernel writes
		}
		e.Readable, e.Writable = strings.HasPrefix(rights, "r"), strings.HasPrefix(rights[1:], "w")
		e.Dev = unix.Mkdev(major, minor)
		all = append(all, e)
	}
	return all
}

// Covered tells whether [from, to) is mapped readable, and writable if write
// is set, with pages of local devices.
func Covered(list []Extent, from, to uint64, write bool, devices *Filesystems) bool {
	for _, e := range list {
		switch {
		case e.To <= from:
			continue
		case e.From > from || !e.Readable || write && !e.Writable || !devices.Local(e.Dev):
			return false
		}
		if from = e.To; from >= to {
			return true
		}
	}
	return false
}
