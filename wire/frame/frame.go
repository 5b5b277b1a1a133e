// Package frame holds what all packages share: time, the frame and its owner,
// the registry of drop reasons, and the interfaces through which frames leave
// an engine. It knows no protocol.
//
// Doc comments use three words for ownership. A function that *borrows* a frame
// or slice may use it until it returns. One that *takes* it owns it and must
// pass it on or release it. One that *returns* it gives it to the caller.
package frame

// DefaultHeadroom is the space a pool leaves in front of a frame's bytes:
// enough for a virtio header, an Ethernet header and two VLAN tags. With IPv4
// and TCP timestamps behind it a payload begins on a cache line: the kernel
// copies a super-frame faster then.
const DefaultHeadroom = 76

// Frame is one packet buffer with exactly one owner at a time. Its bytes are
// a window into a larger backing array; headers are prepended in place.
type Frame struct {
	buf      []byte
	off, end int

	Offload // segmentation and checksum work still to be done on the bytes

	// ID numbers the frame within its port and direction, from 1.
	ID uint64
	// Stamp is the hardware-clock time at which the frame passed the port.
	Stamp Stamp
	// Seen is the engine time at which an observer of the link saw the frame:
	// 0 if nobody observes, Never if the frame was missed.
	Seen Time
	// Queue is the TAP queue that the frame came in on or goes out by.
	Queue uint16

	pool     Pool
	released bool
}

// Pool lends frames. Get returns an empty frame with DefaultHeadroom and room
// for size bytes behind it; Put takes it back. One pool serves one event loop
// and need not be safe for concurrent use.
type Pool interface {
	Get(size int) *Frame
	Put(*Frame)
}

// New returns a frame over buf (taken) that belongs to pool, which may be nil.
func New(buf []byte, pool Pool) *Frame {
	f := &Frame{buf: buf, pool: pool}
	f.Reset()
	return f
}

// Reset empties the frame and marks it as owned again.
func (f *Frame) Reset() {
	f.off = min(DefaultHeadroom, len(f.buf))
	f.end = f.off
	f.Offload = Offload{}
	f.ID, f.Stamp, f.Seen, f.Queue = 0, 0, 0, 0
	f.released = false
}

// Bytes returns the frame's bytes, borrowed until the frame is released.
func (f *Frame) Bytes() []byte { return f.buf[f.off:f.end:f.end] }

// Len is the number of bytes in the frame.
func (f *Frame) Len() int { return f.end - f.off }

// Cap is the size of the backing array, headroom included.
func (f *Frame) Cap() int { return len(f.buf) }

// Headroom is the number of bytes that Prepend can still add.
func (f *Frame) Headroom() int { return f.off }

// Tailroom is the number of bytes that Extend can still add.
func (f *Frame) Tailroom() int { return len(f.buf) - f.end }

// Prepend adds n bytes of unspecified content in front and returns them.
func (f *Frame) Prepend(n int) []byte {
	f.off -= n
	return f.buf[f.off : f.off+n : f.off+n]
}

// Extend adds n bytes of unspecified content at the end and returns them.
func (f *Frame) Extend(n int) []byte {
	b := f.buf[f.end : f.end+n : f.end+n]
	f.end += n
	return b
}

// Append copies b to the end of the frame.
func (f *Frame) Append(b []byte) { copy(f.Extend(len(b)), b) }

// TrimFront removes the first n bytes; they become headroom.
func (f *Frame) TrimFront(n int) { f.off += n }

// Truncate cuts the frame to its first n bytes.
func (f *Frame) Truncate(n int) { f.end = f.off + n }

// Release hands the frame back to its pool. A second release is a
// programming error and panics.
func (f *Frame) Release() {
	if f.released {
		panic("frame: released twice")
	}
	f.released = true
	if f.pool != nil {
		f.pool.Put(f)
	}
}

// GSO says how a frame larger than the MTU is to be segmented. The values are
// those of the virtio-net header (virtio 1.2 section 5.1.6).
type GSO uint8

const (
	GSONone  GSO = 0
	GSOTCPv4 GSO = 1
	GSOTCPv6 GSO = 4
	GSOUDP   GSO = 5 // UDP datagrams of equal length, IPv4 or IPv6
)

// Offload is the work that the sender of a frame left to the device, as the
// virtio-net header carries it. The zero value means: nothing left to do.
type Offload struct {
	NeedsCsum  bool   // the checksum at CsumStart+CsumOffset holds only the pseudo-header sum
	DataValid  bool   // the device has already checked the checksum
	GSO        GSO    // segmentation still to be done
	HdrLen     uint16 // the sender's claim of the header length; never trusted
	GSOSize    uint16 // payload octets per segment
	CsumStart  uint16 // where checksumming starts, from the first byte of the frame
	CsumOffset uint16 // where to store it, from CsumStart
}

// Direction tells which way a frame passed a port.
type Direction uint8

const (
	Inbound Direction = iota
	Outbound
)

func (d Direction) String() string {
	if d == Inbound {
		return "in"
	}
	return "out"
}

// Port names one of a NIC's attachments.
type Port uint16

const (
	// Wire is the cable side: its frames are what the physical port sends.
	Wire Port = iota
	// Host is the operating system's side: the netdev of the host function.
	Host
)

func (p Port) String() string {
	if p == Host {
		return "host"
	}
	return "wire"
}

// Link is one attachment as an engine sees it when it sends.
type Link interface {
	// Transmit takes f. It must only be called while Room is positive.
	Transmit(f *Frame)
	// Room is the number of frames the link still accepts before its queue
	// is full.
	Room() int
}
