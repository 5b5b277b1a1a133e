package relay

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
	"tapir/nic/verbs"
)

// space is the memory of a program's process: reached by process_vm_readv(2)
// and its counterpart, or, where that is denied, by files of /proc/PID that its
// supervisor, an ancestor, may open.
type space struct {
	pid   int
	gone  atomic.Bool                             // the process: its id may become another's
	ask   func(k kind, pid int) (*os.File, error) // the supervisor for a file of /proc/PID
	file  atomic.Pointer[memFile]                 // nil while process_vm serves
	mu    sync.Mutex                              // of the change of file, and of image
	image *image                                  // that regions are made in
}

// image is the memory that a process has until execve(2) gives it another, of
// those regions that process_vm serves: this finds whichever the process has.
type image struct {
	mu   sync.RWMutex // held for writing from before the process leaves it
	left bool         // the process leaves it, or has left it
	file *memFile     // then: the memory itself; nil: out of reach
}

// newSpace returns the memory of process pid; ended is called when that is
// gone. procMem forbids process_vm.
func newSpace(pid int, procMem bool, ask func(k kind, pid int) (*os.File, error), ended func()) (*space, error) {
	s := &space{pid: pid, ask: ask, image: new(image)}
	pidfd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, unix.ESRCH
	}
	process := os.NewFile(uintptr(pidfd), "process")
	if procMem {
		if err := s.renew(nil); err != nil {
			process.Close()
			return nil, err
		}
	}
	go func() {
		defer process.Close()
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

// renew opens the memory again after execve, which gives a process another,
// unless someone else has done so since old was seen.
func (s *space) renew(old *memFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file.Load() != old {
		return nil
	}
	f, err := s.openMem()
	if err != nil {
		return unix.EFAULT
	}
	s.file.Store(f) // the old one ends with the last region that uses it
	return nil
}

// leave is called before the process executes another program. If that fails,
// the process is still there, and its regions are reached another way.
func (s *space) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.image
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.left {
		m.left = true
		m.file, _ = s.openMem() // without it, the regions fail
	}
}

// present is the image that a region at addr is in.
func (s *space) present(addr uint64) *image {
	s.mu.Lock()
	defer s.mu.Unlock()
	var octet [1]byte
	if m := s.image; m.left && (m.file == nil || m.file.copy(addr, octet[:], false) == ipc.ErrElsewhere) { // it is gone
		s.image = new(image)
	}
	return s.image
}

// move copies from or to the image.
func (m *image) move(s *space, addr uint64, p []byte, write bool) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.left && m.file == nil {
		return unix.EFAULT
	}
	return s.move(m.file, addr, p, write)
}

// read fills p from address addr of the process. Error: EFAULT.
func (s *space) read(addr uint64, p []byte) error { return s.transfer(addr, p, false) }

// transfer reads memory of the process or writes to it. Error: EFAULT.
func (s *space) transfer(addr uint64, p []byte, write bool) error {
	f := s.file.Load()
	if err := s.move(f, addr, p, write); err != ipc.ErrElsewhere {
		return err
	}
	if err := s.renew(f); err != nil {
		return err
	}
	if s.move(s.file.Load(), addr, p, write) != nil {
		return unix.EFAULT
	}
	return nil
}

// move copies by f, or by process_vm if that is nil.
func (s *space) move(f *memFile, addr uint64, p []byte, write bool) error {
	switch {
	case len(p) == 0:
		return nil
	case s.gone.Load():
		return unix.EFAULT
	case f != nil:
		return f.move(addr, p, write)
	}
	return ipc.Move(s.pid, addr, p, write)
}

// region is [addr, addr+n) of the memory that the process has now.
func (s *space) region(addr, n uint64, write bool) (verbs.Memory, error) {
	if addr+n < addr {
		return nil, unix.EFAULT
	}
	r := &region{space: s, addr: addr, n: n}
	if n == 0 {
		return r, nil
	}
	var touched [1]byte
	for _, at := range []uint64{addr, addr + n - 1} { // also refuses what no one but the process can reach
		if err := s.read(at, touched[:]); err != nil {
			return nil, err
		}
	}
	r.file, r.image = s.file.Load(), s.present(addr)
	list, err := s.maps()
	if err != nil {
		return nil, unix.EFAULT
	}
	defer list.Close()
	if !covered(list, addr, addr+n, write) {
		return nil, unix.EFAULT
	}
	return r, nil
}

func (s *space) maps() (*os.File, error) {
	if s.file.Load() == nil {
		if f, err := os.Open(fmt.Sprintf("/proc/%d/maps", s.pid)); err == nil {
			return f, nil
		}
	}
	return s.ask(maps, s.pid)
}

// covered tells whether [from, to) is mapped readable, and writable if write
// is set, by a list as of proc_pid_maps(5).
func covered(list io.Reader, from, to uint64, write bool) bool {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		extent, rest, _ := strings.Cut(lines.Text(), " ")
		first, last, _ := strings.Cut(extent, "-")
		high, err := strconv.ParseUint(last, 16, 64)
		if err != nil || high <= from {
			continue
		}
		low, err := strconv.ParseUint(first, 16, 64)
		if err != nil || low > from || !strings.HasPrefix(rest, "r") || write && !strings.HasPrefix(rest[1:], "w") {
			return false
		}
		if from = high; from >= to {
			return true
		}
	}
	return false
}

// region is registered memory.
type region struct {
	space   *space
	file    *memFile // the memory that the process had then; nil: by process_vm
	image   *image
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

func (r *region) move(p []byte, off uint64, write bool) error {
	var err error
	switch {
	case r.file != nil:
		err = r.space.move(r.file, r.addr+off, p, write)
	case len(p) > 0:
		err = r.image.move(r.space, r.addr+off, p, write)
	}
	if err != nil {
		return unix.EFAULT
	}
	return nil
}
