package sw

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"slices"

	"tapir/lab/conf/swconf"
	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// routerMAC is that of all switches that route, as that of an anycast gateway: who has a route
// by a port to another switch needs not ask for the address there.
var routerMAC = ether.Addr{0x02, 0x53, 0xff, 0xff, 0xff, 0xfe}

// router is the static routes of a switch. Ports that a route names are for routed packets
// alone, and bridge nothing.
type router struct {
	s         *Switch
	routes    []route // the longest prefix first
	neighbors map[netip.Addr]ether.Addr
	hash      swconf.Hash
	seed      uint32
	tuple     [40]byte // of a flow: the hash is of it
}

type route struct {
	netip.Prefix
	ports []int // none: the stations are neighbors
}

// newRouter is nil without routes.
func newRouter(s *Switch) *router {
	c := &s.cfg.Routing
	if len(c.Routes) == 0 {
		return nil
	}
	r := &router{s: s, neighbors: map[netip.Addr]ether.Addr{}, hash: c.ECMPHash, seed: c.ECMPSeed}
	for _, from := range c.Routes {
		to := route{Prefix: from.Prefix}
		for _, name := range from.Ports {
			i := s.cfg.PortNamed(name)
			to.ports = append(to.ports, i)
			s.ports[i].routed = true
		}
		r.routes = append(r.routes, to)
	}
	slices.SortStableFunc(r.routes, func(a, b route) int { return b.Bits() - a.Bits() })
	return r
}

// find is the route to an address; nil: there is none.
func (r *router) find(to netip.Addr) *route {
	for i := range r.routes {
		if r.routes[i].Contains(to) {
			return &r.routes[i]
		}
	}
	return nil
}

// path is which of n ports a flow takes: a hash of the addresses, the protocol and, unless the
// packet is a fragment, the ports. The seed changes the hash and not just its start, so that
// switches with different seeds choose independently.
func (r *router) path(h *ip.Header, payload []byte, n int) int {
	if n == 1 {
		return 0
	}
	tuple := &r.tuple
	*tuple = [40]byte{}
	src, dst := h.Src.As16(), h.Dst.As16()
	copy(tuple[:], src[:])
	copy(tuple[16:], dst[:])
	if (h.Proto == ip.ProtoTCP || h.Proto == ip.ProtoUDP) && !h.IsFragment() && len(payload) >= 4 {
		copy(tuple[32:], payload[:4])
	}
	tuple[36] = h.Proto
	var x uint32
	if r.hash == swconf.XOR {
		for i := 0; i < len(tuple); i += 4 {
			x ^= binary.BigEndian.Uint32(tuple[i:])
		}
		x = (x ^ x>>16) & 0xffff
	} else {
		x = crc32.ChecksumIEEE(tuple[:])
	}
	if r.seed != 0 { // the last steps of MurmurHash3
		x ^= r.seed
		x = (x ^ x>>16) * 0x85ebca6b
		x = (x ^ x>>13) * 0xc2b2ae35
		x ^= x >> 16
	}
	return int(x % uint32(n))
}

// know notes where a neighbor is.
func (r *router) know(a netip.Addr, mac ether.Addr, most int) {
	if _, known := r.neighbors[a]; (known || len(r.neighbors) < most) && a.IsValid() && !a.IsUnspecified() &&
		!mac.IsMulticast() && !mac.IsZero() {
		r.neighbors[a] = mac
	}
}

// receive takes a frame that is the router's: true. Others are bridged.
func (r *router) receive(in int, f *frame.Frame, t tag, now frame.Time) bool {
	h, n, err := ether.Parse(f.Bytes())
	if err != nil {
		return false
	}
	switch {
	case h.Dst == routerMAC:
		r.route(in, f, n, t, now)
		return true
	case r.s.ports[in].routed:
		r.s.drop(in, f, DropNotRouted)
		return true
	}
	switch h.Type {
	case ether.TypeARP:
		return r.resolve4(in, f, &h, n, now)
	case ether.TypeIPv6:
		return r.resolve6(in, f, &h, n, now)
	}
	return false
}

