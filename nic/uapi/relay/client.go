package relay

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/trap"
)

// Client is the supervisor's end: a trap.Handler for device files that another
// process has.
//
//	c, err := relay.Dial(ctx, ctl.RunPath("nic0"), relay.Ask{NICs: []string{"nic0"}})
//	c.Add("/dev/infiniband/uverbs0", relay.Uverbs("nic0"), trap.Stat{Mode: ..., Rdev: ...})
//	c.Add("/dev/infiniband/rdma_cm", relay.UCMA, trap.Stat{Mode: ..., Rdev: ...})
//	p, err := trap.Start(trap.Options{Handlers: []trap.Handler{c, ...}, ...})
//	... p.Wait ...
//	c.Close()
//
// When the program opens the first device file, the NIC's process takes the
// listener over and hands back what is not for a device file.
type Client struct {
	// Hello is what the NIC's process said.
	Hello Hello

	files      *trap.Files
	supervisor *trap.Supervisor
	link       *link
	read       chan struct{} // closed when nothing is received any more
	foreign    queue

	mu    sync.Mutex
	lost  bool
	taken bool          // the other side receives the calls
	paper []*ipc.Ledger // of what it has received
	next  uint64
	calls map[uint64]*call // those that the other side was told of
	open  map[uint64]*clientFile
}

// call is one that the other side was told of.
type call struct {
	*trap.Call
	opens *device      // nil: it does not
	file  *clientFile  // nil: it does not write
	wait  *trap.Parked // if it writes
}

// Dial connects to the socket at path, unless ctx ends before. Errors: *Refused,
// or why the NIC's process cannot be reached.
func Dial(ctx context.Context, path string, a Ask) (*Client, error) {
	conn, hello, err := Greet(ctx, path, a)
	if err != nil {
		return nil, err
	}
	files := trap.NewFiles(trap.Cond{Arg: 1, Mask: ^uint32(0), Value: abi.VerbsIoctl})
	c := &Client{Hello: hello, files: files, link: newLink(conn), read: make(chan struct{}),
		calls: map[uint64]*call{}, open: map[uint64]*clientFile{}}
	c.files.ServeWrites()
	c.foreign.init()
	go c.run()
	return c, nil
}

// Greet connects to the socket at path and asks, no more. Errors are those of
// Dial.
func Greet(ctx context.Context, path string, a Ask) (conn *net.UnixConn, h Hello, err error) {
	if conn, err = net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: path}); err != nil {
		return nil, h, err
	}
	_ = conn.SetDeadline(time.Now().Add(greetTimeout)) // it is open
	interrupted := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	a.Version = Version
	_ = say(conn, a) // who refused us at once does not read it, but has said why
	err = hear(conn, &h)
	if !interrupted() {
		err = ctx.Err()
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		what, remedy := ipc.NoAnswer(conn)
		err = &Refused{What: what, Remedy: remedy}
	}
	if err == nil { // else there is no answer
		if refused := cmp.Or(h.Refused, checkVersion(h.Version, Version)); refused != nil {
			err = refused
		}
	}
	if err != nil {
		conn.Close()
		return nil, h, err
	}
	return conn, h, conn.SetDeadline(time.Time{})
}

// Disconnect ends the connection before Close does: the calls that wait fail, and
// so does each from now on.
func (c *Client) Disconnect() { c.link.c.Close() }

// Close ends the connection; the files that the program still has are closed.
func (c *Client) Close() {
	c.link.c.Close()
	<-c.read
	c.foreign.end()
}

// Add shows the device called name at path: absolute, clean, and before the
// program is started. Opening one that is not among Hello.Devices is ENODEV.
func (c *Client) Add(path, name string, stat trap.Stat) {
	c.files.Add(path, &device{c, name, stat})
}

// Rules implements trap.Handler.
func (c *Client) Rules() []trap.Rule { return c.files.Rules() }

// Serve implements trap.Handler.
func (c *Client) Serve(call *trap.Call) trap.Answer { return c.files.Serve(call) }

// Attach implements trap.Attached.
func (c *Client) Attach(s *trap.Supervisor) { c.supervisor = s }

// run takes what the NIC's process says, until its end.
func (c *Client) run() {
	defer close(c.read)
	for {
		m, tail, fd, err := c.link.receive()
		if err != nil {
			break
		}
		c.take(&m, tail, fd)
	}
	c.mu.Lock()
	c.lost = true
	calls := c.calls
	c.calls = map[uint64]*call{}
	for _, f := range c.open {
		if f.bells != nil {
			f.bells.Gone() // else who rings would wait
		}
		f.speak()
	}
	c.mu.Unlock()
	for _, call := range calls {
		call.end(uint32(unix.ENODEV))
	}
	for _, l := range c.paper { // which only handOver changes, and not any more
		for _, id := range l.Unanswered() {
			c.supervisor.Call(trap.Notification{ID: id}).Finish(trap.Fail(unix.ENODEV))
		}
		l.Close()
	}
	c.receiveAgain()
}

// receiveAgain has the supervisor receive what the other side receives no more.
func (c *Client) receiveAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		c.taken = false
		c.supervisor.Resume()
	}
}

func (c *Client) take(m *message, tail string, fd int) {
	switch m.Kind {
	case opened:
		c.opened(m, fd)
		return
	case done:
		if call := c.forget(m.ID); call != nil {
			call.end(m.Errno)
		}
	case cancelled:
		if call := c.forget(m.ID); call != nil {
			call.Finish(trap.Restart()) // no one listens if its thread is gone
		}
	case again:
		if call := c.forget(m.ID); call != nil {
			c.repeat(call)
		}
	case ended:
		c.mu.Lock()
		f := c.open[m.File]
		delete(c.open, m.File)
		c.mu.Unlock()
		if f != nil {
			f.hush()
			c.files.Forget(f.id)
		}
	case bells:
		c.mu.Lock()
		if f := c.open[m.File]; f != nil {
			f.bells, _ = doorbell.Open(fd, -1) // without them the program is told nothing
		}
		c.mu.Unlock()
	case lastWords:
		c.mu.Lock()
		switch f := c.open[m.File]; {
		case f == nil:
		case fd < 0:
			f.hush()
		default:
			f.last, fd = append(f.last, words{fd, tail}), -1
		}
		c.mu.Unlock()
	case foreign:
		c.foreign.add(func() { c.supervisor.Serve(notification(tail)) })
	case back:
		c.foreign.add(c.receiveAgain)
	case install, waits, flags, memory, maps:
		go c.answer(m, fd) // which may take its time
		return
	}
	ipc.Close(fd)
}

// end answers a call.
func (made *call) end(errno uint32) {
	switch {
	case errno != 0:
		made.Finish(trap.Fail(syscall.Errno(errno)))
	default:
		made.Finish(taken(made.Call))
	}
}

// begin numbers a call that the other side is to be told of. False: it is
// gone.
func (c *Client) begin(made *call) (id uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost {
		return 0, false
	}
	c.next++
	c.calls[c.next] = made
	return c.next, true
}

// forget removes a call and returns it.
func (c *Client) forget(id uint64) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.calls[id]
	delete(c.calls, id)
	if have != nil && have.wait != nil {
		have.wait.Unpark()
	}
	return have
}
