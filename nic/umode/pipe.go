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
)

// pipe is a descriptor that carries events. Who waits is parked by the
// runtime's poller; one waits at a time.
type pipe struct {
	file *os.File
	turn chan struct{}

	// Of who waits.
	naps  bool
	brisk bool      // the last wait was short
	after time.Time // not before then is it begun with a nap
	raw   syscall.RawConn
	try   func(fd int) (done bool, err error)
	done  bool // by look
	err   error
	look  func(fd uintptr) // made once
}

// A goroutine whose last wait was short keeps its processor for the next, for
// at most briefly: to be parked, and to have the poller's thread and the
// scheduler find it again, costs several times what the NIC takes. If that was
// in vain, others may have needed the processor to make the event happen: they
// have it for a while. Briefly is longer than the kernel's tick: for less the
// kernel has to set its timer, which in a virtual machine costs as much as the
// wait.
const (
	short   = time.Millisecond
	briefly = 5 * time.Millisecond
	aWhile  = 100 * time.Millisecond
)

// newPipe takes f. naps says that who waits has nothing else to do.
func newPipe(f *os.File, naps bool) (*pipe, error) {
	raw, err := f.SyscallConn()
	p := &pipe{file: f, turn: make(chan struct{}, 1), raw: raw, naps: naps}
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
	begin := time.Now()
	err := p.await(ctx, try, begin)
	p.brisk = p.naps && time.Since(begin) < short
	p.try, p.err = nil, nil
	<-p.turn
	return err
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

func (p *pipe) await(ctx context.Context, try func(fd int) (done bool, err error), now time.Time) (err error) {
	p.try, p.done = try, false
	if p.brisk && now.After(p.after) && ctx.Err() == nil {
		if err = p.raw.Control(p.look); err != nil || p.done || p.err != nil {
			return errors.Join(err, p.err)
		}
		p.after = now.Add(aWhile)
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
