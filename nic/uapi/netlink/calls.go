package netlink

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// calls are the system calls of sockets that are served, all with the descriptor as
// their first argument.
var calls = map[uint32]func(*socket, *trap.Call) trap.Answer{
	unix.SYS_BIND:        (*socket).bind,
	unix.SYS_CONNECT:     (*socket).connect,
	unix.SYS_GETSOCKNAME: (*socket).getsockname,
	unix.SYS_GETPEERNAME: (*socket).getpeername,
	unix.SYS_SETSOCKOPT:  (*socket).setsockopt,
	unix.SYS_GETSOCKOPT:  (*socket).getsockopt,
	unix.SYS_SENDTO:      (*socket).sendto,
	unix.SYS_SENDMSG:     (*socket).sendmsg,
	unix.SYS_RECVFROM:    (*socket).recvfrom,
	unix.SYS_RECVMSG:     (*socket).recvmsg,
}

// address is struct sockaddr_nl.
type address struct {
	Family uint16
	_      uint16
	Port   uint32
	Groups uint32
}

const addressLen = unix.SizeofSockaddrNetlink

// getAddress reads an address of n octets. Errors: EINVAL, EFAULT.
func getAddress(c *trap.Call, addr uint64, n int) (a address, err error) {
	if n < addressLen {
		return a, unix.EINVAL
	}
	if a, err = trap.Get[address](c, addr); err == nil && a.Family != unix.AF_NETLINK {
		err = unix.EINVAL
	}
	return a, err
}

func (s *socket) bind(c *trap.Call) trap.Answer {
	a, err := getAddress(c, c.Arg(1), c.Int(2))
	if err == nil {
		if !s.of.kernel {
			a.Groups = 0 // nobody sends to any
		}
		err = unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: a.Port, Groups: a.Groups})
	}
	return trap.Result(0, err)
}

// connect serves connect(2): there is only the kernel.
func (s *socket) connect(c *trap.Call) trap.Answer {
	a, err := getAddress(c, c.Arg(1), c.Int(2))
	if err == nil && a.Port != 0 {
		err = unix.ECONNREFUSED
	}
	return trap.Result(0, err)
}

func (s *socket) getsockname(c *trap.Call) trap.Answer {
	at, err := unix.Getsockname(s.fd)
	if err != nil {
		return trap.Fail(err)
	}
	a := address{Family: unix.AF_NETLINK}
	if at, ok := at.(*unix.SockaddrNetlink); ok {
		a.Port, a.Groups = at.Pid, at.Groups
	}
	return trap.Result(0, putAddress(c, c.Arg(1), c.Arg(2), &a))
}

func (s *socket) getpeername(c *trap.Call) trap.Answer {
	return trap.Result(0, putAddress(c, c.Arg(1), c.Arg(2), &address{Family: unix.AF_NETLINK}))
}

// putAddress stores an address where there is room, and its length.
func putAddress(c *trap.Call, addr, length uint64, a *address) error {
	room, err := trap.Get[uint32](c, length)
	if err != nil {
		return err
	}
	if err := c.Write(addr, octets(a)[:min(room, addressLen)]); err != nil {
		return err
	}
	n := uint32(addressLen)
	return trap.Put(c, length, &n)
}

func octets(a *address) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(a)), addressLen) }

// maxOption is the longest value of an option that is passed on.
const maxOption = 64

// socketOptions are those of SOL_SOCKET that have a meaning here.
var socketOptions = map[int]bool{unix.SO_RCVBUF: true, unix.SO_SNDBUF: true, unix.SO_RCVTIMEO: true,
	unix.SO_SNDTIMEO: true, unix.SO_RCVTIMEO_NEW: true, unix.SO_SNDTIMEO_NEW: true, unix.SO_TYPE: true,
	unix.SO_DOMAIN: true, unix.SO_ERROR: true, unix.SO_PROTOCOL: true}

// option tells which option a call is about. Error: ENOPROTOOPT.
func option(c *trap.Call) (level, name int, err error) {
	level, name = c.Int(1), c.Int(2)
	if level != unix.SOL_NETLINK && (level != unix.SOL_SOCKET || !socketOptions[name]) {
		return 0, 0, unix.ENOPROTOOPT
	}
	return level, name, nil
}

func (s *socket) setsockopt(c *trap.Call) trap.Answer {
	level, name, err := option(c)
	n := c.Int(4)
	if err == nil && (n < 0 || n > maxOption) {
		err = unix.EINVAL
	}
	if err != nil {
		return trap.Fail(err)
	}
	v := make([]byte, maxOption)
	if err := c.Read(c.Arg(3), v[:n]); err != nil {
		return trap.Fail(err)
	}
	if err := unix.SetsockoptString(s.fd, level, name, string(v[:n])); err != nil {
		return trap.Fail(err)
	}
	if level == unix.SOL_SOCKET && (name == unix.SO_RCVTIMEO || name == unix.SO_RCVTIMEO_NEW) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t := (*unix.Timeval)(unsafe.Pointer(&v[0])) // the kernel has taken it
		s.patient = time.Duration(t.Nano())
	}
	return trap.Return(0)
}

