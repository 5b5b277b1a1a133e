// Package packet is a wire through an interface that exists already: a veth, a macvlan or a
// real card, by a packet socket (packet(7)). The interface keeps its addresses for the
// kernel; the NIC has its own MAC address, for which the interface listens to all frames.
//
// Frames carry virtio-net headers (PACKET_VNET_HDR), so that super-frames pass whole both
// ways. VLAN tags that the kernel took off are put back. The kernel of this host and the NIC
// do not hear each other on one interface: neither is looped back to the other.
package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

const (
	// sockBuf is what is asked for as the socket's buffers, in octets.
	sockBuf = 16 << 20
	// longest is room for the longest frame, a super-frame behind its virtio-net header.
	longest = 64<<10 + 128
	// ecn marks super-frames with ECN: only the first segment has CWR, as of all here.
	ecn = 0x80

	auxLen = 20 // struct tpacket_auxdata
)

// Wire is a tap.Queue through a packet socket. It belongs to one goroutine.
type Wire struct {
	name string
	fd   int
	out  int // of a wire without offloads: a socket that only sends; -1: none
	vnet bool
	mtu  int
	mac  ether.Addr

	ring      ring   // of a wire without offloads: where the kernel puts frames
	in        []byte // of a wire without offloads: what is no true frame
	split     virtio.Splitter
	parts, at int // segments of the super-frame in hand, and the next of them
	sent      int // of the frame in hand, segments that are out already

	hdr     unix.Msghdr
	iov     [2]unix.Iovec
	head    [virtio.HeaderLen]byte
	control [64]byte
	zero    [virtio.HeaderLen]byte
	send    [2]unix.Iovec

	tags, large, down, missed uint64
}

// Open opens the interface called name in the network namespace of the calling thread. With
// vnet, frames may carry a frame.Offload. It needs CAP_NET_RAW. An error is one line.
func Open(name string, vnet bool) (*Wire, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("dev:%s: there is no such interface: `ip link` lists them", name)
	}
	if len(ifi.HardwareAddr) != len(ether.Addr{}) {
		return nil, fmt.Errorf("dev:%s: the interface carries no Ethernet frames", name)
	}
	fd, err := socket()
	if errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("dev:%s: CAP_NET_RAW is missing: run as root or with `setcap cap_net_raw+ep`: %w", name,
			unix.EPERM)
	}
	if err != nil {
		return nil, fmt.Errorf("dev:%s: packet socket: %w", name, err)
	}
	w := &Wire{name: name, fd: fd, out: -1, vnet: vnet, mtu: ifi.MTU, mac: ether.Addr(ifi.HardwareAddr)}
	if err := w.begin(ifi.Index); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("dev:%s: %w", name, err)
	}
	return w, nil
}

