package umode

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
)

// pipe is a descriptor that carries events. Who waits is parked by the
// runtime's poller; one waits at a time.
type pipe struct {
	file *os.File
	turn chan struct{}

	// Of who waits.
	naps   bool
	brisk  bool          // the last wait was short
	begun  time.Time     // what the times that follow count from
	ended  time.Duration // when it ended
	after  time.Duration // not before then is it begun with a nap
	vain   time.Duration // how long that is, after a nap in vain
	good   int           // naps since then
	sliced bool          // since the last wait: the goroutine may have moved to another thread
	raw    syscall.RawConn
	try    func(fd int) (done bool, err error)
	done   bool // by look
	err    error
	look   func(fd uintptr) // made once
}

// A goroutine whose last wait was short keeps its processor for the next, for
// at most briefly: to be parked, and to have the poller's thread and the
// scheduler find it again, costs several times what the NIC takes. If that was
// in vain, others may have needed the processor to make the event happen: they
// have it for as long, and longer if it is so again, up to a while; after many naps
// that were not it is chance. Briefly is longer than the kernel's tick: for less the
// kernel has to set its timer, which in a virtual machine costs as much as the
// wait.
const (
	short   = time.Millisecond
	briefly = 5 * time.Millisecond
	aWhile  = 100 * time.Millisecond

	manyNaps = 8
)

// newPipe takes f. naps says that who waits has nothing else to do.
func newPipe(f *os.File, naps bool) (*pipe, error) {
	raw, err := f.SyscallConn()
	p := &pipe{file: f, turn: make(chan struct{}, 1), raw: raw, naps: naps, begun: time.Now()}
	p.look = func(fd uintptr) {
		pollBriefly(fd)
		p.done, p.err = p.try(int(fd))
	}
	return p, err
}

// wait calls try whenever there may be something to read, until it says that
// it is done. Errors: ctx's, and what try returns.
func (p *pipe) wait(ctx context.Context, try func(fd int) (done bool, err error)) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	begin := p.now()
	err := p.await(ctx, try, begin)
	p.ended = p.now()
	p.brisk = p.naps && p.ended-begin < short
	p.try, p.err, p.sliced = nil, nil, false
	p.leave()
	return err
}

// mayNap tells whether the next wait should begin with a nap of the caller's own,
// briefly long. It then has the turn, until napped.
func (p *pipe) mayNap(ctx context.Context) bool {
	select {
	case p.turn <- struct{}{}:
	default:
		return false // somebody waits for events, and needs them
	}
	if p.brisk && (p.vain == 0 || p.now() > p.after) && ctx.Err() == nil {
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
func (p *pipe) now() time.Duration { return time.Since(p.begun) }

func (p *pipe) leave() { <-p.turn }

// napped is the end of that nap. It was short if all since the last wait was.
func (p *pipe) napped(inVain bool) {
	now := p.now()
	if inVain {
		p.inVain(now)
	} else {
		p.good++
		p.brisk = now-p.ended < short
	}
	p.ended = now
	p.leave()
}

// inVain is after a nap that was.
func (p *pipe) inVain(now time.Duration) {
	p.brisk = false
	if p.vain = min(max(2*p.vain, briefly), aWhile); p.good >= manyNaps {
		p.vain = 0
	}
	p.good, p.after = 0, now+p.vain
}

// enter waits for the turn.
func (p *pipe) enter(ctx context.Context) error {
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

func (p *pipe) await(ctx context.Context, try func(fd int) (done bool, err error), now time.Duration) (err error) {
	p.try, p.done = try, false
	if p.brisk && now > p.after && ctx.Err() == nil {
		if err = p.raw.Control(p.look); err != nil || p.done || p.err != nil {
			p.good++
			return errors.Join(err, p.err)
		}
		p.inVain(p.now())
	}
	for again := true; again && err == nil; {
		again, err = p.once(ctx)
	}
	return err
}

// pollBriefly returns when there is something to read, briefly has passed, or
// the runtime wants the processor.
func pollBriefly(fd uintptr) {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(int64(briefly))
	_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
}

// once ends a wait by a deadline in the past. That of the waiter before may
// come late: then the wait has to begin again.
func (p *pipe) once(ctx context.Context) (again bool, err error) {
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

// read waits for an event of len(b) octets.
func (p *pipe) read(ctx context.Context, b []byte) error {
	return p.wait(ctx, func(fd int) (bool, error) {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))) // never waits
		switch {
		case errno == syscall.EAGAIN, errno == syscall.EINTR:
			return false, nil
		case errno != 0:
			return false, errno
		case n == 0:
			return false, errLost(io.EOF)
		case int(n) != len(b):
			return false, fmt.Errorf("event of %d octets, not %d: %w", n, len(b), io.ErrUnexpectedEOF)
		}
		return true, nil
	})
}

// readable waits until there is something to read.
func (p *pipe) readable(ctx context.Context) error {
	return p.wait(ctx, func(fd int) (bool, error) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 0); err != nil && err != syscall.EINTR {
			return false, err
		}
		switch {
		case poll[0].Revents&unix.POLLIN != 0:
			return true, nil
		case poll[0].Revents != 0:
			return false, errLost(io.EOF)
		}
		return false, nil
	})
}

func (p *pipe) close() error { return p.file.Close() }
