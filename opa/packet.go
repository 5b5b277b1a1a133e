package opa

import (
	"encoding/binary"

	"tapir/wire/crc"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Sizes of 16B packets in octets.
const (
	HeaderLen  = 20 // local route header, reserved octets and L4 header
	TrailerLen = 5  // ICRC and tail
	// MinPacket is the shortest packet there can be, MaxPacket the longest
	// that the length field can say.
	MinPacket = 32
	MaxPacket = maxLength * 8
	// MinFrame is what shorter Ethernet frames are padded to.
	MinFrame = 60
	// MaxFrame is the longest Ethernet frame that fits.
	MaxFrame = MaxPacket - HeaderLen - TrailerLen

	maxLength = 1<<11 - 1 // of the length field, in quadwords
)

// L4 types of a 16B packet: an Ethernet frame, a MAD, and what a queue pair sends.
const (
	L4Ethernet uint8 = 0x78
	L4FM       uint8 = 0x08
	L4IBLocal  uint8 = 0x09
)

// Fields of the two quadwords.
const (
	l2Type16B  = 2
	headLT     = 1 << 63
	fecnBit    = 1 << 60
	becnBit    = 1 << 31
	scShift    = 52
	rcShift    = 57
	l2Shift    = 61
	scMask     = 0x1f
	rcMask     = 7
	vESWMask   = 1<<12 - 1
	tailLT     = 0x40 // in the tail octet
	tailLTMask = 0xc0
)

// SCManagement is the service class of subnet management.
const SCManagement = 15

// Header is what a sender chooses of a 16B packet. What does not fit a
// field's width is cut off.
type Header struct {
	SLID, DLID LID
	SC         uint8 // 5 bits
	RC         uint8 // 3 bits: routing control, 4 and above let packets overtake
	FECN, BECN bool
	PKey       uint16 // bit 15: full member
	Entropy    uint16
	Age        uint8
	VESW       uint16 // 12 bits
}

// put writes the header of a packet of n octets with an Ethernet frame to the front
// of b.
func (h *Header) put(b []byte, n int) {
	h.route(b, n, L4Ethernet)
	binary.LittleEndian.PutUint32(b[16:], uint32(h.VESW&vESWMask)<<16)
}

// route writes the local route header of a packet of n octets.
func (h *Header) route(b []byte, n int, l4 uint8) {
	q0 := uint64(h.SLID&0xfffff) | uint64(n/8&maxLength)<<20 |
		uint64(h.DLID&0xfffff)<<32 | uint64(h.SC&scMask)<<scShift | uint64(h.RC&rcMask)<<rcShift |
		l2Type16B<<l2Shift | headLT
	if h.FECN {
		q0 |= fecnBit
	}
	if h.BECN {
		q0 |= becnBit
	}
	q1 := uint64(l4) | uint64(h.SLID>>20&15)<<8 | uint64(h.DLID>>20&15)<<12 |
		uint64(h.PKey)<<16 | uint64(h.Entropy)<<32 | uint64(h.Age)<<48
	binary.LittleEndian.PutUint64(b, q0)
	binary.LittleEndian.PutUint64(b[8:], q1)
}

// padding is the number of pad octets behind an Ethernet frame of n octets.
func padding(n int) int { return (7 - n) & 7 }

// Size is the length of the packet around an Ethernet frame of n octets.
func Size(n int) int { return HeaderLen + n + padding(n) + TrailerLen }

// AppendTo appends to b the packet that carries the Ethernet frame eth, of any
// length up to MaxFrame: unlike Encapsulate it leaves short frames short.
func (h *Header) AppendTo(b, eth []byte, icrc ICRC) []byte {
	start, pad := len(b), padding(len(eth))
	b = append(b, make([]byte, HeaderLen)...)
	b = append(b, eth...)
	b = append(b, make([]byte, pad+TrailerLen)...)
	h.seal(b[start:], pad, icrc)
	return b
}

// seal completes the packet p, whose Ethernet frame is in place with zeros
// behind it.
func (h *Header) seal(p []byte, pad int, icrc ICRC) {
	h.put(p, len(p))
	trail(p, pad, icrc)
}

// trail writes ICRC and tail of the packet p.
func trail(p []byte, pad int, icrc ICRC) {
	end := len(p) - TrailerLen
	binary.LittleEndian.PutUint32(p[end:], icrc.value(p[:end], crc.OPA16B))
	p[len(p)-1] = tailLT | uint8(pad)
}

// Encapsulate makes the Ethernet frame in f, without FCS, a 16B packet. A
// frame shorter than MinFrame is padded to it with zeros first. It fails with
// DropOversize for a frame beyond MaxFrame and with DropNoBuffer if f has not
// HeaderLen octets of headroom and enough behind; f is then unchanged.
func Encapsulate(f *frame.Frame, h *Header, icrc ICRC) frame.DropReason {
	n := max(f.Len(), MinFrame)
	if n > MaxFrame {
		return drop.Oversize
	}
	pad := padding(n)
	behind := n - f.Len() + pad + TrailerLen
	if f.Headroom() < HeaderLen || f.Tailroom() < behind {
		return drop.NoBuffer
	}
	clear(f.Extend(behind))
	f.Prepend(HeaderLen)
	h.seal(f.Bytes(), pad, icrc)
	return frame.DropNone
}

// Packet is a view of a 16B packet that Parse has accepted.
type Packet []byte

// Parse checks b, one whole 16B packet with an Ethernet frame in it, and
// returns it as a view, borrowed, or the reason to drop it: DropTruncated,
// DropLength, DropL2, DropL4, DropSLID, DropDLID, DropTail, DropPad or, last,
// DropICRC. b must not be read by others meanwhile, see crc.OPA16B.
//
// The SLID must be unicast; a multicast DLID must not be on SC 15, and the
// permissive one must. The vESW id and the Ethernet frame are not looked at.
func Parse(b []byte, icrc ICRC) (Packet, frame.DropReason) { return parse(b, L4Ethernet, icrc) }

// parse is Parse for packets of an L4 type.
func parse(b []byte, l4 uint8, icrc ICRC) (Packet, frame.DropReason) {
	p := Packet(b)
	switch {
	case len(b) < MinPacket:
		return nil, drop.Truncated
	case p.L2() != l2Type16B:
		return nil, DropL2
	case p.Length() != len(b):
		return nil, DropLength
	case p.L4() != l4:
		return nil, DropL4
	case !p.SLID().IsUnicast():
		return nil, DropSLID
	case !deliverable(p.DLID(), p.SC()):
		return nil, DropDLID
	case !p.trailerOK():
		return nil, DropTail
	case !p.padOK():
		return nil, DropPad
	case icrc != ICRCNone && !p.ICRCGood():
		return nil, DropICRC
	}
	return p, frame.DropNone
}

// deliverable tells whether a packet to dlid may travel on service class sc.
func deliverable(dlid LID, sc uint8) bool {
	switch dlid.Kind() {
	case KindUnicast:
		return true
	case KindMulticast:
		return sc != SCManagement
	case KindPermissive:
		return sc == SCManagement
	}
	return false
}

// trailerOK: the link's mark is 01, or 00 as a sender's software leaves it;
// between it and the count nothing.
func (p Packet) trailerOK() bool {
	t := p[len(p)-1]
	return t&^7 == tailLT || t&^7 == 0
}

func (p Packet) padOK() bool { return zeros(p[HeaderLen+len(p.Frame()) : len(p)-TrailerLen]) }

func zeros(pad []byte) bool {
	for _, c := range pad {
		if c != 0 {
			return false
		}
	}
	return true
}

func (p Packet) q0() uint64 { return binary.LittleEndian.Uint64(p) }
func (p Packet) q1() uint64 { return binary.LittleEndian.Uint64(p[8:]) }

// SLID is the source LID.
func (p Packet) SLID() LID { return LID(p.q0()&0xfffff | p.q1()>>8&15<<20) }

// DLID is the destination LID.
func (p Packet) DLID() LID { return LID(p.q0()>>32&0xfffff | p.q1()>>12&15<<20) }

// Length is the length field in octets.
func (p Packet) Length() int { return int(p.q0()>>20&maxLength) * 8 }

// L2 is the link format: 2 in a 16B packet.
func (p Packet) L2() uint8 { return uint8(p.q0() >> l2Shift & 3) }

// SC is the service class, 0 to 31.
func (p Packet) SC() uint8 { return uint8(p.q0() >> scShift & scMask) }

// RC is the routing control, 0 to 7.
func (p Packet) RC() uint8 { return uint8(p.q0() >> rcShift & rcMask) }

// FECN is the forward congestion mark.
func (p Packet) FECN() bool { return p.q0()&fecnBit != 0 }

// BECN is the backward congestion mark.
func (p Packet) BECN() bool { return p.q0()&becnBit != 0 }

// L4 is the L4 type.
func (p Packet) L4() uint8 { return p[8] }

// PKey is the partition key.
func (p Packet) PKey() uint16 { return uint16(p.q1() >> 16) }

// Entropy is the flow's hash.
func (p Packet) Entropy() uint16 { return uint16(p.q1() >> 32) }

// Age is octet 14.
func (p Packet) Age() uint8 { return p[14] }

// VESW is the id of the virtual Ethernet switch: the low 12 bits of the L4
// header.
func (p Packet) VESW() uint16 { return binary.LittleEndian.Uint16(p[18:]) & vESWMask }

// Pad is the number of pad octets.
func (p Packet) Pad() int { return int(p[len(p)-1] & 7) }

// Frame is the Ethernet frame, borrowed.
func (p Packet) Frame() []byte {
	end := len(p) - TrailerLen - p.Pad()
	return p[HeaderLen:end:end]
}

// ICRC is the invariant CRC as it stands in the packet.
func (p Packet) ICRC() uint32 { return binary.LittleEndian.Uint32(p[len(p)-TrailerLen:]) }

// ICRCGood reports whether the ICRC is that of version 1. p is altered and
// restored.
func (p Packet) ICRCGood() bool { return crc.OPA16B(p[:len(p)-TrailerLen]) == p.ICRC() }

// Header returns all fields that a sender chooses.
func (p Packet) Header() Header {
	return Header{SLID: p.SLID(), DLID: p.DLID(), SC: p.SC(), RC: p.RC(), FECN: p.FECN(), BECN: p.BECN(),
		PKey: p.PKey(), Entropy: p.Entropy(), Age: p.Age(), VESW: p.VESW()}
}

// What a fabric changes on the way leaves the ICRC good.

// SetFECN marks that the packet met congestion.
func (p Packet) SetFECN(on bool) { p.set(fecnBit, on) }

// SetBECN tells the receiver that its packets met congestion.
func (p Packet) SetBECN(on bool) { p.set(becnBit, on) }

func (p Packet) set(bit uint64, on bool) {
	q := p.q0() &^ bit
	if on {
		q |= bit
	}
	binary.LittleEndian.PutUint64(p, q)
}

// SetSC moves the packet to service class sc.
func (p Packet) SetSC(sc uint8) {
	binary.LittleEndian.PutUint64(p, p.q0()&^(scMask<<scShift)|uint64(sc&scMask)<<scShift)
}

// SetAge sets octet 14.
func (p Packet) SetAge(age uint8) { p[14] = age }

// Decapsulate leaves in f, which holds a packet that Parse has accepted, the
// Ethernet frame alone.
func Decapsulate(f *frame.Frame) {
	n := len(Packet(f.Bytes()).Frame())
	f.TrimFront(HeaderLen)
	f.Truncate(n)
}
