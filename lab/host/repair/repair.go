// Package repair takes established TCP connections out of the kernel, whose peers do not notice
// (TCP_REPAIR of Linux: include/uapi/linux/tcp.h, Documentation of CRIU).
package repair

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/lab/host/netns"
)

// Conn is a connection of the kernel. A placeholder, a socket that is bound and nothing else,
// has its port as well, so that nobody listens there when the connection has left the kernel.
type Conn struct {
	*net.TCPConn
	holder int
}

// Dial connects from an address of a namespace to remote.
func Dial(ctx context.Context, ns *netns.NS, local netip.Addr, remote netip.AddrPort) (c *Conn, err error) {
	err = ns.Do(func() (err error) {
		c, err = dial(ctx, local, remote)
		return err
	})
	return c, err
}

func dial(ctx context.Context, local netip.Addr, remote netip.AddrPort) (*Conn, error) {
	holder, port, err := hold(local)
	if err != nil {
		return nil, fmt.Errorf("reserve a TCP port of %s: %w", local, err)
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, port))}
	d.SetMultipathTCP(false)
	d.Control = func(_, _ string, raw syscall.RawConn) error {
		return control(raw, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}
	tcp, err := d.DialContext(ctx, "tcp", remote.String())
	if err == nil { // from now on nobody else shares the port
		err = unix.SetsockoptInt(holder, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(holder))
	}
	return &Conn{tcp.(*net.TCPConn), holder}, nil
}

// hold binds a placeholder to a port that the kernel picks.
func hold(local netip.Addr) (fd int, port uint16, err error) {
	family := unix.AF_INET
	var addr unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte(local.AsSlice())}
	if local.Is6() {
		family, addr = unix.AF_INET6, &unix.SockaddrInet6{Addr: local.As16()}
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP); err != nil {
		return -1, 0, err
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, addr))
	if err == nil {
		addr, err = unix.Getsockname(fd)
	}
	switch a := addr.(type) {
	case *unix.SockaddrInet4:
		port = uint16(a.Port)
	case *unix.SockaddrInet6:
		port = uint16(a.Port)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, port, err
}

// Send writes p, or as much of it as the kernel takes at once.
func (c *Conn) Send(p []byte) (n int, err error) {
	err = c.with(func(fd int) error {
		n, err = unix.SendmsgN(fd, p, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return err
	})
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return max(n, 0), err
}

// Release gives the port back that the placeholder keeps, also when the connection is closed.
func (c *Conn) Release() {
	if c.holder >= 0 {
		unix.Close(c.holder)
		c.holder = -1
	}
}

// State is what the kernel knows of a connection. Lengths are in octets.
type State struct {
	Local, Remote      netip.AddrPort
	SndUna, RcvNxt     uint32 // sequence numbers of the first octet of Unacked and behind Received
	Unacked            []byte // the send queue: the peer has it, perhaps, but has not said so
	Received           []byte // the receive queue
	SndWnd, MaxWnd     uint32 // what the peer offers, and the most that it has
	SndScale, RcvScale uint8
	PeerMSS, RcvMSS    int // what the peer takes, and its largest segment
	SACK, Timestamps   bool
	TSVal              uint32 // the next timestamp, in milliseconds
	SRTT, RTTVar, RTO  time.Duration
	MinRTT             time.Duration
	Cwnd, Ssthresh     uint32 // segments of MSS
	MSS                int
}

// Errors of Save. The connection stays the kernel's.
var (
	ErrOutOfOrder = errors.New("data is held out of order, which a receive queue does not show")
	ErrState      = errors.New("the connection is not established")
	ErrOption     = errors.New("the connection has an option that cannot be moved: ECN, or timestamps in microseconds")
)

// Save freezes the connection and returns its state, both queues included. Close ends it then
// without a segment, Thaw gives it back to the kernel. The caller keeps segments of the peer away
// from before Save until after Close. Received is there with an error, too: it is read already.
func (c *Conn) Save() (s *State, err error) {
	plain := func(a net.Addr) netip.AddrPort {
		p := a.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	s = &State{Local: plain(c.LocalAddr()), Remote: plain(c.RemoteAddr())}
	err = c.with(func(fd int) error {
		var err error
		if s.Received, err = drain(fd, unix.MSG_DONTWAIT); err != nil {
			return err
		}
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_ON); err != nil {
			return fmt.Errorf("TCP_REPAIR: %w", err)
		}
		if err = s.read(fd); err != nil {
			err = errors.Join(err, thaw(fd))
		}
		return err
	})
	return s, err
}

// Thaw gives a connection back to the kernel that Save has frozen.
func (c *Conn) Thaw() error { return c.with(thaw) }

func thaw(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_OFF_NO_WP)
}

