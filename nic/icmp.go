package nic

import (
	"encoding/binary"
	"net/netip"
	"time"

	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// icmp4In handles an ICMP message (RFC 792, RFC 1122 section 3.2.2).
func (d *Device) icmp4In() verdict {
	in := &d.in
	m, err := icmp.Parse(in.body)
	if err != nil {
		return d.refuse(drop.Truncated)
	}
	if !in.off.NeedsCsum && !in.off.DataValid && !icmp.Verify4(in.body) {
		return d.refuse(drop.L4Checksum)
	}
	d.icmpIn++
	switch m.Type {
	case icmp.Echo4:
		return d.echo(&m, icmp.EchoReply4)
	case icmp.Unreachable4:
		mtu := 0
		if m.Code == icmp.FragmentationNeeded4 {
			mtu = max(nextMTU(&m), MinMTU)
		}
		hard := m.Code == icmp.ProtocolUnreachable4 || m.Code == icmp.PortUnreachable4
		return d.errorIn(&m, hard, mtu)
	case icmp.Redirect4:
		return d.redirectIn(&m)
	case icmp.TimeExceeded4, icmp.ParamProblem4:
		return d.errorIn(&m, false, 0)
	}
	return d.refuse(drop.Unused)
}

// plateaus are the usual MTUs below which a router that tells none is guessed
// to lie (RFC 1191 section 7).
var plateaus = [...]int{32000, 17914, 8166, 4352, 2002, 1492, 1006, 576}

// nextMTU is the MTU that a Fragmentation Needed message tells or implies.
func nextMTU(m *icmp.Message) int {
	if mtu := m.MTU4(); mtu != 0 {
		return mtu
	}
	h, _, err := m.Quoted()
	for _, p := range plateaus {
		if err == nil && p < h.HeaderLen()+h.PayloadLen {
			return p
		}
	}
	return MinMTU
}

// icmp6In handles an ICMPv6 message (RFC 4443, RFC 4861).
func (d *Device) icmp6In() verdict {
	in := &d.in
	m, err := icmp.Parse(in.body)
	if err != nil {
		return d.refuse(drop.Truncated)
	}
	if !in.off.NeedsCsum && !in.off.DataValid && !icmp.Verify6(in.ip.Src, in.ip.Dst, in.body) {
		return d.refuse(drop.L4Checksum)
	}
	d.icmpIn++
	switch m.Type {
	case icmp.Echo6:
		return d.echo(&m, icmp.EchoReply6)
	case icmp.NeighborSolicitation, icmp.NeighborAdvertisement:
		return d.neighborIn(&m)
	case icmp.Redirect6:
		return d.redirectIn(&m)
	case icmp.Unreachable6:
		return d.errorIn(&m, m.Code == 1 || m.Code == icmp.PortUnreachable6, 0)
	case icmp.PacketTooBig6:
		return d.errorIn(&m, false, max(m.MTU6(), MinMTUIPv6))
	case icmp.TimeExceeded6, icmp.ParamProblem6:
		return d.errorIn(&m, false, 0)
	}
	return d.refuse(drop.Unused)
}

// echo answers an echo request, in fragments if it came in fragments.
func (d *Device) echo(m *icmp.Message, reply uint8) verdict {
	in := &d.in
	if d.host.link != nil {
		return toHost
	}
	if in.ip.Src.IsUnspecified() {
		return d.drop(drop.Source)
	}
	h := ip.Header{Version: in.ip.Version, TOS: in.ip.TOS, TTL: defaultTTL, Proto: in.ip.Proto, Src: in.ip.Dst, Dst: in.ip.Src}
	if h.Src.IsMulticast() {
		h.Src = d.Source(h.Dst)
	}
	answer := icmp.Echo(reply, m.EchoID(), m.EchoSeq(), m.Body)
	d.sendICMP(h, &answer)
	return consumed
}

// keepScratch bounds the memory kept between two messages.
const keepScratch = 2048

// sendICMP completes m and sends it under the IP header h.
func (d *Device) sendICMP(h ip.Header, m *icmp.Message) {
	if cap(d.scratch) < m.Len() {
		d.scratch = make([]byte, max(m.Len(), keepScratch))
	}
	b := d.scratch[:m.Len()]
	m.Put(b)
	if h.Version == 4 {
		icmp.SetChecksum4(b)
	} else {
		icmp.SetChecksum6(h.Src, h.Dst, b)
	}
	d.icmpOut++
	d.sendIP(h, b)
	if cap(d.scratch) > keepScratch {
		d.scratch = nil
	}
}

// errorIn takes an ICMP error to the connection whose segment it quotes.
func (d *Device) errorIn(m *icmp.Message, hard bool, mtu int) verdict {
	h, seg, err := m.Quoted()
	if err != nil {
		return d.refuse(drop.Malformed)
	}
	if h.Proto != ip.ProtoTCP || h.FragOffset != 0 || len(seg) < 8 || !d.isLocal(h.Src) {
		return d.refuse(drop.Unused)
	}
	local := netip.AddrPortFrom(h.Src, binary.BigEndian.Uint16(seg))
	remote := netip.AddrPortFrom(h.Dst, binary.BigEndian.Uint16(seg[2:]))
	if !d.toe.Owns(local, remote) {
		return d.refuse(drop.NoListener)
	}
	d.toe.Unreachable(local, remote, binary.BigEndian.Uint32(seg[4:]), hard, mtu, d.now)
	return consumed
}

// neighborIn handles neighbor discovery (RFC 4861 section 7).
func (d *Device) neighborIn(m *icmp.Message) verdict {
	in := &d.in
	n, err := m.Neighbor()
	switch {
	case err != nil:
		return d.refuse(parseDrop(err))
	case in.ip.TTL != icmp.NDHopLimit:
		return d.refuse(drop.Malformed) // came from off the link
	case in.eth.Src == d.cfg.MAC:
		return d.refuse(drop.Unused) // our own, come back
	case m.Type == icmp.NeighborSolicitation:
		return d.solicited(&n)
	}
	return d.advertised(&n)
}

func (d *Device) solicited(n *icmp.Neighbor) verdict {
	in := &d.in
	probe := in.ip.Src.IsUnspecified() // duplicate address detection
	if probe && !n.Options.SourceMAC.IsZero() {
		return d.refuse(drop.Malformed)
	}
	forUs := d.isLocal(n.Target)
	mac := n.Options.SourceMAC
	if mac.IsZero() {
		mac = in.eth.Src
	}
	if !probe {
		d.learn(in.ip.Src, mac, forUs)
	}
	switch {
	case d.host.link != nil:
		return toHost
	case !forUs:
		return d.drop(drop.NotOurIP)
	case probe:
		d.conflict(n.Target, in.eth.Src)
		d.advertise(n.Target, allNodes, d.allNodes, false)
	default:
		d.advertise(n.Target, in.ip.Src, mac, true)
	}
	return consumed
}

func (d *Device) advertised(n *icmp.Neighbor) verdict {
	in := &d.in
	if n.Solicited && in.ip.Dst.IsMulticast() {
		return d.refuse(drop.Malformed)
	}
	mac := n.Options.TargetMAC
	if mac.IsZero() {
		mac = in.eth.Src
	}
	known := d.neighbors.find(n.Target)
	switch {
	case d.isLocal(n.Target):
		d.conflict(n.Target, mac)
	case known == nil:
	case !n.Override && known.state != incomplete && known.mac != mac:
		known.deadline = min(known.deadline, d.now) // keep the address, but probe it
	case n.Solicited:
		d.confirm(n.Target, mac)
	default:
		d.learn(n.Target, mac, false)
	}
	if d.host.link != nil {
		return toHost
	}
	return consumed
}

// sendError answers the packet in hand with an ICMP error that quotes it. It
// stays silent where RFC 1122 section 3.2.2 and RFC 4443 section 2.4 say so.
func (d *Device) sendError(typ, code uint8) {
	in := &d.in
	if in.whole == nil && !in.eth.Dst.IsMulticast() {
		d.sendErrorAbout(&in.ip, in.packet, typ, code)
	}
}

// sendErrorAbout answers packet, with header h, with an ICMP error.
func (d *Device) sendErrorAbout(h *ip.Header, packet []byte, typ, code uint8) {
	if h.Dst.IsMulticast() || h.Src.IsUnspecified() || !d.limiter.allow(d.now) {
		return
	}
	reply := ip.Header{Version: h.Version, TTL: defaultTTL, Proto: ip.ProtoICMP, Src: h.Dst, Dst: h.Src}
	limit := MinMTU - ip.HeaderLen4 - icmp.HeaderLen // RFC 1812 section 4.3.2.3
	if h.Version == 6 {
		reply.Proto = ip.ProtoICMPv6
		limit = MinMTUIPv6 - ip.HeaderLen6 - icmp.HeaderLen
	}
	d.sendICMP(reply, &icmp.Message{Type: typ, Code: code, Body: packet[:min(limit, len(packet))]})
}

// The rate of ICMP errors (RFC 4443 section 2.4 f).
const (
	errorBurst = 10
	errorEvery = 10 * time.Millisecond
)

// limiter is a token bucket.
type limiter struct {
	spent int
	last  frame.Time
}

func (l *limiter) allow(now frame.Time) bool {
	if earned := now.Sub(l.last) / errorEvery; earned > 0 {
		l.spent = max(0, l.spent-int(min(earned, errorBurst)))
		l.last = now
	}
	if l.spent >= errorBurst {
		return false
	}
	l.spent++
	return true
}

// stationOf is the link-layer address through which a is reached, the zero
// address if it is not known.
func (d *Device) stationOf(a netip.Addr) ether.Addr {
	if n := d.neighbors.byIP[d.nextHop(a)]; n != nil {
		return n.mac
	}
	return ether.Addr{}
}
