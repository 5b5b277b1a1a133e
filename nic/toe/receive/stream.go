// Package receive is the receiving half of one TCP connection: which segments
// fit its window (RFC 9293 section 3.10.7.4) and its timestamps (RFC 7323
// section 5), the order of their text, and when an acknowledgement is due.
package receive

import (
	"tapir/nic/toe/reassembly"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// Stream counts what is received in offsets of 64 bits: 0 is the octet after
// the SYN, and a FIN takes one offset after the last octet.
type Stream struct {
	IRS   uint32
	Scale uint8 // shift of the windows that are announced
	TS    Timestamps
	Held  reassembly.Queue // what has come out of order
	Acks

	next   uint64
	fin    bool // the peer's FIN has been seen
	finOff uint64
}

// Sink takes a connection's text.
type Sink interface {
	// Deliver takes the next octets (borrowed).
	Deliver(data []byte, now frame.Time)
	// Skip passes n octets that a Taker has taken.
	Skip(n int, now frame.Time)
}

// Resume begins with a connection that has received all before off, whose sequence number
// is seq.
func (s *Stream) Resume(seq uint32, off uint64) {
	s.IRS, s.next, s.acked = seq-1-uint32(off), off, off
}

// Next is RCV.NXT.
func (s *Stream) Next() uint64 { return s.next }

// Seq is the sequence number of an offset.
func (s *Stream) Seq(off uint64) tcp.Seq { return tcp.Seq(s.IRS + 1 + uint32(off)) }

// Offset is the offset of seq, near RCV.NXT; the SYN is at -1.
func (s *Stream) Offset(seq tcp.Seq) int64 { return int64(s.next) + int64(seq.Sub(s.Seq(s.next))) }

// Window is the window offered, of at most size octets. The upper layer
// consumes everything at once, so it only depends on whether the peer can
// scale.
func (s *Stream) Window(size int) uint64 { return min(uint64(size), 0xffff<<s.Scale) }

// Fits is the first check of RFC 9293 section 3.10.7.4 of a segment at off with
// n sequence numbers.
func (s *Stream) Fits(off int64, n int, wnd uint64) bool {
	next, right := int64(s.next), int64(s.next+wnd)
	if n == 0 {
		return off >= next && off < right
	}
	return off < right && off+int64(n) > next
}

// Refused notes a segment that does not fit and returns why it is dropped;
// sack says that the peer wants to hear of duplicates.
func (s *Stream) Refused(h *tcp.Header, off int64, n int, wnd uint64, sack bool, now frame.Time) frame.DropReason {
	end := off + int64(n)
	if n == 0 || end > int64(s.next) {
		return drop.TCPSequence
	}
	if off >= 0 && sack {
		s.Held.Repeated(reassembly.Block{Left: uint64(off), Right: uint64(end)})
	}
	// Else the answer to a repetition, after acknowledgements were lost,
	// would measure the time since the first sending (RFC 7323 section
	// 4.3).
	if off >= 0 && off >= int64(s.next)-int64(wnd) {
		s.TakeTimestamp(h, off, now)
	}
	return drop.TCPDuplicate
}

// TakeTimestamp updates TS.Recent by a segment at off.
func (s *Stream) TakeTimestamp(h *tcp.Header, off int64, now frame.Time) {
	if off <= int64(s.acked) {
		s.TS.take(h, now)
	}
}

// Cut notes the FIN of an acceptable segment at off, and returns what of its
// text lies in the window, and where that begins.
func (s *Stream) Cut(fin bool, off int64, data []byte, wnd uint64) (uint64, []byte) {
	next := int64(s.next)
	right := next + int64(wnd)
	if end := off + int64(len(data)); fin && end < right {
		if !s.fin {
			s.fin, s.finOff = true, uint64(end)
		}
		s.Due = true // also of a FIN that came before what it ends, each time
	}
	if s.fin {
		right = min(right, int64(s.finOff))
	}
	if off < next {
		data = data[min(next-off, int64(len(data))):]
		off = next
	}
	return uint64(off), data[:max(0, min(int64(len(data)), right-off))]
}

// OutOfOrder keeps data at off, which does not begin at RCV.NXT, or lets take have
// it; each such segment is answered at once (RFC 5681 section 4.2). It returns
// why data is dropped, frame.DropNone if it is not.
func (s *Stream) OutOfOrder(st *reassembly.Store, take reassembly.Taker, off uint64, data []byte) frame.DropReason {
	s.Due = true
	s.ooo++
	return s.Held.Insert(st, take, off, data)
}

// InOrder delivers data, which begins at RCV.NXT, and whatever it makes
// contiguous. push says that its segment carries PSH, delay is the longest
// delay of the acknowledgement, wnd the window.
func (s *Stream) InOrder(st *reassembly.Store, to Sink, data []byte, push bool, p Policy, now frame.Time) {
	if s.Held.Empty() {
		s.deliver(to, data, now)
	} else {
		s.Due = true
		s.join(st, to, data, now)
		s.Held.Trim(s.next)
	}
	s.arrived(len(data), push, p, now)
}

// join delivers data and the pieces that it meets. What a piece holds is not
// taken from data again.
func (s *Stream) join(st *reassembly.Store, to Sink, data []byte, now frame.Time) {
	for {
		p := s.Held.Pop(s.next)
		if p == nil {
			n := min(uint64(len(data)), s.Held.Next()-s.next)
			if n == 0 {
				return
			}
			s.deliver(to, data[:n], now)
			data = data[n:]
			continue
		}
		k := p.End() - min(p.End(), s.next)
		if k > 0 {
			if rest := p.Rest(s.next); rest != nil {
				s.deliver(to, rest, now)
			} else {
				s.next += k
				s.waiting += int(k)
				to.Skip(int(k), now)
			}
		}
		data = data[min(k, uint64(len(data))):]
		st.Free(p)
	}
}

func (s *Stream) deliver(to Sink, data []byte, now frame.Time) {
	s.next += uint64(len(data))
	s.waiting += len(data)
	to.Deliver(data, now)
}

// AtFin reports whether the peer's FIN is next.
func (s *Stream) AtFin() bool { return s.fin && s.next == s.finOff }

// TakeFin passes the FIN.
func (s *Stream) TakeFin(st *reassembly.Store) {
	s.next++
	s.Due = true
	s.Held.Release(st)
}

// FinTaken reports whether it has been passed.
func (s *Stream) FinTaken() bool { return s.fin && s.next > s.finOff }
