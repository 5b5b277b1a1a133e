package opa

import (
	"cmp"
	"encoding/binary"
	"net/netip"

	"tapir/wire/drop"
	"tapir/wire/enum"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/geneve"
	"tapir/wire/ip"
	"tapir/wire/nsh"
	"tapir/wire/udp"
)

// Framing says how fabric packets travel over Ethernet. In all of them the
// packet stands in one piece, unaltered.
type Framing uint8

const (
	// FramingNSH: the first 20 octets are metadata of a Network Service
	// Header whose payload is Ethernet, so that stock tools read the frame
	// inside. The header is a container; no service chain is meant.
	FramingNSH Framing = iota
	// Framing88B5: the bare packet behind EtherType 0x88b5.
	Framing88B5
	// FramingGeneve: the first 20 octets are an option of a Geneve header in
	// UDP and IPv4.
	FramingGeneve
)

var framingNames = [...]string{"nsh", "88b5", "geneve"}

func (f Framing) String() string { return framingNames[f] }

// ParseFraming reads nsh, 88b5 or geneve.
func ParseFraming(s string) (Framing, error) {
	return enum.Parse[Framing](framingNames[:], s, "opa: framing %q; expected nsh, 88b5 or geneve")
}

// EtherTypes of packets without a header of their own: the two that IEEE 802
// reserves for local experiments.
const (
	EtherType16B uint16 = 0x88b5
	EtherType9B  uint16 = 0x88b6
)

// The metadata and option that hold a packet's first HeaderLen octets, both of
// a class for experiments.
const (
	MetadataClass uint16 = 0xfff6
	MetadataType         = L4Ethernet
)

// What a framing puts in front of a packet, in octets.
const (
	nshOverhead    = ether.HeaderLen + nsh.HeaderLen + nsh.TLVHeaderLen
	geneveOverhead = ether.HeaderLen + ip.HeaderLen4 + udp.HeaderLen + geneve.HeaderLen + geneve.OptionHeaderLen
	// MaxOverhead is the headroom that any framing needs in front of a packet.
	MaxOverhead = geneveOverhead
)

// Format is the format of a fabric packet.
type Format uint8

const (
	Format16B Format = iota
	Format9B
)

func (f Format) String() string {
	if f == Format9B {
		return "9B"
	}
	return "16B"
}

// MTU is the MTU that a fabric TAP needs for vESWs of Ethernet MTU mtu with a
// VLAN tag, and for MADs of 2048 octets.
func (f Framing) MTU(mtu int) int {
	return f.overhead() - ether.HeaderLen + max(Size(mtu+ether.HeaderLen+ether.TagLen), Size9B(MaxMAD))
}

func (f Framing) overhead() int {
	switch f {
	case FramingNSH:
		return nshOverhead
	case FramingGeneve:
		return geneveOverhead
	}
	return ether.HeaderLen
}

// Carries is where frames of an EtherType hold the Ethernet frame of a virtual NIC,
// in octets from their beginning, in that framing.
func (f Framing) Carries() (etherType uint16, at int) {
	types := [...]uint16{FramingNSH: nsh.EtherType, Framing88B5: EtherType16B, FramingGeneve: ether.TypeIPv4}
	return types[f], f.overhead() + HeaderLen
}

// Inner is the Ethernet frame of a virtual NIC that the frame b of a fabric holds,
// with what follows it there, or else b itself.
func Inner(b []byte) []byte {
	if len(b) < ether.HeaderLen {
		return b
	}
	for f := range Framing(len(framingNames)) {
		if typ, at := f.Carries(); typ == binary.BigEndian.Uint16(b[12:]) && len(b) > at {
			return b[at:]
		}
	}
	return b
}

// Outer is the MAC address that stands for a LID on Ethernet, so that a bridge
// carries the fabric: 02:00:00 and the LID for one port; 03:00:00 and the LID
// for all others, a group address.
func (l LID) Outer() ether.Addr {
	first := byte(2)
	if !l.IsUnicast() {
		first = 3
	}
	return ether.Addr{first, 0, 0, byte(l >> 16), byte(l >> 8), byte(l)}
}

// putOuter writes an Ethernet header with the addresses that stand for dst and
// src to the front of b. A source is never a group.
func putOuter(b []byte, dst, src LID, typ uint16) {
	group := uint64(1) << 56
	if dst.IsUnicast() {
		group = 0
	}
	binary.BigEndian.PutUint64(b, 0x02<<56|group|uint64(dst)<<16|0x0200)
	binary.BigEndian.PutUint32(b[8:], uint32(src))
	binary.BigEndian.PutUint16(b[12:], typ)
}

