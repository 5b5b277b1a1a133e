package phc

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// What SO_TIMESTAMPING asks for that only hardware has, and what the kernel
// can do in its place.
const (
	hardware = unix.SOF_TIMESTAMPING_TX_HARDWARE | unix.SOF_TIMESTAMPING_RX_HARDWARE |
		unix.SOF_TIMESTAMPING_RAW_HARDWARE
	software = unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
)

var socketCalls = map[uint32]func(*Handler, *trap.Call) trap.Answer{
	unix.SYS_SETSOCKOPT: (*Handler).setSocket,
	unix.SYS_RECVMSG:    (*Handler).recvmsg,
	unix.SYS_RECVMMSG:   (*Handler).recvmmsg,
}

func init() {
	for nr := range pollCalls {
		socketCalls[nr] = (*Handler).poll
	}
}

// socketRules: of poll, only calls that wait for a single descriptor, as ptp4l
// waits for a Tx stamp.
func socketRules() []trap.Rule {
	rules := trap.Always(unix.SYS_RECVMSG, unix.SYS_RECVMMSG)
	for _, option := range []uint32{unix.SO_TIMESTAMPING, unix.SO_TIMESTAMPING_NEW} {
		rules = append(rules, trap.Rule{Nr: unix.SYS_SETSOCKOPT, When: []trap.Cond{
			{Arg: 1, Mask: ^uint32(0), Value: unix.SOL_SOCKET}, {Arg: 2, Mask: ^uint32(0), Value: option}}})
	}
	for nr := range pollCalls {
		rules = append(rules, trap.Rule{Nr: nr, When: []trap.Cond{{Arg: 1, Mask: ^uint32(0), Value: 1}}})
	}
	return rules
}

// socket is a socket of the program with SO_TIMESTAMPING of hardware.
type socket struct {
	net    *netdev
	family int
	flags  int    // as the program set them
	option uint32 // by which it did

	mu   sync.Mutex // calls that wait run on their own
	sent sentQueue
	port int // of UDP that the socket is bound to; 0: not known yet
}

// setSocket serves SO_TIMESTAMPING: the kernel makes software stamps of what
// the program wants from hardware.
func (h *Handler) setSocket(c *trap.Call) trap.Answer {
	id, err := c.File(c.Int(0))
	if err != nil {
		return trap.Pass()
	}
	want, err := trap.Get[int32](c, c.Arg(3))
	if err != nil || c.Int(4) < 4 {
		return trap.Pass()
	}
	h.sockets.Take(id)
	if want&hardware == 0 {
		return trap.Pass()
	}
	fd, err := c.Fd(c.Int(0))
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fd)
	n, family := h.netdevOf(fd)
	if n == nil {
		return trap.Pass()
	}
	if want&unix.SOF_TIMESTAMPING_BIND_PHC != 0 {
		return trap.Fail(unix.EINVAL) // there are no virtual clocks
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, c.Int(2), kernelFlags(int(want))); err != nil {
		return fail(err)
	}
	h.sockets.Put(id, &socket{net: n, family: family, flags: int(want), option: uint32(c.Int(2))})
	return trap.Return(0)
}

// kernelFlags are the kernel's stamps for what the program asked. The sent
// message itself must come back: it names the stamp.
func kernelFlags(want int) int {
	flags := want &^ (hardware | unix.SOF_TIMESTAMPING_OPT_TSONLY)
	if want&unix.SOF_TIMESTAMPING_TX_HARDWARE != 0 {
		flags |= unix.SOF_TIMESTAMPING_TX_SOFTWARE
	}
	if want&unix.SOF_TIMESTAMPING_RX_HARDWARE != 0 {
		flags |= unix.SOF_TIMESTAMPING_RX_SOFTWARE
	}
	return flags | unix.SOF_TIMESTAMPING_SOFTWARE
}

// netdevOf finds the NIC behind a socket that is bound to a netdev.
func (h *Handler) netdevOf(fd int) (*netdev, int) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return nil, 0
	}
	name := ""
	if family == unix.AF_PACKET {
		if sa, err := unix.Getsockname(fd); err == nil {
			if ll, ok := sa.(*unix.SockaddrLinklayer); ok {
				name = nameOf(fd, ll.Ifindex)
			}
		}
	} else if name, err = unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil {
		return nil, family
	}
	return h.netdevs[name], family
}

// nameOf is the name of the netdev with that index in the socket's namespace.
func nameOf(fd, index int) string {
	req := struct {
		name  [unix.IFNAMSIZ]byte
		index int32
		_     [20]byte
	}{index: int32(index)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFNAME,
		uintptr(unsafe.Pointer(&req))); errno != 0 {
		return ""
	}
	return unix.ByteSliceToString(req.name[:])
}

// findPort finds the port of a UDP socket.
func (s *socket) findPort(fd int) {
	if s.port != 0 {
		return
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		s.port = sa.Port
	case *unix.SockaddrInet6:
		s.port = sa.Port
	}
}
