package relay

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/errno"
	"tapir/nic/uapi/ipc"
	"tapir/nic/uapi/trap"
)

// device is a device of the NIC's process, as the program's supervisor has it.
type device struct {
	c    *Client
	name string
	stat trap.Stat
}

// Stat implements trap.Node.
func (d *device) Stat() trap.Stat { return d.stat }

// Open implements trap.Node. ServeOpen stands before it.
func (d *device) Open(int) (trap.File, error) { return nil, unix.ENXIO }

// ServeOpen implements trap.OpenServer.
func (d *device) ServeOpen(made *trap.Call, how int) trap.Answer {
	if !slices.Contains(d.c.Hello.Devices, d.name) {
		return trap.Fail(unix.ENODEV) // such as that of a NIC that has gone
	}
	w := &call{Call: made, opens: d}
	id, ok := d.c.begin(w)
	if !ok {
		return trap.Fail(unix.ENODEV)
	}
	d.c.handOver()
	d.c.tell(made, &message{Kind: open, ID: id, Flags: int64(how)}, d.name)
	d.c.recallIfWoken(id, w)
	return trap.Later()
}

// handOver has the NIC's process receive the program's calls. This one was
// received here, so this thread does not wait for the next, and must not from
// now on. Calls of the preloaded library always come here. Without memory for
// the ledger it stays so with the others too.
func (c *Client) handOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken || c.lost || c.supervisor.Fd() < 0 {
		return
	}
	terms, err := json.Marshal(c.supervisor.Terms())
	if err != nil {
		return
	}
	l, fd, err := ipc.NewLedger()
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if c.supervisor.Suspend() != nil {
		l.Close()
		return
	}
	c.taken, c.paper = true, append(c.paper, l)
	c.link.send(&message{Kind: paper}, "", fd)
	c.link.send(&message{Kind: take}, string(terms), c.supervisor.Fd())
}

// opened gives the program the descriptor of a file that is open.
func (c *Client) opened(m *message, fd int) {
	made := c.forget(m.ID)
	switch {
	case made == nil:
		ipc.Close(fd) // thus the file ends
		return
	case m.Errno != 0:
		ipc.Close(fd)
		made.Finish(trap.Fail(syscall.Errno(m.Errno)))
		return
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		ipc.Close(fd)
		made.Finish(trap.Fail(unix.EIO))
		return
	}
	f := &clientFile{c: c, token: m.File, id: trap.FileID{Dev: st.Dev, Ino: st.Ino}}
	c.mu.Lock()
	c.open[f.token] = f
	c.mu.Unlock()
	c.files.Adopt(f.id, f, made.opens.stat)
	made.Finish(trap.InstallReserved(fd, int(m.Flags)))
}

// clientFile is an open device file.
type clientFile struct {
	c     *Client
	token uint64
	id    trap.FileID
	bells *doorbell.Bells // as the supervisor has them; nil: there are none
	last  []words         // what the program is told if the NIC's process dies
}

// words are octets for a pipe of the program.
type words struct {
	fd   int // non-blocking
	text string
}

// speak writes the last words, unless the program does not listen, and forgets them.
func (f *clientFile) speak() {
	for _, w := range f.last {
		_, _ = unix.Write(w.fd, []byte(w.text))
	}
	f.hush()
}

// hush forgets the last words.
func (f *clientFile) hush() {
	for _, w := range f.last {
		ipc.Close(w.fd)
	}
	f.last = nil
}

// Descriptor implements trap.File; a file that was adopted is not asked.
func (f *clientFile) Descriptor() (fd, held int) { return -1, -1 }

// Ioctl implements trap.File.
func (f *clientFile) Ioctl(made *trap.Call, req uint32, _ uint64) trap.Answer {
	if req != abi.VerbsIoctl {
		return trap.Fail(unix.ENOTTY)
	}
	return f.ask(made)
}

// Release implements trap.File.
func (f *clientFile) Release() {}

