package nic

import (
	"encoding/binary"
	"net/netip"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// flow is what a glance tells of a frame: nearly all traffic of an operating
// system is of two kinds that need no more.
type flow uint8

const (
	flowOther flow = iota // neither: tagged, a fragment, with options or damaged
	flowUDP               // a whole UDP datagram
	flowTCP               // a whole TCP segment
)

// glance looks at the fixed places of a frame. Of a segment it tells both ends.
func glance(b []byte) (kind flow, src, dst netip.AddrPort) {
	const v4, v6 = ether.HeaderLen + ip.HeaderLen4, ether.HeaderLen + ip.HeaderLen6
	if len(b) < v4+udp.HeaderLen {
		return flowOther, src, dst
	}
	typ, p := binary.BigEndian.Uint16(b[12:]), b[ether.HeaderLen:]
	switch {
	case typ == ether.TypeIPv4 && p[0] == 0x45 && binary.BigEndian.Uint16(p[6:])&0x3fff == 0:
		if kind = carries(p[9]); kind != flowTCP {
			return kind, src, dst
		}
		l4 := b[v4:]
		src = netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[12:16])), binary.BigEndian.Uint16(l4))
		dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[16:20])), binary.BigEndian.Uint16(l4[2:]))
	case typ == ether.TypeIPv6 && p[0]>>4 == 6 && len(b) >= v6+udp.HeaderLen:
		if kind = carries(p[6]); kind != flowTCP {
			return kind, src, dst
		}
		l4 := b[v6:]
		src = netip.AddrPortFrom(netip.AddrFrom16([16]byte(p[8:24])), binary.BigEndian.Uint16(l4))
		dst = netip.AddrPortFrom(netip.AddrFrom16([16]byte(p[24:40])), binary.BigEndian.Uint16(l4[2:]))
	}
	return kind, src, dst
}

func carries(proto uint8) flow {
	switch proto {
	case ip.ProtoUDP:
		return flowUDP
	case ip.ProtoTCP:
		return flowTCP
	}
	return flowOther
}

// segmentEnds are both ends of the TCP segment in a frame; false: it has none, or
// a part of one without its ports.
func segmentEnds(b []byte) (src, dst netip.AddrPort, ok bool) {
	kind, src, dst := glance(b)
	if kind != flowOther {
		return src, dst, kind == flowTCP
	}
	eth, n, err := ether.Parse(b)
	if err != nil || eth.Type != ether.TypeIPv4 && eth.Type != ether.TypeIPv6 {
		return src, dst, false
	}
	h, seg, err := ip.ParseQuoted(b[n:])
	if err != nil || h.Proto != ip.ProtoTCP || h.FragOffset != 0 || len(seg) < 4 {
		return src, dst, false
	}
	return netip.AddrPortFrom(h.Src, binary.BigEndian.Uint16(seg)), netip.AddrPortFrom(h.Dst, binary.BigEndian.Uint16(seg[2:])), true
}

// hostsOwn tells at a glance that a frame of the wire is the operating system's,
// whatever the stages would find: nobody in the NIC wants datagrams but a PTP
// instance, and segments only the engine, of its connections and listeners.
func (d *Device) hostsOwn(f *frame.Frame) bool {
	if d.host.link == nil || d.instance != nil {
		return false
	}
	switch kind, remote, local := glance(f.Bytes()); kind {
	case flowUDP:
		return true
	case flowTCP:
		return !d.toe.Owns(local, remote)
	}
	return false
}
