// Package nsh encodes and decodes the Network Service Header with metadata of
// type 2 (RFC 8300). Fields are big-endian.
package nsh

import (
	"encoding/binary"
	"errors"
)

const (
	// HeaderLen is the length in octets of base and service path header.
	HeaderLen = 8
	// TLVHeaderLen is the length of a metadata header.
	TLVHeaderLen = 4
	// EtherType of a frame that carries an NSH (RFC 8300 section 11.1).
	EtherType uint16 = 0x894f
	// MaxTTL is the largest TTL; the default (section 2.2).
	MaxTTL = 63
	// MaxPath is the largest service path identifier.
	MaxPath = 1<<24 - 1

	mdType2 = 2
)

// Values of the next protocol field (section 11.2.5).
const (
	NextIPv4     uint8 = 1
	NextIPv6     uint8 = 2
	NextEthernet uint8 = 3
)

// What can be wrong with a header.
var (
	ErrTruncated = errors.New("nsh: packet ends inside the header")
	ErrMalformed = errors.New("nsh: version, length or metadata type not possible here")
)

// Header is base and service path header.
type Header struct {
	OAM   bool
	TTL   uint8  // 6 bits
	Next  uint8  // next protocol
	Path  uint32 // service path identifier, 24 bits
	Index uint8  // service index
}

// Put writes h with n octets of metadata behind it, a multiple of 4 and at
// most 244, to the front of b and returns HeaderLen.
func (h *Header) Put(b []byte, n int) int {
	w := uint32(h.TTL&MaxTTL)<<22 | uint32((HeaderLen+n)/4)<<16 | mdType2<<8 | uint32(h.Next)
	if h.OAM {
		w |= 1 << 29
	}
	binary.BigEndian.PutUint32(b, w)
	binary.BigEndian.PutUint32(b[4:], h.Path<<8|uint32(h.Index))
	return HeaderLen
}

// Parse reads the header at the front of b and returns its metadata and what
// follows it, both borrowed. Unassigned bits are ignored, as section 2.2 asks.
func Parse(b []byte) (h Header, metadata, payload []byte, err error) {
	if len(b) < HeaderLen {
		return h, nil, nil, ErrTruncated
	}
	w, path := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	n := int(w>>16&63) * 4
	if w>>30 != 0 || w>>8&15 != mdType2 || n < HeaderLen {
		return h, nil, nil, ErrMalformed
	}
	if len(b) < n {
		return h, nil, nil, ErrTruncated
	}
	h = Header{OAM: w>>29&1 != 0, TTL: uint8(w >> 22 & MaxTTL), Next: uint8(w), Path: path >> 8, Index: uint8(path)}
	return h, b[HeaderLen:n:n], b[n:], nil
}

// TLV is the header of one piece of metadata (section 2.5.1).
type TLV struct {
	Class  uint16 // 0xfff6 to 0xfffe are for experiments
	Type   uint8
	Length int // octets of the value, at most 127
}

// Put writes t to the front of b and returns TLVHeaderLen.
func (t TLV) Put(b []byte) int {
	binary.BigEndian.PutUint16(b, t.Class)
	b[2], b[3] = t.Type, uint8(t.Length)&127
	return TLVHeaderLen
}

// ParseTLV reads the piece of metadata at the front of b and returns its value
// and what follows its padding, both borrowed.
func ParseTLV(b []byte) (t TLV, value, rest []byte, err error) {
	if len(b) < TLVHeaderLen {
		return t, nil, nil, ErrTruncated
	}
	t = TLV{Class: binary.BigEndian.Uint16(b), Type: b[2], Length: int(b[3] & 127)}
	end := TLVHeaderLen + t.Length
	next := (end + 3) &^ 3
	if len(b) < next {
		return t, nil, nil, ErrTruncated
	}
	return t, b[TLVHeaderLen:end:end], b[next:], nil
}
