// Package shm is a wire between two processes of one host: two rings in shared memory, one
// each way, that carry frames and super-frames whole. It needs no right and no device.
//
// The ends meet at a Unix socket (package meet). The end that was connected to makes the
// memory, whose size is sealed, and passes it. Each end keeps the socket as a bell, which it
// rings only when the other sleeps or waits for room, and by which it learns that the other
// has ended. An end whose peer goes waits for the next one, with new memory.
package shm

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/nic/tap/meet"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// total is the length of the memory: a page of control blocks, and a ring each way.
const total = 4096 + 2*ringSize

// turnEvery is how many times Ready looks at the rings alone before it looks at the peer's
// socket too, while nobody sleeps.
const turnEvery = 256

// hello is what the ends say first: magic, version and whether the end takes offloads.
const (
	helloLen = 12
	magic    = "tapirshm"
	version  = 1
)

// Wire is one end. It belongs to one goroutine.
type Wire struct {
	path    string
	vnet    bool
	point   *meet.Point
	session uint64 // number of the peer that is known of
	up      bool
	theirs  bool // the peer takes offloads
	memory  []byte
	memfd   int // made for the peer and not passed yet; -1: none
	tx, rx  ring
	turn    int
	carrier func(up bool)

	split virtio.Splitter
	sent  int // segments of the frame in hand that are out already
	bell  [64]byte

	broken, full, rings, refused uint64
}

// Open opens the end at the Unix socket path. With vnet, frames may carry a frame.Offload;
// a peer without gets true frames. An error is one line.
func Open(path string, vnet bool) (*Wire, error) {
	p, err := meet.Open(meet.Config{Path: path})
	if err != nil {
		return nil, fmt.Errorf("shm:%s: %w", path, err)
	}
	w := &Wire{path: path, vnet: vnet, point: p, memfd: -1}
	w.meet()
	return w, nil
}

// Fd is the descriptor to poll.
func (w *Wire) Fd() int { return w.point.Fd() }

// Name is the wire's text.
func (w *Wire) Name() string { return "shm:" + w.path }

// Vnet reports whether frames may carry an offload.
func (w *Wire) Vnet() bool { return w.vnet }

// MTU is 0: packets of any length pass.
func (w *Wire) MTU() int { return 0 }

// OnCarrier implements tap.Plugged.
func (w *Wire) OnCarrier(fn func(up bool)) (expected bool) {
	w.carrier = fn
	fn(w.up)
	return w.up || w.point.Pending()
}

// SetCarrier implements tap.Carrier.
func (w *Wire) SetCarrier(on bool) error {
	w.point.Pause(!on)
	w.meet()
	return nil
}

// Counters implements tap.Wire.
func (w *Wire) Counters() []tap.Counter {
	s := w.point.Stats()
	return []tap.Counter{{Name: "peers", Value: s.Joined}, {Name: "peers_left", Value: s.Left},
		{Name: "peers_refused", Value: s.Refused}, {Name: "ring_broken", Value: w.broken},
		{Name: "ring_full", Value: w.full}, {Name: "bells", Value: w.rings},
		{Name: "frames_refused", Value: w.refused}}
}

// Close ends the wire; the peer notices.
func (w *Wire) Close() error {
	w.carrier = nil
	w.leave()
	w.point.Close()
	return nil
}

// InMemory implements tap.Ring.
func (w *Wire) InMemory() {}

// Buffered implements tap.Buffered.
func (w *Wire) Buffered() bool { return w.up && !w.rx.empty() }

// Read implements tap.Queue. A ring that the peer has broken ends the session with it.
func (w *Wire) Read(f *frame.Frame) error {
	if !w.up {
		return tap.ErrAgain
	}
	err := w.rx.get(f)
	switch err {
	case errBroken:
		w.breakOff()
		return tap.ErrRefused
	case tap.ErrAgain:
		return err
	case nil:
		if !w.vnet && (f.NeedsCsum || f.GSO != frame.GSONone) {
			f.Truncate(0)
			err = tap.ErrRefused
		}
	}
	if err != nil {
		w.refused++
	}
	// Room for a super-frame, or nothing left: it is worth a bell.
	if used := w.rx.seen - w.rx.at; w.rx.stuck.Load() != 0 && used <= ringSize/2 && w.rx.stuck.Swap(0) != 0 {
		w.ring()
	}
	return err
}

