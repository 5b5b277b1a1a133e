package relay

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/errno"
	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/trap"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// caller is a thread of a program. It implements abi.Caller and belongs to the
// home of its file. Its call is the supervisor's, or one that intake received.
type caller struct {
	s       *session
	file    *file // nil: it opens one
	thread  int
	fd      int    // that the command was written to
	ioctl   bool   // it came by ioctl
	process int    // 0: not yet looked up
	space   *space // of the process; nil: not yet looked up
	opens   bool   // its space is being opened, and the command then served again
	opened  bool   // it has been

	id   uint64     // the supervisor's number of the call
	made *trap.Call // own; nil: it is the supervisor's
	own  trap.Call
	in   *intake
	slot uint32 // of its ledger

	answered bool
	atEnd    bool        // of the iteration that serves it, intake ends the call
	answer   trap.Answer // with this
	parked   bool
	wait     *trap.Parked // of made
}

// newCaller is who makes a call that the supervisor has.
func newCaller(s *session, f *file, m *message) *caller {
	c := &caller{s: s, file: f, id: m.ID, thread: int(m.Thread), fd: int(m.FD), ioctl: m.Flags != 0}
	if f != nil {
		s.mu.Lock()
		s.calls[c.id] = c
		s.mu.Unlock()
	}
	return c
}

// Process implements abi.Caller; 0 if the thread is gone.
func (c *caller) Process() int {
	switch f := c.file; {
	case c.process != 0:
	case f == nil:
		c.process = processOf(c.thread)
	case f.process != 0 && f.proc.isTask(f.process, c.thread):
		c.process = f.process
	default:
		c.process = processOf(c.thread)
		f.process = c.process
	}
	return c.process
}

// processOf is the process that a thread belongs to; 0 if it is gone.
func processOf(thread int) int {
	n, _ := strconv.Atoi(procField(fmt.Sprintf("/proc/%d/status", thread), "Tgid"))
	return n
}

// procField is the value of a line of a file of /proc; empty if it is gone.
func procField(name, key string) string {
	fields, _ := trap.ProcFields(name)
	return fields[key]
}

// Read implements abi.Caller.
func (c *caller) Read(addr uint64, p []byte) error {
	if c.move(addr, p, false) != nil {
		return unix.EFAULT
	}
	return nil
}

// Write implements abi.Caller.
func (c *caller) Write(addr uint64, p []byte) error {
	if !c.still() || c.move(addr, p, true) != nil {
		return unix.EFAULT
	}
	return nil
}

// still tells whether the thread's id is that of the call, as far as can be
// told here.
func (c *caller) still() bool { return c.made == nil || c.made.Present() }

// begin tells whether the call is to be carried out. If not, the kernel makes it
// again, or its thread is gone.
func (c *caller) begin() bool { return c.made == nil || c.made.Valid() && c.made.Begin() }

// move copies from or to the program. Errors: EFAULT, errLeft.
func (c *caller) move(addr uint64, p []byte, write bool) error {
	if c.space == nil {
		if c.space = c.s.space(c.Process()); c.space == nil {
			return errLeft
		}
	}
	return c.space.move(addr, p, write)
}

// openSpace has the supervisor open the memory of the process, for which no
// thread of a NIC waits, and the command served again.
func (c *caller) openSpace(addr, n uint64) {
	c.opens = true
	pid, old := c.Process(), c.space
	go func() {
		err := c.s.openSpace(pid, old)
		c.file.home.Do(func(frame.Time) {
			c.opens, c.opened, c.space = false, true, nil
			if err != nil {
				c.finish(unix.EFAULT)
				return
			}
			c.file.serve(c, addr, n)
		})
	}()
}

// Region implements abi.Caller. The command has been read.
func (c *caller) Region(addr, n uint64, write bool) (verbs.Memory, error) {
	return c.space.region(addr, n, write)
}

