package tunnel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

const (
	// most are the octets of one system call, less than a datagram may have.
	most = 65000
	// mostSegments are the datagrams of one (UDP_MAX_SEGMENTS of older kernels).
	mostSegments = 64
	// sockBuf is what is asked for as the socket's buffers, in octets.
	sockBuf = 8 << 20
)

// Wire is a tap.Queue through a UDP socket. It belongs to one goroutine.
type Wire struct {
	spec Spec
	fd   int
	vnet bool
	mtu  int

	split    virtio.Splitter
	out      []byte // datagrams of one length but the last, one behind the other
	outLen   int    // that length
	gone     int    // octets of out that have left
	count    int    // datagrams in out that have not
	sent     int    // segments of the frame in hand that are in out, or have left
	segments bool   // the kernel cuts out into datagrams
	batch    bool   // long frames stay in out until Flush

	in      []byte // what has arrived
	at, end int    // of it, what is not read yet
	inLen   int    // of a datagram in it

	received message
	sending  message
	seal     *sealer // nil: frames are not sealed

	strangers, notOurs, tooLong, stale, forged, replayed, unheard uint64
}

// message is what recvmsg(2) and sendmsg(2) get.
type message struct {
	hdr     unix.Msghdr
	iov     unix.Iovec
	from    unix.RawSockaddrInet6 // room for both families
	control [32]byte
}

// Open opens the socket. With vnet, frames may carry a frame.Offload. An error is one
// line.
func Open(s Spec, vnet bool) (*Wire, error) {
	family := unix.AF_INET
	if s.Remote.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%v: socket: %w", s, err)
	}
	w := &Wire{spec: s, fd: fd, vnet: vnet, in: make([]byte, 1<<16), out: make([]byte, 0, 1<<16), segments: true}
	if s.Key != "" {
		w.seal, err = newSealer(s.Key)
	}
	if err == nil {
		err = w.begin(family)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("%v: %w", s, err)
	}
	return w, nil
}

// begin binds the socket and finds out what it can do.
func (w *Wire) begin(family int) error {
	s := w.spec
	if err := unix.Bind(w.fd, sockaddr(s.Local)); err != nil {
		return fmt.Errorf("bind to %v: %w", s.Local, err)
	}
	level, discover, mtu, pmtu := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_MTU, unix.IP_PMTUDISC_DO
	if family == unix.AF_INET6 {
		level, discover, mtu, pmtu = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, unix.IPV6_PMTUDISC_DO
	}
	if err := unix.SetsockoptInt(w.fd, level, discover, pmtu); err != nil {
		return fmt.Errorf("MTU_DISCOVER: %w", err)
	}
	if err := unix.Connect(w.fd, sockaddr(s.Remote)); err != nil {
		return fmt.Errorf("connect to %v: %w", s.Remote, err)
	}
	path, err := unix.GetsockoptInt(w.fd, level, mtu)
	if err != nil {
		return fmt.Errorf("MTU of the way to %v: %w", s.Remote, err)
	}
	w.mtu = path - s.Overhead()
	if s.Kind == VXLAN { // peers send from any port
		if err := disconnect(w.fd); err != nil {
			return fmt.Errorf("disconnect: %w", err)
		}
		if err := unix.Bind(w.fd, sockaddr(s.Local)); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("bind to %v: %w", s.Local, err)
		}
	}
	for _, o := range []int{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF} {
		if unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, o, sockBuf) == nil {
			break
		}
	}
	_ = unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sockBuf) // less, if that is too much
	_ = unix.SetsockoptInt(w.fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)        // or one at a time
	w.prepare()
	if w.seal != nil {
		w.greet() // a peer that runs answers with its session
	}
	return nil
}

// disconnect lets datagrams of all come in again.
func disconnect(fd int) error {
	unspec := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspec)), unsafe.Sizeof(unspec))
	if errno != 0 {
		return errno
	}
	return nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// prepare fills in what system calls get each time.
func (w *Wire) prepare() {
	for _, m := range []*message{&w.received, &w.sending} {
		m.hdr.Iov, m.hdr.Name = &m.iov, (*byte)(unsafe.Pointer(&m.from))
		m.hdr.SetIovlen(1)
	}
	w.received.iov.Base = &w.in[0]
	if w.spec.Kind == UDP {
		w.sending.hdr.Name = nil
		return
	}
	r := w.spec.Remote
	port := r.Port()<<8 | r.Port()>>8
	if r.Addr().Is4() {
		to := (*unix.RawSockaddrInet4)(unsafe.Pointer(&w.sending.from))
		*to = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: r.Addr().As4()}
		w.sending.hdr.Namelen = unix.SizeofSockaddrInet4
	} else {
		w.sending.from = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: r.Addr().As16()}
		w.sending.hdr.Namelen = unix.SizeofSockaddrInet6
	}
}

