package relay

import (
	"os"
	"path"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// procPath is room for a name in /proc, so that asking allocates nothing.
type procPath [64]byte

// stat is statx(2) of /proc/PID/kind/n.
func (p *procPath) stat(pid int, kind string, n int) (st unix.Statx_t, ok bool) {
	b := strconv.AppendInt(append(p[:0], "/proc/"...), int64(pid), 10)
	b = append(append(append(b, '/'), kind...), '/')
	b = append(strconv.AppendInt(b, int64(n), 10), 0)
	at := unix.AT_FDCWD
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(&b[0])), 0, unix.STATX_INO,
		uintptr(unsafe.Pointer(&st)), 0)
	return st, errno == 0
}

// fileID is what trap.Call.File says of a thread's descriptor.
func (p *procPath) fileID(thread, fd int) (trap.FileID, bool) {
	st, ok := p.stat(thread, "fd", fd)
	return trap.FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}, ok
}

// isTask tells whether a thread is the process's.
func (p *procPath) isTask(process, thread int) bool {
	_, ok := p.stat(process, "task", thread)
	return ok
}

// isProcFile tells whether fd is open on the file of that name and mode of a
// process in /proc: what a supervisor passes must be nothing that can be waited
// for.
func isProcFile(fd int, name string, mode uint32) bool {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.PROC_SUPER_MAGIC || unix.Fstat(fd, &st) != nil {
		return false
	}
	link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return err == nil && path.Base(link) == name && st.Mode == unix.S_IFREG|mode
}