// Write implements trap.Writer.
func (f *clientFile) Write(made *trap.Call, _, _ uint64) trap.Answer { return f.ask(made) }

// ask has the other side serve a command.
func (f *clientFile) ask(made *trap.Call) trap.Answer {
	if !f.c.command(&call{Call: made, file: f}) {
		return trap.Fail(unix.ENODEV)
	}
	return trap.Later()
}

// command tells the other side of a write or an ioctl. False: it is gone.
func (c *Client) command(w *call) bool {
	id, ok := c.begin(w)
	if !ok {
		return false
	}
	m := message{Kind: command, ID: id, File: w.file.token, FD: int32(w.Int(0))}
	if m.Addr, m.Len = argument(w.Call); w.Nr() == unix.SYS_IOCTL {
		m.Flags = 1
	}
	c.tell(w.Call, &m, "")
	c.recallIfWoken(id, w)
	return true
}

// argument is where a command lies and how long it is in octets, 0 for an ioctl,
// which tells that itself.
func argument(made *trap.Call) (addr, n uint64) {
	if made.Nr() == unix.SYS_IOCTL {
		return made.Arg(2), 0
	}
	return made.Arg(1), made.Arg(2)
}

// taken is what a served command returns: the octets written, 0 of an ioctl.
func taken(made *trap.Call) trap.Answer {
	_, n := argument(made)
	return trap.Return(int64(n))
}

// repeat reports a write again: the other side has asked whether its thread
// waits, and has not heard.
func (c *Client) repeat(w *call) {
	switch {
	case !w.Valid():
		w.Finish(trap.Restart()) // no one listens
	case !c.command(w):
		w.Finish(trap.Fail(unix.ENODEV))
	}
}

// recallPatience is how long the NIC's process may take to give a call back.
const recallPatience = 2 * time.Second

// recallIfWoken has a call taken back if its thread has a signal to handle or is
// gone. If the NIC's process does not do so in time, as one that is stopped, the
// call fails.
func (c *Client) recallIfWoken(id uint64, w *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[id] != w { // it is answered
		return
	}
	w.wait = trap.Park(w.Call, func() {
		c.link.send(&message{Kind: cancel, ID: id}, "", -1)
		time.AfterFunc(recallPatience, func() {
			if late := c.forget(id); late != nil {
				late.Finish(trap.Fail(unix.EIO))
			}
		})
	})
}

// answer answers a question of the NIC's process; fd is taken.
func (c *Client) answer(m *message, fd int) {
	out, outFD := message{Kind: reply, ID: m.ID}, -1
	c.mu.Lock()
	about := c.calls[m.Call]
	c.mu.Unlock()
	var err error
	switch {
	case m.Kind == memory:
		outFD, err = unix.Open(fmt.Sprintf("/proc/%d/mem", m.Thread), unix.O_RDWR|unix.O_CLOEXEC, 0)
	case m.Kind == maps:
		outFD, err = unix.Open(fmt.Sprintf("/proc/%d/maps", m.Thread), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	case about == nil:
		err = unix.ESRCH
	case m.Kind == waits:
		if about.Valid() {
			out.Value = 1
		}
	case m.Kind == flags:
		out.Value, err = statusFlags(about.Call, int(m.FD))
	case m.Kind == install:
		var n int
		n, err = about.Install(fd, int(m.Flags), trap.Lowest)
		fd, out.Value = -1, int64(n)
	}
	ipc.Close(fd)
	out.Errno = uint32(errno.Of(err))
	c.link.send(&out, "", outFD)
	ipc.Close(outFD)
}

// statusFlags are the file status flags of a descriptor of the program.
func statusFlags(made *trap.Call, fd int) (int64, error) {
	dup, err := made.Fd(fd)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dup)
	n, err := unix.FcntlInt(uintptr(dup), unix.F_GETFL, 0)
	return int64(n), err
}
