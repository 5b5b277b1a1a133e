// Package rmpp is the reliable multi-packet transaction protocol of management
// datagrams (InfiniBand Architecture 1.3, section 13.6): a sender and a receiver
// of one message, without a clock. A message is the headers of a datagram, up to
// ib.DataOffset of its class, and all data behind them.
package rmpp

import (
	"encoding/binary"

	"tapir/wire/frame"
	"tapir/wire/ib"
)

const (
	// Window is how many segments a receiver lets the sender be ahead.
	Window = 32
	// MaxMessage bounds what a receiver keeps, in octets.
	MaxMessage = 1 << 20

	timeout   = frame.Time(1e9) // nanoseconds until segments are sent again
	maxTries  = 5
	classHead = 36 // common and RMPP header, behind which payload is counted
)

// Receiver puts a message together.
type Receiver struct {
	b    []byte
	last uint32 // segment in order
	done bool
}

// Take takes a datagram with RMPP data, at least ib.MADLen long, and returns the
// acknowledgement to send; nil: none. A segment out of order is dropped, and the
// acknowledgement has the sender repeat it.
func (r *Receiver) Take(mad []byte) (ack []byte, done bool) {
	h := ib.ParseRMPP(mad)
	if h.Type != ib.RMPPData || len(r.b) > MaxMessage {
		return nil, false
	}
	at := ib.DataOffset(mad[1])
	if h.Segment == r.last+1 && !r.done {
		r.last++
		data := mad[at:]
		if h.Flags&ib.RMPPLast != 0 {
			r.done = true
			if n := int(h.Length) - (at - classHead); h.Length > 0 && n >= 0 && n < len(data) {
				data = data[:n]
			}
		}
		if r.b == nil {
			r.b = append(r.b, mad[:at]...)
		}
		r.b = append(r.b, data...)
	} else if h.Segment == 0 || h.Segment > r.last && r.last == 0 {
		return nil, false
	}
	return r.ack(mad), r.done
}

func (r *Receiver) ack(mad []byte) []byte {
	ack := make([]byte, ib.Len(mad[0]))
	copy(ack, mad[:ib.DataOffset(mad[1])])
	ack[3] ^= ib.ResponseBit
	h := ib.RMPP{Type: ib.RMPPAck, Flags: ib.RMPPActive, Segment: r.last, Length: r.last + Window}
	h.Put(ack)
	return ack
}

// Message is what has been received, borrowed.
func (r *Receiver) Message() []byte { return r.b }

// Sender sends a message.
type Sender struct {
	head, data    []byte
	per           int // octets of data in a segment
	last          uint32
	acked, sent   uint32
	window        uint32 // the last segment that may be sent
	again         frame.Time
	tries         int
	ended, failed bool
}

// NewSender returns the sender of a message (kept).
func NewSender(message []byte) *Sender {
	at := ib.DataOffset(message[1])
	s := &Sender{head: message[:at], data: message[at:], per: ib.Len(message[0]) - at, window: 1}
	s.last = uint32(max(1, (len(s.data)+s.per-1)/s.per))
	return s
}

// Done reports whether nothing is left to do: everything was acknowledged, or the
// receiver has ended it, or does not answer.
func (s *Sender) Done() bool { return s.ended }

// Delivered reports whether the receiver has acknowledged everything.
func (s *Sender) Delivered() bool { return s.ended && !s.failed }

// Take takes an RMPP packet of the receiver, at least ib.MADLen long.
func (s *Sender) Take(mad []byte) {
	switch h := ib.ParseRMPP(mad); {
	case s.ended:
	case h.Type == ib.RMPPStop || h.Type == ib.RMPPAbort:
		s.ended, s.failed = true, true
	case h.Type != ib.RMPPAck || h.Segment > s.sent || h.Length < h.Segment:
	default:
		s.acked, s.window = max(s.acked, h.Segment), max(s.window, min(h.Length, s.last))
		s.tries, s.again = 0, 0
		s.ended = s.acked == s.last
	}
}

// Poll sends what is due and returns when it is to be called again.
func (s *Sender) Poll(now frame.Time, send func(mad []byte)) frame.Time {
	if s.ended {
		return frame.Never
	}
	if s.again != 0 && now >= s.again { // from the first on that was not acknowledged
		if s.tries++; s.tries >= maxTries {
			s.ended, s.failed = true, true
			return frame.Never
		}
		s.sent, s.again = s.acked, 0
	}
	for s.sent < s.window {
		s.sent++
		send(s.segment(s.sent))
	}
	if s.again == 0 {
		s.again = now + timeout
	}
	return s.again
}

func (s *Sender) segment(n uint32) []byte {
	b := make([]byte, len(s.head)+s.per)
	copy(b, s.head)
	data := s.data[min(int(n-1)*s.per, len(s.data)):]
	data = data[:min(len(data), s.per)]
	copy(b[len(s.head):], data)
	class := uint32(len(s.head) - classHead)
	h := ib.RMPP{Type: ib.RMPPData, Flags: ib.RMPPActive, Segment: n}
	if n == 1 {
		h.Flags |= ib.RMPPFirst
		h.Length = uint32(len(s.data)) + s.last*class
	}
	if n == s.last {
		h.Flags |= ib.RMPPLast
		h.Length = uint32(len(data)) + class
	}
	h.Put(b)
	return b
}

// TID is the transaction that a datagram belongs to.
func TID(mad []byte) uint64 { return binary.BigEndian.Uint64(mad[8:]) }
