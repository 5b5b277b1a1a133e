// Package fc reads and writes frames of Fibre Channel (FC-FS-3), link services
// (FC-LS-2), requests to the directory server (FC-GS-6) and information units of
// FCP (FCP-4). All fields are big-endian.
package fc

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeaderLen is the length of a frame header in octets, MaxPayload that of the longest
// payload.
const (
	HeaderLen  = 24
	MaxPayload = 2112
)

// ErrShort says that octets end before the structure does; ErrFormat that a length or
// a code in it is not allowed.
var (
	ErrShort  = errors.New("fc: too short")
	ErrFormat = errors.New("fc: wrong length or code")
)

// ID is an address identifier of 24 bits: domain, area, port.
type ID uint32

// Well-known addresses (FC-FS-3 section 11.4).
const (
	Broadcast  ID = 0xffffff
	FabricPort ID = 0xfffffe // F_Port: login
	Controller ID = 0xfffffd // fabric controller: state changes
	Directory  ID = 0xfffffc // name server
)

// String is the identifier as six hexadecimal digits.
func (id ID) String() string { return fmt.Sprintf("%06x", uint32(id)) }

// Domain is the upper octet: the switch.
func (id ID) Domain() uint8 { return uint8(id >> 16) }

// WellKnown tells that the address belongs to the fabric, not to an N_Port.
func (id ID) WellKnown() bool { return id >= 0xfffff0 }

func getID(b []byte) ID { return ID(b[0])<<16 | ID(b[1])<<8 | ID(b[2]) }

// WWN is a world-wide name of a node, a port or a fabric.
type WWN uint64

// String is the name as eight octets with colons.
func (w WWN) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(w))
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7])
}

// MarshalText is String for encoders.
func (w WWN) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads a name as ParseWWN does, for decoders.
func (w *WWN) UnmarshalText(b []byte) (err error) {
	*w, err = ParseWWN(string(b))
	return err
}

// ParseWWN reads a name: 16 hexadecimal digits, with or without colons, "0x" or "naa.".
func ParseWWN(s string) (WWN, error) {
	var w uint64
	digits, rest := 0, s
	for _, p := range []string{"naa.", "0x"} {
		if len(rest) > len(p) && rest[:len(p)] == p {
			rest = rest[len(p):]
		}
	}
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch {
		case c == ':' && digits%2 == 0 && digits > 0:
			continue
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, fmt.Errorf("%q is not a world-wide name, like 20:00:02:00:00:00:00:01", s)
		}
		w = w<<4 | uint64(c)
		digits++
	}
	if digits != 16 {
		return 0, fmt.Errorf("%q is not a world-wide name, like 20:00:02:00:00:00:00:01", s)
	}
	return WWN(w), nil
}

// FromMAC is the name that begins with these 16 bits and ends with a MAC address: 0x1000
// is the IEEE 48-bit format, 0x2000 the extended one.
func FromMAC(prefix uint16, mac [6]byte) WWN {
	w := uint64(prefix)
	for _, o := range mac {
		w = w<<8 | uint64(o)
	}
	return WWN(w)
}

// RCtl is the routing control: what a frame holds.
type RCtl uint8

// Routing controls (FC-FS-3 section 9.3).
const (
	SolicitedData    RCtl = 0x01 // FCP_DATA
	UnsolicitedCtl   RCtl = 0x02 // CT request
	SolicitedCtl     RCtl = 0x03 // CT reply
	DataDescriptor   RCtl = 0x05 // FCP_XFER_RDY
	UnsolicitedCmd   RCtl = 0x06 // FCP_CMND
	CommandStatus    RCtl = 0x07 // FCP_RSP
	ELSRequest       RCtl = 0x22
	ELSReply         RCtl = 0x23
	Abort            RCtl = 0x81 // ABTS
	AbortAccept      RCtl = 0x84 // BA_ACC
	AbortReject      RCtl = 0x85 // BA_RJT
	PortReject       RCtl = 0xc2 // P_RJT
	FabricReject     RCtl = 0xc3 // F_RJT
	PortBusy         RCtl = 0xc4 // P_BSY
	linkControlClass RCtl = 0xc0
)

// LinkControl tells that the frame acknowledges or rejects another one.
func (r RCtl) LinkControl() bool { return r&0xf0 == linkControlClass }

// Type is the protocol of a frame's payload.
type Type uint8