// socket makes a packet socket that hears nothing until it is bound with a protocol.
func socket() (fd int, err error) {
	return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

func (w *Wire) begin(index int) error {
	for _, o := range []struct {
		opt  int
		name string
	}{{unix.PACKET_VNET_HDR, "PACKET_VNET_HDR"}, {unix.PACKET_AUXDATA, "PACKET_AUXDATA"},
		{unix.PACKET_IGNORE_OUTGOING, "PACKET_IGNORE_OUTGOING"}} {
		if err := unix.SetsockoptInt(w.fd, unix.SOL_PACKET, o.opt, 1); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	enlarge(w.fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF)
	enlarge(w.fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF)
	all := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(w.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &all); err != nil {
		return fmt.Errorf("listen to all frames: %w", err)
	}
	var protocol [2]byte
	binary.BigEndian.PutUint16(protocol[:], unix.ETH_P_ALL)
	at := unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(protocol[:]), Ifindex: index}
	if err := unix.Bind(w.fd, &at); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	w.hdr.Iov = &w.iov[0]
	if w.vnet {
		return nil
	}
	w.in = make([]byte, longest)
	w.ring = newRing(w.fd, w.mtu)
	return w.openOut(index)
}

// openOut makes the socket out. A frame costs the kernel less there than at w.fd: it has no
// virtio-net header, and nobody polls the socket, who would be told of each frame that left.
func (w *Wire) openOut(index int) (err error) {
	if w.out, err = socket(); err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	enlarge(w.out, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF)
	if err := unix.Bind(w.out, &unix.SockaddrLinklayer{Ifindex: index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// enlarge asks for a large buffer, by an option that needs rights or by another.
func enlarge(fd, forced, option int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, forced, sockBuf) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, sockBuf) // less, if that is too much
	}
}

// Fd is the descriptor to poll.
func (w *Wire) Fd() int { return w.fd }

// Name is the interface's name.
func (w *Wire) Name() string { return w.name }

// Vnet reports whether frames may carry an offload.
func (w *Wire) Vnet() bool { return w.vnet }

// MTU is that of the interface, in octets, when it was opened.
func (w *Wire) MTU() int { return w.mtu }

// Counters implements tap.Wire.
func (w *Wire) Counters() []tap.Counter {
	if st, err := unix.GetsockoptTpacketStats(w.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		w.missed += uint64(st.Drops) // the kernel counts from 0 again
	}
	return []tap.Counter{{Name: "vlan_tags_restored", Value: w.tags}, {Name: "frames_too_long", Value: w.large},
		{Name: "interface_down", Value: w.down}, {Name: "missed", Value: w.missed}}
}

// Close closes the socket; the interface hears its own frames alone again.
func (w *Wire) Close() error {
	if w.fd < 0 {
		return nil
	}
	err := errors.Join(w.ring.close(), unix.Close(w.fd))
	if w.out >= 0 {
		err = errors.Join(err, unix.Close(w.out))
	}
	w.fd, w.out = -1, -1
	return err
}

// Buffered implements tap.Buffered.
func (w *Wire) Buffered() bool { return w.at < w.parts || w.ring.buffered() }

// Read implements tap.Queue.
func (w *Wire) Read(f *frame.Frame) error {
	if w.at < w.parts {
		return w.segment(f)
	}
	if !w.vnet {
		return w.readTrue(f)
	}
	f.Prepend(virtio.HeaderLen)
	f.Extend(f.Tailroom())
	w.into(0, f.Bytes())
	n, tag, err := w.receive(1)
	if err != nil || n > f.Len() {
		f.TrimFront(virtio.HeaderLen)
		f.Truncate(0)
		if err == nil {
			w.large++
			err = tap.ErrOversize
		}
		return err
	}
	off, err := offload(f.Bytes())
	f.Truncate(n)
	f.TrimFront(virtio.HeaderLen)
	if err != nil {
		return tap.ErrRefused
	}
	f.Offload = off
	if tag != 0 {
		restore(f, tag)
	}
	return nil
}

// readTrue is Read for those who take true frames alone.
func (w *Wire) readTrue(f *frame.Frame) error {
	if w.ring.mem == nil {
		return w.readWhole(f)
	}
	h := w.ring.head()
	status := atomic.LoadUint32(&h.Status)
	if status&unix.TP_STATUS_USER == 0 {
		return w.empty()
	}
	if status&unix.TP_STATUS_COPY != 0 {
		w.ring.next()
		return w.readWhole(f)
	}
	tag := w.tagOf(status, h.Vlan_tci, h.Vlan_tpid)
	b := w.ring.frame(h)
	off, err := offload(w.ring.vnet(h))
	switch {
	case err != nil || h.Snaplen != h.Len || len(b) < ether.HeaderLen:
		err = tap.ErrRefused
	case !off.NeedsCsum && off.GSO == frame.GSONone && len(b) <= f.Tailroom():
		if f.Append(b); tag != 0 {
			restore(f, tag)
		}
	default:
		err = w.take(f, off, w.in[ether.TagLen:][:copy(w.in[ether.TagLen:], b)], tag)
	}
	w.ring.next()
	return err
}

// readWhole reads a frame that is not in the ring.
func (w *Wire) readWhole(f *frame.Frame) error {
	w.into(0, w.head[:])
	w.into(1, w.in[ether.TagLen:])
	n, tag, err := w.receive(2)
	if err != nil {
		return err
	}
	n -= virtio.HeaderLen
	off, err := offload(w.head[:])
	switch {
	case err != nil:
		return tap.ErrRefused
	case n > len(w.in)-ether.TagLen:
		w.large++
		return tap.ErrOversize
	}
	return w.take(f, off, w.in[ether.TagLen:][:n], tag)
}

// take does what is left to do on the frame b, which lies in w.in behind room for a tag.
func (w *Wire) take(f *frame.Frame, off frame.Offload, b []byte, tag uint32) (err error) {
	if tag != 0 {
		b = w.in[:ether.TagLen+len(b)]
		copy(b, b[ether.TagLen:][:2*len(ether.Addr{})])
		binary.BigEndian.PutUint32(b[2*len(ether.Addr{}):], tag)
		shift(&off)
	}
	switch {
	case off.GSO != frame.GSONone:
		if w.parts, err = w.split.Begin(off, b); err != nil {
			w.parts = 0
			return tap.ErrRefused
		}
		w.at = 0
		return w.segment(f)
	case len(b) > f.Tailroom():
		w.large++
		return tap.ErrOversize
	case off.NeedsCsum:
		if w.split.Split(off, b, f.Append) != nil {
			return tap.ErrRefused
		}
		return nil
	}
	f.Append(b)
	return nil
}

// segment takes the next true frame of the super-frame in hand.
func (w *Wire) segment(f *frame.Frame) error {
	i, n := w.at, w.split.Len(w.at)
	fits := n <= f.Tailroom()
	if fits {
		w.split.Put(f.Extend(n), i)
	}
	if w.at++; w.at == w.parts {
		w.split.End()
		w.at, w.parts = 0, 0
	}
	if !fits {
		w.large++
		return tap.ErrOversize
	}
	return nil
}

// offload reads a virtio-net header of the kernel.
func offload(b []byte) (frame.Offload, error) {
	b[1] &^= ecn
	return virtio.Parse(b)
}

// shift moves what an offload refers to behind a tag.
func shift(off *frame.Offload) {
	if off.NeedsCsum {
		off.CsumStart += ether.TagLen
	}
	if off.GSO != frame.GSONone {
		off.HdrLen += ether.TagLen
	}
}

// restore puts a tag, with its EtherType, back into f, which has room in front.
func restore(f *frame.Frame, tag uint32) {
	f.Prepend(ether.TagLen)
	b := f.Bytes()
	copy(b, b[ether.TagLen:][:2*len(ether.Addr{})])
	binary.BigEndian.PutUint32(b[2*len(ether.Addr{}):], tag)
	shift(&f.Offload)
}

// into makes b a part of what receive fills.
func (w *Wire) into(part int, b []byte) {
	w.iov[part].Base = &b[0]
	w.iov[part].SetLen(len(b))
}

// receive takes a frame behind its header into so many parts. n is their length, which may be
// more than the parts have; tag is the VLAN tag that the kernel took off, with its EtherType, 0:
// none.
func (w *Wire) receive(parts int) (n int, tag uint32, err error) {
	w.hdr.SetIovlen(parts)
	w.hdr.Control = &w.control[0]
	w.hdr.SetControllen(len(w.control))
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(w.fd), uintptr(unsafe.Pointer(&w.hdr)), unix.MSG_TRUNC)
	switch errno {
	case 0:
	case unix.ENETDOWN, unix.ENXIO, unix.ENODEV:
		w.down++
		return 0, 0, w.alive()
	case unix.EBADF, unix.ENOTSOCK:
		return 0, 0, tap.ErrGone
	default:
		return 0, 0, tap.ErrAgain
	}
	if n = int(got); n < virtio.HeaderLen+ether.HeaderLen {
		return 0, 0, tap.ErrRefused
	}
	return n, w.tag(), nil
}

