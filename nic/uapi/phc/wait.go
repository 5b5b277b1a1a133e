package phc

import (
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// stretch is how long a program waits at least for the stamp of a message
// that it has sent, even if it asks for less: an emulated NIC on a busy
// machine takes longer than a real one.
const stretch = 50 * time.Millisecond

// slice is how often a waiting call looks whether it is woken.
const slice = 10 * time.Millisecond

// reception is a recvmsg or recvmmsg on a stamped socket.
type reception struct {
	*socket
	c     *trap.Call
	fd    int // a descriptor of ours
	flags int
	at    []uint64 // of the program's struct msghdr
	many  bool     // recvmmsg: the messages' lengths are stored behind them
}

func (h *Handler) recvmsg(c *trap.Call) trap.Answer {
	return h.receive(c, c.Int(2), false, []uint64{c.Arg(1)})
}

func (h *Handler) recvmmsg(c *trap.Call) trap.Answer {
	var at []uint64
	for i := range min(c.Arg(2), maxIov) {
		at = append(at, c.Arg(1)+i*mmsghdrLen)
	}
	return h.receive(c, c.Int(3), true, at)
}

func (h *Handler) receive(c *trap.Call, flags int, many bool, at []uint64) trap.Answer {
	s := h.sockets.Find(c, c.Int(0))
	if s == nil || len(at) == 0 {
		return trap.Pass()
	}
	fd, err := c.Fd(c.Int(0))
	if err != nil {
		return fail(err)
	}
	r := &reception{socket: s, c: c, fd: fd, flags: flags, at: at, many: many}
	n, err := r.receive()
	if err != unix.EAGAIN || !r.mayWait() {
		unix.Close(fd)
		return answer(n, err)
	}
	go r.wait()
	return trap.Later()
}

func answer(n int, err error) trap.Answer { return trap.Result(int64(n), errnos.Of(err)) }

// mayWait tells whether the call blocks: the error queue never does, but for
// the hardware's part of it.
func (r *reception) mayWait() bool {
	if r.flags&unix.MSG_ERRQUEUE != 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.sent) > 0
	}
	flags, err := unix.FcntlInt(uintptr(r.fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_NONBLOCK == 0 && r.flags&unix.MSG_DONTWAIT == 0
}

// receive gives the program what is there. Error EAGAIN: nothing is.
func (r *reception) receive() (n int, err error) {
	for _, at := range r.at {
		got, err := r.one(at)
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		if !r.many {
			return got, nil
		}
		length := uint64(got)
		if err := trap.Put(r.c, at+msghdrLen, &length); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// one receives one message. The program's buffers are looked at first, so that
// a bad pointer costs no message.
func (r *reception) one(at uint64) (int, error) {
	b, err := readBuffers(r.c, at)
	if err != nil {
		return 0, err
	}
	if !r.c.Valid() {
		return 0, unix.ESRCH
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flags&unix.MSG_ERRQUEUE != 0 {
		r.pull(r.fd)
		r.advance()
		m, ok := r.take()
		if !ok {
			return 0, unix.EAGAIN
		}
		return b.deliver(r.c, m, r.flags)
	}
	m, err := receive(r.fd, r.flags&^unix.MSG_WAITALL, b.size)
	if err != nil {
		return 0, err
	}
	r.findPort(r.fd)
	p, event := r.eventMessage(m.data)
	m.restamp(r.option, r.keepSoftware(), func(at int64) (int64, bool) {
		if !event || !r.raw() || r.socket.flags&unix.SOF_TIMESTAMPING_RX_HARDWARE == 0 {
			return 0, false
		}
		return r.net.Rx(p, at)
	})
	return b.deliver(r.c, &m, r.flags)
}

// wait ends a call that blocks.
func (r *reception) wait() {
	defer unix.Close(r.fd)
	deadline := time.Now().Add(stretch)
	if r.flags&unix.MSG_ERRQUEUE == 0 {
		deadline = receiveTimeout(r.fd)
	}
	parked := trap.Park(r.c, nil)
	defer parked.Unpark()
	for {
		if r.flags&unix.MSG_ERRQUEUE != 0 {
			time.Sleep(lookAgain)
		} else {
			pollOne(r.fd, unix.POLLIN, time.Until(deadline))
		}
		n, err := r.receive()
		switch {
		case err != unix.EAGAIN, time.Now().After(deadline):
			r.c.Finish(answer(n, err))
			return
		case parked.Woken():
			r.c.Finish(trap.Restart())
			return
		}
	}
}

// lookAgain is how often a stamp that has not come is asked for.
const lookAgain = 300 * time.Microsecond

// receiveTimeout is when a call on fd gives up by SO_RCVTIMEO.
func receiveTimeout(fd int) time.Time {
	const never = 100 * 365 * 24 * time.Hour
	tv, err := unix.GetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO)
	if err != nil || tv.Nano() == 0 {
		return time.Now().Add(never)
	}
	return time.Now().Add(time.Duration(tv.Nano()))
}

// pollOne waits for events on fd, for at most a slice, and returns which came.
func pollOne(fd int, events int16, most time.Duration) int16 {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	ts := unix.NsecToTimespec(int64(max(0, min(most, slice))))
	if n, err := unix.Ppoll(p, &ts, nil); err != nil || n == 0 {
		return 0
	}
	return p[0].Revents
}

// pollfd is struct pollfd.
type pollfd struct {
	Fd              int32
	Events, Revents int16
}

// errorQueue is what poll reports of a socket with messages in the error
// queue (SO_SELECT_ERR_QUEUE).
const errorQueue = unix.POLLPRI | unix.POLLERR

// poll serves a wait for the stamp of a sent message: the kernel's comes at
// once, the hardware's later or never.
func (h *Handler) poll(c *trap.Call) trap.Answer {
	if c.Arg(1) != 1 {
		return trap.Pass()
	}
	p, err := trap.Get[pollfd](c, c.Arg(0))
	if err != nil || p.Events&unix.POLLPRI == 0 {
		return trap.Pass()
	}
	s := h.sockets.Find(c, int(p.Fd))
	if s == nil {
		return trap.Pass()
	}
	timeout, err := pollTimeout(c)
	if err != nil {
		return fail(err)
	}
	fd, err := c.Fd(int(p.Fd))
	if err != nil {
		return fail(err)
	}
	go s.waitSent(c, fd, p, timeout)
	return trap.Later()
}

// pollTimeout is how long poll or ppoll waits; negative: for ever.
func pollTimeout(c *trap.Call) (time.Duration, error) {
	if !pollCalls[c.Nr()] {
		return time.Duration(c.Int(2)) * time.Millisecond, nil
	}
	if c.Arg(2) == 0 {
		return -1, nil
	}
	ts, err := trap.Get[unix.Timespec](c, c.Arg(2))
	return time.Duration(ts.Nano()), err
}

// waitSent ends a poll.
func (s *socket) waitSent(c *trap.Call, fd int, p pollfd, timeout time.Duration) {
	defer unix.Close(fd)
	if timeout > 0 {
		timeout = max(timeout, stretch)
	}
	start := time.Now()
	var flagged bool // poll said that the error queue holds something
	parked := trap.Park(c, nil)
	defer parked.Unpark()
	for {
		s.mu.Lock()
		pulled := s.pull(fd)
		s.advance()
		ready, waiting := s.ready(), len(s.sent) > 0
		s.mu.Unlock()
		left := time.Hour
		if timeout >= 0 {
			left = timeout - time.Since(start)
		}
		over := left <= 0
		p.Revents = 0
		switch {
		case ready:
			p.Revents = errorQueue & (p.Events | unix.POLLERR)
		case flagged && pulled == 0:
			p.Revents = unix.POLLERR // an error of the socket itself
		default:
			if waiting {
				left = min(left, lookAgain)
			}
			came := pollOne(fd, p.Events, left)
			flagged = came&unix.POLLERR != 0
			p.Revents = came & p.Events &^ errorQueue
		}
		switch {
		case p.Revents != 0 || over:
			n := 0
			if p.Revents != 0 {
				n = 1
			}
			c.Finish(answer(n, trap.Put(c, c.Arg(0), &p)))
			return
		case parked.Woken():
			c.Finish(trap.Fail(unix.EINTR)) // poll is never made again
			return
		}
	}
}
