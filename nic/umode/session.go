package umode

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/umode/proxy"
	"tapir/nic/verbs"
)

// session is the connection to the proxy: one request is answered at a time.
type session struct {
	conn *net.UnixConn

	mu    sync.Mutex
	out   []byte
	in    []byte
	oob   []byte
	fds   map[uint32]int // received and not yet taken, by number
	files uint32

	bells     *proxy.Bells // nil: none yet
	bellFree  []int        // numbers that were given back
	bellsUsed int
}

func newSession(conn *net.UnixConn) *session {
	return &session{conn: conn, in: make([]byte, proxy.MaxMessage), oob: make([]byte, unix.CmsgSpace(4*16)),
		fds: map[uint32]int{}}
}

// errLost is what a command gets when the NIC's process has ended.
func errLost(err error) error { return fmt.Errorf("%w (%w)", verbs.ErrRemoved, err) }

// send needs s.mu.
func (s *session) send(r *proxy.Request, fds ...int) error {
	s.out = r.Append(s.out[:0])
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := s.conn.WriteMsgUnix(s.out, rights, nil); err != nil {
		return errLost(err)
	}
	return nil
}

// ask sends a request, copies the memory of the answer into memory, and
// returns the number of the first file that came along. Errors: ErrRemoved, an
// errno.
func (s *session) ask(r *proxy.Request, memory []byte, fds ...int) (first uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.send(r, fds...); err != nil {
		return 0, err
	}
	n, o, _, _, err := s.conn.ReadMsgUnix(s.in, s.oob)
	if err != nil {
		return 0, errLost(err)
	}
	a, err := proxy.ParseAnswer(s.in[:n])
	if err != nil {
		return 0, errLost(err)
	}
	s.store(a.First, s.oob[:o])
	copy(memory, a.Memory)
	if a.Errno != 0 {
		return 0, syscall.Errno(a.Errno)
	}
	return a.First, nil
}

// store stores the descriptors of an answer.
func (s *session) store(first uint32, oob []byte) {
	messages, _ := syscall.ParseSocketControlMessage(oob)
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		for j, fd := range fds {
			if err == nil {
				syscall.CloseOnExec(fd)
				s.fds[first+uint32(j)] = fd
			}
		}
	}
}

// take returns the file with that number, which came with an answer. A pipe
// that is read becomes one that the runtime's poller waits for.
func (s *session) take(number uint32, name string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd, ok := s.fds[number]
	if !ok {
		return nil, fmt.Errorf("%s: no file came with the answer: %w", name, verbs.ErrInvalid)
	}
	delete(s.fds, number)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// file is a device file that the proxy has open for this client.
type file struct {
	session *session
	number  uint32
	os      *os.File
}

// open opens a device.
func (s *session) open(name string) (*file, error) {
	s.mu.Lock()
	s.files++
	f := &file{session: s, number: s.files}
	s.mu.Unlock()
	first, err := s.ask(&proxy.Request{Kind: proxy.Open, File: f.number, Command: []byte(name)}, nil)
	if err == nil {
		f.os, err = s.take(first, name)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return f, nil
}

// command writes b into the file. memory is at proxy.Base, for the answer.
func (f *file) command(b, memory []byte) error { return f.with(nil, b, memory) }

// with is command with something in the memory before.
func (f *file) with(before, b, memory []byte) error {
	_, err := f.session.ask(&proxy.Request{Kind: proxy.Command, File: f.number, Size: uint64(len(memory)), Command: b,
		Memory: before}, memory)
	return err
}

// bell is a command without an answer that is sent again and again: by a
// doorbell if the proxy has them, else as a message.
type bell struct {
	session *session
	number  int // of the doorbell; -1: none
	raw     syscall.RawConn
	msg     []byte

	mu    sync.Mutex // of one message after the other
	errno syscall.Errno
	try   func(fd uintptr) bool // made once
}

func (f *file) newBell(command []byte) (*bell, error) {
	raw, err := f.session.conn.SyscallConn()
	if err != nil {
		return nil, errLost(err)
	}
	r := proxy.Request{Kind: proxy.Post, File: f.number, Command: command}
	b := &bell{session: f.session, raw: raw, msg: r.Append(nil)}
	b.try = b.send
	if b.number, err = f.session.takeBell(f.number, command); err != nil {
		b.number = -1 // messages do
	}
	return b, nil
}

// takeBell has the proxy make a doorbell.
func (s *session) takeBell(file uint32, command []byte) (number int, err error) {
	s.mu.Lock()
	if n := len(s.bellFree); n > 0 {
		number, s.bellFree = s.bellFree[n-1], s.bellFree[:n-1]
	} else {
		number, s.bellsUsed = s.bellsUsed, s.bellsUsed+1
	}
	s.mu.Unlock()
	first, err := s.ask(&proxy.Request{Kind: proxy.Bell, File: file, Size: uint64(number), Command: command}, nil)
	if err == nil {
		err = s.openBells(first)
	}
	if err != nil {
		s.giveBell(number)
	}
	return number, err
}

// openBells takes up the doorbells, whose files came with the first answer.
func (s *session) openBells(first uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	memory, came := s.fds[first]
	if s.bells != nil || !came {
		return nil
	}
	var err error
	s.bells, err = proxy.OpenBells(memory, s.fds[first+1])
	if err == nil {
		_ = syscall.Close(memory)
		delete(s.fds, first)
		delete(s.fds, first+1)
	}
	return err
}

func (s *session) giveBell(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bellFree = append(s.bellFree, number)
}

// end gives the doorbell back.
func (b *bell) end() {
	if b.number >= 0 {
		b.session.giveBell(b.number)
	}
}

// ring announces.
func (b *bell) ring() error {
	if b.number < 0 {
		return b.message()
	}
	fresh, err := b.session.bells.Ring(b.number)
	if err == nil && !fresh { // or nobody looks any more
		err = b.alive()
	}
	if err != nil {
		return errLost(err)
	}
	return nil
}

// alive looks whether the proxy is there.
func (b *bell) alive() error {
	fds := [1]unix.PollFd{}
	err := b.raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1,
			uintptr(unsafe.Pointer(&unix.Timespec{})), 0, 0, 0)
	})
	if err == nil && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
		err = syscall.EPIPE
	}
	return err
}

// message sends the message; it waits while there is no room for it.
func (b *bell) message() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.raw.Write(b.try); err != nil {
		return errLost(err)
	}
	if b.errno != 0 {
		return errLost(b.errno)
	}
	return nil
}

func (b *bell) send(fd uintptr) (sent bool) {
	for b.errno = syscall.EINTR; b.errno == syscall.EINTR; {
		_, _, b.errno = syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&b.msg[0])),
			uintptr(len(b.msg)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	}
	return b.errno != syscall.EAGAIN
}

func (f *file) close() error {
	_, err := f.session.ask(&proxy.Request{Kind: proxy.Close, File: f.number}, nil)
	_ = f.os.Close()
	return err
}

// close ends the connection: the proxy closes what is open.
func (s *session) close() error {
	err := s.conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.fds {
		_ = syscall.Close(fd)
	}
	clear(s.fds)
	return err
}
