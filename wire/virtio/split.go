package virtio

import (
	"encoding/binary"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// Where TCP keeps what differs between the segments of a super-frame.
const (
	tcpSeq    = 4
	tcpOffset = 12
	tcpFlags  = 13
)

// Splitter turns frames with work left to do into the frames that a wire
// carries. Its buffer is reused from frame to frame; the zero value is ready.
// It belongs to one goroutine.
type Splitter struct {
	buf []byte
}

// Split is Splitter.Split with a Splitter of its own, for rare use.
func Split(off frame.Offload, data []byte, emit func(seg []byte)) error {
	var s Splitter
	return s.Split(off, data, emit)
}

// Split passes to emit, in order, the true frames that data (an Ethernet
// frame, borrowed and left unchanged) stands for under off. Each has its own
// IP length, IPv4 identification and header checksum, TCP sequence number,
// flags and checksum: FIN and PSH only on the last, CWR only on the first.
// emit borrows its argument. off.HdrLen is a hint of the sender and not
// looked at. ErrTruncated, ErrMalformed or ErrGSOType is returned before anything is
// emitted.
func (s *Splitter) Split(off frame.Offload, data []byte, emit func(seg []byte)) error {
	if off.GSO != frame.GSONone {
		return s.segment(off, data, emit)
	}
	if !off.NeedsCsum {
		emit(data)
		return nil
	}
	return s.complete(off, data, emit)
}

// complete finishes a partial checksum: the field holds the pseudo-header's
// sum, not complemented.
func (s *Splitter) complete(off frame.Offload, data []byte, emit func([]byte)) error {
	start := int(off.CsumStart)
	at := start + int(off.CsumOffset)
	if at+2 > len(data) {
		return ErrTruncated
	}
	b := s.room(len(data))
	copy(b, data)
	sum := ip.Checksum(b[start:], 0)
	if sum == 0 {
		sum = 0xffff // zero would mean "none" in UDP; both are the same number
	}
	binary.BigEndian.PutUint16(b[at:], sum)
	emit(b)
	return nil
}

func (s *Splitter) room(n int) []byte {
	if cap(s.buf) < n {
		s.buf = make([]byte, n)
	}
	return s.buf[:n]
}

// layout is where the headers of a TCP super-frame lie, found in the frame
// itself.
type layout struct {
	l3, l4, payload, end int
	v6                   bool
}

func (s *Splitter) segment(off frame.Offload, data []byte, emit func([]byte)) error {
	l, err := locate(off.GSO, data)
	if err != nil {
		return err
	}
	size := int(off.GSOSize)
	if size == 0 {
		return ErrMalformed
	}
	b := s.room(l.payload + min(size, l.end-l.payload))
	copy(b, data[:l.payload])
	id := binary.BigEndian.Uint16(data[l.l3+4:])
	seq := binary.BigEndian.Uint32(data[l.l4+tcpSeq:])
	flags := data[l.l4+tcpFlags]
	for i, at := 0, l.payload; ; i++ {
		next := min(at+size, l.end)
		n := l.payload + copy(b[l.payload:], data[at:next])
		f := flags
		if i > 0 {
			f &^= byte(tcp.CWR)
		}
		if next < l.end {
			f &^= byte(tcp.FIN | tcp.PSH)
		}
		b[l.l4+tcpFlags] = f
		binary.BigEndian.PutUint32(b[l.l4+tcpSeq:], seq+uint32(at-l.payload))
		l.finish(b[:n], id+uint16(i))
		emit(b[:n])
		if at = next; at >= l.end {
			return nil
		}
	}
}

// finish sets the lengths and checksums of one segment.
func (l *layout) finish(b []byte, id uint16) {
	h := b[l.l3:]
	var addrs []byte
	if l.v6 {
		binary.BigEndian.PutUint16(h[4:], uint16(len(h)-ip.HeaderLen6))
		addrs = h[8:40]
	} else {
		binary.BigEndian.PutUint16(h[2:], uint16(len(h)))
		binary.BigEndian.PutUint16(h[4:], id)
		h[10], h[11] = 0, 0
		binary.BigEndian.PutUint16(h[10:], ip.Checksum(h[:l.l4-l.l3], 0))
		addrs = h[12:20]
	}
	t := b[l.l4:]
	t[tcp.ChecksumOffset], t[tcp.ChecksumOffset+1] = 0, 0
	pseudo := ip.Sum(addrs, uint32(ip.ProtoTCP)+uint32(len(t)))
	binary.BigEndian.PutUint16(t[tcp.ChecksumOffset:], ip.Checksum(t, pseudo))
}

// locate walks the headers of a TCP super-frame.
func locate(kind frame.GSO, data []byte) (l layout, err error) {
	eth, n, err := ether.Parse(data)
	if err != nil {
		return l, ErrTruncated
	}
	l.l3, l.v6 = n, kind == frame.GSOTCPv6
	switch kind {
	case frame.GSOTCPv4:
		err = l.locate4(eth.Type, data)
	case frame.GSOTCPv6:
		err = l.locate6(eth.Type, data)
	default:
		err = ErrGSOType
	}
	if err != nil {
		return l, err
	}
	if l.l4+tcp.HeaderLen > l.end {
		return l, ErrTruncated
	}
	l.payload = l.l4 + int(data[l.l4+tcpOffset]>>4)*4
	if l.payload < l.l4+tcp.HeaderLen {
		return l, ErrMalformed
	}
	if l.payload > l.end {
		return l, ErrTruncated
	}
	return l, nil
}

func (l *layout) locate4(etherType uint16, data []byte) error {
	h := data[l.l3:]
	if etherType != ether.TypeIPv4 {
		return ErrMalformed
	}
	if len(h) < ip.HeaderLen4 {
		return ErrTruncated
	}
	hl, total := int(h[0]&15)*4, int(binary.BigEndian.Uint16(h[2:]))
	fragment := binary.BigEndian.Uint16(h[6:])&0x3fff != 0
	if h[0]>>4 != 4 || hl < ip.HeaderLen4 || total < hl || h[9] != ip.ProtoTCP || fragment {
		return ErrMalformed
	}
	if total > len(h) {
		return ErrTruncated
	}
	l.l4, l.end = l.l3+hl, l.l3+total
	return nil
}

func (l *layout) locate6(etherType uint16, data []byte) error {
	h := data[l.l3:]
	if etherType != ether.TypeIPv6 {
		return ErrMalformed
	}
	if len(h) < ip.HeaderLen6 {
		return ErrTruncated
	}
	if h[0]>>4 != 6 {
		return ErrMalformed
	}
	total := ip.HeaderLen6 + int(binary.BigEndian.Uint16(h[4:]))
	if total > len(h) {
		return ErrTruncated
	}
	h = h[:total]
	next, at := h[6], ip.HeaderLen6
	for next != ip.ProtoTCP {
		switch next {
		case ip.ProtoHopByHop, ip.ProtoRouting, ip.ProtoDestOpts:
		default:
			return ErrMalformed
		}
		if at+8 > len(h) {
			return ErrTruncated
		}
		next, at = h[at], at+8+int(h[at+1])*8
	}
	l.l4, l.end = l.l3+at, l.l3+total
	return nil
}