// alive is tap.ErrAgain, or tap.ErrRemoved if the interface does not exist any more.
func (w *Wire) alive() error {
	if err := w.Removed(); err != nil {
		return err
	}
	return tap.ErrAgain
}

// Removed is an error if the interface does not exist any more: the socket tells only that
// it went down before.
func (w *Wire) Removed() error {
	at, err := unix.Getsockname(w.fd)
	if ll, ok := at.(*unix.SockaddrLinklayer); err == nil && ok && ll.Ifindex > 0 {
		return nil
	}
	return tap.ErrRemoved
}

// empty is tap.ErrAgain, or what happened to the interface.
func (w *Wire) empty() error {
	failed, err := unix.GetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return tap.ErrGone
	case failed != 0:
		w.down++
		return w.alive()
	}
	return tap.ErrAgain
}

// tag is the VLAN tag in the control message, with its EtherType.
func (w *Wire) tag() uint32 {
	c := w.control[:w.hdr.Controllen]
	if len(c) < unix.CmsgLen(auxLen) {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c[0]))
	if h.Level != unix.SOL_PACKET || h.Type != unix.PACKET_AUXDATA {
		return 0
	}
	aux := c[unix.CmsgLen(0):]
	return w.tagOf(binary.NativeEndian.Uint32(aux), binary.NativeEndian.Uint16(aux[16:]),
		binary.NativeEndian.Uint16(aux[18:]))
}