// Fd is the descriptor to poll.
func (w *Wire) Fd() int { return w.fd }

// Name is the wire's text.
func (w *Wire) Name() string { return w.spec.String() }

// Vnet reports whether frames may carry an offload.
func (w *Wire) Vnet() bool { return w.vnet }

// MTU is the longest IP packet, in octets, for which the way to the peer has room.
func (w *Wire) MTU() int { return w.mtu }

// Close closes the socket.
func (w *Wire) Close() error {
	if w.fd < 0 {
		return nil
	}
	fd := w.fd
	w.fd = -1
	return unix.Close(fd)
}

// Buffered reports whether Read has a frame though the descriptor does not poll ready.
func (w *Wire) Buffered() bool { return w.at < w.end }

// Read implements tap.Queue.
func (w *Wire) Read(f *frame.Frame) error {
	for {
		if w.at == w.end {
			if err := w.receive(); err != nil {
				return err
			}
		}
		b, err := w.next()
		switch {
		case err != nil:
			return err
		case b == nil:
			continue
		case len(b) > f.Tailroom():
			return tap.ErrOversize
		}
		f.Append(b)
		return nil
	}
}

// next takes the next datagram's frame, nil: it has none.
func (w *Wire) next() ([]byte, error) {
	b := w.in[w.at:min(w.at+w.inLen, w.end)]
	w.at += len(b)
	if w.spec.Kind == VXLAN {
		if len(b) < vxlanLen || b[0] != vxlanFlags || binary.BigEndian.Uint32(b[4:])>>8 != w.spec.VNI {
			w.notOurs++
			return nil, tap.ErrRefused
		}
		b = b[vxlanLen:]
	}
	if w.seal == nil {
		if len(b) == 0 {
			w.notOurs++
			return nil, tap.ErrRefused
		}
		return b, nil
	}
	plain, v := w.seal.open(b)
	switch v {
	case accepted:
		return plain, nil
	case greeting:
		return nil, nil
	case stale:
		w.stale++
		w.greet()
		return nil, nil
	case replayed:
		w.replayed++
	default:
		w.forged++
	}
	return nil, tap.ErrRefused
}

// greet tells the peer the session of this end. It is lost if the socket is full: the next
// frame of the peer asks again.
func (w *Wire) greet() {
	if w.count > 0 {
		return
	}
	w.out = w.seal.seal(w.header(w.out[:0]), nil, w.seal.stale.id)
	w.count, w.outLen = 1, len(w.out)
	if w.flush() == tap.ErrAgain {
		w.out, w.count = w.out[:0], 0
	}
}

// header appends what stands before a frame.
func (w *Wire) header(out []byte) []byte {
	if w.spec.Kind != VXLAN {
		return out
	}
	return append(out, vxlanFlags, 0, 0, 0, byte(w.spec.VNI>>16), byte(w.spec.VNI>>8), byte(w.spec.VNI), 0)
}

// receive takes in a datagram, or several that the kernel has joined.
func (w *Wire) receive() error {
	m := &w.received
	m.iov.SetLen(len(w.in))
	m.hdr.Namelen = unix.SizeofSockaddrInet6
	m.hdr.Control = &m.control[0]
	m.hdr.SetControllen(len(m.control))
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(w.fd), uintptr(unsafe.Pointer(&m.hdr)), 0)
	switch errno {
	case 0:
	case unix.EBADF, unix.ENOTSOCK:
		return tap.ErrGone
	case unix.EAGAIN, unix.EINTR:
		return tap.ErrAgain
	default: // what became of a datagram that was sent
		w.unheard++
		return tap.ErrAgain
	}
	if n == 0 || m.hdr.Flags&unix.MSG_TRUNC != 0 {
		w.notOurs++
		return tap.ErrRefused
	}
	if !w.known() {
		w.strangers++
		return tap.ErrRefused
	}
	w.at, w.end, w.inLen = 0, int(n), int(n)
	if c := m.control[:m.hdr.Controllen]; len(c) >= unix.SizeofCmsghdr+4 {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&c[0]))
		if size := int(binary.NativeEndian.Uint32(c[unix.SizeofCmsghdr:])); h.Level == unix.IPPROTO_UDP &&
			h.Type == unix.UDP_GRO && size > 0 {
			w.inLen = size
		}
	}
	return nil
}

// known tells whether what was received is the peer's: a socket that is connected gets
// nothing else.
func (w *Wire) known() bool {
	if w.spec.Kind == UDP {
		return true
	}
	if r := w.spec.Remote.Addr(); r.Is4() {
		return (*unix.RawSockaddrInet4)(unsafe.Pointer(&w.received.from)).Addr == r.As4()
	}
	return w.received.from.Addr == w.spec.Remote.Addr().As16()
}

