// Package mad encodes and decodes the management datagrams of Omni-Path: the
// header that all share, the attributes of the virtual NIC's Ethernet
// management agent (VEMA), and those of subnet management that a fabric
// manager needs. All fields are big-endian, all lengths in octets.
//
// Parsers read octets beyond the end of what they are given as zero, since
// carriage over TCP leaves out zeros at the end of a datagram; they borrow
// their argument, cannot fail and keep reserved octets where a datagram must
// be echoed. Put functions write into at least the attribute's length and
// every octet of it.
package mad

import (
	"encoding/binary"
	"errors"

	"tapir/opa"
)

// Lengths.
const (
	MaxLen    = opa.MaxMAD
	HeaderLen = 24 // of the header that all MADs share
)

// BaseVersion is the version of Omni-Path MADs, as base and as class version.
const BaseVersion uint8 = 0x80

// Management classes.
const (
	ClassSubnLID      uint8 = 0x01 // subnet management, LID routed
	ClassVEMA         uint8 = 0x34 // Ethernet management of virtual NICs
	ClassSubnDirected uint8 = 0x81 // subnet management, directed route
)

// Method is what a MAD asks for or answers.
type Method uint8

const (
	MethodGet         Method = 0x01
	MethodSet         Method = 0x02
	MethodTrap        Method = 0x05
	MethodTrapRepress Method = 0x07 // a trap's receiver has taken note of it
	MethodGetResp     Method = 0x81
)

// Status is the outcome in a response.
type Status uint16

const (
	StatusOK           Status = 0
	StatusBadAttribute Status = 0x000c // method, attribute or their combination not supported
	StatusBadValue     Status = 0x001c // a field of the attribute or the modifier has an impossible value
	// StatusDirection is not a status: the D bit of a response on a directed
	// route.
	StatusDirection Status = 0x8000
)

// Why a MAD cannot be read at all.
var (
	ErrTruncated = errors.New("mad: datagram ends inside its header")
	ErrTooLong   = errors.New("mad: datagram is longer than 2048 octets")
	ErrVersion   = errors.New("mad: base version is not Omni-Path's 0x80")
	ErrClass     = errors.New("mad: management class not known")
	ErrOUI       = errors.New("mad: vendor OUI is not 00:06:6a")
	ErrRoute     = errors.New("mad: hop count beyond the directed route")
)

// Header is the part that all MADs share.
type Header struct {
	BaseVersion  uint8
	Class        uint8
	ClassVersion uint8
	Method       Method
	Status       Status
	Specific     uint16 // of the class; subnet management: hop pointer and hop count
	TID          uint64
	Attr         uint16
	Reserved     uint16
	Modifier     uint32
}

// Parse reads the header of a MAD.
func Parse(b []byte) (h Header, err error) {
	switch {
	case len(b) < HeaderLen:
		return h, ErrTruncated
	case len(b) > MaxLen:
		return h, ErrTooLong
	}
	be := binary.BigEndian
	h = Header{
		BaseVersion: b[0], Class: b[1], ClassVersion: b[2], Method: Method(b[3]), Status: Status(be.Uint16(b[4:])),
		Specific: be.Uint16(b[6:]), TID: be.Uint64(b[8:]), Attr: be.Uint16(b[16:]), Reserved: be.Uint16(b[18:]),
		Modifier: be.Uint32(b[20:]),
	}
	if h.BaseVersion != BaseVersion {
		return h, ErrVersion
	}
	return h, nil
}

// Put writes the header into the first HeaderLen octets of b.
func (h *Header) Put(b []byte) { encode(b, h) }

// decode reads a value in the layout of T, whose blank fields are reserved.
func decode[T any](data []byte) (v T) {
	b := make([]byte, binary.Size(v))
	copy(b, data)
	read(b, &v)
	return v
}

// read reads values that follow each other.
func read(b []byte, values ...any) {
	for _, v := range values {
		n, _ := binary.Decode(b, binary.BigEndian, v) // b is long enough
		b = b[n:]
	}
}

// encode writes values one after the other, zeros for blank fields.
func encode(b []byte, values ...any) {
	for _, v := range values {
		n, _ := binary.Encode(b, binary.BigEndian, v) // b is long enough
		b = b[n:]
	}
}

// extend returns b if it fills buf, else buf with b and zeros behind it.
func extend(b, buf []byte) []byte {
	if len(b) >= len(buf) {
		return b
	}
	clear(buf[copy(buf, b):])
	return buf
}