// Types.
const (
	TypeBLS Type = 0x00
	TypeELS Type = 0x01
	TypeFCP Type = 0x08
	TypeCT  Type = 0x20
)

// FCtl is the frame control, of 24 bits.
type FCtl uint32

// Bits of the frame control (FC-FS-3 section 9.7).
const (
	FromResponder FCtl = 1 << 23 // the exchange's responder has sent it
	FromRecipient FCtl = 1 << 22 // the sequence's recipient has sent it
	First         FCtl = 1 << 21 // first sequence of the exchange
	Last          FCtl = 1 << 20 // last sequence of the exchange
	End           FCtl = 1 << 19 // last frame of the sequence
	Initiative    FCtl = 1 << 16 // sequence initiative is passed on
	RelOffset     FCtl = 1 << 3  // the parameter is a relative offset in octets
	FillMask      FCtl = 3       // fill octets behind the payload
)

// Frame controls of sequences of one frame.
const (
	Request FCtl = First | End | Initiative         // a request that opens an exchange
	Reply   FCtl = FromResponder | Last | End       // the reply that ends it
	Offer   FCtl = FromResponder | End | Initiative // FCP_XFER_RDY
	Aborted FCtl = FromResponder | Last | End       // BA_ACC and BA_RJT of an exchange's responder
)

// NoID is the OX_ID or RX_ID that is not assigned.
const NoID = 0xffff

// Header is a frame header.
type Header struct {
	RCtl   RCtl
	D      ID // destination
	CSCtl  uint8
	S      ID // source
	Type   Type
	FCtl   FCtl
	SeqID  uint8
	DFCtl  uint8 // optional headers
	SeqCnt uint16
	OXID   uint16 // exchange, as its originator names it
	RXID   uint16 // exchange, as its responder names it
	Param  uint32 // relative offset in octets, or what R_CTL says
}

// Parse reads a header. The payload borrows b; fill octets are not part of it. Errors:
// ErrShort, and ErrFormat for more fill octets than payload and for optional headers,
// which the payload would begin with.
func Parse(b []byte) (h Header, payload []byte, err error) {
	if len(b) < HeaderLen {
		return h, nil, ErrShort
	}
	h = Header{
		RCtl: RCtl(b[0]), D: getID(b[1:]), CSCtl: b[4], S: getID(b[5:]), Type: Type(b[8]), FCtl: FCtl(getID(b[9:])),
		SeqID: b[12], DFCtl: b[13], SeqCnt: binary.BigEndian.Uint16(b[14:]), OXID: binary.BigEndian.Uint16(b[16:]),
		RXID: binary.BigEndian.Uint16(b[18:]), Param: binary.BigEndian.Uint32(b[20:]),
	}
	fill := int(h.FCtl & FillMask)
	if fill > len(b)-HeaderLen || h.DFCtl != 0 {
		return h, nil, ErrFormat
	}
	return h, b[HeaderLen : len(b)-fill], nil
}

// AppendTo appends the 24 octets of the header.
func (h *Header) AppendTo(b []byte) []byte {
	b = append(b, byte(h.RCtl), byte(h.D>>16), byte(h.D>>8), byte(h.D), h.CSCtl,
		byte(h.S>>16), byte(h.S>>8), byte(h.S), byte(h.Type), byte(h.FCtl>>16), byte(h.FCtl>>8), byte(h.FCtl),
		h.SeqID, h.DFCtl)
	b = binary.BigEndian.AppendUint16(b, h.SeqCnt)
	b = binary.BigEndian.AppendUint16(b, h.OXID)
	b = binary.BigEndian.AppendUint16(b, h.RXID)
	return binary.BigEndian.AppendUint32(b, h.Param)
}

// AppendFrame appends header and payload, with fill octets up to a multiple of four. It
// sets the fill bits of the frame control itself.
func (h Header) AppendFrame(b, payload []byte) []byte {
	fill := -len(payload) & 3
	h.FCtl = h.FCtl&^FillMask | FCtl(fill)
	b = append(h.AppendTo(b), payload...)
	return append(b, make([]byte, fill)...)
}

// ReplyTo is the header of the frame that answers h and ends the exchange.
func (h *Header) ReplyTo(r RCtl) Header {
	return Header{RCtl: r, D: h.S, S: h.D, Type: h.Type, FCtl: Reply, SeqID: h.SeqID, OXID: h.OXID, RXID: h.RXID}
}
