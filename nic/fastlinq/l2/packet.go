package l2

import (
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/headers"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/udp"
)

// packet is what the device sees of a frame.
type packet struct {
	headers.View
	off      frame.Offload
	dst, src ether.Addr
	parsed   bool // the IP header was looked for
	ports    bool // what IP carries begins with two ports
}

// vid is the VLAN that filters compare: 0 for frames without a tag.
func (p *packet) vid() uint16 { return p.TCI & maxVLAN }

// parse looks at the Ethernet header. A frame that ends with it, or before, is
// truncated.
func (p *packet) parse(f *frame.Frame) frame.DropReason {
	p.off, p.parsed, p.ports = f.Offload, false, false
	if b := f.Bytes(); !p.Parse(b) || len(b) == p.L3 {
		return drop.Truncated
	}
	p.dst, p.src = ether.Addr(p.Frame[0:6]), ether.Addr(p.Frame[6:12])
	return frame.DropNone
}

// network looks at the IP header, once and only if something asks for it. A
// packet that is cut has none.
func (p *packet) network() *packet {
	if p.parsed {
		return p
	}
	p.parsed = true
	if !p.ParseNetwork() || p.End > len(p.Frame) {
		p.Network = headers.Network{}
		return p
	}
	p.ports = !p.Fragment && p.End-p.L4 >= 8 && (p.Proto == ip.ProtoTCP || p.Proto == ip.ProtoUDP)
	return p
}

// size is the length that counts against the MTU: of a super-frame, that of its
// segments. A segmentation without headers counts as a whole.
func (p *packet) size() int {
	if p.off.GSO == frame.GSONone {
		return len(p.Frame)
	}
	p.network()
	if p.off.GSO == frame.GSOUDP && p.ports {
		return min(len(p.Frame), p.L4+udp.HeaderLen+int(p.off.GSOSize))
	}
	if !p.ports || p.Proto != ip.ProtoTCP || p.End-p.L4 < tcp.HeaderLen {
		return len(p.Frame)
	}
	return min(len(p.Frame), p.L4+int(p.Frame[p.L4+12]>>4)*4+int(p.off.GSOSize))
}
