package proxy

import (
	"errors"
	"maps"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/ipc"
	"tapir/wire/frame"
)

// Limits of a client.
const (
	maxFiles  = 16
	maxParked = 64 // commands whose answer is due
	maxFDs    = 4  // descriptors in an answer
)

// requestsPerTurn bounds what one client is served in an iteration of the loop.
const requestsPerTurn = 8

// Thread is the loop of the NIC whose devices a client can open: everything of a
// session happens there.
type Thread interface {
	// Do runs fn on the thread, later, in the order of the calls, and in any
	// case.
	Do(fn func(now frame.Time))
	// AddSource is that of nic/loop: fd is polled with the NIC's queues, serve
	// called when it is readable or hung up, lost when the loop has ended. Call
	// it, and remove, on the thread.
	AddSource(fd int, serve func(now frame.Time, hungUp bool), lost func()) (remove func())
	// AddBell is that of nic/loop, for the descriptor of b.
	AddBell(fd int, b Doorbells) (remove func())
}

// session is the connection of one client. It belongs to the thread.
type session struct {
	home    Thread
	conn    *os.File
	fd      int // of conn
	process int
	devices map[string]abi.Opener
	gone    func()
	remove  func() // ends the polling of conn
	ended   bool
	space   space
	files   map[uint32]abi.File
	parked  map[*caller]bool // that wait for their answer
	next    int              // number of the next descriptor
	bells   *bellRung

	buf, oob []byte
	into     unix.Msghdr // what a message is received into
	iov      unix.Iovec
}

// Serve serves a client on the thread home until it goes or hangUp is called,
// and then closes its files, the latest first: nothing that it made is left when
// gone is called. conn (taken) is a sequenced packet socket whose other end
// belongs to the process with that id; devices is what it can open by name.
func Serve(home Thread, conn *os.File, process int, devices map[string]abi.Opener, gone func()) (hangUp func()) {
	s := &session{home: home, conn: conn, fd: int(conn.Fd()), process: process, devices: devices, gone: gone,
		files: map[uint32]abi.File{}, parked: map[*caller]bool{},
		buf: make([]byte, MaxMessage), oob: make([]byte, unix.CmsgSpace(4*maxFDs))}
	s.iov.Base = &s.buf[0]
	s.iov.SetLen(len(s.buf))
	home.Do(func(frame.Time) { s.remove = home.AddSource(s.fd, s.poll, s.end) })
	return func() { home.Do(func(frame.Time) { s.end() }) }
}

// poll serves requests as long as there are some.
func (s *session) poll(frame.Time, bool) {
	for range requestsPerTurn {
		n, err := s.receive()
		if err == unix.EAGAIN {
			return
		}
		if err != nil || n == 0 || s.received(n) != nil { // a sequenced packet socket's end of file
			s.end()
			return
		}
	}
}

// receive takes a message, if there is one. Error EAGAIN: there is none.
func (s *session) receive() (n int, err error) {
	s.into = unix.Msghdr{Iov: &s.iov, Iovlen: 1, Control: &s.oob[0]}
	s.into.SetControllen(len(s.oob))
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.into)),
			unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// received serves the message of n octets. An error ends the session.
func (s *session) received(n int) error {
	var fds []int
	if n := s.into.Controllen; n > 0 {
		fds = ipc.Descriptors(s.oob[:n])
		defer ipc.Close(fds...)
	}
	if s.into.Flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return errMessage
	}
	s.serveBells()
	r, err := ParseRequest(s.buf[:n])
	if err != nil {
		return err
	}
	return s.serve(&r, fds)
}

// serve does what r asks and answers. An error ends the session.
func (s *session) serve(r *Request, fds []int) error {
	c, err := &caller{session: s}, error(syscall.EINVAL)
	switch r.Kind {
	case Open:
		err = s.open(c, r.File, string(r.Command))
	case Command:
		err = s.command(c, r)
	case Share:
		if len(fds) == 1 {
			err = s.space.share(fds[0], r.Addr, r.Size)
		}
	case Unshare:
		err = s.space.unshare(r.Addr)
	case Close:
		err = s.close(r.File)
	case Bell:
		err = s.addBell(c, r)
	default:
		return errMessage
	}
	if !errors.Is(err, abi.Later) {
		c.answer(err)
	}
	return nil
}

func (s *session) open(c *caller, number uint32, name string) error {
	open, known := s.devices[name]
	switch {
	case !known:
		return syscall.ENOENT
	case s.files[number] != nil:
		return syscall.EEXIST
	case len(s.files) == maxFiles:
		return syscall.EMFILE
	}
	f, fd, err := open(c, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK)
	if err == nil {
		s.files[number] = f
		_, err = c.Install(fd, syscall.O_CLOEXEC)
	}
	return err
}

func (s *session) command(c *caller, r *Request) error {
	f := s.files[r.File]
	switch {
	case f == nil:
		return syscall.EBADF
	case len(s.parked) == maxParked:
		return syscall.EAGAIN
	}
	c.file, c.mem = f, make([]byte, r.Size)
	copy(c.mem, r.Memory)
	s.parked[c] = true
	err := f.Command(c, r.Command)
	if !errors.Is(err, abi.Later) {
		delete(s.parked, c)
	}
	return err
}

// close takes back what waits for the file, then closes it.
func (s *session) close(number uint32) error {
	f := s.files[number]
	if f == nil {
		return syscall.EBADF
	}
	delete(s.files, number)
	for c := range s.parked {
		if c.file == f && f.Cancel(c) {
			c.Done(syscall.EBADF)
		}
	}
	f.Close()
	return nil
}

// end closes what the client has open, its latest file first, and the
// connection.
func (s *session) end() {
	if s.ended {
		return
	}
	s.ended = true
	if s.remove != nil {
		s.remove()
	}
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
	s.endBells()
	for len(s.files) > 0 {
		_ = s.close(slices.Max(slices.Collect(maps.Keys(s.files))))
	}
	clear(s.parked) // what could not be taken back is answered to nobody
	_ = s.conn.Close()
	s.gone()
}
