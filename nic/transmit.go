package nic

import (
	"net/netip"

	"tapir/nic/nicdrop"
	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// The way out, in packet order:
//
//  1. output    an IP packet, from the TCP engine or sendIP (which fragments)
//  2. route     the next hop: the destination itself or a gateway
//  3. neighbor  the next hop's MAC address, asked for if unknown (neighbor.go)
//  4. station   Ethernet header and VLAN tag in the headroom
//  5. port      number, stamp, capture record, counters, link (port.go)

// defaultTTL is the time to live and hop limit of what the NIC itself sends.
const defaultTTL = 64

// toeOutput is the way out for the TCP engine's packets.
type toeOutput struct{ d *Device }

// Transmit implements toe.Output.
func (o toeOutput) Transmit(f *frame.Frame, dst netip.Addr) {
	notes, _ := o.d.notes.Take()
	if c := o.d.coupled; c != nil && c.states[0] == EngineFailed {
		o.d.dropOut(&o.d.wire, outgoing{f: f, notes: notes}, nicdrop.Engine)
		return
	}
	o.d.output(outgoing{f: f, notes: notes, offloaded: true}, dst)
}

// Room implements toe.Output: while frames wait, nothing may overtake them.
func (o toeOutput) Room() int {
	if o.d.wire.closed {
		return queueFrames // all are dropped at once
	}
	return max(0, o.d.wire.link.Room()-o.d.wire.waiting())
}

// output takes o.f, an IP packet, and sends it on its way to dst.
func (d *Device) output(o outgoing, dst netip.Addr) {
	if dst.Is6() && dst.IsMulticast() {
		d.toStation(o, icmp.MulticastMAC(dst))
		return
	}
	hop := d.nextHop(dst)
	if !hop.IsValid() {
		d.unreachable(o.f.Bytes())
		d.dropOut(&d.wire, o, drop.NoRoute)
		return
	}
	d.toNeighbor(o, hop)
}

// nextHop is dst itself when it is on the link, else what a redirect has named,
// else the gateway of its family; the zero address if there is no way.
func (d *Device) nextHop(dst netip.Addr) netip.Addr {
	if d.onLink(dst) {
		return dst
	}
	if hop := d.redirected(dst); hop.IsValid() {
		return hop
	}
	for _, g := range d.cfg.Gateways {
		if g.Is4() == dst.Is4() {
			return g
		}
	}
	return netip.Addr{}
}

// onLink reports whether a lies in a prefix of ours.
func (d *Device) onLink(a netip.Addr) bool {
	for _, p := range d.addrs {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// isLocal reports whether a is one of the NIC's own addresses.
func (d *Device) isLocal(a netip.Addr) bool {
	for _, p := range d.addrs {
		if p.Addr() == a {
			return true
		}
	}
	return false
}

// Source is the NIC's address for talking to remote: the one on the same
// link, or on the gateway's; the zero address if none is of remote's family.
func (d *Device) Source(remote netip.Addr) netip.Addr {
	hop := d.nextHop(remote)
	for _, p := range d.addrs {
		if hop.IsValid() && p.Contains(hop) && (!hop.IsLinkLocalUnicast() || hop == remote) {
			return p.Addr()
		}
	}
	for _, p := range d.addrs {
		if p.Addr().Is4() == remote.Is4() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// toStation takes o.f, an IP packet, prepends the Ethernet header and sends
// it to the station dst.
func (d *Device) toStation(o outgoing, dst ether.Addr) {
	typ := ether.TypeIPv4
	if o.f.Bytes()[0]>>4 == 6 {
		typ = ether.TypeIPv6
	}
	d.link(o, dst, typ)
}

// link takes o.f, the payload of an Ethernet frame of type typ.
func (d *Device) link(o outgoing, dst ether.Addr, typ uint16) {
	h := d.header
	h.Dst, h.Type = dst, typ
	n := h.Put(o.f.Prepend(h.Len()))
	if o.f.NeedsCsum {
		o.f.CsumStart += uint16(n)
	}
	if o.f.GSO != frame.GSONone {
		o.f.HdrLen += uint16(n)
	}
	d.send(&d.wire, o)
}

// get returns a frame for size octets, or nil after counting the failure.
func (d *Device) get(size int) *frame.Frame {
	f := d.pool.Get(size)
	if f == nil {
		d.drops.Count(drop.NoBuffer)
	}
	return f
}

// sendARP sends p to the station dst.
func (d *Device) sendARP(p arp.Packet, dst ether.Addr) {
	f := d.get(arp.Len)
	if f == nil {
		return
	}
	p.Put(f.Extend(arp.Len))
	d.link(outgoing{f: f}, dst, ether.TypeARP)
}

// sendND sends the neighbor message msg of type typ from src to the address
// to at the station dst.
func (d *Device) sendND(msg *icmp.Neighbor, typ uint8, src, to netip.Addr, dst ether.Addr) {
	var room [64]byte
	m := msg.Message(typ, room[:0])
	h := ip.Header{Version: 6, TTL: icmp.NDHopLimit, Proto: ip.ProtoICMPv6, Src: src, Dst: to, PayloadLen: m.Len()}
	f := d.get(ip.HeaderLen6 + m.Len())
	if f == nil {
		return
	}
	h.Put(f.Extend(ip.HeaderLen6))
	b := f.Extend(m.Len())
	m.Put(b)
	icmp.SetChecksum6(src, to, b)
	d.link(outgoing{f: f}, dst, ether.TypeIPv6)
}

// sendIP sends the IP packet with header h and the payload given (borrowed),
// in fragments if the MTU wants it.
func (d *Device) sendIP(h ip.Header, payload []byte) {
	if h.Version == 4 {
		d.ipID++
		h.ID = d.ipID
	}
	limit := d.cfg.MTU - h.HeaderLen()
	if len(payload) <= limit {
		d.sendPart(h, payload)
		return
	}
	if h.Version == 6 {
		d.fragID++
		h.Fragment, h.FragID = true, d.fragID
		limit -= ip.FragmentExtLen
	}
	limit &^= 7
	for off := 0; off < len(payload); off += limit {
		end := min(off+limit, len(payload))
		h.FragOffset, h.MF = uint16(off), end < len(payload)
		d.sendPart(h, payload[off:end])
	}
}

func (d *Device) sendPart(h ip.Header, payload []byte) {
	h.PayloadLen = len(payload)
	f := d.get(h.HeaderLen() + len(payload))
	if f == nil {
		return
	}
	h.Put(f.Extend(h.HeaderLen()))
	f.Append(payload)
	d.output(outgoing{f: f}, h.Dst)
}

// announce tells the link who owns our addresses, and so finds out about
// others that do (RFC 5227 section 2.3, RFC 4861 section 7.2.6, RFC 4862
// section 5.4).
func (d *Device) announce() {
	for _, p := range d.addrs {
		d.announceOne(p.Addr())
	}
}

func (d *Device) announceOne(a netip.Addr) {
	if a.Is4() {
		d.sendARP(arp.Packet{Op: arp.Request, SenderMAC: d.cfg.MAC, SenderIP: a, TargetIP: a}, ether.Broadcast)
		return
	}
	group := icmp.SolicitedNode(a)
	probe := icmp.Neighbor{Target: a}
	d.sendND(&probe, icmp.NeighborSolicitation, netip.IPv6Unspecified(), group, icmp.MulticastMAC(group))
	d.advertise(a, allNodes, icmp.MulticastMAC(allNodes), false)
}

// advertise sends a Neighbor Advertisement for our address a.
func (d *Device) advertise(a, to netip.Addr, dst ether.Addr, solicited bool) {
	msg := icmp.Neighbor{Target: a, Solicited: solicited, Override: true, Options: icmp.Options{TargetMAC: d.cfg.MAC}}
	d.sendND(&msg, icmp.NeighborAdvertisement, a, to, dst)
}
