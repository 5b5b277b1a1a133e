package netlink

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/errno"
	"tapir/nic/uapi/trap"
)

const (
	// maxJobs is how many datagrams of a program may wait for their answers.
	maxJobs = 64
	// maxQueued is how many octets of answers a program may leave unread until
	// whoever has more for it waits.
	maxQueued = 1 << 20
	// maxDatagram is the longest that a program may send.
	maxDatagram = 1 << 20
	// goodLen is how long datagrams of several messages become: programs read them
	// into a page.
	goodLen = 3584
)

// socket is a served one. It is a trap.Writer.
type socket struct {
	*trap.Pipe
	of    *protocol
	ahead *os.File // the kernel's socket behind it
	fd    int      // of that
	jobs  chan job
	ended chan struct{}

	mu      sync.Mutex
	room    sync.Cond
	closed  bool
	queue   [][]byte
	queued  int // octets
	readers []*reader
	patient time.Duration // SO_RCVTIMEO; 0: for ever
}

// job is a datagram that the program has sent.
type job struct {
	datagram []byte
	admin    bool
	spaces   []int // descriptors of ours, of namespaces that the datagram names
}

// reader is a call that waits for a datagram.
type reader struct {
	c    *trap.Call
	into into
	wait *trap.Parked
	late *time.Timer // nil: it waits for ever
}

func newSocket(of *protocol, kind int) (*socket, error) {
	number := of.number
	if !of.kernel {
		number = unix.NETLINK_USERSOCK // which has addresses and options, and no kernel behind it
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, number)
	if err != nil {
		return nil, err
	}
	flags := 0
	if kind&unix.SOCK_NONBLOCK != 0 {
		flags = unix.O_NONBLOCK
	}
	pipe, err := trap.NewPipe(flags)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	s := &socket{Pipe: pipe, of: of, fd: fd, ahead: os.NewFile(uintptr(fd), "netlink"), jobs: make(chan job, maxJobs),
		ended: make(chan struct{})}
	s.room.L = &s.mu
	go s.work()
	if of.kernel {
		go s.listen()
	}
	return s, nil
}

// Ioctl implements trap.File.
func (s *socket) Ioctl(*trap.Call, uint32, uint64) trap.Answer { return trap.Fail(unix.ENOTTY) }

// Write implements trap.Writer.
func (s *socket) Write(c *trap.Call, addr, n uint64) trap.Answer { return s.send(c, addr, n) }

// Release implements trap.File.
func (s *socket) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.room.Broadcast()
	close(s.ended)
	s.ahead.Close()
	s.Pipe.Release()
}

// send takes a datagram of n octets at addr.
func (s *socket) send(c *trap.Call, addr, n uint64) trap.Answer {
	if n > maxDatagram {
		return trap.Fail(unix.EMSGSIZE)
	}
	b := make([]byte, n)
	if err := c.Read(addr, b); err != nil {
		return trap.Fail(err)
	}
	return s.accept(c, b)
}

// accept takes a datagram.
func (s *socket) accept(c *trap.Call, b []byte) trap.Answer {
	j := job{datagram: b}
	for m := range messages(b) {
		if !s.of.kernel || !s.of.reads(m.Type) {
			j.admin = admin(c)
			break
		}
	}
	j.spaces = s.of.takeSpaces(c, b)
	select {
	case s.jobs <- j:
		return trap.Return(int64(len(b)))
	default:
		j.end()
		return trap.Fail(unix.ENOBUFS)
	}
}

// end closes what the job has open.
func (j *job) end() {
	for _, fd := range j.spaces {
		unix.Close(fd)
	}
}

// work answers what the program sends, in order.
func (s *socket) work() {
	for {
		select {
		case j := <-s.jobs:
			for m := range messages(j.datagram) {
				s.request(m, j.admin)
			}
			j.end()
		case <-s.ended:
			return
		}
	}
}

// request answers one message.
func (s *socket) request(m Message, admin bool) {
	serve := s.of.services[m.Type]
	switch {
	case m.Flags&unix.NLM_F_REQUEST == 0 || m.Type < unix.NLMSG_MIN_TYPE:
		if m.Flags&unix.NLM_F_ACK != 0 {
			s.answer(&m, nil, nil)
		}
	case serve == nil && !s.of.kernel:
		s.answer(&m, nil, unix.EINVAL)
	case serve == nil && !admin && !s.of.reads(m.Type):
		s.answer(&m, nil, unix.EPERM)
	case serve == nil:
		to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
		if err := unix.Sendto(s.fd, m.append(nil), 0, to); err != nil {
			s.answer(&m, nil, err)
		}
	default:
		q := &Request{Message: m, Admin: admin}
		q.Kernel = func() ([]Message, error) { return s.exchange(q.Message) }
		list, err := serve(q)
		s.answer(&m, list, err)
	}
}

