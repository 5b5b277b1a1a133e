// Package stream is a wire through a stream socket, Unix or TCP: each frame behind its
// length, four octets in network order, as QEMU's `-netdev stream` and passt have it. A
// guest under QEMU on such a wire needs neither a TAP nor a right.
//
// Frames are true frames: super-frames are cut before they leave.
package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/nic/tap/meet"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// Expect is what Parse expects behind "stream:".
const Expect = "stream:/PATH, stream:connect:ADDRESS:PORT or stream:listen:ADDRESS:PORT[,PEER]"

const (
	// longest is more than any frame; a peer that announces more is none of ours.
	longest = 64<<10 + 64
	prefix  = 4
	room    = 4 * longest
)

// Parse reads what stands behind "stream:".
func Parse(text string) (cfg meet.Config, err error) {
	for word, role := range map[string]meet.Role{"connect:": meet.Connect, "listen:": meet.Listen} {
		if rest, found := strings.CutPrefix(text, word); found {
			text, cfg.Role = rest, role
		}
	}
	if meet.IsPath(text) {
		cfg.Path = text
		return cfg, cfg.Check()
	}
	at, from, named := strings.Cut(text, ",")
	if cfg.Addr, err = netip.ParseAddrPort(at); err != nil || cfg.Role == meet.Either {
		return cfg, errors.New("expected " + Expect)
	}
	if named {
		if cfg.From, err = netip.ParseAddr(from); err != nil || cfg.Role != meet.Listen {
			return cfg, fmt.Errorf("peer %q: expected its address, at the end that listens", from)
		}
	}
	return cfg, cfg.Check()
}

// Wire is one end. It belongs to one goroutine.
type Wire struct {
	name    string
	vnet    bool
	point   *meet.Point
	session uint64
	up      bool
	carrier func(up bool)

	in      []byte
	at, end int    // of in, what is not read yet
	out     []byte // what the socket did not take yet
	gone    int    // of out, what is sent
	split   virtio.Splitter

	broken, full, lost uint64
}

// Open opens an end. With vnet, frames to send may carry a frame.Offload. An error is one
// line.
func Open(text string, vnet bool) (*Wire, error) {
	cfg, err := Parse(text)
	if err != nil {
		return nil, err
	}
	p, err := meet.Open(cfg)
	if err != nil {
		return nil, fmt.Errorf("stream:%s: %w", text, err)
	}
	w := &Wire{name: "stream:" + text, vnet: vnet, point: p, in: make([]byte, room), out: make([]byte, 0, 2*longest)}
	w.meet()
	return w, nil
}

// Fd is the descriptor to poll.
func (w *Wire) Fd() int { return w.point.Fd() }

// Name is the wire's text.
func (w *Wire) Name() string { return w.name }

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
		{Name: "peers_refused", Value: s.Refused}, {Name: "stream_broken", Value: w.broken},
		{Name: "socket_full", Value: w.full}, {Name: "frames_lost_with_peer", Value: w.lost}}
}

// Close ends the wire; the peer notices.
func (w *Wire) Close() error {
	w.carrier = nil
	w.leave()
	w.point.Close()
	return nil
}

// meet notices peers that come and go.
func (w *Wire) meet() {
	w.point.Turn()
	n := w.point.Stats().Joined
	if n == w.session && (!w.up || w.point.Conn() >= 0) {
		return
	}
	w.leave()
	if w.session = n; w.point.Conn() >= 0 {
		w.up = true
		w.tell(true)
	}
}

func (w *Wire) tell(up bool) {
	if w.carrier != nil {
		w.carrier(up)
	}
}

func (w *Wire) leave() {
	if len(w.out) > 0 {
		w.lost++
	}
	w.at, w.end, w.out, w.gone = 0, 0, w.out[:0], 0
	if w.up {
		w.up = false
		w.tell(false)
	}
}

// drop ends the session with the peer.
func (w *Wire) drop() {
	w.point.Drop()
	w.leave()
}

// Ready implements tap.Sleeper.
func (w *Wire) Ready(sleep, write bool) bool {
	if sleep {
		w.meet()
	}
	if !w.up {
		return write // what waits is refused
	}
	w.flush()
	return w.Buffered() || write && len(w.out) == 0
}

// Buffered implements tap.Buffered.
func (w *Wire) Buffered() bool {
	n := w.end - w.at
	return n >= prefix && n-prefix >= w.length()
}

func (w *Wire) length() int {
	return int(min(binary.BigEndian.Uint32(w.in[w.at:]), 1<<30))
}

// Read implements tap.Queue. A length that no frame has ends the session with the peer.
func (w *Wire) Read(f *frame.Frame) error {
	if !w.up {
		return tap.ErrAgain
	}
	if w.bad() {
		return tap.ErrRefused
	}
	if !w.Buffered() {
		if err := w.receive(); err != nil {
			return err
		}
		if w.bad() {
			return tap.ErrRefused
		}
		if !w.Buffered() {
			return tap.ErrAgain
		}
	}
	n := w.length()
	b := w.in[w.at+prefix : w.at+prefix+n]
	w.at += prefix + n
	if n > f.Tailroom() {
		return tap.ErrOversize
	}
	f.Append(b)
	return nil
}

// bad ends the session if the next length is one that no frame has.
func (w *Wire) bad() bool {
	if w.end-w.at < prefix {
		return false
	}
	if n := w.length(); n <= longest && n >= ether.HeaderLen {
		return false
	}
	w.broken++
	w.drop()
	return true
}

// receive takes in what the socket has.
func (w *Wire) receive() error {
	if w.at > 0 {
		w.end = copy(w.in, w.in[w.at:w.end])
		w.at = 0
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(w.point.Conn()),
		uintptr(unsafe.Pointer(&w.in[w.end])), uintptr(len(w.in)-w.end), unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return tap.ErrAgain
	case errno != 0 || n == 0:
		w.drop()
		return tap.ErrAgain
	}
	w.end += int(n)
	return nil
}

// Write implements tap.Queue. What the socket does not take of a frame waits here, and the
// next frame with the caller.
func (w *Wire) Write(f *frame.Frame) error {
	if !w.up {
		return tap.ErrRefused
	}
	if w.flush(); len(w.out) > 0 {
		w.full++
		return tap.ErrAgain
	}
	err := w.split.Split(f.Offload, f.Bytes(), func(b []byte) {
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(len(b)))
		w.out = append(w.out, b...)
	})
	if err != nil || f.Len() > longest {
		w.out = w.out[:0]
		return tap.ErrRefused
	}
	w.flush()
	return nil
}

// flush sends what waits, as far as the socket takes it.
func (w *Wire) flush() {
	for w.up && len(w.out) > 0 {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(w.point.Conn()),
			uintptr(unsafe.Pointer(&w.out[w.gone])), uintptr(len(w.out)-w.gone),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			w.point.WantRoom(true)
			return
		case errno != 0:
			w.drop()
			return
		}
		if w.gone += int(n); w.gone == len(w.out) {
			w.out, w.gone = w.out[:0], 0
		}
	}
	w.point.WantRoom(false)
}
