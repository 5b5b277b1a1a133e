package proxy

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/wire/frame"
)

// Limits of a client.
const (
	maxFiles  = 16
	maxParked = 64 // commands whose answer is due
	maxFDs    = 4  // descriptors in an answer
)

// Device is what a client can open.
type Device struct {
	Open abi.Opener
	// Do runs fn on the thread of all that is made through the device, at once
	// or later, and in any case. Nil: it is the thread that calls Step.
	Do func(fn func(now frame.Time))
}

// Conn is a sequenced packet socket: a *net.UnixConn, or for Step an *os.File,
// of which the runtime's poller need not know.
type Conn interface {
	SyscallConn() (syscall.RawConn, error)
	Close() error
}

// Session is the connection of one client.
type Session struct {
	conn    Conn
	raw     syscall.RawConn
	process int
	devices func(name string) (Device, bool)
	space   space
	// Of Serve, or Step.
	files    map[uint32]*file
	buf, oob []byte
	into     unix.Msghdr // what a message is received into
	iov      unix.Iovec
	n        int // octets received
	errno    syscall.Errno
	attempt  func(fd uintptr) bool // to receive, made once
	once     func(fd uintptr)
	poster   *caller // of requests without an answer, used again
	watch    Watch   // nil: no doorbells
	bells    *bellRung

	mu     sync.Mutex
	parked map[*caller]bool
	next   int // number of the next descriptor
	ended  bool
}

type file struct {
	abi.File
	do func(func(frame.Time))
}

// NewSession makes a session of conn (taken), whose other end belongs to the
// process with that id. devices finds what it opens.
func NewSession(conn Conn, process int, devices func(name string) (Device, bool)) (*Session, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("umode: %w", err)
	}
	s := &Session{conn: conn, raw: raw, process: process, devices: devices, files: map[uint32]*file{},
		parked: map[*caller]bool{},
		buf:    make([]byte, MaxMessage), oob: make([]byte, unix.CmsgSpace(4*maxFDs))}
	s.iov.Base = &s.buf[0]
	s.iov.SetLen(len(s.buf))
	s.attempt = s.receive
	s.once = func(fd uintptr) { s.receive(fd) }
	return s, nil
}

// Serve answers the client until it goes, then closes its files: nothing that
// it made is left when Serve returns.
func (s *Session) Serve() error {
	defer s.End()
	for {
		if s.raw.Read(s.attempt) != nil {
			return nil
		}
		if more, err := s.received(); !more {
			return err
		}
	}
}

// Step does a part of Serve's work without waiting, for who polls the
// connection on the thread of all devices: one request, if there is one.
// served tells whether there was. No more: the client is gone, and End is due.
func (s *Session) Step() (served, more bool) {
	if s.raw.Control(s.once) != nil {
		return false, false
	}
	if s.errno == unix.EAGAIN {
		return false, true
	}
	more, _ = s.received()
	return true, more
}

// receive takes a message, if there is one.
func (s *Session) receive(fd uintptr) (done bool) {
	s.into = unix.Msghdr{Iov: &s.iov, Iovlen: 1, Control: &s.oob[0]}
	s.into.SetControllen(len(s.oob))
	for s.errno = unix.EINTR; s.errno == unix.EINTR; {
		var n uintptr
		n, _, s.errno = unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.into)),
			unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		s.n = int(n)
	}
	return s.errno != unix.EAGAIN
}

// received serves the message.
func (s *Session) received() (more bool, err error) {
	if s.errno != 0 || s.n == 0 { // a sequenced packet socket's end of file
		return false, nil
	}
	var fds []int
	if n := s.into.Controllen; n > 0 {
		fds = descriptors(s.oob[:n])
		defer closeAll(fds)
	}
	if s.into.Flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return false, errMessage
	}
	s.serveBells()
	r, err := ParseRequest(s.buf[:s.n])
	if err == nil {
		err = s.serve(&r, fds)
	}
	return err == nil, err
}

