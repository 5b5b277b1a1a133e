package tap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/wire/ether"
	"tapir/wire/headers"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// Observer learns from the kernel when event messages of PTP (IEEE 1588-2019
// section 7.3.3) passed a TAP: two packet sockets get a stamped copy of each.
// The kernel stamps what it sends just before the TAP's queue, and what the
// TAP's user writes while the write lasts, so that neither stamp depends on
// when the user is given the processor. An Observer belongs to the goroutine
// that reads and writes the TAP. While it exists, every frame on the TAP costs
// the kernel two filter runs.
type Observer struct {
	tunnels        []Tunnel
	received, sent sighter
	stats          ObserverStats
}

// ObserverStats counts what an Observer was asked for.
type ObserverStats struct {
	Stamped uint64 // frames whose stamp was found
	Missed  uint64 // frames without one
	Strange uint64 // stamps that nobody asked for, overwritten by newer ones
}

// headerLen is how much of a PTP message identifies a frame: the whole common
// header, with source port and sequence number.
const headerLen = 34

// eventPort is the UDP port of event messages.
const eventPort = 319

// Observe opens an observer of the interface called name, in the network
// namespace of the calling thread. It needs CAP_NET_RAW.
func Observe(name string, tunnels ...Tunnel) (*Observer, error) {
	return observe(name, true, tunnels)
}

// ObserveKernelSide is Observe for who uses the interface as the kernel does, by packet
// sockets: what the kernel receives is what it reads.
func ObserveKernelSide(name string, tunnels ...Tunnel) (*Observer, error) {
	return observe(name, false, tunnels)
}

func observe(name string, far bool, tunnels []Tunnel) (*Observer, error) {
	o := &Observer{tunnels: tunnels, received: sighter{fd: -1}, sent: sighter{fd: -1}}
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", name, err)
	}
	if err := errors.Join(o.received.open(ifi.Index, o, far), o.sent.open(ifi.Index, o, !far)); err != nil {
		o.Close()
		if errors.Is(err, unix.EPERM) {
			return nil,
				fmt.Errorf("observe %s: CAP_NET_RAW is missing: run as root or with `setcap cap_net_raw+ep`: %w", name,
					unix.EPERM)
		}
		return nil, fmt.Errorf("observe %s: %w", name, err)
	}
	return o, nil
}

// Received returns when the kernel sent b, a frame just read from the TAP, in
// nanoseconds of CLOCK_REALTIME. False means that b is no event message or
// that its stamp is lost.
func (o *Observer) Received(b []byte) (realtime int64, ok bool) { return o.find(&o.received, b) }

// Sent returns when the kernel received b, a frame just written to the TAP.
func (o *Observer) Sent(b []byte) (realtime int64, ok bool) { return o.find(&o.sent, b) }

func (o *Observer) find(s *sighter, b []byte) (int64, bool) {
	h := o.header(b)
	if h == nil {
		return 0, false
	}
	t, ok := s.find([headerLen]byte(h), &o.stats.Strange)
	if ok {
		o.stats.Stamped++
	} else {
		o.stats.Missed++
	}
	return t, ok
}

// Stats returns the counts so far.
func (o *Observer) Stats() ObserverStats { return o.stats }

// Close ends the observation.
func (o *Observer) Close() error { return errors.Join(o.received.close(), o.sent.close()) }

// Tunnel says that frames of an EtherType hold an Ethernet frame, which begins
// at an octet, at most MaxTunnel.
type Tunnel struct {
	EtherType uint16
	At        int
}

// MaxTunnel leaves room for a message in IPv6 behind it, in octets.
const MaxTunnel = 80

// header is EventHeader of a frame or of what it holds.
func (o *Observer) header(b []byte) []byte {
	if h := EventHeader(b); h != nil || len(o.tunnels) == 0 || len(b) < ether.HeaderLen {
		return h
	}
	for _, t := range o.tunnels {
		if binary.BigEndian.Uint16(b[12:]) == t.EtherType && len(b) > t.At {
			return EventHeader(b[t.At:])
		}
	}
	return nil
}

