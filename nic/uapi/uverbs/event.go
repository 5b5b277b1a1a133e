package uverbs

import (
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/al"
	"tapir/nic/uapi/abi"
	"tapir/wire/frame"
)

// source is who an event is of. read counts the events that the program has
// read: libibverbs waits in destroy until as many were acknowledged.
type source struct{ read uint32 }

// target is an object that asynchronous events are about.
type target struct {
	f     *File
	user  uint64 // the program's name of it, in events
	async source
	to    *eventPipe
}

// target is what the events of the object that a command makes are about.
func (r *request) target(user uint64) target {
	t := target{f: r.f, user: user, to: r.events}
	if t.to == nil && len(r.f.asyncs) > 0 {
		t.to = r.f.asyncs[0].pipe
	}
	if t.to == nil {
		t.to = &eventPipe{w: -1}
	}
	return t
}

// AsyncEvent implements al.EventHandler.
func (t *target) AsyncEvent(ev al.Event, _ frame.Time) { pushAsync(t.to, &t.async, t.user, ev.Type) }

// eventsRead is what the command that destroys the object answers.
func (t *target) eventsRead() []uint32 { return []uint32{t.async.read} }

// note is an event in or before a pipe.
type note struct {
	of   *source // nil: of the port
	data [16]byte
}

// eventPipe carries events of one size to a program, which reads them from a
// plain pipe. What is in a pipe comes out in order, so the number of octets
// left in it tells which events have been read.
type eventPipe struct {
	w    int // the end to write to, non-blocking; -1: closed
	size int // octets of an event
	// notes are the events not known to have been read, oldest first; the
	// first inside of them are in the pipe, the others wait for room.
	notes  []note
	inside int
}

// countAt is how many notes are kept before the pipe is asked what was read.
const countAt = 256

// newEventPipe makes the pipe and returns the end for the program.
func newEventPipe(size int) (p *eventPipe, program int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	_ = unix.SetNonblock(fds[1], true) // a pipe can
	return &eventPipe{w: fds[1], size: size}, fds[0], nil
}

// push sends an event.
func (p *eventPipe) push(n note) {
	if p.add(n) {
		p.flush()
	}
}

// add has the next flush send an event. One that waits is not joined by its equal.
func (p *eventPipe) add(n note) (open bool) {
	if p.w < 0 {
		return false
	}
	if !slices.Contains(p.notes[p.inside:], n) {
		if p.inside >= countAt {
			p.countRead()
		}
		p.notes = append(p.notes, n)
	}
	return true
}

// atOnce is how many events one write(2) carries at most.
const atOnce = 16

// flush writes what waits, as far as there is room. Several events are written at once, so
// that who is woken finds them all; where the pipe has no room for them, the kernel takes none.
func (p *eventPipe) flush() {
	most := atOnce
	for p.inside < len(p.notes) {
		var buf [atOnce * len(note{}.data)]byte
		n := min(len(p.notes)-p.inside, most)
		for i := range n {
			copy(buf[i*p.size:], p.notes[p.inside+i].data[:p.size])
		}
		// never waits
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(p.w), uintptr(unsafe.Pointer(&buf)), uintptr(n*p.size))
		switch {
		case errno == 0:
			p.inside += n
		case errno == unix.EINTR:
		case errno == unix.EAGAIN && n > 1:
			most = 1
		case errno == unix.EAGAIN:
			return
		default: // no one has the program's end any more
			p.countRead()
			p.close()
			return
		}
	}
}

// countRead counts what was read.
func (p *eventPipe) countRead() {
	if p.w < 0 {
		return
	}
	if left, err := unix.IoctlGetInt(p.w, unix.TIOCINQ); err == nil {
		p.passed(p.inside - (left+p.size-1)/p.size)
	}
}

// passed records that the oldest n events were read.
func (p *eventPipe) passed(n int) {
	for i := range max(n, 0) {
		if of := p.notes[i].of; of != nil {
			of.read++
		}
	}
	if n > 0 {
		p.notes = slices.Delete(p.notes, 0, n)
		p.inside -= n
	}
}

// forget takes the unread events of one source back. Its count stands afterwards.
func (p *eventPipe) forget(of *source) {
	if p.w < 0 || !p.has(of) {
		return
	}
	if p.countRead(); !p.has(of) {
		return
	}
	p.passed(p.inside - p.drain())
	p.inside = 0
	p.notes = slices.DeleteFunc(p.notes, func(n note) bool { return n.of == of })
	p.flush()
}

