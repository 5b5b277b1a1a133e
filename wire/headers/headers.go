// Package headers finds the headers of an Ethernet frame: VLAN tags, the IP
// header and what it carries. Packages that have to understand a header's
// fields, or refuse a damaged one, use the codecs beside it.
package headers

import (
	"encoding/binary"
	"net/netip"

	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// View is an Ethernet frame, borrowed, with the places of its headers.
type View struct {
	Frame []byte
	Tags  int    // VLAN tags, at most two
	TCI   uint16 // of the outer tag
	Type  uint16 // EtherType behind the tags
	L3    int    // where the payload of Ethernet begins
	Network
}

// Network is what an IP header says about a packet.
type Network struct {
	Version  uint8 // 4 or 6; 0: there is no IP header
	Proto    uint8 // IPv6: of the first header that follows
	TTL      uint8
	Fragment bool // the packet is a fragment, or has a Fragment header
	First    bool // of a fragmented IPv4 packet: what the packet carries begins here
	L4       int  // where that begins in the frame
	End      int  // where the packet ends; behind the end of a frame that was cut
}

// Parse finds the EtherType. It is false for a frame that ends inside its
// header or a tag; what comes in front of that tag is in the view all the same.
func (v *View) Parse(b []byte) bool {
	*v = View{Frame: b}
	if len(b) < ether.HeaderLen {
		return false
	}
	v.Type, v.L3 = binary.BigEndian.Uint16(b[12:]), ether.HeaderLen
	for v.Tags < 2 && (v.Type == ether.TypeVLAN || v.Type == ether.TypeQinQ) {
		if len(b) < v.L3+ether.TagLen {
			return false
		}
		if v.Tags == 0 {
			v.TCI = binary.BigEndian.Uint16(b[v.L3:])
		}
		v.Type = binary.BigEndian.Uint16(b[v.L3+2:])
		v.L3 += ether.TagLen
		v.Tags++
	}
	return true
}

// ParseNetwork finds the IP header of a frame that Parse has seen. It is false
// for a frame without one, and for a header whose lengths cannot be; the rest of
// such a header is in the view all the same.
func (v *View) ParseNetwork() bool {
	v.Network = Network{}
	h := v.Frame[v.L3:]
	switch {
	case v.Type == ether.TypeIPv4 && len(h) >= ip.HeaderLen4 && h[0]>>4 == 4:
		hl, total := int(h[0]&15)*4, int(binary.BigEndian.Uint16(h[2:]))
		frag := binary.BigEndian.Uint16(h[6:])
		v.Network = Network{Version: 4, Proto: h[9], TTL: h[8], Fragment: frag&0x3fff != 0, First: frag&0x1fff == 0,
			L4: v.L3 + hl, End: v.L3 + total}
		return hl >= ip.HeaderLen4 && total >= hl
	case v.Type == ether.TypeIPv6 && len(h) >= ip.HeaderLen6 && h[0]>>4 == 6:
		v.Network = Network{Version: 6, Proto: h[6], TTL: h[7], Fragment: h[6] == ip.ProtoFragment, First: true,
			L4: v.L3 + ip.HeaderLen6, End: v.L3 + ip.HeaderLen6 + int(binary.BigEndian.Uint16(h[4:]))}
	}
	return v.Version != 0
}

// Addrs are the source and the destination address of the IP header.
func (v *View) Addrs() []byte {
	if v.Version == 6 {
		return v.Frame[v.L3+8 : v.L3+40]
	}
	return v.Frame[v.L3+12 : v.L3+20]
}

// Upper is what the IP header carries, as far as the frame has it.
func (v *View) Upper() []byte {
	end := min(max(v.End, v.L4), len(v.Frame))
	return v.Frame[min(v.L4, end):end]
}

// Peek tells at the fixed places of a frame what nearly all traffic is: a whole
// UDP datagram or TCP segment, without tags, options and damage. Of a segment
// it tells both ends. proto is 0 for any other frame.
func Peek(b []byte) (proto uint8, src, dst netip.AddrPort) {
	const v4, v6 = ether.HeaderLen + ip.HeaderLen4, ether.HeaderLen + ip.HeaderLen6
	if len(b) < v4+udp.HeaderLen {
		return 0, src, dst
	}
	typ, p := binary.BigEndian.Uint16(b[12:]), b[ether.HeaderLen:]
	switch {
	case typ == ether.TypeIPv4 && p[0] == 0x45 && binary.BigEndian.Uint16(p[6:])&0x3fff == 0:
		if proto = p[9]; proto == ip.ProtoTCP {
			src = end(netip.AddrFrom4([4]byte(p[12:16])), b[v4:])
			dst = end(netip.AddrFrom4([4]byte(p[16:20])), b[v4+2:])
		}
	case typ == ether.TypeIPv6 && p[0]>>4 == 6 && len(b) >= v6+udp.HeaderLen:
		if proto = p[6]; proto == ip.ProtoTCP {
			src = end(netip.AddrFrom16([16]byte(p[8:24])), b[v6:])
			dst = end(netip.AddrFrom16([16]byte(p[24:40])), b[v6+2:])
		}
	}
	if proto != ip.ProtoTCP && proto != ip.ProtoUDP {
		proto = 0
	}
	return proto, src, dst
}

func end(a netip.Addr, port []byte) netip.AddrPort {
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(port))
}

// TCPEnds are both ends of the TCP segment in a frame, which may be cut behind
// its ports, the first of several fragments, or behind extension headers.
func TCPEnds(b []byte) (src, dst netip.AddrPort, ok bool) {
	proto, src, dst := Peek(b)
	if proto != 0 {
		return src, dst, proto == ip.ProtoTCP
	}
	var v View
	if !v.Parse(b) || v.Type != ether.TypeIPv4 && v.Type != ether.TypeIPv6 {
		return src, dst, false
	}
	h, seg, err := ip.ParseQuoted(b[v.L3:])
	if err != nil || h.Proto != ip.ProtoTCP || h.FragOffset != 0 || len(seg) < 4 {
		return src, dst, false
	}
	return end(h.Src, seg), end(h.Dst, seg[2:]), true
}
