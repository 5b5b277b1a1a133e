package opa

import (
	"encoding/binary"

	"tapir/wire/drop"
	"tapir/wire/frame"
)

// 16B packets without an Ethernet frame: MADs between ports of which one has a LID
// beyond those of 9B packets, and congestion notifications.

const (
	routeLen = 16 // local route header of a 16B packet
	// headerLenMAD is local route header and management header: the two queue
	// pairs, big-endian.
	headerLenMAD = routeLen + 8
	bthLen       = 12
	opCNP        = 0x80 // congestion notification, in a BTH
)

// QPNone stands for a queue pair where there is none.
const QPNone uint32 = 0xffffff

// SizeMAD is the length of the 16B packet around a MAD of n octets.
func SizeMAD(n int) int { return (headerLenMAD + n + TrailerLen + 7) &^ 7 }

// EncapsulateMAD makes the MAD in f a 16B packet with the management header. It
// fails with DropNoBuffer if f has not the room, and with DropOversize beyond what the
// length field can say; f is then unchanged.
func EncapsulateMAD(f *frame.Frame, h *Header, destQP, srcQP uint32, icrc ICRC) frame.DropReason {
	payload := f.Len()
	n := SizeMAD(payload)
	pad := n - headerLenMAD - payload - TrailerLen
	switch {
	case n > MaxPacket:
		return drop.Oversize
	case f.Headroom() < headerLenMAD || f.Tailroom() < pad+TrailerLen:
		return drop.NoBuffer
	}
	clear(f.Extend(pad + TrailerLen))
	f.Prepend(headerLenMAD)
	p := f.Bytes()
	h.route(p, n, L4FM)
	binary.BigEndian.PutUint32(p[routeLen:], destQP&qpMask)
	binary.BigEndian.PutUint32(p[routeLen+4:], srcQP&qpMask)
	trail(p, pad, icrc)
	return frame.DropNone
}

// PacketMAD is a view of a 16B packet with a MAD that ParseMAD has accepted.
type PacketMAD struct{ Packet }

// ParseMAD is Parse for a 16B packet with a MAD.
func ParseMAD(b []byte, icrc ICRC) (PacketMAD, frame.DropReason) {
	p, r := parse(b, L4FM, icrc)
	if r == frame.DropNone && len(p)-TrailerLen-p.Pad() < headerLenMAD {
		r = DropLength
	}
	return PacketMAD{p}, r
}

// DestQP is the destination queue pair.
func (p PacketMAD) DestQP() uint32 { return binary.BigEndian.Uint32(p.Packet[routeLen:]) & qpMask }

// SrcQP is the source queue pair.
func (p PacketMAD) SrcQP() uint32 { return binary.BigEndian.Uint32(p.Packet[routeLen+4:]) & qpMask }

// Payload is the MAD, borrowed.
func (p PacketMAD) Payload() []byte {
	end := len(p.Packet) - TrailerLen - p.Pad()
	return p.Packet[headerLenMAD:end:end]
}

// SizeCNP is the length of a congestion notification.
const SizeCNP = (routeLen + bthLen + TrailerLen + 7) &^ 7

// PutCNP makes b, of SizeCNP octets, the congestion notification (CNP) that h heads:
// a 16B packet with BECN and the base transport header alone, to no queue pair.
func PutCNP(b []byte, h Header, icrc ICRC) {
	const pad = SizeCNP - routeLen - bthLen - TrailerLen
	clear(b[:SizeCNP])
	h.BECN = true
	h.route(b, SizeCNP, L4IBLocal)
	bth := b[routeLen:]
	bth[0], bth[1] = opCNP, pad<<4|1 // transport version 1, as the Linux driver has it
	binary.BigEndian.PutUint32(bth[4:], QPNone)
	trail(b[:SizeCNP], pad, icrc)
}

// IsCNP tells whether the 16B packet b, unchecked, is a congestion notification.
func IsCNP(b []byte) bool {
	return len(b) == SizeCNP && Packet(b).L4() == L4IBLocal && b[routeLen] == opCNP
}

// ParseCNP is Parse for a congestion notification.
func ParseCNP(b []byte, icrc ICRC) (Packet, frame.DropReason) { return parse(b, L4IBLocal, icrc) }