// Wrap puts the framing in front of the 16B packet in f, a good one. fabric is
// the fabric id, for the service path of an NSH. It fails with DropNoBuffer if
// f has not MaxOverhead octets of headroom; f is then unchanged.
func (f Framing) Wrap(fr *frame.Frame, fabric uint16) frame.DropReason {
	n := f.overhead()
	if fr.Headroom() < n {
		return drop.NoBuffer
	}
	p := Packet(fr.Bytes())
	switch f {
	case FramingNSH:
		h := nsh.Header{TTL: nsh.MaxTTL, Next: nsh.NextEthernet, Path: uint32(fabric&0xfff)<<12 | uint32(p.VESW()),
			Index: 255}
		b := fr.Prepend(n)
		putOuter(b, p.DLID(), p.SLID(), nsh.EtherType)
		at := ether.HeaderLen + h.Put(b[ether.HeaderLen:], nsh.TLVHeaderLen+HeaderLen)
		nsh.TLV{Class: MetadataClass, Type: MetadataType, Length: HeaderLen}.Put(b[at:])
	case FramingGeneve:
		h := geneve.Header{Protocol: geneve.TypeEthernet, VNI: uint32(p.VESW())}
		wrapGeneve(fr, p.SLID(), p.DLID(), p.Entropy(), &h)
	default:
		putOuter(fr.Prepend(n), p.DLID(), p.SLID(), EtherType16B)
	}
	return frame.DropNone
}

// Wrap9B puts the framing in front of the 9B packet in f, a good one. It fails with
// DropNoBuffer if f has not MaxOverhead octets of headroom.
func (f Framing) Wrap9B(fr *frame.Frame) frame.DropReason {
	p := Packet9B(fr.Bytes())
	return f.wrapBare(fr, p.SLID(), p.DLID(), EtherType9B)
}

// Wrap16B is Wrap for a 16B packet without an Ethernet frame.
func (f Framing) Wrap16B(fr *frame.Frame) frame.DropReason {
	p := Packet(fr.Bytes())
	return f.wrapBare(fr, p.SLID(), p.DLID(), EtherType16B)
}

// wrapBare puts the framing in front of a packet that is no Ethernet frame for anybody:
// its EtherType follows the Ethernet header, or the Geneve header.
func (f Framing) wrapBare(fr *frame.Frame, slid, dlid LID, typ uint16) frame.DropReason {
	if fr.Headroom() < f.overhead() {
		return drop.NoBuffer
	}
	if f == FramingGeneve {
		wrapGeneve(fr, slid, dlid, 0, &geneve.Header{Protocol: typ})
		return frame.DropNone
	}
	putOuter(fr.Prepend(ether.HeaderLen), dlid, slid, typ)
	return frame.DropNone
}

// firstSourcePort begins the upper half of the dynamic ports, from which a
// tunnel's source port is taken (RFC 8926 section 3.3): tcpdump reads another
// protocol where the lower half begins.
const firstSourcePort = 0xe000

func wrapGeneve(fr *frame.Frame, slid, dlid LID, entropy uint16, h *geneve.Header) {
	options, n := 0, geneveOverhead-geneve.OptionHeaderLen
	if h.Protocol == geneve.TypeEthernet {
		options, n = geneve.OptionHeaderLen+HeaderLen, geneveOverhead
	}
	inner := fr.Len()
	b := fr.Prepend(n)
	putOuter(b, dlid, slid, ether.TypeIPv4)
	at := ether.HeaderLen
	payload := n - at - ip.HeaderLen4 + inner
	outer := ip.Header{Version: 4, TTL: 64, DF: true, Proto: ip.ProtoUDP, PayloadLen: payload, Src: outerIP(slid, 10),
		Dst: outerIP(dlid, 10)}
	if !dlid.IsUnicast() {
		outer.Dst = outerIP(dlid, 239)
	}
	at += outer.Put(b[at:])
	u := udp.Header{Src: firstSourcePort | entropy&^firstSourcePort, Dst: geneve.Port}
	at += u.Put(b[at:], payload-udp.HeaderLen)
	at += h.Put(b[at:], options)
	if options > 0 {
		geneve.Option{Class: MetadataClass, Type: MetadataType, Length: HeaderLen}.Put(b[at:])
	}
}

// outerIP is the IPv4 address that stands for a LID: 10 and the LID for one
// port, 239 and the LID for a group.
func outerIP(l LID, first byte) netip.Addr {
	return netip.AddrFrom4([4]byte{first, byte(l >> 16), byte(l >> 8), byte(l)})
}

