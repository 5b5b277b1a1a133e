package link

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/frame"
)

// Bounds of one direction of a wire in memory. Beyond them frames are
// dropped, as a TAP does whose reader is slow.
const (
	wireFrames = 1024
	wireOctets = 16 << 20
)

// WireEnd is one end of a wire that joins two event loops of one process
// without the kernel: what one end writes the other reads, offloads included.
// It is a tap.Queue for hosts that have no /dev/net/tun.
type WireEnd struct {
	name string
	vnet bool
	peer *WireEnd
	fd   int // eventfd: readable while packets wait

	mu      sync.Mutex
	packets []packet // a ring, grown up to wireFrames
	first   int
	n       int
	octets  int
	dropped uint64
	closed  bool
}

// packet keeps its bytes' memory for the next frame in the same slot.
type packet struct {
	data []byte
	off  frame.Offload
}

// NewWire makes a wire whose ends are called nameA and nameB. With vnet, the
// ends carry segmentation offload.
func NewWire(nameA, nameB string, vnet bool) (a, b *WireEnd, err error) {
	if a, err = newEnd(nameA, vnet); err != nil {
		return nil, nil, err
	}
	if b, err = newEnd(nameB, vnet); err != nil {
		a.Close()
		return nil, nil, err
	}
	a.peer, b.peer = b, a
	return a, b, nil
}

func newEnd(name string, vnet bool) (*WireEnd, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("wire in memory: eventfd: %w", err)
	}
	return &WireEnd{name: name, vnet: vnet, fd: fd, packets: make([]packet, 16)}, nil
}

// Fd polls readable while frames wait.
func (e *WireEnd) Fd() int { return e.fd }

// Name is the end's name.
func (e *WireEnd) Name() string { return e.name }

// Vnet reports whether frames may carry an offload.
func (e *WireEnd) Vnet() bool { return e.vnet }

// Dropped counts the frames that found this end full.
func (e *WireEnd) Dropped() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped
}

// Waiting counts the frames that wait to be read at this end.
func (e *WireEnd) Waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}

// Read fills f with the oldest frame that waits, or returns tap.ErrAgain.
func (e *WireEnd) Read(f *frame.Frame) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return tap.ErrGone
	}
	if e.n == 0 {
		return tap.ErrAgain
	}
	p := &e.packets[e.first]
	e.first, e.n = (e.first+1)%len(e.packets), e.n-1
	e.octets -= len(p.data)
	if e.n == 0 {
		var count [8]byte
		unix.Read(e.fd, count[:])
	}
	if len(p.data) > f.Tailroom() {
		return tap.ErrOversize
	}
	f.Append(p.data)
	f.Offload = p.off
	return nil
}

// Write copies f to the other end. A frame that finds it full or closed is
// lost, as on a cable.
func (e *WireEnd) Write(f *frame.Frame) error {
	if !e.vnet && (f.NeedsCsum || f.GSO != frame.GSONone) {
		return tap.ErrRefused
	}
	return e.peer.accept(f)
}

func (e *WireEnd) accept(f *frame.Frame) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.n == wireFrames || e.octets+f.Len() > wireOctets {
		e.dropped++
		return nil
	}
	if e.n == len(e.packets) {
		e.grow()
	}
	p := &e.packets[(e.first+e.n)%len(e.packets)]
	p.data = append(p.data[:0], f.Bytes()...)
	p.off = f.Offload
	e.octets += f.Len()
	if e.n++; e.n == 1 {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		unix.Write(e.fd, one[:]) // can only fail after 2^64-2 writes
	}
	return nil
}

func (e *WireEnd) grow() {
	bigger := make([]packet, 2*len(e.packets))
	for i := range e.n {
		bigger[i] = e.packets[(e.first+i)%len(e.packets)]
	}
	e.packets, e.first = bigger, 0
}

// Close pulls the plug at this end.
func (e *WireEnd) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.packets, e.n, e.octets = nil, 0, 0
	return unix.Close(e.fd)
}
