// Package eventfile waits for the events that a descriptor carries, with a spin
// before a goroutine is parked.
package eventfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/sched"
	"tapir/nic/verbs"
)

// File is a descriptor that carries events. A waiting goroutine is parked by
// the runtime's poller, unless it spins first; one waits at a time.
type File struct {
	file *os.File
	turn chan struct{}

	// The spin policy of the waiting goroutine.
	spins     bool
	shortWait bool          // the last wait was short
	begun     time.Time     // the origin of the times that follow
	ended     time.Duration // when the last wait ended
	yieldTill time.Duration // no spin before this time
	yield     time.Duration // how long the processor is left to others after a vain spin
	hits      int           // successful spins since the last vain one
	sliced    bool          // this thread's time slice is short, since the last wait
	raw       syscall.RawConn
	try       func(fd int) (done bool, err error)
	done      bool // by spin
	err       error
	spin      func(fd uintptr) // made once
}

// A goroutine whose last wait was short spins for the next event, for at most
// SpinTime: parking it and waking it again costs several times what the NIC
// takes. After a vain spin it yields, as others may have needed the processor to
// make the event happen: for SpinTime, then twice as long each time, up to
// maxYield. A vain spin after manyHits successful ones counts as chance.
// SpinTime is longer than the kernel's tick: for less the kernel has to set its
// timer, which in a virtual machine costs as much as the wait.
const (
	shortTime = time.Millisecond
	SpinTime  = 5 * time.Millisecond
	maxYield  = 100 * time.Millisecond

	manyHits = 8
)

// New takes f. spins says that a waiting goroutine may spin: it has nothing else
// to do.
func New(f *os.File, spins bool) *File {
	raw, _ := f.SyscallConn() // fails without a file
	p := &File{file: f, turn: make(chan struct{}, 1), raw: raw, spins: spins, begun: time.Now()}
	p.spin = func(fd uintptr) {
		spinPoll(fd)
		p.done, p.err = p.try(int(fd))
	}
	return p
}

// wait calls try whenever there may be something to read, until it says that
// it is done. Errors: ctx's, and what try returns.
func (p *File) wait(ctx context.Context, try func(fd int) (done bool, err error)) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	begin := p.now()
	err := p.await(ctx, try, begin)
	p.ended = p.now()
	p.shortWait = p.spins && p.ended-begin < shortTime
	p.try, p.err, p.sliced = nil, nil, false
	p.leave()
	return err
}

// MaySpin tells whether the caller should begin the next wait with a spin of
// its own, SpinTime long. The caller then has the turn until Spun.
func (p *File) MaySpin(ctx context.Context) bool {
	select {
	case p.turn <- struct{}{}:
	default:
		return false // somebody waits for events, and needs them
	}
	if p.shortWait && (p.yield == 0 || p.now() > p.yieldTill) && ctx.Err() == nil {
		if !p.sliced { // the thread stays as it is: what has to be done in a turn is short
			sched.Short()
			p.sliced = true
		}
		return true
	}
	p.leave()
	return false
}

// now asks for the monotonic clock alone.
func (p *File) now() time.Duration { return time.Since(p.begun) }

func (p *File) leave() { <-p.turn }

// Spun ends that spin. It was short if all since the last wait was.
func (p *File) Spun(inVain bool) {
	now := p.now()
	if inVain {
		p.spunInVain(now)
	} else {
		p.hits++
		p.shortWait = now-p.ended < shortTime
	}
	p.ended = now
	p.leave()
}

// spunInVain makes the next waits yield.
func (p *File) spunInVain(now time.Duration) {
	p.shortWait = false
	if p.yield = min(max(2*p.yield, SpinTime), maxYield); p.hits >= manyHits {
		p.yield = 0
	}
	p.hits, p.yieldTill = 0, now+p.yield
}

// enter waits for the turn.
func (p *File) enter(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *File) await(ctx context.Context, try func(fd int) (done bool, err error), now time.Duration) (err error) {
	p.try, p.done = try, false
	if p.shortWait && now > p.yieldTill && ctx.Err() == nil {
		if err = p.raw.Control(p.spin); err != nil || p.done || p.err != nil {
			p.hits++
			return errors.Join(err, p.err)
		}
		p.spunInVain(p.now())
	}
	for again := true; again && err == nil; {
		again, err = p.once(ctx)
	}
	return err
}

// spinPoll returns when there is something to read, SpinTime has passed, or
// the runtime wants the processor.
func spinPoll(fd uintptr) {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(int64(SpinTime))
	_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&timeout)), 0,
		0, 0)
}

// once ends a wait by a deadline in the past. That of the waiter before may
// come late: then the wait has to begin again.
func (p *File) once(ctx context.Context) (again bool, err error) {
	_ = p.file.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var failed error
	err = p.raw.Read(func(fd uintptr) (done bool) {
		done, failed = p.try(int(fd))
		return done || failed != nil
	})
	switch {
	case failed != nil:
		return false, failed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err() == nil, ctx.Err()
	}
	return false, err
}

// Read waits for an event of len(b) octets.
func (p *File) Read(ctx context.Context, b []byte) error {
	return p.wait(ctx, func(fd int) (bool, error) {
		// never waits
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
			uintptr(len(b)))
		switch {
		case errno == syscall.EAGAIN, errno == syscall.EINTR:
			return false, nil
		case errno != 0:
			return false, errno
		case n == 0:
			return false, fmt.Errorf("%w (%w)", verbs.ErrRemoved, io.EOF)
		case int(n) != len(b):
			return false, fmt.Errorf("event of %d octets, not %d: %w", n, len(b), io.ErrUnexpectedEOF)
		}
		return true, nil
	})
}

// Readable waits until there is something to read.
func (p *File) Readable(ctx context.Context) error {
	return p.wait(ctx, func(fd int) (bool, error) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 0); err != nil && err != syscall.EINTR {
			return false, err
		}
		switch {
		case poll[0].Revents&unix.POLLIN != 0:
			return true, nil
		case poll[0].Revents != 0:
			return false, fmt.Errorf("%w (%w)", verbs.ErrRemoved, io.EOF)
		}
		return false, nil
	})
}

// Close closes the descriptor.
func (p *File) Close() error { return p.file.Close() }
