package relay

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

// filesystems are the devices, as proc_pid_maps(5) has them, of the file systems
// that a supervisor sees.
type filesystems struct {
	mu    sync.Mutex
	known map[uint64]bool // whether a device is local
	pid   int             // the supervisor
}

// newFilesystems returns what the process pid sees.
func newFilesystems(pid int) *filesystems {
	f := &filesystems{pid: pid, known: map[uint64]bool{0: true}} // 0: no file
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

// local tells whether the pages of a file on a device come without waiting for
// another process or machine.
func (f *filesystems) local(dev uint64) bool {
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
func (f *filesystems) read(list io.Reader) {
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

// extent is a mapping of a process.
type extent struct {
	from, to    uint64
	read, write bool
	dev         uint64
}

// mappings reads a list as of proc_pid_maps(5) from its beginning.
func mappings(list io.ReaderAt) (all []extent) {
	for lines := bufio.NewScanner(io.NewSectionReader(list, 0, 1<<62)); lines.Scan(); {
		var e extent
		var rights string
		var off uint64
		var major, minor uint32
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %x %x:%x", &e.from, &e.to, &rights, &off, &major, &minor)
		if n != 6 {
			return nil // not what the kernel writes
		}
		e.read, e.write = strings.HasPrefix(rights, "r"), strings.HasPrefix(rights[1:], "w")
		e.dev = unix.Mkdev(major, minor)
		all = append(all, e)
	}
	return all
}

// covered tells whether [from, to) is mapped readable, and writable if write
// is set, with pages of local devices.
func covered(list []extent, from, to uint64, write bool, devices *filesystems) bool {
	for _, e := range list {
		switch {
		case e.to <= from:
			continue
		case e.from > from || !e.read || write && !e.write || !devices.local(e.dev):
			return false
		}
		if from = e.to; from >= to {
			return true
		}
	}
	return false
}
