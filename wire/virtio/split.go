package virtio

import (
	"encoding/binary"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/udp"
)

// Where TCP and UDP keep what differs between the segments of a super-frame.
const (
	tcpSeq      = 4
	tcpOffset   = 12
	tcpFlags    = 13
	udpLength   = 4
	udpChecksum = 6
)

// Splitter turns frames with work left to do into the frames that a wire
// carries. Its buffer is reused from frame to frame; the zero value is ready.
// It belongs to one goroutine.
type Splitter struct {
	buf []byte
	cut inHand
}

// Split is Splitter.Split with a Splitter of its own, for rare use.
func Split(off frame.Offload, data []byte, emit func(seg []byte)) error {
	var s Splitter
	return s.Split(off, data, emit)
}

// Split passes to emit, in order, the true frames that data (an Ethernet
// frame, borrowed and left unchanged) stands for under off. Each has its own
// IP length, IPv4 identification and header checksum, TCP sequence number,
// flags and checksum: FIN and PSH only on the last, CWR only on the first. Of UDP
// they are datagrams with their own length and checksum.
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

func (s *Splitter) segment(off frame.Offload, data []byte, emit func([]byte)) error {
	n, err := s.Begin(off, data)
	if err != nil {
		return err
	}
	b := s.room(s.Len(0))
	for i := range n {
		seg := b[:s.Len(i)]
		s.Put(seg, i)
		emit(seg)
	}
	s.End()
	return nil
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

// inHand is the super-frame in hand.
type inHand struct {
	layout
	kind   frame.GSO
	data   []byte
	size   int // payload octets per segment
	seq    uint32
	id     uint16
	flags  byte
	addrs  uint32 // sum of the addresses and the protocol
	header uint32 // sum of the IPv4 header without length, identification and checksum
	head   []byte // headers of the segment in hand
}

// Begin is for users who want the segments of a super-frame one by one, or
// only the beginnings of them: it takes data in hand, borrowed until End, and
// returns how many there are. The errors are those of Split.
func (s *Splitter) Begin(off frame.Offload, data []byte) (n int, err error) {
	l, err := locate(off.GSO, data)
	if err != nil {
		return 0, err
	}
	size := int(off.GSOSize)
	if size == 0 {
		return 0, ErrMalformed
	}
	c := &s.cut
	*c = inHand{layout: l, kind: off.GSO, data: data, size: size, head: append(c.head[:0], data[:l.payload]...)}
	h, t := c.head[l.l3:], c.head[l.l4:]
	if !l.udp {
		c.seq, c.flags = binary.BigEndian.Uint32(t[tcpSeq:]), t[tcpFlags]
	}
	proto := uint32(l.proto())
	if l.v6 {
		c.addrs = ip.Sum(h[8:40], proto)
	} else {
		c.id = binary.BigEndian.Uint16(h[4:])
		clear(h[2:6])
		clear(h[10:12])
		c.addrs = ip.Sum(h[12:20], proto)
		c.header = ip.Sum(h[:l.l4-l.l3], 0)
	}
	return max(1, (l.end-l.payload+size-1)/size), nil
}

// End lets go of the super-frame.
func (s *Splitter) End() { s.cut.data = nil }

// Len is the length of segment i, headers included.
func (s *Splitter) Len(i int) int { return s.RunLen(i, 1) }

// RunLen is the length of a frame with n segments from segment i on.
func (s *Splitter) RunLen(i, n int) int {
	c := &s.cut
	return c.payload + min(n*c.size, c.end-c.payload-i*c.size)
}

// PutRun writes n segments from segment i on as one frame to dst, which is
// RunLen(i, n) long: a super-frame again, if n is not 1. What it returns is
// left to do, the checksum in any case.
func (s *Splitter) PutRun(dst []byte, i, n int) frame.Offload {
	c := &s.cut
	c.finish(uint16(i), n, len(dst))
	at := c.payload + i*c.size
	copy(dst[copy(dst, c.head):], c.data[at:])
	off := frame.Offload{NeedsCsum: true, CsumStart: uint16(c.l4), CsumOffset: uint16(c.checksum())}
	if n > 1 {
		off.GSO, off.GSOSize, off.HdrLen = c.kind, uint16(c.size), uint16(c.payload)
	}
	return off
}

// Put writes the first len(dst) octets of segment i to dst, at most Len(i).
// The checksum needs all octets: of a segment that is cut it is the sum of
// the pseudo-header, as a sender leaves it to a device.
func (s *Splitter) Put(dst []byte, i int) {
	c := &s.cut
	whole := s.Len(i)
	c.finish(uint16(i), 1, whole)
	n := copy(dst, c.head)
	at := c.payload + i*c.size
	copy(dst[n:], c.data[at:at+whole-c.payload])
	if len(dst) < whole {
		return
	}
	sum := ip.Checksum(dst[c.l4:], 0)
	if sum == 0 && c.udp {
		sum = 0xffff // zero would mean "none"
	}
	binary.BigEndian.PutUint16(dst[c.l4+c.checksum():], sum)
}

// Shape is where things lie in the segments of a super-frame, in octets.
type Shape struct {
	L3, L4, Payload int  // where the IP header, the TCP or UDP header and the payload begin
	Size            int  // of the payload of a segment that is not the last
	UDP             bool // not TCP
}

// Shape is that of the super-frame in hand.
func (s *Splitter) Shape() Shape {
	c := &s.cut
	return Shape{c.l3, c.l4, c.payload, c.size, c.udp}
}

// Payload is that of the segments from segment i on, borrowed.
func (s *Splitter) Payload(i int) []byte { return s.cut.data[s.cut.payload+i*s.cut.size : s.cut.end] }

// Flags are the TCP flags of segment i.
func (s *Splitter) Flags(i int) byte { return s.cut.flagsOf(i, 1) }

// Step turns pkt, at least the headers of a segment, into what the kth segment
// behind it begins with. If that is as long, all is right but its payload
// and, of a segment that is whole, the TCP checksum.
func (sh *Shape) Step(pkt []byte, k int, flags byte) {
	h, t := pkt[sh.L3:sh.L4], pkt[sh.L4:sh.Payload]
	if h[0]>>4 == 4 { // RFC 1624 section 3
		id, sum := binary.BigEndian.Uint16(h[4:]), binary.BigEndian.Uint16(h[10:])
		next := id + uint16(k)
		binary.BigEndian.PutUint16(h[4:], next)
		binary.BigEndian.PutUint16(h[10:], ^ip.Fold(uint32(^sum)+uint32(^id)+uint32(next)))
	}
	if sh.UDP {
		return
	}
	binary.BigEndian.PutUint32(t[tcpSeq:], binary.BigEndian.Uint32(t[tcpSeq:])+uint32(k*sh.Size))
	t[tcpFlags] = flags
}

// flagsOf are the TCP flags of a frame of n segments from segment i on.
func (c *inHand) flagsOf(i, n int) byte {
	f := c.flags
	if i > 0 {
		f &^= byte(tcp.CWR)
	}
	if c.payload+(i+n)*c.size < c.end {
		f &^= byte(tcp.FIN | tcp.PSH)
	}
	return f
}

// finish puts the headers of a frame of n segments from segment i on, whole
// octets long, into head, with the sum of the pseudo-header in place of the TCP
// checksum.
func (c *inHand) finish(i uint16, n, whole int) {
	h, t := c.head[c.l3:], c.head[c.l4:]
	if c.v6 {
		binary.BigEndian.PutUint16(h[4:], uint16(whole-c.l3-ip.HeaderLen6))
	} else {
		length, id := uint16(whole-c.l3), c.id+i
		binary.BigEndian.PutUint16(h[2:], length)
		binary.BigEndian.PutUint16(h[4:], id)
		binary.BigEndian.PutUint16(h[10:], ^ip.Fold(c.header+uint32(length)+uint32(id)))
	}
	if c.udp {
		binary.BigEndian.PutUint16(t[udpLength:], uint16(whole-c.l4))
	} else {
		t[tcpFlags] = c.flagsOf(int(i), n)
		binary.BigEndian.PutUint32(t[tcpSeq:], c.seq+uint32(int(i)*c.size))
	}
	binary.BigEndian.PutUint16(t[c.checksum():], ip.Fold(c.addrs+uint32(whole-c.l4)))
}

// layout is where the headers of a super-frame lie, found in the frame itself.
type layout struct {
	l3, l4, payload, end int
	v6, udp              bool
}

// proto is the IP protocol.
func (l *layout) proto() uint8 {
	if l.udp {
		return ip.ProtoUDP
	}
	return ip.ProtoTCP
}

// checksum is where the checksum is in the TCP or UDP header.
func (l *layout) checksum() int {
	if l.udp {
		return udpChecksum
	}
	return tcp.ChecksumOffset
}

// locate walks the headers of a super-frame.
func locate(kind frame.GSO, data []byte) (l layout, err error) {
	eth, n, err := ether.Parse(data)
	if err != nil {
		return l, ErrTruncated
	}
	l.l3, l.v6, l.udp = n, kind == frame.GSOTCPv6, kind == frame.GSOUDP
	if l.udp {
		if l.v6 = eth.Type == ether.TypeIPv6; l.v6 {
			kind = frame.GSOTCPv6
		} else {
			kind = frame.GSOTCPv4
		}
	}
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
	if l.udp {
		if l.payload = l.l4 + udp.HeaderLen; l.payload > l.end {
			return l, ErrTruncated
		}
		return l, nil
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
	if h[0]>>4 != 4 || hl < ip.HeaderLen4 || total < hl || h[9] != l.proto() || fragment {
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
	for next != l.proto() {
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
