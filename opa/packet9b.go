package opa

import (
	"encoding/binary"

	"tapir/wire/crc"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Sizes of 9B packets in octets. All fields of these packets are big-endian,
// but for the ICRC.
const (
	// HeaderLen9B is local route header, base transport header and datagram
	// header.
	HeaderLen9B = 8 + 12 + 8
	icrcLen     = 4
	// MaxMAD is the longest MAD of Omni-Path.
	MaxMAD = 2048
	// maxPacket9B is the longest packet that the length field can say.
	maxPacket9B = (1<<12 - 1) * 4
)

// Queue pairs and Q_Keys that MADs are sent to and with.
const (
	QPSubnet  uint32 = 0 // subnet management, without Q_Key
	QPGeneral uint32 = 1 // all other management classes
	QKeyGSI   uint32 = 0x80010000
)

const (
	lnhBTH       = 2 // link next header
	opUDSendOnly = 0x64
	bthAt        = 8
	dethAt       = 20
	fecn9B       = 1 << 31 // in the second word of the BTH
	becn9B       = 1 << 30
	qpMask       = 1<<24 - 1
)

// Header9B is what a sender chooses of a 9B packet with an unreliable
// datagram, such as a MAD.
type Header9B struct {
	SLID, DLID LID   // of those with a 16-bit form
	SC, SL     uint8 // 4 bits each: the fifth of the SC is not in the packet
	FECN, BECN bool
	PKey       uint16
	DestQP     uint32 // 24 bits
	SrcQP      uint32 // 24 bits
	QKey       uint32
	PSN        uint32 // 24 bits
}

// Size9B is the length of the packet around a payload of n octets.
func Size9B(n int) int { return HeaderLen9B + (n+3)&^3 + icrcLen }

// put writes the headers of a packet of n octets with pad octets of padding.
func (h *Header9B) put(b []byte, n, pad int) {
	slid, _ := h.SLID.To9B()
	dlid, _ := h.DLID.To9B()
	binary.BigEndian.PutUint16(b, uint16(h.SC&15)<<12|uint16(h.SL&15)<<4|lnhBTH)
	binary.BigEndian.PutUint16(b[2:], dlid)
	binary.BigEndian.PutUint16(b[4:], uint16(n/4))
	binary.BigEndian.PutUint16(b[6:], slid)
	bth, deth := b[bthAt:], b[dethAt:]
	bth[0], bth[1] = opUDSendOnly, uint8(pad)<<4
	binary.BigEndian.PutUint16(bth[2:], h.PKey)
	w := h.DestQP & qpMask
	if h.FECN {
		w |= fecn9B
	}
	if h.BECN {
		w |= becn9B
	}
	binary.BigEndian.PutUint32(bth[4:], w)
	binary.BigEndian.PutUint32(bth[8:], h.PSN&qpMask)
	binary.BigEndian.PutUint32(deth, h.QKey)
	binary.BigEndian.PutUint32(deth[4:], h.SrcQP&qpMask)
}

// AppendTo appends to b the packet that carries payload.
func (h *Header9B) AppendTo(b, payload []byte, icrc ICRC) []byte {
	start, n := len(b), Size9B(len(payload))
	b = append(b, make([]byte, HeaderLen9B)...)
	b = append(b, payload...)
	b = append(b, make([]byte, start+n-len(b))...)
	h.seal(b[start:], len(payload), icrc)
	return b
}

// seal completes the packet p, whose n octets of payload are in place with
// zeros behind them.
func (h *Header9B) seal(p []byte, n int, icrc ICRC) {
	h.put(p, len(p), -n&3)
	end := len(p) - icrcLen
	binary.LittleEndian.PutUint32(p[end:], icrc.value(p[:end], crc.OPA9B))
}

// Encapsulate9B makes the payload in f, such as a MAD, a 9B packet. It fails
// with DropSLID or DropDLID for a LID without 16-bit form, with DropOversize
// beyond what the length field can say, and with DropNoBuffer if f has not
// HeaderLen9B octets of headroom and enough behind; f is then unchanged.
func Encapsulate9B(f *frame.Frame, h *Header9B, icrc ICRC) frame.DropReason {
	payload := f.Len()
	n := Size9B(payload)
	behind := n - HeaderLen9B - payload
	_, from := h.SLID.To9B()
	_, to := h.DLID.To9B()
	switch {
	case !from:
		return DropSLID
	case !to:
		return DropDLID
	case n > maxPacket9B:
		return drop.Oversize
	case f.Headroom() < HeaderLen9B || f.Tailroom() < behind:
		return drop.NoBuffer
	}
	clear(f.Extend(behind))
	f.Prepend(HeaderLen9B)
	h.seal(f.Bytes(), payload, icrc)
	return frame.DropNone
}

// Packet9B is a view of a 9B packet that Parse9B has accepted.
type Packet9B []byte

// Parse9B checks b, one whole 9B packet with an unreliable datagram in it, and
// returns it as a view, borrowed, or the reason to drop it: DropTruncated,
// DropLength, DropL2, DropL4, DropSLID, DropDLID, DropPad or, last, DropICRC.
// b must not be read by others meanwhile, see crc.OPA9B.
//
// Permissive LIDs travel on SC 15 only.
func Parse9B(b []byte, icrc ICRC) (Packet9B, frame.DropReason) {
	p := Packet9B(b)
	switch {
	case len(b) < HeaderLen9B+icrcLen:
		return nil, drop.Truncated
	case b[0]&15 != 0:
		return nil, DropL2
	case int(binary.BigEndian.Uint16(b[4:])&0xfff)*4 != len(b) || p.pad() > len(b)-HeaderLen9B-icrcLen:
		return nil, DropLength
	case b[1]&3 != lnhBTH || b[bthAt] != opUDSendOnly || b[bthAt+1]&15 != 0:
		return nil, DropL4
	case !p.SLID().IsUnicast() && !(p.SLID() == Permissive && p.SC() == SCManagement):
		return nil, DropSLID
	case !deliverable(p.DLID(), p.SC()):
		return nil, DropDLID
	case !p.padOK():
		return nil, DropPad
	case icrc != ICRCNone && !p.ICRCGood():
		return nil, DropICRC
	}
	return p, frame.DropNone
}

func (p Packet9B) padOK() bool { return zeros(p[HeaderLen9B+len(p.Payload()) : len(p)-icrcLen]) }

func (p Packet9B) pad() int { return int(p[bthAt+1] >> 4 & 3) }

func (p Packet9B) bth1() uint32 { return binary.BigEndian.Uint32(p[bthAt+4:]) }

// SLID is the source LID in its 24-bit form.
func (p Packet9B) SLID() LID { return From9B(binary.BigEndian.Uint16(p[6:])) }

// DLID is the destination LID in its 24-bit form.
func (p Packet9B) DLID() LID { return From9B(binary.BigEndian.Uint16(p[2:])) }

// FECN is the forward congestion mark.
func (p Packet9B) FECN() bool { return p.bth1()&fecn9B != 0 }

// BECN is the backward congestion mark.
func (p Packet9B) BECN() bool { return p.bth1()&becn9B != 0 }

// SC is the low four bits of the service class.
func (p Packet9B) SC() uint8 { return p[0] >> 4 }

// SL is the service level.
func (p Packet9B) SL() uint8 { return p[1] >> 4 }

// PKey is the partition key.
func (p Packet9B) PKey() uint16 { return binary.BigEndian.Uint16(p[bthAt+2:]) }

// DestQP is the destination queue pair.
func (p Packet9B) DestQP() uint32 { return p.bth1() & qpMask }

// SrcQP is the source queue pair.
func (p Packet9B) SrcQP() uint32 { return binary.BigEndian.Uint32(p[dethAt+4:]) & qpMask }

// QKey is the queue key.
func (p Packet9B) QKey() uint32 { return binary.BigEndian.Uint32(p[dethAt:]) }

// Payload is what the datagram carries, borrowed.
func (p Packet9B) Payload() []byte {
	end := len(p) - icrcLen - p.pad()
	return p[HeaderLen9B:end:end]
}

// ICRCGood reports whether the ICRC is that of version 1. p is altered and
// restored.
func (p Packet9B) ICRCGood() bool {
	end := len(p) - icrcLen
	return crc.OPA9B(p[:end]) == binary.LittleEndian.Uint32(p[end:])
}

// Header returns all fields that a sender chooses.
func (p Packet9B) Header() Header9B {
	return Header9B{SLID: p.SLID(), DLID: p.DLID(), SC: p.SC(), SL: p.SL(), FECN: p.FECN(), BECN: p.BECN(),
		PKey: p.PKey(), DestQP: p.DestQP(), SrcQP: p.SrcQP(), QKey: p.QKey(),
		PSN: binary.BigEndian.Uint32(p[bthAt+8:]) & qpMask}
}
