package proxy

import (
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/errno"
	"tapir/nic/uapi/ipc"
	"tapir/nic/verbs"
)

// caller is the thread of the client that sent a request. It implements
// abi.Caller.
type caller struct {
	session *session
	file    abi.File
	mem     []byte // at Base
	top     int    // the octets of it that were written
	fds     []int
	first   int
	silent  bool // nobody waits for the answer
}

var _ abi.Caller = (*caller)(nil)

// Process implements abi.Caller.
func (c *caller) Process() int { return c.session.process }

// at is the client's memory, nil if it has none there.
func (c *caller) at(addr uint64, n int) []byte {
	if off := addr - Base; addr >= Base && off <= uint64(len(c.mem)) && uint64(n) <= uint64(len(c.mem))-off {
		return c.mem[off:][:n]
	}
	if r := c.session.space.region(addr, uint64(n)); r != nil {
		return r.Bytes
	}
	return nil
}

// Read implements abi.Caller.
func (c *caller) Read(addr uint64, p []byte) error {
	mem := c.at(addr, len(p))
	if mem == nil {
		return syscall.EFAULT
	}
	copy(p, mem)
	return nil
}

// Write implements abi.Caller.
func (c *caller) Write(addr uint64, p []byte) error {
	mem := c.at(addr, len(p))
	if mem == nil {
		return syscall.EFAULT
	}
	copy(mem, p)
	if off := addr - Base; off < uint64(len(c.mem)) {
		c.top = max(c.top, int(off)+len(p))
	}
	return nil
}

// Install implements abi.Caller: the file goes with the answer.
func (c *caller) Install(fd, _ int) (int, error) {
	if len(c.fds) == maxFDs || c.silent || c.session.ended {
		_ = syscall.Close(fd)
		return -1, syscall.EMFILE
	}
	if len(c.fds) == 0 {
		c.first = c.session.next
		c.session.next += maxFDs
	}
	c.fds = append(c.fds, fd)
	return c.first + len(c.fds) - 1, nil
}

// Region implements abi.Caller: memory that was shared.
func (c *caller) Region(addr, n uint64, _ bool) (verbs.Memory, error) {
	if r := c.session.space.region(addr, n); r != nil {
		return r, nil
	}
	return nil, syscall.EFAULT
}

// Nonblocking implements abi.Caller: clients wait on descriptors.
func (c *caller) Nonblocking() bool { return true }

// Waits implements abi.Caller.
func (c *caller) Waits() bool { return !c.session.ended }

// Done implements abi.Caller.
func (c *caller) Done(err error) {
	if c.session.parked[c] {
		delete(c.session.parked, c)
		c.answer(err)
	}
}

// answer sends the answer, without waiting: who does not take it is gone.
func (c *caller) answer(err error) {
	defer ipc.Close(c.fds...)
	a := Answer{Errno: uint32(errno.Of(err)), First: uint32(c.first), Memory: c.mem[:c.top]}
	fd := c.session.fd
	if unix.Sendmsg(fd, a.Append(nil), ipc.Rights(c.fds...), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) != nil {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR) // seen as the client's end
	}
}
