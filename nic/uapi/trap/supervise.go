package trap

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Supervisor receives and answers the calls of one process tree.
type Supervisor struct {
	*Listener // with the preloaded library it receives nothing
	rules     []Rule
	handlers  map[uint32][]Handler
	preload   *preload // nil: by seccomp
	logf      func(string, ...any)

	serial    sync.Mutex // handlers see one call at a time
	suspended atomic.Bool
	resumed   *os.File // an eventfd; nil: never suspended
}

// Attached is a Handler that is told, before the first call, who will ask it.
type Attached interface {
	Handler
	Attach(s *Supervisor)
}

// Rooted is a Handler that shows files of a directory of ours as if they were
// below the program's root directory.
type Rooted interface {
	Handler
	Root() string
}

// ended is called when no process is left, and if there never was one.
func (s *Supervisor) ended() {
	if s != nil && s.preload != nil {
		s.preload.close()
	}
}

func newSupervisor(o Options) (*Supervisor, error) {
	s := &Supervisor{handlers: map[uint32][]Handler{}, logf: o.Logf}
	s.Listener = NewListener(-1, Terms{Reserved: Reserved(), ProcMem: o.ProcMem})
	if s.logf == nil {
		s.logf = func(string, ...any) {}
	}
	return s, s.addHandlers(o.Handlers)
}

func (s *Supervisor) addHandlers(handlers []Handler) error {
	for _, h := range handlers {
		if r, ok := h.(Rooted); ok {
			s.roots = append(s.roots, r.Root())
		}
		seen := map[uint32]bool{}
		for _, r := range h.Rules() {
			for _, w := range r.When {
				if w.Arg > 5 {
					return fmt.Errorf("a system call has 6 arguments, no argument %d", w.Arg)
				}
			}
			s.rules = append(s.rules, r)
			if !seen[r.Nr] {
				seen[r.Nr] = true
				s.handlers[r.Nr] = append(s.handlers[r.Nr], h)
			}
		}
		if a, ok := h.(Attached); ok {
			a.Attach(s)
		}
	}
	return nil
}

// Suspend leaves the receiving of calls to another process, which must not
// begin before. A handler's Serve calls it. With the preloaded library it has
// no effect.
func (s *Supervisor) Suspend() error {
	if s.resumed == nil {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return err
		}
		s.resumed = os.NewFile(uintptr(fd), "resumed")
	}
	s.suspended.Store(true)
	return nil
}

// Resume receives again after Suspend. The other process must have stopped.
func (s *Supervisor) Resume() {
	s.suspended.Store(false)
	_, _ = s.resumed.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}) // no process is left if it is closed
}

// Serve serves a call that another process received and does not answer.
func (s *Supervisor) Serve(n Notification) {
	if c := s.Call(n); !s.repeated(c) {
		s.serve(c)
	}
}

// loop serves until no process is left.
func (s *Supervisor) loop() error {
	if s.preload != nil {
		return s.preload.loop(s)
	}
	defer unix.Close(s.fd)
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return fmt.Errorf("wait for system calls: %w", err)
		}
		switch {
		case fds[0].Revents&unix.POLLIN != 0:
		case fds[0].Revents&unix.POLLHUP != 0:
			return nil
		default: // POLLERR: a signal interrupted the waiting for its lock
			continue
		}
		c, err := s.Receive()
		if err != nil {
			return fmt.Errorf("receive a system call: %w", err)
		}
		if c != nil {
			s.serve(c)
		}
		if s.suspended.Load() && !s.sleep() {
			return nil
		}
	}
}

// serveUntil serves until sock is readable or has ended.
func (s *Supervisor) serveUntil(sock int) {
	for {
		fds := []unix.PollFd{{Fd: int32(sock), Events: unix.POLLIN}, {Fd: int32(s.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR || fds[0].Revents != 0 {
			return
		}
		if fds[1].Revents&unix.POLLIN == 0 {
			continue
		}
		if c, err := s.Receive(); err == nil && c != nil {
			s.serve(c)
		}
	}
}

// sleep waits for Resume. False: no process is left.
func (s *Supervisor) sleep() bool {
	wake := int32(s.resumed.Fd())
	for s.suspended.Load() {
		fds := []unix.PollFd{{Fd: int32(s.fd)}, {Fd: wake, Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == nil && fds[0].Revents&unix.POLLHUP != 0 {
			s.resumed.Close()
			return false
		}
		_, _ = unix.Read(int(wake), make([]byte, 8)) // nothing after EINTR
	}
	return true
}

func (s *Supervisor) serve(c *Call) {
	if !c.Native() {
		s.refuse(c)
		return
	}
	if a := s.ask(c); a.kind != later {
		c.Finish(a) // may wait for the caller, whose tracer makes calls meanwhile
	}
}

// ask asks the handlers for the answer.
func (s *Supervisor) ask(c *Call) Answer {
	s.serial.Lock()
	defer s.serial.Unlock()
	for _, h := range s.handlers[c.Nr()] {
		if a := h.Serve(c); a.kind != pass {
			return a
		}
	}
	return Pass()
}

// refuse ends a program of another architecture: its calls have other numbers
// and layouts.
func (s *Supervisor) refuse(c *Call) {
	pid, err := c.Process()
	if err == nil && c.Valid() {
		s.logf("process %d makes 32-bit system calls, which are not served: it was killed; use the program's "+
			"64-bit build", pid)
		_ = unix.Kill(pid, unix.SIGKILL) // fails if it is gone
	}
	c.Finish(Fail(unix.ENOSYS))
}
