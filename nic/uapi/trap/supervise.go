package trap

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// addFd is struct seccomp_notif_addfd.
type addFd struct {
	id         uint64
	flags      uint32
	srcfd      uint32
	newfd      uint32
	newfdFlags uint32
}

// supervisor receives and answers the calls of one process tree.
type supervisor struct {
	listener int
	rules    []Rule
	handlers map[uint32][]Handler
	mirrors  []string // roots of those among the handlers
	mem      foreign
	preload  *preload // nil: by seccomp
	logf     func(string, ...any)
	repeats  bool // before Linux 5.19 a signal interrupts a call that is being served
	twoSteps bool // before Linux 5.14 a descriptor cannot be added and the call ended at once

	mu   sync.Mutex
	done map[uint32]undelivered // by thread; of those that repeats
}

// undelivered is the answer to a call that a signal interrupted after it was
// served: kernels before 5.19 then make the call again.
type undelivered struct {
	n notification
	r response
}

// ended is called when no process is left, and if there never was one.
func (s *supervisor) ended() {
	if s != nil && s.preload != nil {
		s.preload.close()
	}
}

func newSupervisor(o Options) (*supervisor, error) {
	s := &supervisor{listener: -1, handlers: map[uint32][]Handler{}, mem: foreign{o.ProcMem}, logf: o.Logf, done: map[uint32]undelivered{}}
	if s.logf == nil {
		s.logf = func(string, ...any) {}
	}
	for _, h := range o.Handlers {
		if m, ok := h.(interface{ Root() string }); ok {
			s.mirrors = append(s.mirrors, m.Root())
		}
		seen := map[uint32]bool{}
		for _, r := range h.Rules() {
			for _, w := range r.When {
				if w.Arg > 5 {
					return nil, fmt.Errorf("a system call has 6 arguments, no argument %d", w.Arg)
				}
			}
			s.rules = append(s.rules, r)
			if !seen[r.Nr] {
				seen[r.Nr] = true
				s.handlers[r.Nr] = append(s.handlers[r.Nr], h)
			}
		}
	}
	return s, nil
}

// syncWakeUp asks the kernel to wake each side on the other's processor,
// which halves the cost of a call; older kernels cannot, and need not.
func (s *supervisor) syncWakeUp() {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// loop serves until no process is left.
func (s *supervisor) loop() error {
	if s.preload != nil {
		return s.preload.loop(s)
	}
	defer unix.Close(s.listener)
	fds := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for system calls: %w", err)
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			return nil
		}
		c := &Call{s: s}
		err = ioctl(s.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&c.n))
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINTR): // the caller is gone
		case err != nil:
			return fmt.Errorf("receive a system call: %w", err)
		default:
			s.serve(c)
		}
	}
}

func (s *supervisor) serve(c *Call) {
	if c.n.arch != nativeArch || c.n.nr&foreignBit != 0 {
		s.refuse(c)
		return
	}
	if r, ok := s.repeated(c); ok {
		s.send(c, r)
		return
	}
	for _, h := range s.handlers[c.Nr()] {
		if a := h.Serve(c); a.kind != pass {
			if a.kind != later {
				c.Finish(a)
			}
			return
		}
	}
	c.Finish(Pass())
}

// refuse ends a program of another architecture: its calls have other numbers
// and layouts.
func (s *supervisor) refuse(c *Call) {
	pid, err := c.Process()
	if err == nil && c.Valid() {
		s.logf("process %d makes 32-bit system calls, which are not served: it was killed; use the program's 64-bit build", pid)
		_ = unix.Kill(pid, unix.SIGKILL) // fails if it is gone
	}
	c.Finish(Fail(unix.ENOSYS))
}

// repeated finds the answer of a call that the kernel makes again because a
// signal came between the serving and the answer.
func (s *supervisor) repeated(c *Call) (response, bool) {
	if !s.repeats {
		return response{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.done[c.n.pid]
	if !ok || u.n.nr != c.n.nr || u.n.ip != c.n.ip || u.n.args != c.n.args {
		return response{}, false
	}
	delete(s.done, c.n.pid)
	return u.r, true
}

// Finish ends a call that was answered Later.
func (c *Call) Finish(a Answer) {
	if c.conn != nil {
		c.conn.finish(c.n.id, a)
		return
	}
	r := response{id: c.n.id}
	switch {
	case a.kind == descriptor:
		c.s.add(c, a)
		return
	case a.kind == pass:
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	case a.errno != 0:
		r.errno = -int32(a.errno)
	default:
		r.val = a.value
	}
	c.s.send(c, r)
}

func (s *supervisor) send(c *Call, r response) {
	r.id = c.n.id
	err := ioctl(s.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
	if s.repeats && errors.Is(err, unix.ENOENT) && r.flags == 0 && r.errno != -int32(errRestart) {
		s.mu.Lock()
		s.done[c.n.pid] = undelivered{c.n, r}
		s.mu.Unlock()
	}
}

// add ends the call with a new descriptor. If the caller is gone, closing
// ours lets go of the file.
func (s *supervisor) add(c *Call, a Answer) {
	fd := int(a.value)
	defer unix.Close(fd)
	req := addFd{id: c.n.id, srcfd: uint32(fd), newfdFlags: uint32(a.flags)}
	if !s.twoSteps {
		req.flags = unix.SECCOMP_ADDFD_FLAG_SEND
		err := ioctl(s.listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&req))
		if !errors.Is(err, unix.EINVAL) {
			s.failAdd(c, err)
			return
		}
		s.twoSteps, req.flags = true, 0
	}
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		s.failAdd(c, errno)
		return
	}
	c.Finish(Return(int64(n)))
}

// failAdd tells the caller why it gets no descriptor, such as EMFILE.
func (s *supervisor) failAdd(c *Call, err error) {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != unix.ENOENT {
		c.Finish(Fail(errno))
	}
}

// ioctl makes an ioctl with a pointer.
func ioctl(fd int, req uint, p unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(p))
	if errno != 0 {
		return errno
	}
	return nil
}
