package ip

import (
	"encoding/binary"
	"net/netip"
	"time"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/igmp"
	"tapir/wire/ip"
)

// icmp4In handles an ICMP message (RFC 792, RFC 1122 section 3.2.2).
func (l *Layer) icmp4In(p *Packet) Verdict {
	m, err := icmp.Parse(p.Body)
	if err != nil {
		return p.Refuse(drop.Truncated)
	}
	if !p.Off.NeedsCsum && !p.Off.DataValid && !icmp.Verify4(p.Body) {
		return p.Refuse(drop.L4Checksum)
	}
	l.icmpIn++
	switch m.Type {
	case icmp.Echo4:
		return l.echo(p, &m, icmp.EchoReply4)
	case icmp.Unreachable4:
		mtu := 0
		if m.Code == icmp.FragmentationNeeded4 {
			if mtu = nextMTU(&m); mtu < leastMTU4 {
				return p.Refuse(drop.Malformed)
			}
		}
		hard := m.Code == icmp.ProtocolUnreachable4 || m.Code == icmp.PortUnreachable4
		return l.errorIn(p, &m, hard, mtu)
	case icmp.Redirect4:
		return l.redirectIn(p, &m)
	case icmp.TimeExceeded4, icmp.ParamProblem4:
		return l.errorIn(p, &m, false, 0)
	}
	return p.Refuse(drop.Unused)
}

// leastMTU4 is what every IPv4 link carries (RFC 791): who tells of less lies.
const leastMTU4 = 68

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
func (l *Layer) icmp6In(p *Packet) Verdict {
	m, err := icmp.Parse(p.Body)
	if err != nil {
		return p.Refuse(drop.Truncated)
	}
	if !p.Off.NeedsCsum && !p.Off.DataValid && !icmp.Verify6(p.IP.Src, p.IP.Dst, p.Body) {
		return p.Refuse(drop.L4Checksum)
	}
	l.icmpIn++
	switch m.Type {
	case icmp.Echo6:
		return l.echo(p, &m, icmp.EchoReply6)
	case icmp.NeighborSolicitation, icmp.NeighborAdvertisement:
		return l.neighborIn(p, &m)
	case icmp.Redirect6:
		return l.redirectIn(p, &m)
	case igmp.Query6:
		q, err := igmp.Parse6(p.IP.Src, p.IP.Dst, p.Body)
		return l.queryIn(p, q, err)
	case icmp.Unreachable6:
		return l.errorIn(p, &m, m.Code == 1 || m.Code == icmp.PortUnreachable6, 0)
	case icmp.PacketTooBig6:
		if m.MTU6() < MinMTUIPv6 { // RFC 8201 section 4
			return p.Refuse(drop.Malformed)
		}
		return l.errorIn(p, &m, false, m.MTU6())
	case icmp.TimeExceeded6, icmp.ParamProblem6:
		return l.errorIn(p, &m, false, 0)
	}
	return p.Refuse(drop.Unused)
}

// echo answers an echo request, in fragments if it came in fragments.
func (l *Layer) echo(p *Packet, m *icmp.Message, reply uint8) Verdict {
	if p.shared {
		return ToHost
	}
	if p.IP.Src.IsUnspecified() {
		return p.Discard(drop.Source)
	}
	h := ip.Header{Version: p.IP.Version, TOS: p.IP.TOS, TTL: defaultTTL, Proto: p.IP.Proto, Src: p.IP.Dst,
		Dst: p.IP.Src}
	if h.Src.IsMulticast() {
		h.Src = l.Source(h.Dst)
	}
	answer := icmp.Echo(reply, m.EchoID(), m.EchoSeq(), m.Body)
	l.sendICMP(h, &answer, p.Now)
	return Consumed
}

// keepScratch bounds the memory Held between two messages.
const keepScratch = 2048

// sendICMP completes m and sends it under the IP header h.
func (l *Layer) sendICMP(h ip.Header, m *icmp.Message, now frame.Time) {
	if cap(l.scratch) < m.Len() {
		l.scratch = make([]byte, max(m.Len(), keepScratch))
	}
	b := l.scratch[:m.Len()]
	m.Put(b)
	if h.Version == 4 {
		icmp.SetChecksum4(b)
	} else {
		icmp.SetChecksum6(h.Src, h.Dst, b)
	}
	l.icmpOut++
	l.sendIP(h, b, now)
	if cap(l.scratch) > keepScratch {
		l.scratch = nil
	}
}

// errorIn takes an ICMP error to the connection whose segment it quotes.
func (l *Layer) errorIn(p *Packet, m *icmp.Message, hard bool, mtu int) Verdict {
	h, payload, err := m.Quoted()
	if err != nil {
		return p.Refuse(drop.Malformed)
	}
	t, n := l.quoted(&h, payload)
	if t == nil {
		return p.Refuse(drop.Unused)
	}
	if !t.Owns(n.Local, n.Remote) {
		return p.Refuse(drop.NoListener)
	}
	n.Hard, n.MTU, n.Now = hard, mtu, p.Now
	t.Unreachable(&n)
	return Consumed
}

// quoted finds the transport of a packet of ours that an ICMP message quotes,
// nil if there is none, and the ends of the packet.
func (l *Layer) quoted(h *ip.Header, payload []byte) (Transport, Notice) {
	t := l.transport(h.Proto)
	if t == nil || h.FragOffset != 0 || len(payload) < 8 || !l.IsLocal(h.Src) {
		return nil, Notice{}
	}
	local, remote := ends(h, payload)
	return t, Notice{Local: local, Remote: remote, Payload: payload}
}

