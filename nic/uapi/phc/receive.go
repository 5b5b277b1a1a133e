package phc

import (
	"encoding/binary"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/ptp"
	"tapir/nic/uapi/trap"
	"tapir/ptp/transport"
)

const (
	msghdrLen  = 56
	mmsghdrLen = msghdrLen + 8 // struct mmsghdr: a length behind it, padded
	maxIov     = 1024          // UIO_MAXIOV
	maxMessage = 1 << 20       // no message of these sockets is as long
	controlLen = 4096
)

// message is a received message, not yet the program's.
type message struct {
	name    []byte
	data    []byte
	full    int // its length where data was cut, with MSG_TRUNC
	control []byte
	flags   int32
}

// receive takes one message from a descriptor of ours, without waiting.
func receive(fd, flags, size int) (m message, err error) {
	m.data, m.control, m.name = make([]byte, max(size, 1)), make([]byte, controlLen),
		make([]byte, unix.SizeofSockaddrAny)
	iov := unix.Iovec{Base: &m.data[0]}
	iov.SetLen(size)
	hdr := unix.Msghdr{Name: &m.name[0], Namelen: uint32(len(m.name)), Iov: &iov, Iovlen: 1, Control: &m.control[0]}
	hdr.SetControllen(len(m.control))
	n, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&hdr)),
		uintptr(flags|unix.MSG_DONTWAIT))
	if errno != 0 {
		return m, errno
	}
	m.full = int(n)
	m.name, m.data, m.control = m.name[:hdr.Namelen], m.data[:min(int(n), size)], m.control[:hdr.Controllen]
	m.flags = hdr.Flags
	return m, nil
}

// buffers is where the program wants a message.
type buffers struct {
	at   uint64 // of its struct msghdr
	hdr  msghdr
	iovs []iovec
	size int
}

// msghdr and iovec are the structures of those names in another process: its
// pointers are numbers here.
type msghdr struct {
	Name       uint64
	Namelen    uint32
	_          uint32
	Iov        uint64
	Iovlen     uint64
	Control    uint64
	Controllen uint64
	Flags      int32
	_          uint32
}

type iovec struct{ Base, Len uint64 }

func readBuffers(c *trap.Call, at uint64) (b buffers, err error) {
	b.at = at
	if b.hdr, err = trap.Get[msghdr](c, at); err != nil {
		return b, err
	}
	if b.hdr.Iovlen > maxIov {
		return b, unix.EMSGSIZE
	}
	for i := range b.hdr.Iovlen {
		v, err := trap.Get[iovec](c, b.hdr.Iov+i*16)
		if err != nil {
			return b, err
		}
		b.iovs = append(b.iovs, v)
		b.size = min(b.size+int(min(v.Len, maxMessage)), maxMessage)
	}
	return b, nil
}

// deliver gives the program a message and returns what recvmsg returns.
func (b *buffers) deliver(c *trap.Call, m *message, flags int) (int, error) {
	left := m.data
	for _, v := range b.iovs {
		n := min(uint64(len(left)), v.Len)
		if err := c.Write(v.Base, left[:n]); err != nil {
			return 0, err
		}
		left = left[n:]
	}
	if len(left) > 0 {
		m.flags |= unix.MSG_TRUNC
	}
	if room := int(b.hdr.Namelen); b.hdr.Name != 0 {
		if err := c.Write(b.hdr.Name, m.name[:min(len(m.name), room)]); err != nil {
			return 0, err
		}
		b.hdr.Namelen = uint32(len(m.name))
	}
	control := m.control
	if room := int(b.hdr.Controllen); b.hdr.Control == 0 || len(control) > room {
		control, m.flags = nil, m.flags|unix.MSG_CTRUNC
	}
	if err := c.Write(b.hdr.Control, control); err != nil {
		return 0, err
	}
	b.hdr.Controllen = uint64(len(control))
	b.hdr.Flags = m.flags
	if err := trap.Put(c, b.at, &b.hdr); err != nil {
		return 0, err
	}
	if flags&unix.MSG_TRUNC != 0 {
		return m.full, nil
	}
	return len(m.data) - len(left), nil
}

// restamp replaces the kernel's stamp in a message's control data by the
// hardware's, and takes it away if there is none. The kernel's own stays
// where the program asked for it too. A message that the kernel did not stamp
// has realtime 0; its stamp gets the type of option.
func (m *message) restamp(option uint32, keepSoftware bool, stamp func(realtime int64) (ns int64, ok bool)) {
	out, found := m.control[:0:0], false
	for rest := m.control; len(rest) >= unix.CmsgLen(0); {
		n := int(binary.NativeEndian.Uint64(rest))
		if n < unix.CmsgLen(0) || n > len(rest) {
			break
		}
		whole := min(unix.CmsgSpace(n-unix.CmsgLen(0)), len(rest))
		c := rest[:whole]
		rest = rest[whole:]
		if !isStamps(c) {
			out = append(out, c...)
			continue
		}
		found = true
		ns, ok := stamp(readTime(c[softwareAt:]))
		if !keepSoftware {
			putTime(c[softwareAt:], 0)
		}
		if ok {
			putTime(c[hardwareAt:], ns)
		}
		if ok || keepSoftware {
			out = append(out, c...)
		}
	}
	if !found {
		if ns, ok := stamp(0); ok {
			var c [stampsLen]byte
			binary.NativeEndian.PutUint64(c[:], stampsLen)
			binary.NativeEndian.PutUint32(c[8:], unix.SOL_SOCKET)
			binary.NativeEndian.PutUint32(c[12:], option)
			putTime(c[hardwareAt:], ns)
			out = append(out, c[:]...)
		}
	}
	m.control = out
}

// A control message with stamps: its header, then struct scm_timestamping, of
// which the first is software's and the third hardware's.
const (
	softwareAt = 16
	hardwareAt = softwareAt + 2*16
	stampsLen  = softwareAt + 3*16
)

func isStamps(c []byte) bool {
	level, kind := binary.NativeEndian.Uint32(c[8:]), binary.NativeEndian.Uint32(c[12:])
	return len(c) >= stampsLen && level == unix.SOL_SOCKET &&
		(kind == unix.SO_TIMESTAMPING || kind == unix.SO_TIMESTAMPING_NEW)
}

// softwareStamp is the kernel's stamp in a message's control data.
func (m *message) softwareStamp() (at int64, ok bool) {
	probe := message{control: slices.Clone(m.control)}
	probe.restamp(0, true, func(realtime int64) (int64, bool) { at, ok = realtime, realtime != 0; return 0, false })
	return at, ok
}

// readTime and putTime are for struct timespec.
func readTime(b []byte) int64 {
	return int64(binary.NativeEndian.Uint64(b))*int64(time.Second) + int64(binary.NativeEndian.Uint64(b[8:]))
}

func putTime(b []byte, ns int64) {
	t := unix.NsecToTimespec(ns)
	binary.NativeEndian.PutUint64(b, uint64(t.Sec))
	binary.NativeEndian.PutUint64(b[8:], uint64(t.Nsec))
}

// eventMessage finds the PTP event message in data that the socket received: a
// frame, or the payload of UDP.
func (s *socket) eventMessage(data []byte) (ptp.Packet, bool) {
	if s.family == unix.AF_PACKET {
		return ptp.Parse(data)
	}
	if s.port != transport.EventPort {
		return ptp.Packet{}, false
	}
	kind := transport.UDPv4
	if s.family == unix.AF_INET6 {
		kind = transport.UDPv6
	}
	return ptp.ParseEvent(kind, data)
}