// vxlanFlags says that a header has a VNI.
const vxlanFlags = 0x08

// Batch implements tap.Batcher: frames of equal length that follow each other leave together.
func (w *Wire) Batch() { w.batch = true }

// Flush implements tap.Batcher.
func (w *Wire) Flush() error { return w.flush() }

// holdFrom is the length from which frames are held back, in octets: shorter ones are those that
// somebody waits for, such as acknowledgements and PTP messages.
const holdFrom = 512

// Write implements tap.Queue. A super-frame that was interrupted by tap.ErrAgain goes on
// where it was.
func (w *Wire) Write(f *frame.Frame) error {
	i := 0
	var failed error
	err := w.split.Split(f.Offload, f.Bytes(), func(b []byte) {
		if failed == nil && i >= w.sent {
			if failed = w.add(b); failed == nil {
				w.sent++
			}
		}
		i++
	})
	if err != nil {
		return tap.ErrRefused
	}
	if failed == nil && !(w.batch && f.Len() >= holdFrom) {
		failed = w.flush()
	}
	if failed != tap.ErrAgain {
		w.sent = 0
	}
	return failed
}

// add puts a true frame behind those that leave together, once there is room.
func (w *Wire) add(b []byte) error {
	n := len(b)
	if w.spec.Kind == VXLAN {
		n += vxlanLen
	}
	if w.seal != nil {
		n += sealLen
	}
	if w.count > 0 && (n > w.outLen || len(w.out)%w.outLen != 0 || len(w.out)+n > most || w.count == mostSegments ||
		!w.segments) {
		// What was held back before was not refused for this frame.
		if err := w.flush(); err != nil && !(w.batch && err == tap.ErrRefused) {
			return err
		}
	}
	if w.count == 0 {
		w.outLen = n
	}
	if w.out = w.header(w.out); w.seal != nil {
		w.out = w.seal.seal(w.out, b, w.seal.peer.id)
	} else {
		w.out = append(w.out, b...)
	}
	w.count++
	return nil
}

// flush sends what is in out. After tap.ErrAgain it goes on where it was.
func (w *Wire) flush() (err error) {
	for w.count > 0 {
		n := w.count
		if !w.segments {
			n = 1
		}
		part := w.out[w.gone:min(w.gone+n*w.outLen, len(w.out))]
		e := w.send(part, n)
		if e == tap.ErrAgain && n > 1 && !w.segments {
			continue // one at a time
		}
		if e == tap.ErrAgain || e == tap.ErrGone {
			return e
		}
		err = cmp.Or(err, e)
		w.gone, w.count = w.gone+len(part), w.count-n
	}
	w.out, w.gone = w.out[:0], 0
	return err
}

// send sends n datagrams that lie one behind the other.
func (w *Wire) send(part []byte, n int) error {
	m := &w.sending
	m.iov.Base = &part[0]
	m.iov.SetLen(len(part))
	m.hdr.Control = nil
	m.hdr.SetControllen(0)
	if n > 1 {
		c := (*unix.Cmsghdr)(unsafe.Pointer(&m.control[0]))
		c.Level, c.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
		c.SetLen(unix.CmsgLen(2))
		binary.NativeEndian.PutUint16(m.control[unix.SizeofCmsghdr:], uint16(w.outLen))
		m.hdr.Control = &m.control[0]
		m.hdr.SetControllen(unix.CmsgSpace(2))
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(w.fd), uintptr(unsafe.Pointer(&m.hdr)), 0)
	switch errno {
	case 0:
		return nil
	case unix.EAGAIN, unix.EINTR:
		return tap.ErrAgain
	case unix.EBADF, unix.ENOTSOCK:
		return tap.ErrGone
	case unix.EIO, unix.EINVAL, unix.EOPNOTSUPP:
		if n > 1 { // this way does not cut
			w.segments = false
			return tap.ErrAgain
		}
	}
	if errno == unix.EMSGSIZE {
		w.tooLong += uint64(n)
	} else { // nobody listens there
		w.unheard += uint64(n)
	}
	return tap.ErrRefused
}

// Counters implements tap.Wire.
func (w *Wire) Counters() []tap.Counter {
	all := []tap.Counter{{Name: "strangers", Value: w.strangers}, {Name: "not_ours", Value: w.notOurs},
		{Name: "too_long_for_path", Value: w.tooLong}, {Name: "peer_unreachable", Value: w.unheard}}
	if w.seal != nil {
		all = append(all, tap.Counter{Name: "forged", Value: w.forged},
			tap.Counter{Name: "replayed", Value: w.replayed}, tap.Counter{Name: "stale", Value: w.stale})
	}
	return all
}