func (s *socket) getsockopt(c *trap.Call) trap.Answer {
	level, name, err := option(c)
	if err != nil {
		return trap.Fail(err)
	}
	room, err := trap.Get[uint32](c, c.Arg(4))
	if err != nil {
		return trap.Fail(err)
	}
	v := make([]byte, maxOption)
	n := min(room, maxOption)
	_, _, no := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&n)), 0)
	if no != 0 {
		return trap.Fail(no)
	}
	n = min(n, maxOption)
	if level == unix.SOL_SOCKET && name == unix.SO_PROTOCOL {
		native.PutUint32(v, uint32(s.of.number))
	}
	if err := c.Write(c.Arg(3), v[:min(n, room)]); err != nil {
		return trap.Fail(err)
	}
	return trap.Result(0, trap.Put(c, c.Arg(4), &n))
}

// toKernel tells whether an address, perhaps none, is the kernel's.
func toKernel(c *trap.Call, addr uint64, n int) error {
	if addr == 0 || n == 0 {
		return nil
	}
	a, err := getAddress(c, addr, n)
	if err == nil && (a.Port != 0 || a.Groups != 0) {
		err = unix.ECONNREFUSED // of other processes, none is reached
	}
	return err
}

func (s *socket) sendto(c *trap.Call) trap.Answer {
	if err := toKernel(c, c.Arg(4), c.Int(5)); err != nil {
		return trap.Fail(err)
	}
	return s.send(c, c.Arg(1), c.Arg(2))
}

// header is struct msghdr.
type header struct {
	Name       uint64
	NameLen    uint32
	_          uint32
	Vector     uint64
	Count      uint64
	Control    uint64
	ControlLen uint64
	Flags      int32
	_          uint32
}

// piece is struct iovec.
type piece struct{ Addr, Len uint64 }

// maxPieces is the kernel's limit, UIO_MAXIOV.
const maxPieces = 1024

// pieces reads the vector of a header. Errors: EMSGSIZE, EFAULT.
func (h *header) pieces(c *trap.Call) ([]piece, error) {
	if h.Count > maxPieces {
		return nil, unix.EMSGSIZE
	}
	list := make([]piece, h.Count)
	for i := range list {
		var err error
		if list[i], err = trap.Get[piece](c, h.Vector+uint64(i)*16); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s *socket) sendmsg(c *trap.Call) trap.Answer {
	h, err := trap.Get[header](c, c.Arg(1))
	if err == nil {
		err = toKernel(c, h.Name, int(h.NameLen))
	}
	if err != nil {
		return trap.Fail(err)
	}
	list, err := h.pieces(c)
	if err != nil {
		return trap.Fail(err)
	}
	var b []byte
	for _, p := range list {
		if uint64(len(b))+p.Len > maxDatagram || p.Len > maxDatagram {
			return trap.Fail(unix.EMSGSIZE)
		}
		part := make([]byte, p.Len)
		if err := c.Read(p.Addr, part); err != nil {
			return trap.Fail(err)
		}
		b = append(b, part...)
	}
	return s.accept(c, b)
}

// into is where a datagram is to be put.
type into struct {
	flags  int
	pieces []piece
	name   uint64 // 0: not wanted
	length uint64 // recvfrom: the address of the name's length
	header uint64 // recvmsg: of the header; 0: recvfrom
	h      header
}

func (s *socket) recvfrom(c *trap.Call) trap.Answer {
	return s.receive(c, into{flags: c.Int(3), pieces: []piece{{c.Arg(1), c.Arg(2)}}, name: c.Arg(4), length: c.Arg(5)})
}

func (s *socket) recvmsg(c *trap.Call) trap.Answer {
	h, err := trap.Get[header](c, c.Arg(1))
	if err != nil {
		return trap.Fail(err)
	}
	list, err := h.pieces(c)
	if err != nil {
		return trap.Fail(err)
	}
	return s.receive(c, into{flags: c.Int(2), pieces: list, name: h.Name, header: c.Arg(1), h: h})
}

// put stores a datagram and returns what the call does.
func (to *into) put(c *trap.Call, b []byte) (n int, err error) {
	left := b
	for _, p := range to.pieces {
		k := min(p.Len, uint64(len(left)))
		if err := c.Write(p.Addr, left[:k]); err != nil {
			return 0, err
		}
		left = left[k:]
	}
	n = len(b) - len(left)
	from := address{Family: unix.AF_NETLINK}
	if to.header == 0 {
		if to.name != 0 {
			err = putAddress(c, to.name, to.length, &from)
		}
	} else {
		err = to.putHeader(c, &from, len(left) > 0)
	}
	if to.flags&unix.MSG_TRUNC != 0 {
		n = len(b)
	}
	return n, err
}

// putHeader stores what recvmsg(2) tells in the header.
func (to *into) putHeader(c *trap.Call, from *address, truncated bool) error {
	h := to.h
	if h.Name != 0 {
		if err := c.Write(h.Name, octets(from)[:min(h.NameLen, addressLen)]); err != nil {
			return err
		}
		h.NameLen = addressLen
	}
	h.ControlLen, h.Flags = 0, 0
	if truncated {
		h.Flags = unix.MSG_TRUNC
	}
	return trap.Put(c, to.header, &h)
}
