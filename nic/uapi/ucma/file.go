package ucma

import (
	"slices"
	"syscall"

	"tapir/nic/uapi/abi"
)

// File is an open rdma_cm file: one event channel. It implements abi.File.
type File struct {
	home    *Device
	nics    []*Device // that the program has, as long as they are there
	owner   int       // process that opened it
	tokens  tokens
	events  []*event
	waiting []*command // GET_EVENTs, the longest first
	parked  []*command // others that are answered later
	closed  bool
}

// Open implements abi.Opener for programs that have d alone.
func (d *Device) Open(c abi.Caller, flags int) (abi.File, int, error) { return d.OpenWith()(c, flags) }

// OpenWith returns the abi.Opener for programs that have other NICs of the
// server besides d, which is the home of the files: what a program listens for
// on no address in particular is listened for on all of its NICs, and the one
// with the best route serves it as a client.
func (d *Device) OpenWith(others ...*Device) abi.Opener {
	return func(c abi.Caller, flags int) (abi.File, int, error) {
		f := &File{home: d, nics: append([]*Device{d}, others...), owner: c.Process()}
		fd, err := f.tokens.open(flags)
		if err != nil {
			return nil, -1, err
		}
		d.files = append(d.files, f)
		return f, fd, nil
	}
}

// process is whose a connection or listener is, as its Context says.
type process int

// Process is its id.
func (p process) Process() int { return int(p) }

// Close implements abi.File. Commands that still wait are not answered, as
// when a kernel's file is closed by another thread.
func (f *File) Close() {
	f.home.each(func(i *id) {
		if i.file == f {
			i.destroy()
		}
	})
	for _, c := range append(f.waiting, f.parked...) {
		c.ended = true
	}
	f.closed, f.waiting, f.parked, f.events = true, nil, nil, nil
	f.tokens.close()
	f.home.files = slices.DeleteFunc(f.home.files, func(o *File) bool { return o == f })
	f.home.forgetIfIdle()
}

// event is one that the program has not fetched yet.
type event struct {
	id  *id // to which it is reported
	req *id // of CONNECT_REQUEST: the id made for it
	// group is the one that was joined, with MULTICAST_JOIN.
	group *group
	resp  abi.CMEvent
}

// queue gives ev to a thread that waits, or keeps it for the next one.
func (f *File) queue(ev *event) {
	f.events = append(f.events, ev)
	f.serve()
	f.tokens.set(len(f.events))
}

// serve hands events to threads that wait for one. A thread that does not any
// more would lose its event: it is passed over, until it is cancelled.
func (f *File) serve() {
	for at := 0; len(f.events) > 0 && at < len(f.waiting); {
		c := f.waiting[at]
		if !c.caller.Waits() {
			at++
			continue
		}
		f.waiting = slices.Delete(f.waiting, at, at+1)
		c.finish(f.deliver(c))
	}
}

// getEvent is GET_EVENT.
func (f *File) getEvent(c *command) error {
	switch {
	case len(f.events) > 0:
		return f.deliver(c)
	case c.caller.Nonblocking():
		return syscall.EAGAIN
	}
	f.waiting = append(f.waiting, c)
	return abi.Later
}

// deliver answers c with the oldest event. One that cannot be written stays.
func (f *File) deliver(c *command) error {
	ev := f.events[0]
	if err := c.answer(0, abi.Octets(&ev.resp)); err != nil {
		return err
	}
	f.events[0] = nil
	f.events = f.events[1:]
	f.tokens.set(len(f.events))
	if ev.group != nil {
		ev.group.reported++
	} else {
		ev.id.reported++
	}
	if ev.req != nil {
		ev.id.backlog++
		ev.req.pending = false
	}
	return nil
}

// withdraw takes the events that were to be reported to i out of the queue
// and returns them.
func (f *File) withdraw(i *id) (list []*event) {
	f.events = slices.DeleteFunc(f.events, func(ev *event) bool {
		if ev.id == i {
			list = append(list, ev)
		}
		return ev.id == i
	})
	f.tokens.set(len(f.events))
	return list
}