// Install implements abi.Caller.
func (c *caller) Install(fd, flags int) (int, error) {
	if c.made != nil {
		return c.made.Install(fd, flags, trap.Lowest)
	}
	defer ipc.Close(fd)
	a, err := c.s.question(&message{Kind: install, Call: c.id, Flags: int64(flags & unix.O_CLOEXEC)}, fd)
	if err != nil {
		return -1, err
	}
	return int(a.Value), nil
}

// LastWords implements abi.LastWords: the supervisor keeps a copy of the descriptor.
func (c *caller) LastWords(fd int, b []byte) (revoke func()) {
	l, token := c.s.link, c.file.token
	l.send(&message{Kind: lastWords, File: token}, string(b), fd)
	return func() { l.send(&message{Kind: lastWords, File: token}, "", -1) }
}

// Nonblocking implements abi.Caller.
func (c *caller) Nonblocking() bool {
	text := procField(fmt.Sprintf("/proc/%d/fdinfo/%d", c.thread, c.fd), "flags")
	status, err := strconv.ParseInt(text, 8, 64)
	if err != nil && c.made != nil {
		return true // the thread is gone
	}
	if err != nil {
		a, err := c.s.question(&message{Kind: flags, Call: c.id, FD: int32(c.fd)}, -1)
		if err != nil {
			return true // the thread is gone
		}
		status = a.Value
	}
	return status&unix.O_NONBLOCK != 0
}

// Waits implements abi.Caller.
func (c *caller) Waits() bool {
	if c.made != nil {
		return c.made.Valid()
	}
	a, err := c.s.question(&message{Kind: waits, Call: c.id}, -1)
	if err == unix.ETIMEDOUT { // it may wait, and is passed over
		c.file.home.Do(func(frame.Time) { c.repeat() })
	}
	return err == nil && a.Value != 0
}

// Done implements abi.Caller.
func (c *caller) Done(err error) { c.finish(err) }

// finish answers the call.
func (c *caller) finish(err error) {
	if !c.forget() {
		return
	}
	number := errno.Of(err)
	switch {
	case c.made == nil:
		c.s.link.send(&message{Kind: done, ID: c.id, Errno: uint32(number)}, "", -1)
	case number != 0:
		c.end(trap.Fail(number))
	default:
		c.end(taken(c.made))
	}
}

// end ends a call that was received here.
func (c *caller) end(a trap.Answer) {
	if c.atEnd {
		c.answer = a
		return
	}
	c.made.Finish(a)
	c.in.leave(c.slot)
}

// park has the call wait for finish.
func (c *caller) park() {
	c.parked = true
	c.file.parked = append(c.file.parked, c)
	if c.made == nil {
		return // the supervisor looks after it
	}
	c.made.Wait()
	c.wait = trap.Park(c.made, func() { c.file.home.Do(func(frame.Time) { c.cancel() }) })
}

// cancel takes back a command that waits: there is a signal to handle, or the
// thread is gone and hears nothing.
func (c *caller) cancel() {
	switch {
	case !c.takeBack():
	case c.made == nil:
		c.s.link.send(&message{Kind: cancelled, ID: c.id}, "", -1)
	default:
		c.end(trap.Restart())
	}
}

// repeat has the supervisor send a waiting command again, as soon as it can.
func (c *caller) repeat() {
	if c.takeBack() {
		c.s.link.send(&message{Kind: again, ID: c.id}, "", -1)
	}
}

// takeBack ends a command that waits, unanswered; false if it does not wait.
func (c *caller) takeBack() bool {
	return c.parked && !c.answered && c.file.Cancel(c) && c.forget()
}

// forget forgets the call; false if it was forgotten before.
func (c *caller) forget() bool {
	if c.answered {
		return false
	}
	c.answered = true
	if c.made == nil {
		c.s.mu.Lock()
		delete(c.s.calls, c.id)
		c.s.mu.Unlock()
	}
	if c.wait != nil {
		c.wait.Unpark()
	}
	if c.parked {
		f := c.file
		i := slices.Index(f.parked, c)
		f.parked = slices.Delete(f.parked, i, i+1)
		if f.ended && len(f.parked) == 0 {
			f.home.Do(func(frame.Time) { f.end() }) // not from within the file
		}
	}
	return true
}
