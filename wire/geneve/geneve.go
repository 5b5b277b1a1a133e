// Package geneve encodes and decodes the Geneve header and its options
// (RFC 8926). Fields are big-endian.
package geneve

import (
	"encoding/binary"
	"errors"
)

const (
	// HeaderLen is the length in octets of the header without options.
	HeaderLen = 8
	// OptionHeaderLen is the length of an option's header.
	OptionHeaderLen = 4
	// Port is the UDP port that Geneve listens on.
	Port = 6081
	// TypeEthernet is the protocol type of an Ethernet frame.
	TypeEthernet uint16 = 0x6558
	// MaxVNI is the largest virtual network identifier.
	MaxVNI = 1<<24 - 1
)

// What can be wrong with a header.
var (
	ErrTruncated = errors.New("geneve: packet ends inside the header")
	ErrVersion   = errors.New("geneve: not version 0")
)

// Header is the fixed part of a Geneve header (section 3.4).
type Header struct {
	Control  bool   // a control packet
	Critical bool   // some option must be understood
	Protocol uint16 // EtherType of what follows
	VNI      uint32 // 24 bits
}

// Put writes h with n octets of options behind it, a multiple of 4 and at most
// 252, to the front of b and returns HeaderLen.
func (h *Header) Put(b []byte, n int) int {
	b[0], b[1] = uint8(n/4), 0
	if h.Control {
		b[1] |= 0x80
	}
	if h.Critical {
		b[1] |= 0x40
	}
	binary.BigEndian.PutUint16(b[2:], h.Protocol)
	binary.BigEndian.PutUint32(b[4:], h.VNI<<8)
	return HeaderLen
}

// Parse reads the header at the front of b and returns its options and what
// follows them, both borrowed. Reserved bits are ignored, as section 3.4 asks.
func Parse(b []byte) (h Header, options, payload []byte, err error) {
	if len(b) < HeaderLen {
		return h, nil, nil, ErrTruncated
	}
	if b[0]>>6 != 0 {
		return h, nil, nil, ErrVersion
	}
	end := HeaderLen + int(b[0]&63)*4
	if len(b) < end {
		return h, nil, nil, ErrTruncated
	}
	h = Header{Control: b[1]&0x80 != 0, Critical: b[1]&0x40 != 0,
		Protocol: binary.BigEndian.Uint16(b[2:]), VNI: binary.BigEndian.Uint32(b[4:]) >> 8}
	return h, b[HeaderLen:end:end], b[end:], nil
}

// Option is the header of one option (section 3.5).
type Option struct {
	Class  uint16 // 0xff00 to 0xffff are for experiments
	Type   uint8  // bit 7: critical
	Length int    // octets of data, a multiple of 4, at most 124
}

// Put writes o to the front of b and returns OptionHeaderLen.
func (o Option) Put(b []byte) int {
	binary.BigEndian.PutUint16(b, o.Class)
	b[2], b[3] = o.Type, uint8(o.Length/4)&31
	return OptionHeaderLen
}

// ParseOption reads the option at the front of b and returns its data and what
// follows it, both borrowed.
func ParseOption(b []byte) (o Option, data, rest []byte, err error) {
	if len(b) < OptionHeaderLen {
		return o, nil, nil, ErrTruncated
	}
	o = Option{Class: binary.BigEndian.Uint16(b), Type: b[2], Length: int(b[3]&31) * 4}
	end := OptionHeaderLen + o.Length
	if len(b) < end {
		return o, nil, nil, ErrTruncated
	}
	return o, b[OptionHeaderLen:end:end], b[end:], nil
}