// has tells whether events of a source may not have been read.
func (p *eventPipe) has(of *source) bool {
	return slices.ContainsFunc(p.notes, func(n note) bool { return n.of == of })
}

// drain empties the pipe and returns how many events were in it. The end to
// read from is opened for this only: a pipe without one tells that the program
// has closed its own.
func (p *eventPipe) drain() (events int) {
	r, err := unix.Open(procFD(p.w), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return p.inside
	}
	defer func() { _ = unix.Close(r) }()
	var buf [4096]byte
	octets := 0
	for {
		n, err := unix.Read(r, buf[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return octets / p.size
		}
		octets += n
	}
}

// abandoned tells whether no one has the program's end any more.
func (p *eventPipe) abandoned() bool {
	if p.w < 0 {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(p.w)}}
	_, _ = unix.Poll(fds, 0)
	return fds[0].Revents&unix.POLLERR != 0
}

func (p *eventPipe) close() {
	if p.w >= 0 {
		_ = unix.Close(p.w)
	}
	p.w, p.notes, p.inside = -1, nil, 0
}

// channel is a completion channel. The program names it by its descriptor.
type channel struct {
	pipe   *eventPipe
	number int // of the program's descriptor
	pid    int // of the process that made it
	cqs    int
}

// createCompChannel serves CREATE_COMP_CHANNEL{response; } -> {fd}.
func createCompChannel(r *request) error {
	f := r.f
	if len(f.channels) >= f.sweepAt {
		f.sweepChannels()
		f.sweepAt = 2*len(f.channels) + idleChannels
	}
	if len(f.channels) >= f.ctx.Query().MaxCQ {
		return syscall.ENOMEM
	}
	ch, err := r.newChannel(compEventLen)
	if err != nil {
		return err
	}
	f.channels = append(f.channels, ch)
	return r.answer(words(uint32(ch.number)), nil)
}

// newChannel makes a channel for events of that many octets.
func (r *request) newChannel(size int) (*channel, error) {
	pipe, program, err := newEventPipe(size)
	if err != nil {
		return nil, err
	}
	number, err := r.c.Install(program, syscall.O_CLOEXEC)
	if err != nil {
		pipe.close()
		return nil, err
	}
	return &channel{pipe: pipe, number: number, pid: r.c.Process()}, nil
}

// newAsyncChannel makes one for asynchronous events: if this process dies, DEVICE_FATAL is read.
func (r *request) newAsyncChannel() (*channel, error) {
	ch, err := r.newChannel(asyncEventLen)
	if c, ok := r.c.(abi.LastWords); ok && err == nil {
		fatal := native.AppendUint32(make([]byte, 8, asyncEventLen), uint32(al.DeviceFatal))
		r.f.revoke = c.LastWords(ch.pipe.w, native.AppendUint32(fatal, 0))
	}
	return ch, err
}

// allocAsync serves ASYNC_EVENT_ALLOC -> {fd}.
func allocAsync(r *request) error {
	f := r.f
	f.asyncs = slices.DeleteFunc(f.asyncs, func(ch *channel) bool {
		if ch.pipe.abandoned() {
			ch.pipe.countRead()
			ch.pipe.close()
		}
		return ch.pipe.w < 0 && ch != f.asyncs[0] // whose events are all objects' that have no other
	})
	if len(f.asyncs) >= f.ctx.Query().MaxCQ {
		return syscall.ENOMEM
	}
	ch, err := r.newAsyncChannel()
	if err != nil {
		return err
	}
	f.asyncs = append(f.asyncs, ch)
	return r.answer(words(uint32(ch.number)), nil)
}

// findChannel returns the newest of the channels with that descriptor that someone
// has open, preferably of the process itself: a child's may be numbered as its
// parent's.
func findChannel(channels []*channel, pid int, number int32) (*channel, error) {
	var found *channel
	for _, ch := range channels {
		better := found == nil || ch.pid == pid || found.pid != pid
		if ch.number == int(number) && better && !ch.pipe.abandoned() {
			found = ch
		}
	}
	if found == nil {
		return nil, syscall.EBADF
	}
	return found, nil
}

// idleChannels is how many channels without a reader a File keeps beside those in use.
const idleChannels = 8

// sweepChannels closes the channels that no one can read from: destroying one
// is close(2), of which the server is not told. Those with CQs are kept for
// their counts, without a descriptor.
func (f *File) sweepChannels() {
	f.channels = slices.DeleteFunc(f.channels, func(ch *channel) bool {
		if ch.pipe.abandoned() {
			ch.pipe.countRead()
			ch.pipe.close()
		}
		return ch.cqs == 0 && ch.pipe.w < 0
	})
}
