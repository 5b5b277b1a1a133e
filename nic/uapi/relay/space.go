package relay

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/procmaps"
	"tapir/nic/verbs"
)

// space is the memory of a program's process, by files of /proc/PID that its
// supervisor has opened with its own rights: who may not look into a process
// cannot have the NIC do it. It is the memory that the process had then:
// execve(2) gives it another.
type space struct {
	*memFile
	process *os.File    // pidfd
	gone    atomic.Bool // the process
}

// newSpace is the memory of process pid; ended is called when that is gone. ask
// asks the supervisor for a file of /proc/PID, and waits.
func newSpace(pid int, devices *procmaps.Filesystems, b *bulk, ask func(k kind, pid int) (*os.File, error),
	ended func()) (*space, error) {
	pidfd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, unix.ESRCH
	}
	process := os.NewFile(uintptr(pidfd), "process")
	mem, err := ask(memory, pid)
	if err != nil {
		process.Close()
		return nil, err
	}
	list, err := ask(maps, pid)
	if err != nil {
		process.Close()
		mem.Close()
		return nil, err
	}
	s := &space{memFile: &memFile{mem: mem, maps: list, devices: devices, bulk: b}}
	s.process = process
	go func() {
		awaitExit(process)
		s.gone.Store(true)
		ended()
	}()
	return s, nil
}

// awaitExit returns when a process has ended, of which this is a descriptor.
func awaitExit(process *os.File) {
	raw, err := process.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// move copies from or to address addr. Errors: EFAULT, errLeft.
func (s *space) move(addr uint64, p []byte, write bool) error {
	if s.gone.Load() && len(p) > 0 {
		return unix.EFAULT
	}
	return s.memFile.move(addr, p, write)
}

// region is [addr, addr+n).
func (s *space) region(addr, n uint64, write bool) (verbs.Memory, error) {
	r := &region{space: s, addr: addr, n: n}
	if n == 0 {
		return r, nil
	}
	s.forget()
	if addr+n < addr || s.check(addr, n, write) != nil {
		return nil, unix.EFAULT
	}
	for _, off := range []uint64{0, n - 1} { // also refuses what no one but the process can reach
		if err := r.ReadAt(make([]byte, 1), off); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// region is registered memory.
type region struct {
	space   *space
	addr, n uint64
}

// Len implements verbs.Memory.
func (r *region) Len() uint64 { return r.n }

// Slice implements verbs.Memory: the memory is another process's.
func (r *region) Slice(uint64, int) []byte { return nil }

// ReadAt implements verbs.Memory. Error: EFAULT.
func (r *region) ReadAt(p []byte, off uint64) error { return r.move(p, off, false) }

// WriteAt implements verbs.Memory. Error: EFAULT.
func (r *region) WriteAt(p []byte, off uint64) error { return r.move(p, off, true) }

// WriteScattered implements verbs.Scattered. Error: EFAULT.
func (r *region) WriteScattered(p []byte, places []verbs.Place) error {
	if !r.space.gone.Load() && r.space.bulk.scatter(r.addr, p, places) {
		return nil
	}
	for _, at := range places {
		if err := r.WriteAt(p[:at.N], at.Off); err != nil {
			return err
		}
		p = p[at.N:]
	}
	return nil
}

func (r *region) move(p []byte, off uint64, write bool) error {
	if r.space.move(r.addr+off, p, write) != nil {
		return unix.EFAULT
	}
	return nil
}