// Values of TCP_REPAIR_QUEUE, and states and options of struct tcp_info.
const (
	recvQueue   = 1
	sendQueue   = 2
	established = 1

	optTimestamps = 1
	optSACK       = 2
	optECN        = 8
	optMicro      = 64
)

// read reads the state of a frozen socket.
func (s *State) read(fd int) error {
	var memory [9 * 4]byte // SO_MEMINFO
	var window [5 * 4]byte // struct tcp_repair_window
	var info [152]byte     // struct tcp_info up to tcpi_min_rtt
	err := errors.Join(getsockopt(fd, unix.SOL_SOCKET, unix.SO_MEMINFO, memory[:]),
		getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_WINDOW, window[:]),
		getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_INFO, info[:]))
	u32 := func(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	micro := func(at int) time.Duration { return time.Duration(u32(info[:], at)) * time.Microsecond }
	switch {
	case err != nil:
		return err
	case info[0] != established:
		return ErrState
	case info[5]&(optECN|optMicro) != 0:
		return ErrOption
	case u32(memory[:], 0) > 0: // the receive queue is empty, so the queue of segments out of order is not
		return ErrOutOfOrder
	}
	s.SACK, s.Timestamps = info[5]&optSACK != 0, info[5]&optTimestamps != 0
	s.SndScale, s.RcvScale = info[6]&15, info[6]>>4
	s.RTO, s.SRTT, s.RTTVar, s.MinRTT = micro(8), micro(68), micro(72), micro(148)
	s.MSS, s.RcvMSS = int(u32(info[:], 16)), int(u32(info[:], 20))
	s.Ssthresh, s.Cwnd = u32(info[:], 76), u32(info[:], 80)
	s.SndWnd, s.MaxWnd = u32(window[:], 4), u32(window[:], 8)
	return s.queues(fd)
}

// queues reads the queues, sequence numbers and what else TCP_REPAIR shows.
func (s *State) queues(fd int) error {
	var err error
	value := func(option int) uint32 {
		v, bad := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, option)
		err = errors.Join(err, bad)
		return uint32(v)
	}
	choose := func(queue int) {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, queue))
	}
	choose(recvQueue)
	s.RcvNxt = value(unix.TCP_QUEUE_SEQ)
	choose(sendQueue)
	end := value(unix.TCP_QUEUE_SEQ)
	s.PeerMSS = int(value(unix.TCP_MAXSEG))
	if s.Timestamps {
		s.TSVal = value(unix.TCP_TIMESTAMP)
	}
	n, bad := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err = errors.Join(err, bad); err != nil || n == 0 {
		s.SndUna = end
		return err
	}
	s.SndUna, s.Unacked = end-uint32(n), make([]byte, n)
	got, _, err := unix.Recvfrom(fd, s.Unacked, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err == nil && got != n {
		err = fmt.Errorf("the send queue has %d of %d octets", got, n)
	}
	return err
}

// drain reads what there is.
func drain(fd, flags int) (all []byte, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, flags)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all, nil
		case err != nil:
			return all, err
		case n == 0:
			return all, ErrState
		}
		all = append(all, buf[:n]...)
	}
}

// with runs fn with the descriptor.
func (c *Conn) with(fn func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return control(raw, fn)
}

func control(raw syscall.RawConn, fn func(fd int) error) (err error) {
	bad := raw.Control(func(fd uintptr) { err = fn(int(fd)) })
	return errors.Join(bad, err)
}

// getsockopt reads an option of len(p) octets, or more of which it takes the first.
func getsockopt(fd, level, option int, p []byte) error {
	n := uint32(len(p))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&p[0])), uintptr(unsafe.Pointer(&n)), 0)
	switch {
	case errno != 0:
		return errno
	case int(n) != len(p):
		return fmt.Errorf("socket option %d has %d octets, not %d", option, n, len(p))
	}
	return nil
}