// route sends a packet on its way: its TTL falls, and it gets the addresses of the next link.
func (r *router) route(in int, f *frame.Frame, n int, t tag, now frame.Time) {
	b := f.Bytes()
	h, payload, err := ip.Parse(b[n:])
	if err != nil {
		r.s.drop(in, f, drop.Malformed)
		return
	}
	to := r.find(h.Dst)
	switch {
	case to == nil:
		r.s.drop(in, f, DropNoRoute)
		return
	case h.TTL <= 1:
		r.s.drop(in, f, DropTTL)
		return
	}
	r.s.count(in, f)
	dst, out := routerMAC, 0
	if len(to.ports) > 0 {
		out = to.ports[r.path(&h, payload, len(to.ports))]
	} else {
		mac, known := r.neighbors[h.Dst]
		if known {
			out, known = r.s.macs.find(mac, now)
		}
		if !known {
			r.s.drop(in, f, DropNeighbor)
			return
		}
		dst = mac
	}
	copy(b, dst[:])
	copy(b[6:], routerMAC[:])
	if h.Version == 6 {
		b[n+7]--
	} else {
		b[n+8]--
		sum := uint32(binary.BigEndian.Uint16(b[n+10:])) + 0x0100 // RFC 1624
		binary.BigEndian.PutUint16(b[n+10:], uint16(sum+sum>>16))
	}
	r.s.enqueue(in, out, f, t, now)
}

// resolve4 answers ARP requests for a gateway, and learns from all others.
func (r *router) resolve4(in int, f *frame.Frame, h *ether.Header, n int, now frame.Time) bool {
	p, err := arp.Parse(f.Bytes()[n:])
	if err != nil {
		return false
	}
	r.know(p.SenderIP, p.SenderMAC, r.s.macs.most)
	if p.Op != arp.Request || !slices.Contains(r.s.cfg.Gateways, p.TargetIP) {
		return false
	}
	answer := arp.Packet{Op: arp.Reply, SenderMAC: routerMAC, SenderIP: p.TargetIP, TargetMAC: p.SenderMAC,
		TargetIP: p.SenderIP}
	h.Dst, h.Src = p.SenderMAC, routerMAC
	r.s.say(in, answer.AppendTo(h.AppendTo(nil)), now)
	f.Release()
	return true
}

// resolve6 is resolve4 of neighbor discovery (RFC 4861).
func (r *router) resolve6(in int, f *frame.Frame, h *ether.Header, n int, now frame.Time) bool {
	from, payload, err := ip.Parse(f.Bytes()[n:])
	if err != nil || from.Proto != ip.ProtoICMPv6 || from.TTL != icmp.NDHopLimit {
		return false
	}
	m, err := icmp.Parse(payload)
	if err != nil || !icmp.Verify6(from.Src, from.Dst, payload) {
		return false
	}
	nd, err := m.Neighbor()
	if err != nil {
		return false
	}
	if m.Type == icmp.NeighborAdvertisement {
		r.know(nd.Target, nd.Options.TargetMAC, r.s.macs.most)
		return false
	}
	r.know(from.Src, nd.Options.SourceMAC, r.s.macs.most)
	if !slices.Contains(r.s.cfg.Gateways, nd.Target) || from.Src.IsUnspecified() {
		return false
	}
	reply := icmp.Neighbor{Target: nd.Target, Router: true, Solicited: true, Override: true,
		Options: icmp.Options{TargetMAC: routerMAC}}
	out := reply.Message(icmp.NeighborAdvertisement, nil)
	to := ip.Header{Version: 6, TTL: icmp.NDHopLimit, Proto: ip.ProtoICMPv6, Src: nd.Target, Dst: from.Src,
		PayloadLen: out.Len()}
	h.Dst, h.Src = h.Src, routerMAC
	b := h.AppendTo(nil)
	head := len(b) + to.HeaderLen()
	b = append(b, make([]byte, head-len(b)+out.Len())...)
	to.Put(b[h.Len():])
	out.Put(b[head:])
	icmp.SetChecksum6(to.Src, to.Dst, b[head:])
	r.s.say(in, b, now)
	f.Release()
	return true
}
