// Package tcp encodes and decodes TCP headers (RFC 9293 section 3.1) with the
// options of RFC 9293, RFC 7323 and RFC 2018. All fields are big-endian on the
// wire.
package tcp

import (
	"encoding/binary"
	"errors"

	"tapir/wire/enum"
)

const (
	// HeaderLen is the length in octets without options.
	HeaderLen = 20
	// MaxHeaderLen is the largest length in octets with options.
	MaxHeaderLen = 60
	// ChecksumOffset is where the checksum lies in the header.
	ChecksumOffset = 16
)

// What can be wrong with a segment. Parse returns one of these unwrapped.
var (
	ErrTruncated = errors.New("tcp: segment ends inside the header")
	ErrMalformed = errors.New("tcp: impossible header field")
)

// Seq is a sequence number: octets modulo 2^32. Comparisons hold for numbers
// less than 2^31 apart.
type Seq uint32

// Less reports whether s comes before t.
func (s Seq) Less(t Seq) bool { return int32(s-t) < 0 }

// LessEq reports whether s comes before t or is t.
func (s Seq) LessEq(t Seq) bool { return int32(s-t) <= 0 }

// Add returns the number n octets after s.
func (s Seq) Add(n int) Seq { return s + Seq(uint32(n)) }

// Sub returns the distance s-t in octets, negative if s comes before t.
func (s Seq) Sub(t Seq) int32 { return int32(s - t) }

// InWindow reports whether s lies in [first, first+size).
func (s Seq) InWindow(first Seq, size uint32) bool { return uint32(s-first) < size }

// Flags are the control bits; the low 12 bits of the header's fourth 16-bit
// word group, reserved bits included.
type Flags uint16

// The control bits.
const (
	FIN Flags = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
	ECE
	CWR
	NS
)

