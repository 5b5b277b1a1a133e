package l2

import (
	"encoding/binary"

	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// packet is what the device sees of a frame.
type packet struct {
	b      []byte // the frame
	off    frame.Offload
	dst    ether.Addr
	src    ether.Addr
	tagged bool // and tci is the outer tag's
	tci    uint16
	tags   int
	typ    uint16 // behind the tags
	network
}

// network is what there is above Ethernet; it is looked at when something asks for it.
type network struct {
	seen     bool
	l3       int // where the IP header begins; 0: none
	l4       int // where what it carries begins
	end      int // of the IP packet
	v6       bool
	fragment bool
	ttl      uint8
	proto    uint8
	ports    bool // l4 begins with two ports
}

// vid is the VLAN that filters compare: 0 for frames without a tag.
func (p *packet) vid() uint16 { return p.tci & maxVLAN }

// parse looks at the Ethernet header. A frame that ends with it, or before, is
// truncated.
func (p *packet) parse(f *frame.Frame) frame.DropReason {
	b := f.Bytes()
	*p = packet{b: b, off: f.Offload}
	if len(b) <= ether.HeaderLen {
		return drop.Truncated
	}
	p.dst, p.src = ether.Addr(b[0:6]), ether.Addr(b[6:12])
	p.typ = binary.BigEndian.Uint16(b[12:])
	for p.tags < 2 && (p.typ == ether.TypeVLAN || p.typ == ether.TypeQinQ) {
		n := ether.HeaderLen + p.tags*ether.TagLen
		if len(b) <= n+ether.TagLen {
			return drop.Truncated
		}
		if p.tags == 0 {
			p.tagged, p.tci = true, binary.BigEndian.Uint16(b[n:])
		}
		p.typ = binary.BigEndian.Uint16(b[n+2:])
		p.tags++
	}
	return frame.DropNone
}

// look looks at the IP header. What is not IP, or too short for it, has none.
func (p *packet) look() *network {
	if !p.seen {
		p.network = inspect(p.b, ether.HeaderLen+p.tags*ether.TagLen, p.typ)
	}
	return &p.network
}

func inspect(b []byte, at int, typ uint16) network {
	n := network{seen: true}
	h := b[at:]
	switch {
	case typ == ether.TypeIPv4 && len(h) >= ip.HeaderLen4 && h[0]>>4 == 4:
		hl, total := int(h[0]&15)*4, int(binary.BigEndian.Uint16(h[2:]))
		if hl < ip.HeaderLen4 || total < hl || total > len(h) {
			return n
		}
		n.l3, n.l4, n.end, n.ttl, n.proto = at, at+hl, at+total, h[8], h[9]
		n.fragment = binary.BigEndian.Uint16(h[6:])&0x3fff != 0
	case typ == ether.TypeIPv6 && len(h) >= ip.HeaderLen6 && h[0]>>4 == 6:
		total := ip.HeaderLen6 + int(binary.BigEndian.Uint16(h[4:]))
		if total > len(h) {
			return n
		}
		n.v6 = true
		n.l3, n.l4, n.end, n.ttl, n.proto = at, at+ip.HeaderLen6, at+total, h[7], h[6]
		n.fragment = n.proto == ip.ProtoFragment
	}
	n.ports = n.l3 > 0 && !n.fragment && n.end-n.l4 >= 8 && (n.proto == ip.ProtoTCP || n.proto == ip.ProtoUDP)
	return n
}

// addrs are the source and destination addresses, borrowed.
func (n *network) addrs(b []byte) []byte {
	if n.v6 {
		return b[n.l3+8 : n.l3+40]
	}
	return b[n.l3+12 : n.l3+20]
}

// size is the length that counts against the MTU: of a super-frame, that of its
// segments. A segmentation without headers counts as a whole.
func (p *packet) size() int {
	if p.off.GSO == frame.GSONone {
		return len(p.b)
	}
	n := p.look()
	if !n.ports || n.proto != ip.ProtoTCP || n.end-n.l4 < tcp.HeaderLen {
		return len(p.b)
	}
	return min(len(p.b), n.l4+int(p.b[n.l4+12]>>4)*4+int(p.off.GSOSize))
}
