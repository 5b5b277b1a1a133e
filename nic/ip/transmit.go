package ip

import (
	"net/netip"

	"tapir/nic/port"
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

// Output takes o.Frame, an IP packet or one of o.Type, and sends it on its way to dst.
func (l *Layer) Output(o port.Out, dst netip.Addr, now frame.Time) {
	if dst.IsMulticast() {
		l.toStation(o, MulticastMAC(dst), now)
		return
	}
	hop := l.NextHop(dst)
	if !hop.IsValid() {
		l.unreachable(o.Frame.Bytes())
		l.env.Wire.Drop(o, drop.NoRoute, now)
		return
	}
	l.toNeighbor(o, hop, now)
}

// MulticastMAC is the station address of a multicast group (RFC 1112 section 6.4, RFC
// 2464 section 7).
func MulticastMAC(group netip.Addr) ether.Addr {
	if group.Is4() {
		v := group.As4()
		return ether.Addr{1, 0, 0x5e, v[1] & 0x7f, v[2], v[3]}
	}
	return icmp.MulticastMAC(group)
}

// NextHop is dst itself when it is on the link, else what a redirect has named,
// else the gateway of its family; the zero address if there is no way.
func (l *routes) NextHop(dst netip.Addr) netip.Addr {
	if covers(l.addrs, dst) {
		return dst
	}
	if hop := l.redirected(dst); hop.IsValid() {
		return hop
	}
	for _, g := range l.Gateways {
		if g.Is4() == dst.Is4() {
			return g
		}
	}
	return netip.Addr{}
}

// Source is the NIC's address for talking to remote: the one on the same
// link, or on the gateway's; the zero address if none is of remote's family.
func (l *routes) Source(remote netip.Addr) netip.Addr {
	hop := l.NextHop(remote)
	for _, p := range l.addrs {
		if hop.IsValid() && p.Contains(hop) && (!hop.IsLinkLocalUnicast() || hop == remote) {
			return p.Addr()
		}
	}
	for _, p := range l.addrs {
		if p.Addr().Is4() == remote.Is4() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// toStation takes o.Frame, an IP packet or one of o.Type, prepends the Ethernet header and
// sends it to the station dst.
func (l *station) toStation(o port.Out, dst ether.Addr, now frame.Time) {
	typ := o.Type
	if typ == 0 {
		typ = etherType(o.Frame.Bytes())
	}
	l.Link(o, dst, typ, now)
}

// Link takes o.Frame, the payload of an Ethernet frame of type typ, and sends it to the
// station dst. o.Priority is that of a tagged frame; o.AddTag has it tagged with VLAN 0 if
// there is no other.
func (l *station) Link(o port.Out, dst ether.Addr, typ uint16, now frame.Time) {
	h := l.header
	h.Dst, h.Type = dst, typ
	if o.AddTag && o.Priority > 0 && h.NTags == 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN}
	}
	h.Tags[0].TCI |= uint16(o.Priority) << 13
	n := h.Put(o.Frame.Prepend(h.Len()))
	if o.Frame.NeedsCsum {
		o.Frame.CsumStart += uint16(n)
	}
	if o.Frame.GSO != frame.GSONone {
		o.Frame.HdrLen += uint16(n)
	}
	l.env.Wire.Send(o, now)
}

// sendARP sends p to the station dst.
func (l *station) sendARP(p arp.Packet, dst ether.Addr, now frame.Time) {
	f := l.get(arp.Len)
	if f == nil {
		return
	}
	p.Put(f.Extend(arp.Len))
	l.Link(port.Out{Frame: f}, dst, ether.TypeARP, now)
}

// sendND sends the neighbor message msg of type typ from src to the address
// to at the station dst.
func (l *station) sendND(msg *icmp.Neighbor, typ uint8, src, to netip.Addr, dst ether.Addr, now frame.Time) {
	var room [64]byte
	m := msg.Message(typ, room[:0])
	h := ip.Header{Version: 6, TTL: icmp.NDHopLimit, Proto: ip.ProtoICMPv6, Src: src, Dst: to, PayloadLen: m.Len()}
	f := l.get(ip.HeaderLen6 + m.Len())
	if f == nil {
		return
	}
	h.Put(f.Extend(ip.HeaderLen6))
	b := f.Extend(m.Len())
	m.Put(b)
	icmp.SetChecksum6(src, to, b)
	l.Link(port.Out{Frame: f}, dst, ether.TypeIPv6, now)
}

// sendIP sends the IP packet with header h and the payload given (borrowed),
// in fragments if the MTU wants it.
func (l *Layer) sendIP(h ip.Header, payload []byte, now frame.Time) {
	if h.Version == 4 {
		l.ipID++
		h.ID = l.ipID
	}
	limit := l.MTU - h.HeaderLen()
	if len(payload) <= limit {
		l.sendPart(h, payload, now)
		return
	}
	if h.Version == 6 {
		h.Fragment, h.FragID = true, uint32(l.env.IDs.Uint64())
		limit -= ip.FragmentExtLen
	}
	limit &^= 7
	for off := 0; off < len(payload); off += limit {
		end := min(off+limit, len(payload))
		h.FragOffset, h.MF = uint16(off), end < len(payload)
		l.sendPart(h, payload[off:end], now)
	}
}

func (l *Layer) sendPart(h ip.Header, payload []byte, now frame.Time) {
	h.PayloadLen = len(payload)
	f := l.get(h.HeaderLen() + len(payload))
	if f == nil {
		return
	}
	h.Put(f.Extend(h.HeaderLen()))
	f.Append(payload)
	l.Output(port.Out{Frame: f}, h.Dst, now)
}

// Announce tells the link who owns our addresses, and so finds out about
// others that do (RFC 5227 section 2.3, RFC 4861 section 7.2.6, RFC 4862
// section 5.4).
func (l *station) Announce(now frame.Time) {
	for _, p := range l.addrs {
		l.AnnounceOne(p.Addr(), now)
	}
}

// AnnounceOne announces our address a.
func (l *station) AnnounceOne(a netip.Addr, now frame.Time) {
	if a.Is4() {
		l.sendARP(arp.Packet{Op: arp.Request, SenderMAC: l.MAC, SenderIP: a, TargetIP: a}, ether.Broadcast, now)
		return
	}
	group := icmp.SolicitedNode(a)
	probe := icmp.Neighbor{Target: a}
	l.sendND(&probe, icmp.NeighborSolicitation, netip.IPv6Unspecified(), group, icmp.MulticastMAC(group), now)
	l.advertise(a, AllNodes, icmp.MulticastMAC(AllNodes), false, now)
}

// advertise sends a Neighbor Advertisement for our address a.
func (l *station) advertise(a, to netip.Addr, dst ether.Addr, solicited bool, now frame.Time) {
	msg := icmp.Neighbor{Target: a, Solicited: solicited, Override: true, Options: icmp.Options{TargetMAC: l.MAC}}
	l.sendND(&msg, icmp.NeighborAdvertisement, a, to, dst, now)
}