var flagNames = [...]string{"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "NS"}

// Has reports whether all bits of g are set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// String lists the set bits, as in "SYN,ACK".
func (f Flags) String() string {
	return enum.Bits(flagNames[:], f)
}

// Header is a TCP header. Put copies Checksum as it is: the caller computes it
// over the whole segment.
type Header struct {
	SrcPort, DstPort uint16
	Seq, Ack         Seq
	Flags            Flags
	Window           uint16 // octets, not scaled
	Checksum         uint16
	Urgent           uint16
	Opts             Options
}

// SACKBlock is one range of octets received out of order (RFC 2018 section
// 3): Left is the first octet, Right the one after the last.
type SACKBlock struct{ Left, Right Seq }

// Options are the options that the package understands; others are skipped.
type Options struct {
	MSS           uint16 // octets; 0 = absent
	HasWS         bool
	WS            uint8 // window shift, 0 to 14
	SACKPermitted bool
	HasTS         bool
	TSVal, TSEcr  uint32
	NSACK         int // number of valid SACK blocks
	SACK          [4]SACKBlock
}

// Option kinds.
const (
	optEnd = iota
	optNop
	optMSS
	optWS
	optSACKPermitted
	optSACK
	optTS = 8
)

// maxOptions is the room for options in octets.
const maxOptions = MaxHeaderLen - HeaderLen

// Parse reads the header of segment b and returns the payload, borrowed. It
// does not verify the checksum, which needs the pseudo-header. Options of another
// length than theirs are passed over; one of an impossible length ends the options
// (RFC 9293 MUST-7).
func Parse(b []byte) (h Header, payload []byte, err error) {
	if len(b) < HeaderLen {
		return h, nil, ErrTruncated
	}
	w := binary.BigEndian.Uint16(b[12:])
	hl := int(w>>12) * 4
	if hl < HeaderLen {
		return h, nil, ErrMalformed
	}
	if len(b) < hl {
		return h, nil, ErrTruncated
	}
	h.SrcPort, h.DstPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	h.Seq, h.Ack = Seq(binary.BigEndian.Uint32(b[4:])), Seq(binary.BigEndian.Uint32(b[8:]))
	h.Flags = Flags(w & 0x0fff)
	h.Window = binary.BigEndian.Uint16(b[14:])
	h.Checksum = binary.BigEndian.Uint16(b[16:])
	h.Urgent = binary.BigEndian.Uint16(b[18:])
	if hl > HeaderLen {
		h.Opts.parse(b[HeaderLen:hl])
	}
	return h, b[hl:], nil
}

func (o *Options) parse(b []byte) {
	// The layout that nearly every data segment has: NOP, NOP, timestamps.
	if len(b) == 12 && binary.BigEndian.Uint32(b) == 0x0101080a {
		o.HasTS = true
		o.TSVal, o.TSEcr = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
		return
	}
	for len(b) > 0 {
		switch b[0] {
		case optEnd:
			return
		case optNop:
			b = b[1:]
			continue
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			return
		}
		o.set(b[0], b[2:b[1]])
		b = b[b[1]:]
	}
}

// set stores one option's data if its length is right.
func (o *Options) set(kind uint8, d []byte) {
	switch {
	case kind == optMSS && len(d) == 2:
		o.MSS = binary.BigEndian.Uint16(d)
	case kind == optWS && len(d) == 1:
		// RFC 7323 section 2.3: a larger shift is taken as 14.
		o.HasWS, o.WS = true, min(d[0], 14)
	case kind == optSACKPermitted && len(d) == 0:
		o.SACKPermitted = true
	case kind == optTS && len(d) == 8:
		o.HasTS = true
		o.TSVal, o.TSEcr = binary.BigEndian.Uint32(d), binary.BigEndian.Uint32(d[4:])
	case kind == optSACK && len(d) > 0 && len(d)%8 == 0 && len(d) <= 32:
		o.NSACK = len(d) / 8
		for i := range o.NSACK {
			o.SACK[i] = SACKBlock{Seq(binary.BigEndian.Uint32(d[8*i:])), Seq(binary.BigEndian.Uint32(d[8*i+4:]))}
		}
	}
}

// lenBeforeSACK is the padded length of all options but SACK.
func (o *Options) lenBeforeSACK() (n int) {
	if o.MSS != 0 {
		n += 4
	}
	if o.HasTS {
		n += 12
	} else if o.SACKPermitted {
		n += 4
	}
	if o.HasWS {
		n += 4
	}
	return n
}

// sacks is the number of SACK blocks that fit.
func (o *Options) sacks() int {
	return max(0, min(o.NSACK, len(o.SACK), (maxOptions-o.lenBeforeSACK()-4)/8))
}

// Len is the encoded length of the options in octets, a multiple of 4.
func (o *Options) Len() int {
	n := o.lenBeforeSACK()
	if k := o.sacks(); k > 0 {
		n += 4 + 8*k
	}
	return n
}

// put writes the options in the order and with the padding of Linux and
// returns their length.
func (o *Options) put(b []byte) (n int) {
	be := binary.BigEndian
	if o.MSS != 0 {
		be.PutUint32(b[n:], optMSS<<24|4<<16|uint32(o.MSS))
		n += 4
	}
	if o.HasTS {
		pad := uint32(optNop<<24 | optNop<<16)
		if o.SACKPermitted {
			pad = optSACKPermitted<<24 | 2<<16
		}
		be.PutUint32(b[n:], pad|optTS<<8|10)
		be.PutUint32(b[n+4:], o.TSVal)
		be.PutUint32(b[n+8:], o.TSEcr)
		n += 12
	} else if o.SACKPermitted {
		be.PutUint32(b[n:], optNop<<24|optNop<<16|optSACKPermitted<<8|2)
		n += 4
	}
	if o.HasWS {
		be.PutUint32(b[n:], optNop<<24|optWS<<16|3<<8|uint32(o.WS))
		n += 4
	}
	if k := o.sacks(); k > 0 {
		be.PutUint32(b[n:], optNop<<24|optNop<<16|optSACK<<8|uint32(2+8*k))
		n += 4
		for _, s := range o.SACK[:k] {
			be.PutUint32(b[n:], uint32(s.Left))
			be.PutUint32(b[n+4:], uint32(s.Right))
			n += 8
		}
	}
	return n
}

// Len is the encoded length in octets, options included. SACK blocks that find
// no room beside the other options are left out.
func (h *Header) Len() int { return HeaderLen + h.Opts.Len() }

// Put writes the header to the front of b, which must hold Len octets, and
// returns Len.
func (h *Header) Put(b []byte) int {
	n := HeaderLen + h.Opts.put(b[HeaderLen:])
	binary.BigEndian.PutUint16(b, h.SrcPort)
	binary.BigEndian.PutUint16(b[2:], h.DstPort)
	binary.BigEndian.PutUint32(b[4:], uint32(h.Seq))
	binary.BigEndian.PutUint32(b[8:], uint32(h.Ack))
	binary.BigEndian.PutUint16(b[12:], uint16(n/4)<<12|uint16(h.Flags&0x0fff))
	binary.BigEndian.PutUint16(b[14:], h.Window)
	binary.BigEndian.PutUint16(b[16:], h.Checksum)
	binary.BigEndian.PutUint16(b[18:], h.Urgent)
	return n
}
