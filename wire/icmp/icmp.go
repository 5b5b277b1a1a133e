// Package icmp encodes and decodes ICMP (RFC 792, RFC 1191), ICMPv6 (RFC 4443)
// and the messages of IPv6 neighbor discovery (RFC 4861). All fields are
// big-endian on the wire.
package icmp

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"tapir/wire/ip"
)

// HeaderLen is the length in octets of the header that all messages share.
const HeaderLen = 8

// ICMP (IPv4) types.
const (
	EchoReply4    uint8 = 0
	Unreachable4  uint8 = 3
	Echo4         uint8 = 8
	TimeExceeded4 uint8 = 11
	ParamProblem4 uint8 = 12
)

// Codes of Unreachable4.
const (
	HostUnreachable4     uint8 = 1
	ProtocolUnreachable4 uint8 = 2
	PortUnreachable4     uint8 = 3
	FragmentationNeeded4 uint8 = 4
)

// ICMPv6 types.
const (
	Unreachable6          uint8 = 1
	PacketTooBig6         uint8 = 2
	TimeExceeded6         uint8 = 3
	ParamProblem6         uint8 = 4
	Echo6                 uint8 = 128
	EchoReply6            uint8 = 129
	RouterSolicitation    uint8 = 133
	RouterAdvertisement   uint8 = 134
	NeighborSolicitation  uint8 = 135
	NeighborAdvertisement uint8 = 136
)

// Codes of ParamProblem6, whose Rest is the place of the octet (RFC 4443 section
// 3.4, RFC 7112).
const (
	ErroneousField6    uint8 = 0
	UnknownNextHeader6 uint8 = 1
	UnknownOption6     uint8 = 2
	IncompleteChain6   uint8 = 3
)

// Codes of Unreachable6.
const (
	AddressUnreachable6 uint8 = 3
	PortUnreachable6    uint8 = 4
)

// What can be wrong with a message.
var (
	ErrTruncated = errors.New("icmp: message too short")
	ErrMalformed = errors.New("icmp: impossible field or option")
)

// Message is any ICMP or ICMPv6 message. The meaning of Rest depends on Type.
type Message struct {
	Type, Code uint8
	Rest       uint32 // the second 32-bit word of the header
	Body       []byte // everything after the header, borrowed
}

// Parse reads a message. It does not verify the checksum: see Verify4 and
// Verify6.
func Parse(b []byte) (m Message, err error) {
	if len(b) < HeaderLen {
		return m, ErrTruncated
	}
	return Message{Type: b[0], Code: b[1], Rest: binary.BigEndian.Uint32(b[4:]), Body: b[HeaderLen:]}, nil
}

// Len is the encoded length in octets.
func (m *Message) Len() int { return HeaderLen + len(m.Body) }

// Put writes the message with a zero checksum to the front of b, which must
// hold Len octets, and returns Len.
func (m *Message) Put(b []byte) int {
	b[0], b[1], b[2], b[3] = m.Type, m.Code, 0, 0
	binary.BigEndian.PutUint32(b[4:], m.Rest)
	return HeaderLen + copy(b[HeaderLen:], m.Body)
}

// EchoID is the identifier of an echo request or reply.
func (m *Message) EchoID() uint16 { return uint16(m.Rest >> 16) }

// EchoSeq is the sequence number of an echo request or reply.
func (m *Message) EchoSeq() uint16 { return uint16(m.Rest) }

// Echo returns an echo message of type typ that carries data (borrowed).
func Echo(typ uint8, id, seq uint16, data []byte) Message {
	return Message{Type: typ, Rest: uint32(id)<<16 | uint32(seq), Body: data}
}

// MTU4 is the next-hop MTU in octets of a Fragmentation Needed message (RFC
// 1191 section 4); 0 from routers that do not tell.
func (m *Message) MTU4() int { return int(m.Rest & 0xffff) }

// MTU6 is the MTU in octets of a Packet Too Big message.
func (m *Message) MTU6() int { return int(min(m.Rest, 65535)) }

// Quoted returns the header of the packet that an error message quotes and as
// much of that packet's payload as there is, both borrowed.
func (m *Message) Quoted() (ip.Header, []byte, error) { return ip.ParseQuoted(m.Body) }

// SetChecksum4 stores the checksum of the ICMP message b.
func SetChecksum4(b []byte) {
	b[2], b[3] = 0, 0
	binary.BigEndian.PutUint16(b[2:], ip.Checksum(b, 0))
}

// Verify4 reports whether the checksum of the ICMP message b is right.
func Verify4(b []byte) bool { return ip.Checksum(b, 0) == 0 }

// SetChecksum6 stores the checksum of the ICMPv6 message b, which covers the
// addresses (RFC 4443 section 2.3).
func SetChecksum6(src, dst netip.Addr, b []byte) {
	b[2], b[3] = 0, 0
	binary.BigEndian.PutUint16(b[2:], ip.Checksum(b, ip.PseudoSum(src, dst, ip.ProtoICMPv6, len(b))))
}

// Verify6 reports whether the checksum of the ICMPv6 message b is right.
func Verify6(src, dst netip.Addr, b []byte) bool {
	return ip.Checksum(b, ip.PseudoSum(src, dst, ip.ProtoICMPv6, len(b))) == 0
}