// Event tells whether a frame is an event message of PTP, or holds one.
func (o *Observer) Event(b []byte) bool { return o.header(b) != nil }

// EventHeader returns the first 34 octets of the PTP event message in the
// Ethernet frame b, borrowed; nil if there is none.
func EventHeader(b []byte) []byte {
	var v headers.View
	if !v.Parse(b) {
		return nil
	}
	at := v.L3
	switch {
	case v.Type == ether.TypePTP:
	case !v.ParseNetwork() || v.Proto != ip.ProtoUDP || !v.First:
		return nil
	default:
		at = v.L4 + udp.HeaderLen
	}
	switch {
	case len(b) < at+headerLen:
		return nil
	case v.Type == ether.TypePTP && b[at]&0x0f > 3, v.Type != ether.TypePTP &&
		binary.BigEndian.Uint16(b[v.L4+2:]) != eventPort:
		return nil
	}
	return b[at : at+headerLen : at+headerLen]
}

// sighting is a stamped copy that waits for its frame.
type sighting struct {
	header [headerLen]byte
	at     int64
	used   bool
}

// sighter is one of an Observer's sockets.
type sighter struct {
	fd      int
	header  func(b []byte) []byte
	waiting [32]sighting // a ring
	next    int
	packet  [192]byte // the beginning of a copy
	control [64]byte
	iov     unix.Iovec
	msg     unix.Msghdr
}

// open makes the socket. Outgoing copies reach only sockets for all protocols.
func (s *sighter) open(index int, o *Observer, outgoing bool) (err error) {
	s.header = o.header
	if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	filter := eventsIn(o.tunnels)
	if outgoing {
		filter = append(outgoingOnly[:len(outgoingOnly):len(outgoingOnly)], filter...)
	} else if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return err
	}
	s.iov.Base = &s.packet[0]
	s.iov.SetLen(len(s.packet))
	s.msg.Iov = &s.iov
	s.msg.SetIovlen(1)
	var all [2]byte
	binary.BigEndian.PutUint16(all[:], unix.ETH_P_ALL)
	return unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(all[:]), Ifindex: index})
}

func (s *sighter) close() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return unix.Close(fd)
}

// find looks among the copies that wait, then among those that the kernel
// holds, for the oldest with this header.
func (s *sighter) find(h [headerLen]byte, strange *uint64) (int64, bool) {
	for i := range s.waiting {
		w := &s.waiting[(s.next+i)%len(s.waiting)]
		if w.used && w.header == h {
			w.used = false
			return w.at, true
		}
	}
	for {
		w, ok := s.receive()
		switch {
		case !ok:
			return 0, false
		case !w.used:
			continue // no event message after all, or no stamp
		case w.header == h:
			return w.at, true
		}
		place := &s.waiting[s.next]
		if place.used {
			*strange++
		}
		*place = w
		s.next = (s.next + 1) % len(s.waiting)
	}
}

// receive takes one copy from the kernel; false if it has none.
func (s *sighter) receive() (w sighting, ok bool) {
	s.msg.Control = &s.control[0]
	s.msg.SetControllen(len(s.control))
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msg)), 0)
	if errno != 0 {
		return w, false
	}
	h := s.header(s.packet[:n])
	at, stamped := stampIn(s.control[:s.msg.Controllen])
	if h == nil || !stamped {
		return w, true
	}
	return sighting{[headerLen]byte(h), at, true}, true
}

// stampIn reads SCM_TIMESTAMPNS, the only control message that was asked for.
func stampIn(b []byte) (ns int64, ok bool) {
	if len(b) < unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{}))) {
		return 0, false
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS {
		return 0, false
	}
	ts := (*unix.Timespec)(unsafe.Pointer(unsafe.SliceData(b[unix.CmsgLen(0):])))
	return ts.Nano(), true
}
