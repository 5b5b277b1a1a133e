package rdmap

import (
	"encoding/binary"

	"tapir/ddp"
)

const (
	terminateControlLen = 4
	segmentLengthLen    = 2
	// MaxTerminateLen bounds a Terminate header with all its parts.
	MaxTerminateLen = terminateControlLen + segmentLengthLen + ddp.UntaggedLen + ReadRequestLen
)

// Order is how a Terminate's control field is laid out.
type Order uint8

const (
	// OrderRFC is that of RFC 5040 section 4.8.
	OrderRFC Order = iota
	// OrderSiw is that of the Linux siw driver on little-endian machines: the
	// nibbles of the first octet change places, and M, D, R are bits 0, 1, 2 of
	// the third.
	OrderSiw
)

func (o Order) String() string {
	if o == OrderSiw {
		return "siw"
	}
	return "RFC"
}

// Terminate is the Terminate header, RFC 5040 section 4.8.
type Terminate struct {
	Layer    Layer // 4 bits
	Type     uint8 // 4 bits
	Code     uint8
	Reserved uint16 // 13 bits, zero when sending
	Order    Order

	HasLength bool // M: SegmentLength is valid
	HasDDP    bool // D: the terminated DDP header is included
	HasRead   bool // R: the terminated RDMA Read Request header is included

	SegmentLength uint16 // of the terminated DDP segment; on the wire if M or D is set
	DDP           ddp.Header
	Read          ReadRequest
}

// RecognizeTerminate tells which order the control field of b, at least three
// octets, has. Where the two read alike or the field does not tell, sure is
// false and the RFC's order is assumed.
func RecognizeTerminate(b []byte) (o Order, sure bool) {
	switch {
	case b[2]&0xe0 != 0:
		return OrderRFC, true
	case b[2]&0x07 != 0:
		return OrderSiw, true
	case b[0] == 0x21, b[0] == 0x02 && b[1] >= 2 && b[1] <= 4:
		return OrderSiw, true
	case b[0] == 0x12, b[0] == 0x20 && b[1] >= 2 && b[1] <= 4:
		return OrderRFC, true
	}
	return OrderRFC, b[0]>>4 == b[0]&0x0f
}

// ParseTerminate reads a Terminate message's payload in whichever order it
// comes and returns what follows the header, an alias of b.
func ParseTerminate(b []byte) (t Terminate, rest []byte, err error) {
	if len(b) < terminateControlLen {
		return Terminate{}, nil, ErrTruncated
	}
	t.Order, _ = RecognizeTerminate(b)
	t.parseControl(b)
	b = b[terminateControlLen:]
	if t.HasLength || t.HasDDP {
		if len(b) < segmentLengthLen {
			return Terminate{}, nil, ErrTruncated
		}
		t.SegmentLength = binary.BigEndian.Uint16(b)
		b = b[segmentLengthLen:]
	}
	if t.HasDDP {
		if t.DDP, b, err = ddp.Parse(b); err != nil {
			return Terminate{}, nil, ErrTruncated
		}
	}
	if t.HasRead {
		if t.Read, err = ParseReadRequest(b); err != nil {
			return Terminate{}, nil, err
		}
		b = b[ReadRequestLen:]
	}
	return t, b, nil
}

func (t *Terminate) parseControl(b []byte) {
	t.Code = b[1]
	if t.Order == OrderSiw {
		t.Layer, t.Type = Layer(b[0]&0x0f), b[0]>>4
		t.HasLength, t.HasDDP, t.HasRead = b[2]&1 != 0, b[2]&2 != 0, b[2]&4 != 0
		t.Reserved = uint16(b[2]>>3)<<8 | uint16(b[3])
		return
	}
	t.Layer, t.Type = Layer(b[0]>>4), b[0]&0x0f
	t.HasLength, t.HasDDP, t.HasRead = b[2]&0x80 != 0, b[2]&0x40 != 0, b[2]&0x20 != 0
	t.Reserved = uint16(b[2]&0x1f)<<8 | uint16(b[3])
}

// AppendTo appends the header to b.
func (t *Terminate) AppendTo(b []byte) []byte {
	b = t.appendControl(b)
	if t.HasLength || t.HasDDP {
		b = binary.BigEndian.AppendUint16(b, t.SegmentLength)
	}
	if t.HasDDP {
		b = t.DDP.AppendTo(b)
	}
	if t.HasRead {
		b = t.Read.AppendTo(b)
	}
	return b
}

func (t *Terminate) appendControl(b []byte) []byte {
	layer, typ := uint8(t.Layer)&0x0f, t.Type&0x0f
	if t.Order == OrderSiw {
		flags := bits(t.HasLength, 1) | bits(t.HasDDP, 2) | bits(t.HasRead, 4)
		return append(b, typ<<4|layer, t.Code, uint8(t.Reserved>>8)<<3|flags, uint8(t.Reserved))
	}
	flags := bits(t.HasLength, 0x80) | bits(t.HasDDP, 0x40) | bits(t.HasRead, 0x20)
	return append(b, layer<<4|typ, t.Code, uint8(t.Reserved>>8)&0x1f|flags, uint8(t.Reserved))
}

func bits(set bool, b uint8) uint8 {
	if set {
		return b
	}
	return 0
}

// WithSegment adds the terminated segment's length and DDP header (M and D).
func (t Terminate) WithSegment(h ddp.Header, length int) Terminate {
	t.HasLength, t.HasDDP = true, true
	t.SegmentLength, t.DDP = uint16(length), h
	return t
}

// WithRead adds the terminated RDMA Read Request header (R).
func (t Terminate) WithRead(r ReadRequest) Terminate {
	t.HasRead, t.Read = true, r
	return t
}

// Error is the error that the peer reports with t.
func (t *Terminate) Error() *Error {
	return &Error{Layer: t.Layer, Type: t.Type, Code: t.Code, Remote: true}
}