// Write implements tap.Queue. A frame for a peer that is not there is refused; a full ring
// has the writer wait.
func (w *Wire) Write(f *frame.Frame) (err error) {
	if !w.up {
		return tap.ErrRefused
	}
	if f.NeedsCsum || f.GSO != frame.GSONone {
		if !w.vnet {
			return tap.ErrRefused
		}
		if !w.theirs {
			return w.writeSegments(f)
		}
	}
	return w.put(f.Offload, f.Bytes())
}

func (w *Wire) put(off frame.Offload, b []byte) error {
	err := w.tx.put(off, b)
	switch err {
	case nil:
		if w.tx.sleeping.Load() != 0 && w.tx.sleeping.Swap(0) != 0 {
			w.ring()
		}
	case tap.ErrAgain:
		w.full++
	case errBroken:
		w.breakOff()
		return tap.ErrRefused
	}
	return err
}

// writeSegments may be interrupted by ErrAgain; the retry of the same frame then skips what
// is out already.
func (w *Wire) writeSegments(f *frame.Frame) error {
	var failed error
	i := 0
	err := w.split.Split(f.Offload, f.Bytes(), func(seg []byte) {
		if failed == nil && i >= w.sent {
			if failed = w.put(frame.Offload{}, seg); failed == nil {
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

// ring wakes the peer. A socket that is full of bells is a bell, too.
func (w *Wire) ring() {
	w.rings++
	one := [1]byte{1}
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(w.point.Conn()), uintptr(unsafe.Pointer(&one)), 1,
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

// Ready implements tap.Sleeper.
func (w *Wire) Ready(sleep, write bool) bool {
	if w.turn++; sleep || w.turn >= turnEvery {
		w.turn = 0
		w.meet()
	}
	if !w.up {
		return write // what waits is refused
	}
	if w.can(write) {
		return true
	}
	if !sleep {
		return false
	}
	w.rx.sleeping.Store(1)
	if write {
		w.tx.stuck.Store(1)
	}
	if !w.can(write) {
		return false
	}
	w.rx.sleeping.Store(0)
	return true
}

// can reports whether there is something to read, or room for any frame.
func (w *Wire) can(write bool) bool {
	return !w.rx.empty() || write && w.tx.at-w.tx.head.Load() <= ringSize/2
}

// meet notices peers that come and go.
func (w *Wire) meet() {
	ready := w.point.Turn()
	if n := w.point.Stats().Joined; n != w.session || w.up && w.point.Conn() < 0 {
		w.leave()
		w.session = n
		ready = w.point.Conn() >= 0
		if ready && w.point.Accepted() {
			w.invite()
		}
	}
	if !ready {
		return
	}
	if !w.up {
		w.greet()
		return
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(w.point.Conn()), uintptr(unsafe.Pointer(&w.bell)),
		uintptr(len(w.bell)), unix.MSG_DONTWAIT, 0, 0)
	if errno == 0 && n == 0 || errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
		w.point.Drop()
		w.leave()
	}
}

// leave lets go of the memory shared with a peer.
func (w *Wire) leave() {
	if w.memfd >= 0 {
		_ = unix.Close(w.memfd)
		w.memfd = -1
	}
	if w.memory != nil {
		_ = unix.Munmap(w.memory)
		w.memory, w.tx, w.rx = nil, ring{}, ring{}
	}
	was := w.up
	w.up, w.sent = false, 0
	if was && w.carrier != nil {
		w.carrier(false)
	}
}

// breakOff ends the session with a peer that broke a rule.
func (w *Wire) breakOff() {
	w.broken++
	w.point.Drop()
	w.leave()
}
