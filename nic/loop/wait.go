package loop

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/wire/frame"
)

// waiter is where a loop sleeps: one epoll(7) descriptor, so that a sleep costs
// the same however many descriptors there are. A timerfd bounds the sleep, not the
// timeout of epoll: the kernel sets and clears a timer for each timeout, which in a
// virtual machine costs more than the sleep itself. The timerfd stays set across
// sleeps. It may go off early and is then set again.
type waiter struct {
	epoll int
	timer int        // timerfd
	alarm frame.Time // when the timer goes off, or went off
	fds   []unix.PollFd
	ready [16]unix.EpollEvent
}

func newWaiter() (w waiter, err error) {
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return w, fmt.Errorf("event loop: epoll: %w", err)
	}
	w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err == nil {
		err = w.control(unix.EPOLL_CTL_ADD, w.timer, unix.EPOLLIN|unix.EPOLLET)
	}
	if err != nil {
		w.close()
		return w, fmt.Errorf("event loop: timer: %w", err)
	}
	return w, nil
}

// close forgets all descriptors. The waiter may be told to forget them again.
func (w *waiter) close() {
	if w.timer > 0 {
		_ = unix.Close(w.timer)
	}
	_ = unix.Close(w.epoll)
	w.epoll, w.timer = -1, -1
}

func (w *waiter) control(op, fd int, events uint32) error {
	return unix.EpollCtl(w.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// add has fd waited for in place i of fds.
func (w *waiter) add(i, fd int, events uint32) error {
	if err := w.control(unix.EPOLL_CTL_ADD, fd, events); err != nil {
		return fmt.Errorf("event loop: epoll: %w", err)
	}
	w.fds = slices.Insert(w.fds, i, unix.PollFd{Fd: int32(fd), Events: int16(events)})
	return nil
}

// remove forgets the descriptor in place i, which is still open.
func (w *waiter) remove(i int) {
	if w.epoll >= 0 {
		_ = w.control(unix.EPOLL_CTL_DEL, int(w.fds[i].Fd), 0)
	}
	w.fds = slices.Delete(w.fds, i, i+1)
}

// want says which events the descriptor in place i is waited for.
func (w *waiter) want(i int, events int16) error {
	at := &w.fds[i]
	if at.Events == events {
		return nil
	}
	if err := w.control(unix.EPOLL_CTL_MOD, int(at.Fd), uint32(events)); err != nil {
		return fmt.Errorf("event loop: epoll: %w", err)
	}
	at.Events = events
	return nil
}

// alarmAt has the timer go off at a time at the latest.
func (w *waiter) alarmAt(now, at frame.Time) {
	if at == frame.Never || w.alarm > now && w.alarm <= at {
		return
	}
	w.alarm = at
	in := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at.Sub(now)))}
	_, _, _ = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(w.timer), 0, uintptr(unsafe.Pointer(&in)), 0, 0, 0)
}

// How long wait waits.
const (
	look  = iota // not at all
	nap          // until there is something, without telling the runtime
	sleep        // until there is something
)

// wait enters into fds what there is, and returns the number of descriptors that
// have something. A signal ends a wait, and so does the timer.
func (w *waiter) wait(how int) (n int, interrupted bool, err error) {
	timeout := -1
	call := unix.RawSyscall6
	switch how {
	case look:
		timeout = 0
	case sleep:
		call = unix.Syscall6
	}
	found, _, errno := call(unix.SYS_EPOLL_PWAIT, uintptr(w.epoll), uintptr(unsafe.Pointer(&w.ready)),
		uintptr(len(w.ready)), uintptr(timeout), 0, 0)
	switch errno {
	case 0:
	case unix.EINTR:
		return 0, true, nil
	default:
		return 0, false, fmt.Errorf("event loop: epoll: %w", errno)
	}
	for _, e := range w.ready[:found] {
		if i := slices.IndexFunc(w.fds, func(p unix.PollFd) bool { return p.Fd == e.Fd }); i >= 0 {
			w.fds[i].Revents = int16(e.Events)
			n++
		}
	}
	return n, false, nil
}

// await sleeps until a descriptor has something or the deadline; a past one only
// looks. n is the number of descriptors. After idleAfter without anything the
// spare buffers go.
func (l *Loop) await(now, deadline frame.Time) (n int, slept time.Duration, err error) {
	if deadline <= now {
		n, _, err = l.wait(look)
		return n, 0, err
	}
	begin := now
	for interrupted := !l.policy.nap; n == 0 && err == nil && now < deadline; now = l.clock.now() {
		if until := begin.Add(napFor); !interrupted && now < until {
			l.alarmAt(now, min(deadline, until))
			n, interrupted, err = l.wait(nap)
			continue
		}
		rest := begin.Add(idleAfter)
		if !l.rested && now >= rest {
			l.pool.Trim(1)
			l.rested = true
		}
		if l.rested {
			rest = frame.Never
		}
		l.alarmAt(now, min(deadline, rest))
		n, _, err = l.wait(sleep)
	}
	return n, now.Sub(begin), err
}

// catchUp is for a loop that is late for the engine's deadline, as it did not get the
// processor or served something long: frames of the wire that have arrived meanwhile, such
// as acknowledgements, come before the timers that they stop. What the host sends can wait:
// the engine's transmit queues have room for one batch, not for many. A flood does not hold
// the timers up for long.
func (l *Loop) catchUp() (frames bool, err error) {
	for range maxCatchUp {
		if l.due == frame.Never || l.clock.now().Sub(l.due) < late {
			break
		}
		clearEvents(l.fds[1:l.firstSource()])
		n, _, err := l.wait(look)
		if l.fds[0].Revents != 0 {
			l.drain()
		}
		if err != nil || n == 0 && !l.more {
			return frames, err
		}
		got, err := l.readPorts(true)
		if err != nil {
			return frames, err
		}
		l.serveSources() // the look has taken their events, and the mailbox's
		l.runMail()
		frames = frames || got
	}
	return frames, nil
}

func clearEvents(fds []unix.PollFd) {
	for i := range fds {
		fds[i].Revents = 0
	}
}