// ends are both ends of a packet with header h whose payload begins with ports.
func ends(h *ip.Header, payload []byte) (src, dst netip.AddrPort) {
	return netip.AddrPortFrom(h.Src, binary.BigEndian.Uint16(payload)),
		netip.AddrPortFrom(h.Dst, binary.BigEndian.Uint16(payload[2:]))
}

// neighborIn handles neighbor discovery (RFC 4861 section 7).
func (l *Layer) neighborIn(p *Packet, m *icmp.Message) Verdict {
	n, err := m.Neighbor()
	switch {
	case err != nil:
		return p.Refuse(parseDrop(err))
	case p.IP.TTL != icmp.NDHopLimit:
		return p.Refuse(drop.Malformed) // came from off the link
	case p.Ether.Src == l.MAC:
		return p.Refuse(drop.Unused) // our own, come back
	case m.Type == icmp.NeighborSolicitation:
		return l.solicited(p, &n)
	}
	return l.advertised(p, &n)
}

func (l *Layer) solicited(p *Packet, n *icmp.Neighbor) Verdict {
	probe := p.IP.Src.IsUnspecified() // duplicate address detection
	if probe && !n.Options.SourceMAC.IsZero() {
		return p.Refuse(drop.Malformed)
	}
	forUs := l.IsLocal(n.Target)
	mac := n.Options.SourceMAC
	if mac.IsZero() {
		mac = p.Ether.Src
	}
	if !probe {
		l.learn(p.IP.Src, mac, forUs, 0, p.Now)
	}
	switch {
	case p.shared:
		return ToHost
	case !forUs:
		return p.Discard(drop.NotOurIP)
	case probe:
		l.conflict(n.Target, p.Ether.Src)
		l.advertise(n.Target, AllNodes, l.allNodes, false, p.Now)
	default:
		l.advertise(n.Target, p.IP.Src, mac, true, p.Now)
	}
	return Consumed
}

func (l *Layer) advertised(p *Packet, n *icmp.Neighbor) Verdict {
	if n.Solicited && p.IP.Dst.IsMulticast() {
		return p.Refuse(drop.Malformed)
	}
	mac := n.Options.TargetMAC
	if mac.IsZero() {
		mac = p.Ether.Src
	}
	known := l.neighbors.find(n.Target)
	switch {
	case l.IsLocal(n.Target):
		l.conflict(n.Target, mac)
	case known == nil:
	case !n.Override && known.state != incomplete && known.mac != mac:
		known.deadline = min(known.deadline, p.Now) // keep the address, but probe it
	case n.Solicited:
		l.confirm(n.Target, mac, p.Now)
	default:
		l.learn(n.Target, mac, false, 0, p.Now)
	}
	return p.keep()
}

// sendError answers the packet in hand with an ICMP error that quotes it. It
// stays silent where RFC 1122 section 3.2.2 and RFC 4443 section 2.4 say so.
func (l *Layer) sendError(p *Packet, m icmp.Message) {
	if p.Ether.Dst.IsMulticast() && !p.IP.Dst.IsMulticast() || isReport(&p.IP, p.Body) {
		return
	}
	packet := p.packet
	if p.whole != nil {
		packet = p.whole.pieces[0].packet
	}
	l.sendErrorAbout(&p.IP, packet, m, p.Now)
}

// isReport reports whether a packet is an ICMP error or a redirect, which no ICMP
// error answers. Of an ICMP fragment that is not the first nobody knows.
func isReport(h *ip.Header, body []byte) bool {
	if h.Proto != ip.ProtoICMP && h.Proto != ip.ProtoICMPv6 {
		return false
	}
	if len(body) == 0 || h.FragOffset != 0 {
		return true
	}
	if h.Version == 6 {
		return body[0] < icmp.Echo6 || body[0] == icmp.Redirect6 // RFC 4443 section 2.1
	}
	return body[0] != icmp.Echo4 && body[0] != icmp.EchoReply4
}

// sendErrorAbout answers packet, with header h, with the ICMP error m. That of an
// unknown option alone answers a multicast (RFC 4443 section 2.4 e.3).
func (l *Layer) sendErrorAbout(h *ip.Header, packet []byte, m icmp.Message, now frame.Time) {
	source := h.Dst
	if source.IsMulticast() && m.Type == icmp.ParamProblem6 && m.Code == icmp.UnknownOption6 {
		source = l.Source(h.Src)
	}
	if source.IsMulticast() || h.Src.IsUnspecified() || !l.limiter.allow(now) {
		return
	}
	reply := ip.Header{Version: h.Version, TTL: defaultTTL, Proto: ip.ProtoICMP, Src: source, Dst: h.Src}
	limit := MinMTU - ip.HeaderLen4 - icmp.HeaderLen // RFC 1812 section 4.3.2.3
	if h.Version == 6 {
		reply.Proto = ip.ProtoICMPv6
		limit = MinMTUIPv6 - ip.HeaderLen6 - icmp.HeaderLen
	}
	m.Body = packet[:min(limit, len(packet))]
	l.sendICMP(reply, &m, now)
}

// The rate of ICMP errors (RFC 4443 section 2.4 f).
const (
	ErrorBurst = 10
	errorEvery = 10 * time.Millisecond
)

// limiter is a token bucket.
type limiter struct {
	spent int
	last  frame.Time
}

func (l *limiter) allow(now frame.Time) bool {
	if earned := now.Sub(l.last) / errorEvery; earned > 0 {
		l.spent = max(0, l.spent-int(min(earned, ErrorBurst)))
		l.last = now
	}
	if l.spent >= ErrorBurst {
		return false
	}
	l.spent++
	return true
}