// tagOf is the tag that the kernel took off a frame, with its EtherType; 0: none.
func (w *Wire) tagOf(status uint32, tci, tpid uint16) uint32 {
	if status&unix.TP_STATUS_VLAN_VALID == 0 {
		return 0
	}
	w.tags++
	if status&unix.TP_STATUS_VLAN_TPID_VALID == 0 {
		tpid = ether.TypeVLAN
	}
	return uint32(tpid)<<16 | uint32(tci)
}

// Write implements tap.Queue. An interface that is down, or whose MTU is too small, refuses
// a frame.
func (w *Wire) Write(f *frame.Frame) error {
	if w.vnet {
		if f.Headroom() < virtio.HeaderLen {
			return tap.ErrRefused
		}
		virtio.Put(f.Prepend(virtio.HeaderLen), f.Offload)
		err := w.transmit(f.Bytes(), nil)
		f.TrimFront(virtio.HeaderLen)
		return err
	}
	if !f.NeedsCsum && f.GSO == frame.GSONone {
		return w.transmitTrue(f.Bytes())
	}
	var failed error
	i := 0
	err := w.split.Split(f.Offload, f.Bytes(), func(seg []byte) {
		if failed == nil && i >= w.sent {
			if failed = w.transmitTrue(seg); failed == nil {
				w.sent++
			}
		}
		i++
	})
	if err != nil {
		return tap.ErrRefused
	}
	if failed != tap.ErrAgain {
		w.sent = 0
	}
	return failed
}

// transmitTrue sends a true frame by the socket out, or, while that is full, by the other, which
// polls writable once it has room.
func (w *Wire) transmitTrue(b []byte) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(w.out), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		0, 0, 0)
	if errno == unix.EAGAIN {
		return w.transmit(w.zero[:], b)
	}
	return w.outcome(errno)
}

// transmit sends one frame, which lies in one or two parts behind its header.
func (w *Wire) transmit(a, b []byte) error {
	n := uintptr(1)
	w.send[0].Base = &a[0]
	w.send[0].SetLen(len(a))
	if b != nil {
		n = 2
		w.send[1].Base = &b[0]
		w.send[1].SetLen(len(b))
	}
	_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(w.fd), uintptr(unsafe.Pointer(&w.send)), n)
	return w.outcome(errno)
}

// outcome is what Write answers to that of a system call.
func (w *Wire) outcome(errno unix.Errno) error {
	switch errno {
	case 0:
		return nil
	case unix.EAGAIN, unix.EINTR:
		return tap.ErrAgain
	case unix.EBADF, unix.ENOTSOCK:
		return tap.ErrGone
	case unix.ENETDOWN, unix.ENXIO, unix.ENODEV:
		w.down++
		if w.alive() == tap.ErrRemoved {
			return tap.ErrRemoved
		}
	}
	return tap.ErrRefused
}
