package roce

import (
	"encoding/binary"
	"net/netip"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

const (
	defaultHops = 64
	firstPort   = 0xc000
	maxHeader   = ip.HeaderLen6 + udp.HeaderLen
	maxDatagram = 65507 // octets of UDP payload
)

// route holds the headers in front of the BTH on a path: IP and UDP, or a GRH.
type route struct {
	hop    Hop
	port   uint16 // UDP source port
	v4, v1 bool
	length int // octets of header
	header [maxHeader]byte
	sum    uint32 // of the IPv4 header without length and identification
	// start is the ICRC of the headers in front of sized octets, without identification.
	start ib.ICRC
	sized int
}

// SourcePort is the UDP source port of a flow: from the flow label if there is
// one, else from both queue pair numbers, so that it never changes while the
// connection lasts and routers keep its order.
func SourcePort(flow, local, remote uint32) uint16 {
	if flow == 0 {
		v := uint64(local) * uint64(remote)
		v ^= v >> 20
		v ^= v >> 40
		flow = uint32(v) & 0xfffff
	}
	return uint16(flow&0x3fff^flow&0xfc000>>14) | firstPort
}

// set makes the headers of a path between two queue pairs.
func (r *route) set(p *qpattr.Path, src verbs.GIDEntry, local, remote uint32) {
	*r = route{hop: Hop{Dst: p.DGID, Src: src.GID, VLAN: src.VLAN, SL: p.SL, TClass: p.TClass,
		V1: src.Type == verbs.RoCEv1}}
	r.v1 = r.hop.V1
	r.port = SourcePort(p.FlowLabel, local, remote)
	hops := p.HopLimit
	if hops == 0 {
		hops = defaultHops
	}
	if r.v1 {
		g := ib.GRH{TrafficClass: p.TClass, FlowLabel: p.FlowLabel, NextHeader: ib.NextHeader, HopLimit: hops,
			SGID: src.GID, DGID: p.DGID}
		g.Put(r.header[:])
		r.length = ib.GRHLen
		return
	}
	h := ip.Header{Version: 6, TOS: p.TClass, FlowLabel: p.FlowLabel, TTL: hops, Proto: ip.ProtoUDP,
		Src: netip.AddrFrom16(src.GID).Unmap(), Dst: netip.AddrFrom16(p.DGID).Unmap()}
	if r.v4 = h.Src.Is4() && h.Dst.Is4(); r.v4 {
		h.Version, h.DF = 4, true
	} else {
		h.Src, h.Dst = netip.AddrFrom16(src.GID), netip.AddrFrom16(p.DGID)
	}
	r.length = h.HeaderLen() + udp.HeaderLen
	h.Put(r.header[:])
	u := udp.Header{Src: r.port, Dst: ib.UDPPort}
	u.Put(r.header[h.HeaderLen():], 0)
	if r.v4 {
		clear(r.header[2:6])
		clear(r.header[10:12])
		for i := 0; i < ip.HeaderLen4; i += 2 {
			r.sum += uint32(binary.BigEndian.Uint16(r.header[i:]))
		}
	}
}

// put writes the headers of a packet with n octets behind them to b.
func (r *route) put(b []byte, n int, id uint16) {
	copy(b[:r.length], r.header[:r.length])
	be := binary.BigEndian
	switch {
	case r.v1:
		be.PutUint16(b[4:], uint16(n))
		return
	case r.v4:
		total := ip.HeaderLen4 + udp.HeaderLen + n
		be.PutUint16(b[2:], uint16(total))
		be.PutUint16(b[4:], id)
		sum := r.sum + uint32(total) + uint32(id)
		sum = sum>>16 + sum&0xffff
		be.PutUint16(b[10:], ^uint16(sum>>16+sum))
		b = b[ip.HeaderLen4:]
	default:
		be.PutUint16(b[4:], uint16(udp.HeaderLen+n))
		b = b[ip.HeaderLen6:]
	}
	be.PutUint16(b[4:], uint16(udp.HeaderLen+n))
}

// icrc starts the ICRC of a packet with n octets behind the headers.
func (r *route) icrc(n int, id uint16) ib.ICRC {
	if r.sized != n {
		var b [maxHeader]byte
		r.put(b[:], n, 0)
		r.start, r.sized = startICRC(b[:r.length]), n
	}
	if r.v4 {
		return r.start.Identify(id)
	}
	return r.start
}

// startICRC starts the ICRC of a packet with the headers h.
func startICRC(h []byte) ib.ICRC {
	switch len(h) {
	case ib.GRHLen:
		return ib.ICRCGRH(h)
	case ip.HeaderLen4 + udp.HeaderLen:
		return ib.ICRCIPv4(h)
	}
	return ib.ICRCIPv6(h)
}

// gid is an entry of the port's GID table; false: it is empty.
func (e *Engine) gid(index uint8) (verbs.GIDEntry, bool) {
	entry := e.dev.GIDEntry(int(index))
	return entry, entry.GID != verbs.GID{}
}

// writer writes the packets of one frame: one, or those of a super-frame.
type writer struct {
	f       *frame.Frame
	r       *route
	at      int // where the next packet begins
	size    int // octets of a packet, from its BTH to its ICRC
	packets int
	id      uint16
}

// begin starts a frame of n octets behind the headers of r, whose packets have size
// octets each, the last one perhaps fewer.
func (e *Engine) begin(w *writer, r *route, n, size int) bool {
	w.f = e.env.Pool.Get(r.length + n)
	if w.f == nil {
		e.starved = true
		e.stats.Drops.Count(drop.NoBuffer)
		return false
	}
	b := w.f.Extend(r.length + n)
	w.r, w.at, w.size, w.packets, w.id = r, r.length, size, 0, e.ipID
	r.put(b, n, w.id)
	return true
}

// packet writes the headers of p and returns where its n octets of payload belong.
func (w *writer) packet(p *ib.Packet, n int) []byte {
	p.Pad = ib.PadOf(n)
	b := w.f.Bytes()[w.at:]
	h := p.PutHeaders(b)
	return b[h : h+n]
}

// seal completes the packet that packet began: pad and ICRC. Unless src is nil the payload is
// copied from it, which goes through the octets once.
func (w *writer) seal(p *ib.Packet, n int, src []byte) {
	b := w.f.Bytes()[w.at:]
	h := p.HeaderLen()
	end := h + n + int(p.Pad)
	c := w.r.icrc(end+ib.ICRCLen, w.id+uint16(w.packets)).Headers(b[:h])
	if src != nil {
		c = c.Copy(b[h:h+n], src)
	} else {
		c = c.Payload(b[h : h+n])
	}
	for i := h + n; i < end; i++ {
		b[i] = 0
	}
	c.Payload(b[h+n : end]).Put(b[end:])
	w.at += end + ib.ICRCLen
	w.packets++
}

// end sends the frame.
func (e *Engine) end(w *writer, payload int, now frame.Time) {
	e.ipID += uint16(w.packets)
	if w.packets > 1 {
		w.segment()
	}
	e.stats.FramesOut++
	e.stats.PacketsOut += uint64(w.packets)
	e.stats.OctetsOut += uint64(payload)
	e.env.Out.Transmit(w.f, &w.r.hop, now)
}

// segment asks for the segmentation of the frame.
func (w *writer) segment() {
	b := w.f.Bytes()
	ipLen := w.r.length - udp.HeaderLen
	src, dst := netip.AddrFrom16(w.r.hop.Src), netip.AddrFrom16(w.r.hop.Dst)
	if w.r.v4 {
		src, dst = src.Unmap(), dst.Unmap()
	}
	binary.BigEndian.PutUint16(b[ipLen+6:], ip.Fold(ip.PseudoSum(src, dst, ip.ProtoUDP, len(b)-ipLen)))
	w.f.Offload = frame.Offload{
		NeedsCsum: true, CsumStart: uint16(ipLen), CsumOffset: 6, GSO: frame.GSOUDP, GSOSize: uint16(w.size),
		HdrLen: uint16(w.r.length),
	}
}
