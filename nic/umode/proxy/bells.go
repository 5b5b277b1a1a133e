package proxy

import (
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/ipc"
)

// MaxBells is how many doorbells a client can have.
const MaxBells = bellWords * 64

const (
	bellWords = 64
	bellsSize = 4096
)

// Bells are a client's doorbells: a bit for each, in memory that both sides
// have, and an eventfd that tells of it. A bit that is still set has been told of
// and not been looked at, so that ringing again costs no system call; nor does it
// while the NIC looks by itself, as it does when it is awake.
type Bells struct {
	mem  []byte
	bell *bellMemory
	fd   int // eventfd

}

// bellMemory is what the two sides share.
type bellMemory struct {
	rung  [bellWords]atomic.Uint64
	words atomic.Uint64 // those of rung in which to look
	gone  atomic.Uint32 // the NIC's side has ended
	looks atomic.Uint32 // the NIC looks by itself
}

// OpenBells takes up the doorbells that came with the answer to a Bell: their
// memory, whose descriptor stays the caller's, and the eventfd, taken. They last
// as long as something refers to them.
func OpenBells(memory, eventfd int) (*Bells, error) {
	mem, err := ipc.Map(memory, bellsSize)
	if err != nil {
		return nil, err
	}
	b := bellsIn(mem, eventfd)
	runtime.AddCleanup(b, func(left Bells) { left.close() }, *b)
	return b, nil
}

func bellsIn(mem []byte, eventfd int) *Bells {
	return &Bells{mem: mem, bell: (*bellMemory)(unsafe.Pointer(&mem[0])), fd: eventfd}
}

// newBells makes doorbells, and the descriptor of their memory.
func newBells() (b *Bells, memory int, err error) {
	mem, memory, err := ipc.NewMemory("tapir-bells", bellsSize)
	if err != nil {
		return nil, -1, err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	b = bellsIn(mem, fd)
	if err != nil {
		ipc.Close(memory)
		b.close()
		return nil, -1, err
	}
	return b, memory, nil
}

// close gives the memory and the eventfd back. Nothing may ring any more.
func (b *Bells) close() {
	ipc.Close(b.fd)
	_ = unix.Munmap(b.mem)
}

// Ring rings doorbell n. fresh: it had not been rung, or has been looked at since.
// Error: EPIPE, the NIC's side has ended.
func (b *Bells) Ring(n int) (fresh bool, err error) {
	defer runtime.KeepAlive(b)
	bit := uint64(1) << (n % 64)
	if b.bell.gone.Load() != 0 {
		return false, syscall.EPIPE
	}
	if b.bell.rung[n/64].Or(bit)&bit != 0 {
		return false, nil
	}
	b.bell.words.Or(1 << (n / 64))
	if b.bell.looks.Load() != 0 {
		return true, nil
	}
	one := uint64(1)
	_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(b.fd), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
	if errno != 0 && errno != unix.EAGAIN {
		return true, errno
	}
	return true, nil
}

// Rung tells whether a doorbell was rung and not looked at.
func (b *Bells) Rung() bool { return b.bell.words.Load() != 0 }

// Looks says whether the NIC polls the doorbells by itself. After it has said no it looks once
// more, as who rings does so before asking.
func (b *Bells) Looks(yes bool) {
	looks := uint32(0)
	if yes {
		looks = 1
	}
	b.bell.looks.Store(looks)
}

// drain calls rung for each doorbell that was rung. The eventfd is not read: its
// O_NONBLOCK is the client's too, and its count, for which nobody waits, ends after
// 2^64-2 signals.
func (b *Bells) drain(rung func(n int)) {
	for words := b.bell.words.Swap(0); words != 0; words &= words - 1 {
		i := bits.TrailingZeros64(words)
		for set := b.bell.rung[i].Swap(0); set != 0; set &= set - 1 {
			rung(i*64 + bits.TrailingZeros64(set))
		}
	}
}

// Doorbells are a client's, for the loop of the thread that calls Step. fd, an
// eventfd that nobody reads, is signalled unless the loop Looks by itself.
type Doorbells interface {
	Rung() bool
	Serve()
	Looks(yes bool)
}

// bellRung is what a client's doorbells do.
type bellRung struct {
	*Bells
	session *session
	posts   []Request   // by number
	poster  *caller     // of all
	rung    func(n int) // made once
	stop    func()
}

// addBell makes doorbell r.Size one that posts r.Command.
func (s *session) addBell(c *caller, r *Request) error {
	switch {
	case s.files[r.File] == nil:
		return syscall.EBADF
	case r.Size >= MaxBells:
		return syscall.EINVAL
	}
	if s.bells == nil {
		if err := s.makeBells(c); err != nil {
			return err
		}
	}
	for uint64(len(s.bells.posts)) <= r.Size {
		s.bells.posts = append(s.bells.posts, Request{})
	}
	s.bells.posts[r.Size] = Request{File: r.File, Command: slices.Clone(r.Command)}
	return nil
}

func (s *session) makeBells(c *caller) error {
	b, memory, err := newBells()
	if err != nil {
		return err
	}
	fd, err := unix.FcntlInt(uintptr(b.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		ipc.Close(memory)
		b.close()
		return err
	}
	for _, fd := range []int{memory, fd} {
		_, _ = c.Install(fd, syscall.O_CLOEXEC) // an answer has room for more
	}
	s.bells = &bellRung{Bells: b, session: s, poster: &caller{session: s, silent: true}}
	s.bells.rung = s.bells.post
	s.bells.stop = s.home.AddBell(b.fd, s.bells)
	return nil
}

// Serve implements Doorbells.
func (b *bellRung) Serve() { b.session.serveBells() }

// post does what doorbell n is for. Nobody waits for what comes later.
func (b *bellRung) post(n int) {
	if n >= len(b.posts) {
		return
	}
	f := b.session.files[b.posts[n].File]
	if f != nil && errors.Is(f.Command(b.poster, b.posts[n].Command), abi.Later) {
		f.Cancel(b.poster)
	}
}

// serveBells does what was rung for. It comes before each request too: what was
// posted first goes first.
func (s *session) serveBells() {
	if s.bells != nil && s.bells.Rung() {
		s.bells.drain(s.bells.rung)
	}
}

// endBells is the end of the session for them.
func (s *session) endBells() {
	if s.bells != nil {
		s.bells.stop()
		s.bells.bell.gone.Store(1)
		s.bells.close()
		s.bells = nil
	}
}
