// Package eventpipe carries events of one size to a program, which reads them from a plain
// pipe, as from the channels of libibverbs, and counts which of them it has read.
package eventpipe

import (
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Source is who an event is of. Read counts the events that the program has
// read: libibverbs waits in destroy until as many were acknowledged.
type Source struct{ Read uint32 }

// Note is an event in or before a pipe.
type Note struct {
	Of   *Source // nil: of the port
	Data [16]byte
}

// Pipe carries events. What is in a pipe comes out in order, so the number of octets
// left in it tells which events have been read.
type Pipe struct {
	w    int // the end to write to, non-blocking; -1: closed
	size int // octets of an event
	// notes are the events not known to have been read, oldest first; the
	// first inside of them are in the pipe, the others wait for room.
	notes  []Note
	inside int
}

// countAt is how many notes are kept before the pipe is asked what was read.
const countAt = 256

// New makes the pipe for events of size octets, and returns the end for the program.
func New(size int) (p *Pipe, program int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	_ = unix.SetNonblock(fds[1], true) // a pipe can
	return &Pipe{w: fds[1], size: size}, fds[0], nil
}

// Closed is a pipe that nobody reads: it takes no events.
func Closed() *Pipe { return &Pipe{w: -1} }

// Push sends an event.
func (p *Pipe) Push(n Note) {
	if p.Add(n) {
		p.Flush()
	}
}

// Add has the next flush send an event. One that waits is not joined by its equal.
func (p *Pipe) Add(n Note) (open bool) {
	if p.w < 0 {
		return false
	}
	if !slices.Contains(p.notes[p.inside:], n) {
		if p.inside >= countAt {
			p.CountRead()
		}
		p.notes = append(p.notes, n)
	}
	return true
}

// atOnce is how many events one write(2) carries at most.
const atOnce = 16

// Flush writes what waits, as far as there is room. Several events are written at once, so
// that who is woken finds them all; where the pipe has no room for them, the kernel takes none.
func (p *Pipe) Flush() {
	most := atOnce
	for p.inside < len(p.notes) {
		var buf [atOnce * len(Note{}.Data)]byte
		n := min(len(p.notes)-p.inside, most)
		for i := range n {
			copy(buf[i*p.size:], p.notes[p.inside+i].Data[:p.size])
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
			p.CountRead()
			p.Close()
			return
		}
	}
}

// CountRead counts what was read.
func (p *Pipe) CountRead() {
	if p.w < 0 {
		return
	}
	if left, err := unix.IoctlGetInt(p.w, unix.TIOCINQ); err == nil {
		p.passed(p.inside - (left+p.size-1)/p.size)
	}
}

// passed records that the oldest n events were read.
func (p *Pipe) passed(n int) {
	for i := range max(n, 0) {
		if of := p.notes[i].Of; of != nil {
			of.Read++
		}
	}
	if n > 0 {
		p.notes = slices.Delete(p.notes, 0, n)
		p.inside -= n
	}
}

// Forget takes the unread events of one Source back. Its count stands afterwards.
func (p *Pipe) Forget(of *Source) {
	if p.w < 0 || !p.has(of) {
		return
	}
	if p.CountRead(); !p.has(of) {
		return
	}
	p.passed(p.inside - p.drain())
	p.inside = 0
	p.notes = slices.DeleteFunc(p.notes, func(n Note) bool { return n.Of == of })
	p.Flush()
}

// has tells whether events of a Source may not have been read.
func (p *Pipe) has(of *Source) bool {
	return slices.ContainsFunc(p.notes, func(n Note) bool { return n.Of == of })
}

// drain empties the pipe and returns how many events were in it. The end to
// read from is opened for this only: a pipe without one tells that the program
// has closed its own.
func (p *Pipe) drain() (events int) {
	r, err := unix.Open("/proc/self/fd/"+strconv.Itoa(p.w), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
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

// FD is the end to write to, borrowed; -1: the pipe is closed.
func (p *Pipe) FD() int { return p.w }

// Abandoned tells whether no one has the program's end any more.
func (p *Pipe) Abandoned() bool {
	if p.w < 0 {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(p.w)}}
	_, _ = unix.Poll(fds, 0)
	return fds[0].Revents&unix.POLLERR != 0
}

func (p *Pipe) Close() {
	if p.w >= 0 {
		_ = unix.Close(p.w)
	}
	p.w, p.notes, p.inside = -1, nil, 0
}
