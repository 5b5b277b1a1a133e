// Package udp encodes and decodes UDP headers (RFC 768). Fields are
// big-endian.
package udp

import (
	"encoding/binary"
	"errors"
)

// HeaderLen is the length in octets of a UDP header.
const HeaderLen = 8

// What can be wrong with a datagram.
var (
	ErrTruncated = errors.New("udp: datagram ends before its length says")
	ErrMalformed = errors.New("udp: length below that of the header")
)

// Header is a UDP header.
type Header struct {
	Src, Dst uint16
	Checksum uint16 // 0: none
}

// Put writes h, with n octets of payload behind it, to the front of b and
// returns HeaderLen.
func (h *Header) Put(b []byte, n int) int {
	binary.BigEndian.PutUint16(b, h.Src)
	binary.BigEndian.PutUint16(b[2:], h.Dst)
	binary.BigEndian.PutUint16(b[4:], uint16(HeaderLen+n))
	binary.BigEndian.PutUint16(b[6:], h.Checksum)
	return HeaderLen
}

// Parse reads the header at the front of b and returns the payload, borrowed
// and trimmed to the length that the header gives. It does not check the
// checksum.
func Parse(b []byte) (h Header, payload []byte, err error) {
	if len(b) < HeaderLen {
		return h, nil, ErrTruncated
	}
	h.Src, h.Dst = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	n := int(binary.BigEndian.Uint16(b[4:]))
	h.Checksum = binary.BigEndian.Uint16(b[6:])
	switch {
	case n < HeaderLen:
		return h, nil, ErrMalformed
	case n > len(b):
		return h, nil, ErrTruncated
	}
	return h, b[HeaderLen:n:n], nil
}
