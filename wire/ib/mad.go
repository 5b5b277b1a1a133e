// Package ib encodes and decodes what InfiniBand defines and RoCE carries
// (InfiniBand Architecture 1.3): transport packets with their invariant CRC
// (Packet and ICRC, chapters 7 and 9, annexes A16 and A17), management
// datagrams and the subnet management attributes that every port has (chapters
// 13 and 14), and the messages of communication management (chapter 12). All
// fields are big-endian but for the ICRC. Fields narrower than their type are
// cut when they are written.
package ib

import (
	"encoding/binary"
	"errors"
)

// Lengths in octets.
const (
	MADLen    = 256
	HeaderLen = 24
	// BaseVersionOPA is the base version of Omni-Path's longer datagrams.
	BaseVersionOPA = 0x80
	opaMADLen      = 2048
	DataLen        = 64 // of the attribute in a subnet management packet
)

const (
	offMKey = 24
	offData = 64
)

// Management classes of subnet management packets.
const (
	ClassSubnLID      uint8 = 0x01 // LID routed
	ClassSubnDirected uint8 = 0x81 // directed route
)

// Methods.
const (
	MethodGet     uint8 = 0x01
	MethodSet     uint8 = 0x02
	MethodGetResp uint8 = 0x81
)

// Status values (section 13.4.7).
const (
	StatusOK          uint16 = 0
	StatusBadVersion  uint16 = 0x0004 // or class not supported
	StatusBadMethod   uint16 = 0x0008
	StatusBadAttr     uint16 = 0x000c // method not supported for the attribute
	StatusBadField    uint16 = 0x001c // a field or the modifier is not valid
	directedDirection uint16 = 0x8000 // D bit: a response on a directed route
)

// Attributes of subnet management (section 14.2.5).
const (
	AttrNodeDescription uint16 = 0x0010
	AttrNodeInfo        uint16 = 0x0011
	AttrGUIDInfo        uint16 = 0x0014
	AttrPortInfo        uint16 = 0x0015
	AttrPKeyTable       uint16 = 0x0016
	AttrSMInfo          uint16 = 0x0020
)

// ErrTruncated says that a datagram is not MADLen long.
var ErrTruncated = errors.New("ib: management datagram is not 256 octets long")

// Header is the part that all datagrams share (section 13.4.2).
type Header struct {
	BaseVersion  uint8 // 1
	Class        uint8
	ClassVersion uint8 // 1 for subnet management
	Method       uint8
	Status       uint16
	TID          uint64
	Attr         uint16
	Modifier     uint32
	MKey         uint64 // of a subnet management packet
}

// Parse reads the header of a subnet management packet; data is its
// attribute, borrowed.
func Parse(mad []byte) (h Header, data []byte, err error) {
	if len(mad) != MADLen {
		return h, nil, ErrTruncated
	}
	return Header{
		BaseVersion: mad[0], Class: mad[1], ClassVersion: mad[2], Method: mad[3],
		Status: binary.BigEndian.Uint16(mad[4:]), TID: binary.BigEndian.Uint64(mad[8:]),
		Attr: binary.BigEndian.Uint16(mad[16:]), Modifier: binary.BigEndian.Uint32(mad[20:]),
		MKey: binary.BigEndian.Uint64(mad[offMKey:]),
	}, mad[offData : offData+DataLen], nil
}

// Len is the most octets that a datagram of a base version has.
func Len(version uint8) int {
	if version == BaseVersionOPA {
		return opaMADLen
	}
	return MADLen
}

// Hops is how many hops the directed route of a packet, MADLen long, has
// (section 14.2.2).
func Hops(mad []byte) uint8 { return mad[7] }

// Append appends a subnet management packet with the given attribute, at most
// DataLen octets.
func (h *Header) Append(dst, data []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, MADLen)...)
	b := dst[at:]
	b[0], b[1], b[2], b[3] = h.BaseVersion, h.Class, h.ClassVersion, h.Method
	binary.BigEndian.PutUint16(b[4:], h.Status)
	binary.BigEndian.PutUint64(b[8:], h.TID)
	binary.BigEndian.PutUint16(b[16:], h.Attr)
	binary.BigEndian.PutUint32(b[20:], h.Modifier)
	binary.BigEndian.PutUint64(b[offMKey:], h.MKey)
	copy(b[offData:offData+DataLen], data)
	return dst
}

// Response appends the answer to request, which must be MADLen long: the same
// packet with status and, unless it is nil, another attribute.
func Response(dst, request []byte, status uint16, data []byte) []byte {
	at := len(dst)
	dst = append(dst, request[:MADLen]...)
	b := dst[at:]
	b[3] = MethodGetResp
	if b[1] == ClassSubnDirected {
		status |= directedDirection
	}
	binary.BigEndian.PutUint16(b[4:], status)
	if data != nil {
		end := offData + DataLen // behind it, a subnet management packet has its route
		if b[1] != ClassSubnLID && b[1] != ClassSubnDirected {
			end = MADLen
		}
		clear(b[offData:end])
		copy(b[offData:end], data)
	}
	return dst
}
