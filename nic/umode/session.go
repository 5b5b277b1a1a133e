package umode

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/ipc"
	"tapir/nic/umode/eventfile"
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

	bells     *doorbell.Bells // nil: none yet
	bellFree  []int           // numbers that were given back
	bellsUsed int
}

func newSession(conn *net.UnixConn) *session {
	return &session{conn: conn, in: make([]byte, proxy.MaxMessage), oob: make([]byte, unix.CmsgSpace(4*16)),
		fds: map[uint32]int{}}
}

// errLost is what a command gets when the NIC's process has ended.
func errLost(err error) error { return fmt.Errorf("%w (%w)", verbs.ErrRemoved, err) }

// ask sends a request, copies the memory of the answer into memory, and
// returns the number of the first file that came along. Errors: ErrRemoved, an
// errno.
func (s *session) ask(r *proxy.Request, memory []byte, fds ...int) (first uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = r.Append(s.out[:0])
	if _, _, err := s.conn.WriteMsgUnix(s.out, ipc.Rights(fds...), nil); err != nil {
		return 0, errLost(err)
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
	for i, fd := range ipc.Descriptors(oob) {
		syscall.CloseOnExec(fd)
		s.fds[first+uint32(i)] = fd
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

// takeEvents is take of a file that carries events.
func (s *session) takeEvents(number uint32, name string, spins bool) (*eventfile.File, error) {
	f, err := s.take(number, name)
	if err != nil {
		return nil, err
	}
	return eventfile.New(f, spins), nil
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

// bell is a command whose outcome nobody waits for, sent again and again: by a
// doorbell, or as others are where the proxy has no more doorbells.
type bell struct {
	file    *file
	command []byte
	number  int // of the doorbell; -1: none
	raw     syscall.RawConn
	poll    func(fd uintptr) // made once
	hungUp  atomic.Bool      // found by poll
}

func (f *file) newBell(command []byte) *bell {
	b := &bell{file: f, command: command}
	b.poll = b.look
	b.raw, _ = f.session.conn.SyscallConn() // fails without a connection
	var err error
	if b.number, err = f.session.takeBell(f.number, command); err != nil {
		b.number = -1
	}
	return b
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
	s.bells, err = doorbell.Open(memory, s.fds[first+1])
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
		b.file.session.giveBell(b.number)
	}
}

// ring announces.
func (b *bell) ring() error {
	if b.number < 0 {
		if err := b.file.command(b.command, nil); errors.Is(err, verbs.ErrRemoved) {
			return err
		}
		return nil
	}
	fresh, err := b.file.session.bells.Ring(b.number)
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
	err := b.raw.Control(b.poll)
	if err == nil && b.hungUp.Load() {
		err = syscall.EPIPE
	}
	return err
}

func (b *bell) look(fd uintptr) {
	fds := [1]unix.PollFd{{Fd: int32(fd)}}
	_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1,
		uintptr(unsafe.Pointer(&unix.Timespec{})), 0, 0, 0)
	if fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
		b.hungUp.Store(true)
	}
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
	ipc.Close(slices.Collect(maps.Values(s.fds))...)
	clear(s.fds)
	return err
}