// answer queues what a request is answered with.
func (s *socket) answer(to *Message, list []Message, err error) {
	port := s.port()
	dump := (&Request{Message: *to}).Dump()
	var b []byte
	add := func(m *Message) {
		m.Seq, m.Port = to.Seq, port
		if len(b) > 0 && len(b)+headerLen+len(m.Body) > goodLen {
			s.put(b)
			b = nil
		}
		b = m.append(b)
	}
	if err == nil {
		for i := range list {
			if dump {
				list[i].Flags |= unix.NLM_F_MULTI
			}
			add(&list[i])
		}
	}
	switch {
	case err == nil && dump:
		s.put(b)
		b = nil
		add(&Message{Type: unix.NLMSG_DONE, Flags: unix.NLM_F_MULTI, Body: make([]byte, 4)})
	case err != nil || to.Flags&unix.NLM_F_ACK != 0:
		s.put(b)
		b = nil
		add(s.verdict(to, err))
	}
	s.put(b)
}

// verdict is the NLMSG_ERROR to a request; without an error an acknowledgement. It
// holds the request, its header alone with NETLINK_CAP_ACK.
func (s *socket) verdict(to *Message, err error) *Message {
	m := &Message{Type: unix.NLMSG_ERROR}
	m.Body = native.AppendUint32(nil, uint32(-int32(errno.Of(err))))
	capped, _ := unix.GetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK) // it is open, or nobody reads this
	asked := to.append(nil)
	if err == nil || capped != 0 {
		asked = asked[:headerLen]
		m.Flags = unix.NLM_F_CAPPED
	}
	m.Body = append(m.Body, asked...)
	explains, _ := unix.GetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK)
	if r, ok := errors.AsType[*Refusal](err); ok && explains != 0 {
		m.Flags |= unix.NLM_F_ACK_TLVS
		if capped != 0 {
			m.Flags |= unix.NLM_F_CAPPED
		}
		a := Attributes(m.Body)
		a.String(unix.NLMSGERR_ATTR_MSG, r.Text)
		m.Body = a
	}
	return m
}

// port is the socket's address, which it has from its first request on.
func (s *socket) port() uint32 {
	at, err := unix.Getsockname(s.fd)
	if a, ok := at.(*unix.SockaddrNetlink); err == nil && ok {
		if a.Pid == 0 && unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) == nil {
			return s.port()
		}
		return a.Pid
	}
	return 0
}

// put queues a datagram, or gives it to a call that waits. It waits for room.
func (s *socket) put(b []byte) {
	if len(b) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queued >= maxQueued && !s.closed {
		s.room.Wait()
	}
	if s.closed {
		return
	}
	s.queue = append(s.queue, b)
	s.queued += len(b)
	for len(s.readers) > 0 && len(s.queue) > 0 {
		r := s.readers[0]
		s.readers = s.readers[1:]
		if r.stop() {
			r.c.Finish(s.take(r.c, r.into))
		}
	}
	if len(s.queue) > 0 {
		_, w := s.Descriptor()
		_, _ = unix.Write(w, []byte{0}) // full: it is readable
	}
}

// stop ends the waiting. False: it has ended.
func (r *reader) stop() bool {
	if r.late != nil && !r.late.Stop() {
		return false
	}
	return r.wait.Unpark()
}

// take gives the caller the first datagram.
func (s *socket) take(c *trap.Call, to into) trap.Answer {
	b := s.queue[0]
	n, err := to.put(c, b)
	if err != nil {
		return trap.Fail(err)
	}
	if to.flags&unix.MSG_PEEK == 0 {
		s.queue, s.queued = s.queue[1:], s.queued-len(b)
		s.room.Broadcast()
	}
	if len(s.queue) == 0 {
		s.drain()
	}
	return trap.Return(int64(n))
}

// drain makes the pipe unreadable, by opening the end that the program has.
func (s *socket) drain() {
	_, w := s.Descriptor()
	r, err := unix.Open("/proc/self/fd/"+strconv.Itoa(w), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the program is woken in vain
	}
	defer unix.Close(r)
	var b [4096]byte
	for {
		if n, err := unix.Read(r, b[:]); n <= 0 || err != nil {
			return
		}
	}
}

// receive gives the caller the next datagram, perhaps later.
func (s *socket) receive(c *trap.Call, to into) trap.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.queue) > 0:
		return s.take(c, to)
	case to.flags&unix.MSG_DONTWAIT != 0 || nonblocking(c):
		return trap.Fail(unix.EAGAIN)
	}
	r := &reader{c: c, into: to}
	forget := func(a trap.Answer) {
		s.mu.Lock()
		for i, have := range s.readers {
			if have == r {
				s.readers = append(s.readers[:i:i], s.readers[i+1:]...)
			}
		}
		s.mu.Unlock()
		c.Finish(a)
	}
	r.wait = trap.Park(c, func() { forget(trap.Restart()) })
	if s.patient > 0 {
		r.late = time.AfterFunc(s.patient, func() {
			if r.wait.Unpark() {
				forget(trap.Fail(unix.EAGAIN))
			}
		})
	}
	s.readers = append(s.readers, r)
	return trap.Later()
}

// nonblocking tells whether the descriptor is O_NONBLOCK now.
func nonblocking(c *trap.Call) bool {
	fields, err := trap.ProcFields("/proc/" + strconv.Itoa(c.Thread()) + "/fdinfo/" + strconv.Itoa(c.Int(0)))
	flags, _ := strconv.ParseUint(fields["flags"], 8, 64) // 0 if there are none
	return err == nil && flags&unix.O_NONBLOCK != 0
}