// HangUp has the session end as if the client had gone.
func (s *Session) HangUp() {
	_ = s.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

func descriptors(oob []byte) (fds []int) {
	messages, _ := syscall.ParseSocketControlMessage(oob)
	for i := range messages {
		if got, err := syscall.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// serve does what r asks. An error ends the session.
func (s *Session) serve(r *Request, fds []int) error {
	if r.Kind == Post {
		s.post(r)
		return nil
	}
	c := &caller{session: s}
	switch r.Kind {
	case Open:
		s.open(c, r.File, string(r.Command))
		return nil
	case Command:
		return s.command(c, r)
	case Share:
		err := error(syscall.EINVAL)
		if len(fds) == 1 {
			err = s.space.share(fds[0], r.Addr, r.Size)
		}
		c.answer(err)
		return nil
	case Unshare:
		c.answer(s.space.unshare(r.Addr))
		return nil
	case Close:
		c.answer(s.close(r.File))
		return nil
	case Bell:
		c.answer(s.addBell(c, r))
		return nil
	}
	return errMessage
}

func (s *Session) open(c *caller, number uint32, name string) {
	d, known := s.devices(name)
	switch {
	case !known:
		c.answer(syscall.ENOENT)
		return
	case s.files[number] != nil:
		c.answer(syscall.EEXIST)
		return
	case len(s.files) == maxFiles:
		c.answer(syscall.EMFILE)
		return
	}
	wait(d.Do, func() {
		f, fd, err := d.Open(c, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK)
		if err == nil {
			s.files[number] = &file{f, d.Do}
			_, err = c.Install(fd, syscall.O_CLOEXEC)
		}
		c.answer(err)
	})
}

func (s *Session) command(c *caller, r *Request) error {
	f := s.files[r.File]
	if f == nil {
		c.answer(syscall.EBADF)
		return nil
	}
	c.file, c.mem = f, make([]byte, r.Size)
	copy(c.mem, r.Memory)
	wait(f.do, func() {
		if !s.park(c) {
			c.answer(syscall.EAGAIN)
			return
		}
		if err := f.Command(c, r.Command); !errors.Is(err, abi.Later) {
			c.Done(err)
		}
	})
	return nil
}

// post serves a command that has no answer.
func (s *Session) post(r *Request) {
	f := s.files[r.File]
	if f == nil {
		return
	}
	if s.poster == nil {
		s.poster = &caller{session: s, silent: true}
	}
	c := s.poster
	c.file, c.mem = f, nil
	if r.Size > 0 {
		c.mem = make([]byte, r.Size)
		copy(c.mem, r.Memory)
	}
	if f.do == nil {
		s.runPost(c, r.Command)
		return
	}
	wait(f.do, func() { s.runPost(c, r.Command) })
}

// runPost runs on the file's thread.
func (s *Session) runPost(c *caller, b []byte) {
	if !errors.Is(c.file.Command(c, b), abi.Later) {
		return
	}
	s.poster = nil // it has this one
	if !c.done && !s.park(c) {
		c.file.Cancel(c)
	}
}

// wait runs fn on a device's thread, this one if do is nil, and returns after
// it.
func wait(do func(func(frame.Time)), fn func()) {
	if do == nil {
		fn()
		return
	}
	ran := make(chan struct{})
	do(func(frame.Time) { defer close(ran); fn() })
	<-ran
}

// park makes c one of the callers that wait for their answer.
func (s *Session) park(c *caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parked) == maxParked {
		return false
	}
	s.parked[c] = true
	return true
}

func (s *Session) unpark(c *caller) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was = s.parked[c]
	delete(s.parked, c)
	return was
}

func (s *Session) close(number uint32) error {
	f := s.files[number]
	if f == nil {
		return syscall.EBADF
	}
	delete(s.files, number)
	s.closeFile(f)
	return nil
}

// closeFile takes back what waits for f, then closes it.
func (s *Session) closeFile(f *file) {
	wait(f.do, func() {
		for _, c := range s.waiting(f) {
			if f.Cancel(c) && s.unpark(c) {
				c.answer(syscall.EBADF)
			}
		}
		f.File.Close()
	})
}

func (s *Session) waiting(f *file) (list []*caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.parked {
		if c.file == f {
			list = append(list, c)
		}
	}
	return list
}

// End closes what the client has open, its latest file first, and the
// connection.
func (s *Session) End() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	_ = s.conn.Close()
	s.endBells()
	for len(s.files) > 0 {
		latest := uint32(0)
		for n := range s.files {
			latest = max(latest, n)
		}
		_ = s.close(latest)
	}
}