// Unwrap removes the framing, whichever it is, from the Ethernet frame in fr
// and leaves the packet alone, unchecked. If fr holds something else it is
// unchanged and the reason to drop it is returned: DropTruncated,
// DropEtherType, DropMalformed, or what IPv4 and UDP know.
func Unwrap(fr *frame.Frame) (Format, frame.DropReason) {
	b := fr.Bytes()
	if len(b) < ether.HeaderLen {
		return 0, drop.Truncated
	}
	in := carried{at: ether.HeaderLen, n: len(b) - ether.HeaderLen}
	switch binary.BigEndian.Uint16(b[12:]) {
	case nsh.EtherType:
		in = unwrapNSH(b[ether.HeaderLen:])
	case EtherType16B:
	case EtherType9B:
		in.format = Format9B
	case ether.TypeIPv4:
		in = unwrapGeneve(b[ether.HeaderLen:])
	default:
		in.drop = drop.EtherType
	}
	if in.drop != frame.DropNone {
		return 0, in.drop
	}
	fr.TrimFront(in.at)
	fr.Truncate(in.n)
	return in.format, frame.DropNone
}

// carried is where in a frame a packet of n octets starts, or why there is
// none.
type carried struct {
	format Format
	at, n  int
	drop   frame.DropReason
}

func unwrapNSH(b []byte) carried {
	h, metadata, payload, err := nsh.Parse(b)
	switch {
	case err == nsh.ErrTruncated:
		return carried{drop: drop.Truncated}
	case err != nil || h.OAM || h.Next != nsh.NextEthernet:
		return carried{drop: drop.Malformed}
	}
	t, value, rest, err := nsh.ParseTLV(metadata)
	if err != nil || t.Class != MetadataClass || t.Type != MetadataType || t.Length != HeaderLen || len(rest) != 0 ||
		uint16(h.Path)&vESWMask != l4VESW(value) {
		return carried{drop: drop.Malformed}
	}
	return carried{at: nshOverhead, n: HeaderLen + len(payload)}
}

// l4VESW is the vESW id in a packet's first HeaderLen octets: service path and
// VNI must name the same.
func l4VESW(head []byte) uint16 { return binary.LittleEndian.Uint16(head[HeaderLen-2:]) & vESWMask }

// ipDrops are the errors of IPv4 with a reason of their own.
var ipDrops = map[error]frame.DropReason{ip.ErrChecksum: drop.IPChecksum, ip.ErrTruncated: drop.Truncated}

func unwrapGeneve(b []byte) carried {
	outer, datagram, err := ip.Parse(b)
	switch {
	case err != nil:
		return carried{drop: cmp.Or(ipDrops[err], drop.Malformed)}
	case outer.IsFragment():
		return carried{drop: drop.Fragment}
	case outer.Proto != ip.ProtoUDP:
		return carried{drop: drop.IPProtocol}
	}
	u, tunnel, err := udp.Parse(datagram)
	switch {
	case err != nil:
		return carried{drop: drop.Malformed}
	case u.Dst != geneve.Port:
		return carried{drop: drop.NoListener}
	case u.Checksum != 0 && ip.Checksum(datagram, ip.PseudoSum(outer.Src, outer.Dst, ip.ProtoUDP, len(datagram))) != 0:
		return carried{drop: drop.L4Checksum}
	}
	in := geneveContent(tunnel)
	in.at += ether.HeaderLen + outer.HeaderLen() + udp.HeaderLen
	return in
}

// geneveContent finds the packet in what UDP carries; its place is counted
// from there.
func geneveContent(tunnel []byte) carried {
	h, options, inner, err := geneve.Parse(tunnel)
	switch {
	case err != nil || h.Control:
		return carried{drop: drop.Malformed}
	case h.Protocol == EtherType9B && len(options) == 0:
		return carried{format: Format9B, at: geneve.HeaderLen, n: len(inner)}
	case h.Protocol == EtherType16B && len(options) == 0:
		return carried{at: geneve.HeaderLen, n: len(inner)}
	case h.Protocol != geneve.TypeEthernet:
		return carried{drop: drop.EtherType}
	}
	o, data, rest, err := geneve.ParseOption(options)
	if err != nil || o.Class != MetadataClass || o.Type != MetadataType || o.Length != HeaderLen || len(rest) != 0 ||
		h.VNI != uint32(l4VESW(data)) {
		return carried{drop: drop.Malformed}
	}
	return carried{at: geneve.HeaderLen + geneve.OptionHeaderLen, n: HeaderLen + len(inner)}
}
