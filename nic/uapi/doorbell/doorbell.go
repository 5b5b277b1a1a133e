// Package doorbell is what a NIC and a program share so that posting and arming
// cost no system call: a page of doorbells, and the library that rings them in
// place of the commands of a stock libibverbs.
package doorbell

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
)

// Max is how many doorbells there are.
const Max = words * 64

const (
	words    = 64
	pageSize = int(unsafe.Sizeof(page{}))
)

// Bells are doorbells: a bit for each, in memory that both sides have, and an
// eventfd that tells of it. A bit that is still set has been told of and not been
// looked at, so that ringing again costs no system call; nor does it while the NIC
// looks by itself, as it does when it is awake.
type Bells struct {
	mem  []byte
	page *page
	fd   int // eventfd; -1: none
}

// page is what the two sides share. The library knows it too (c/doorbell.c).
type page struct {
	rung  [words]atomic.Uint64
	words atomic.Uint64 // those of rung in which to look
	gone  atomic.Uint32 // the NIC's side has ended
	looks atomic.Uint32 // the NIC looks by itself
	// Of a device file, whose doorbells are the handles of its objects: the send
	// queues that may be rung for, and the completion queues that armed arms.
	posts, notifies [words]atomic.Uint64
	armed           [Max]atomic.Uint32
}

// Open takes up doorbells: their memory, whose descriptor stays the caller's, and
// the eventfd, taken; -1 for who does not ring. They last as long as something
// refers to them.
func Open(memory, eventfd int) (*Bells, error) {
	mem, err := ipc.Map(memory, pageSize)
	if err != nil {
		return nil, err
	}
	b := bellsIn(mem, eventfd)
	runtime.AddCleanup(b, func(left Bells) { left.close() }, *b)
	return b, nil
}

func bellsIn(mem []byte, eventfd int) *Bells {
	return &Bells{mem: mem, page: (*page)(unsafe.Pointer(&mem[0])), fd: eventfd}
}

// New makes doorbells, and the descriptor of their memory. End ends them.
func New() (b *Bells, memory int, err error) {
	mem, memory, err := ipc.NewMemory("tapir-bells", pageSize)
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

// FD is the eventfd, borrowed.
func (b *Bells) FD() int { return b.fd }

// End tells who rings that nobody hears any more, and gives everything back.
func (b *Bells) End() {
	b.Gone()
	b.close()
}

// Gone tells who rings that nobody hears any more.
func (b *Bells) Gone() {
	defer runtime.KeepAlive(b)
	b.page.gone.Store(1)
}

// Ring rings doorbell n. fresh: it had not been rung, or has been looked at since.
// Error: EPIPE, the NIC's side has ended.
func (b *Bells) Ring(n int) (fresh bool, err error) {
	defer runtime.KeepAlive(b)
	bit := uint64(1) << (n % 64)
	if b.page.gone.Load() != 0 {
		return false, syscall.EPIPE
	}
	if b.page.rung[n/64].Or(bit)&bit != 0 {
		return false, nil
	}
	b.page.words.Or(1 << (n / 64))
	if b.page.looks.Load() != 0 {
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
func (b *Bells) Rung() bool { return b.page.words.Load() != 0 }

// Looks says whether the NIC polls the doorbells by itself. After it has said no it looks once
// more, as who rings does so before asking.
func (b *Bells) Looks(yes bool) {
	looks := uint32(0)
	if yes {
		looks = 1
	}
	b.page.looks.Store(looks)
}

// Drain calls rung for each doorbell that was rung. The eventfd is not read: its
// O_NONBLOCK is the client's too, and its count, for which nobody waits, ends after
// 2^64-2 signals.
func (b *Bells) Drain(rung func(n int)) {
	for words := b.page.words.Swap(0); words != 0; words &= words - 1 {
		i := bits.TrailingZeros64(words)
		for set := b.page.rung[i].Swap(0); set != 0; set &= set - 1 {
			rung(i*64 + bits.TrailingZeros64(set))
		}
	}
}

// Posts says whether the send queue of handle n may be rung for in place of the
// command POST_SEND; a handle from Max on never may.
func (b *Bells) Posts(n uint32, may bool) { set(&b.page.posts, n, may) }

// Notifies says whether the completion queue of handle n is armed by the word that
// it returns, as by the command REQ_NOTIFY_CQ: ring.CompletionQueue says how. nil:
// it may not, or has no such word.
func (b *Bells) Notifies(n uint32, may bool) *atomic.Uint32 {
	if n < Max {
		b.page.armed[n].Store(0)
	}
	if set(&b.page.notifies, n, may); !may || n >= Max {
		return nil
	}
	return &b.page.armed[n]
}

func set(bits *[words]atomic.Uint64, n uint32, to bool) {
	switch {
	case n >= Max:
	case to:
		bits[n/64].Or(1 << (n % 64))
	default:
		bits[n/64].And(^uint64(1 << (n % 64)))
	}
}
