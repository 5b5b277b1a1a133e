package ip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/igmp"
	"tapir/wire/ip"
)

// The way in, in packet order; the stages before it are in receive.go of
// package nic:
//
//  1. ether     header, VLAN, station filter
//  2. arp       neighbors learned and answered
//  3. ip        header, addresses; fragments wait until whole (fragment.go)
//  4. upper     transports; ICMP and neighbor discovery (icmp.go)
//
// With an operating system on the same addresses every stage leaves to it what
// is not the NIC's: see Packet.Refuse.

// Packet is the frame in hand.
type Packet struct {
	Frame *frame.Frame
	Now   frame.Time // when it came
	Ether ether.Header
	IP    ip.Header
	Body  []byte        // what follows the IP header
	Off   frame.Offload // what the sender left undone on Body
	// Offloaded: a transport's, not a frame of the Ethernet queue.
	Offloaded bool
	Verdict   Verdict
	Reason    frame.DropReason // with Dropped

	packet []byte    // the IP packet, trimmed to its length
	whole  *datagram // the fragments that Body was made from
	shared bool      // an operating system may want it
}

// Packet is the IP packet as it came, borrowed; nil: it came in fragments.
func (p *Packet) Packet() []byte {
	if p.whole != nil {
		return nil
	}
	return p.packet
}

// Verdict says what becomes of the frame in hand.
type Verdict uint8

// The verdicts.
const (
	Consumed  Verdict = iota // used and to be released
	Dropped                  // for the reason in Packet.Reason
	ToHost                   // the operating system's
	Held                     // for reassembly
	Unmatched                // not the handler's that was asked
)

// Take begins with a frame that came in: Receive or the caller gives it a
// verdict, and Done carries that out. The packet is the layer's until then.
func (l *Layer) Take(f *frame.Frame, now frame.Time) *Packet {
	p := &l.in // which Done has cleared
	p.Frame, p.Now, p.Off, p.shared = f, now, f.Offload, l.shared()
	return p
}

// InHand tells whether there is a frame in hand.
func (r *registry) InHand() bool { return r.in.Frame != nil }

// Receive lets the frame in hand pass all stages and sets its verdict.
func (l *Layer) Receive(p *Packet) { p.Verdict = l.etherIn(p, p.Frame.Bytes()) }

// Done releases the frame in hand, or passes it on, as its verdict says.
func (l *Layer) Done(p *Packet) {
	switch {
	case p.whole != nil:
		l.release(p.whole, p.Verdict == ToHost, p.Now)
	case p.Verdict == ToHost:
		l.env.Host(p.Frame, p.Now)
	case p.Verdict != Held:
		p.Frame.Release()
	}
	*p = Packet{}
}

// Discard is the verdict on a frame that is dropped for reason r.
func (p *Packet) Discard(r frame.DropReason) Verdict {
	p.Reason = r
	return Dropped
}

// Refuse discards the frame in hand, unless there is an operating system to
// judge it.
func (p *Packet) Refuse(r frame.DropReason) Verdict {
	if p.shared {
		return ToHost
	}
	return p.Discard(r)
}

// keep is the verdict on a message that was used, and that an operating system
// wants, too.
func (p *Packet) keep() Verdict {
	if p.shared {
		return ToHost
	}
	return Consumed
}

// etherIn is stage 1.
func (l *Layer) etherIn(p *Packet, b []byte) Verdict {
	h, n, err := ether.Parse(b)
	if err != nil {
		return p.Refuse(drop.Truncated)
	}
	p.Ether = h
	own := l.ourVLAN(&h)
	switch {
	case h.Src.IsMulticast():
		return p.Refuse(drop.Source)
	case !own && !l.visits(&h):
		return p.Refuse(drop.WrongVLAN)
	case !l.ourStation(h.Dst):
		return p.Refuse(drop.NotOurMAC)
	}
	for i := range l.ethernet {
		if r := &l.ethernet[i]; r.number == h.Type {
			if v := r.handler.Receive(p); v != Unmatched {
				return v
			}
		}
	}
	if !own {
		return p.Refuse(drop.WrongVLAN)
	}
	switch h.Type {
	case ether.TypeIPv4, ether.TypeIPv6:
		return l.ipIn(p, b[n:])
	case ether.TypeARP:
		return l.arpIn(p, b[n:])
	}
	return p.Refuse(drop.EtherType)
}

// ourVLAN reports whether the frame's tags are those of our VLAN; an untagged
// port takes priority tags too (IEEE 802.1Q section 6.9).
func (l *routes) ourVLAN(h *ether.Header) bool {
	switch h.NTags {
	case 0:
		return l.VLAN == 0
	case 1:
		return h.Tags[0].VID() == l.VLAN
	}
	return false
}

// visits reports whether a frame is in another VLAN in which its station is listened for.
func (l *routes) visits(h *ether.Header) bool {
	return h.NTags == 1 && slices.ContainsFunc(l.groups, func(g Group) bool {
		return g.VLAN != 0 && g.VLAN == h.Tags[0].VID() && g.MAC == h.Dst
	})
}

func (l *routes) ourStation(dst ether.Addr) bool {
	return dst == l.MAC || dst.IsBroadcast() || dst == l.allNodes || l.Listens(dst)
}

// Listens tells whether a station is one that Listen has told of.
func (l *routes) Listens(a ether.Addr) bool {
	return slices.ContainsFunc(l.groups, func(g Group) bool { return g.MAC == a })
}

// arpIn is stage 2 (RFC 826, RFC 5227).
func (l *Layer) arpIn(p *Packet, b []byte) Verdict {
	m, err := arp.Parse(b)
	switch {
	case err != nil:
		return p.Refuse(parseDrop(err))
	case m.SenderMAC == l.MAC:
		if !p.shared && !m.SenderIP.IsUnspecified() && !l.IsLocal(m.SenderIP) {
			l.conflict(l.MAC, m.SenderIP) // as two ends of a tunnel that were started with one name
		}
		return p.Refuse(drop.Unused) // our own, come back
	case m.SenderMAC.IsMulticast() || m.SenderMAC.IsZero():
		return p.Refuse(drop.Source)
	}
	forUs := l.IsLocal(m.TargetIP)
	switch {
	case l.IsLocal(m.SenderIP):
		l.conflict(m.SenderIP, m.SenderMAC)
	case m.Op == arp.Reply && forUs:
		l.confirm(m.SenderIP, m.SenderMAC, p.Now)
	case m.SenderIP == m.TargetIP: // it announces itself
		l.learn(m.SenderIP, m.SenderMAC, false, 0, p.Now)
	default:
		l.learn(m.SenderIP, m.SenderMAC, forUs, LockTime, p.Now)
	}
	if !p.shared && m.Op == arp.Request && forUs {
		l.sendARP(arp.Packet{Op: arp.Reply, SenderMAC: l.MAC, SenderIP: m.TargetIP,
			TargetMAC: m.SenderMAC, TargetIP: m.SenderIP}, m.SenderMAC, p.Now)
	}
	return p.keep()
}

// conflict takes note of another station with an IP or MAC address of ours.
func (l *Layer) conflict(ours, station fmt.Stringer) {
	l.conflicts++
	if l.env.Wire.Notes.On {
		l.env.Wire.Notes.Addf("address conflict: %v is also used by %v", ours, station)
	}
}

// ipIn is stage 3.
func (l *Layer) ipIn(p *Packet, b []byte) Verdict {
	h, body, err := ip.Parse(b)
	if err != nil {
		return p.Refuse(parseDrop(err))
	}
	p.IP, p.Body = h, body
	p.packet = b[:h.HeaderLen()+len(body)]
	switch {
	case (h.Version == 4) != (p.Ether.Type == ether.TypeIPv4):
		return p.Refuse(drop.Malformed)
	case len(p.packet) > l.MTU && p.Off.GSO == frame.GSONone:
		return p.Refuse(drop.Oversize)
	case h.SourceRouted():
		return p.Refuse(drop.IPOptions)
	case !validSource(h.Src) && !l.IsLocal(h.Src):
		return p.Refuse(drop.Source)
	case !l.forUs(h.Dst):
		return p.Refuse(drop.NotOurIP)
	}
	if len(h.Ext) > 0 {
		if f := p.extensionFault(ip.HeaderLen6); f != nil {
			return l.reject(p, f)
		}
	}
	if h.IsFragment() {
		return l.fragmentIn(p)
	}
	return l.upper(p)
}

// validSource reports whether a packet may come from a. The unspecified IPv6
// address is that of a station that is looking for duplicates.
func validSource(a netip.Addr) bool {
	if a.Is4() {
		v := a.As4()
		return !a.IsMulticast() && !a.IsLoopback() && v[0] != 0 && v[0] < 240
	}
	return !a.IsMulticast() && !a.IsLoopback() && !a.Is4In6()
}

// forUs reports whether a is one of our addresses or groups.
func (l *routes) forUs(a netip.Addr) bool {
	if !a.IsMulticast() {
		return l.IsLocal(a)
	}
	return a == AllNodes || slices.ContainsFunc(l.groups, func(g Group) bool { return g.IP == a })
}

// upper is stage 4.
func (l *Layer) upper(p *Packet) Verdict {
	for i := range l.protocols {
		if r := &l.protocols[i]; r.number == uint16(p.IP.Proto) {
			if v := r.handler.Receive(p); v != Unmatched {
				return v
			}
		}
	}
	switch h := &p.IP; {
	case h.Proto == ip.ProtoICMP && h.Version == 4:
		return l.icmp4In(p)
	case h.Proto == ip.ProtoICMPv6 && h.Version == 6:
		return l.icmp6In(p)
	case h.Proto == ip.ProtoIGMP && h.Version == 4 && len(l.members.list) > 0:
		m, err := igmp.Parse4(p.Body)
		return l.queryIn(p, m, err)
	case h.Proto == ip.ProtoUDP:
		return l.udpIn(p)
	}
	return l.unknownProtocol(p)
}

// udpIn answers that nothing listens.
func (l *Layer) udpIn(p *Packet) Verdict {
	switch {
	case p.shared:
		return ToHost
	case len(p.Body) < 8:
		return p.Discard(drop.Truncated)
	case !p.UDPChecksumOK():
		return p.Discard(drop.L4Checksum)
	case p.IP.Version == 4:
		l.sendError(p, icmp.Message{Type: icmp.Unreachable4, Code: icmp.PortUnreachable4})
	default:
		l.sendError(p, icmp.Message{Type: icmp.Unreachable6, Code: icmp.PortUnreachable6})
	}
	return p.Discard(drop.NoListener)
}

// UDPChecksumOK verifies the checksum of a UDP datagram, unless the datagram
// never left this machine or has none (RFC 768).
func (p *Packet) UDPChecksumOK() bool {
	if p.Off.NeedsCsum || p.Off.DataValid || p.IP.Version == 4 && binary.BigEndian.Uint16(p.Body[6:]) == 0 {
		return true
	}
	return ip.Checksum(p.Body, ip.PseudoSum(p.IP.Src, p.IP.Dst, ip.ProtoUDP, len(p.Body))) == 0
}

// parseDrop is the drop reason for an error of a wire package.
func parseDrop(err error) frame.DropReason {
	switch {
	case errors.Is(err, ip.ErrTruncated), errors.Is(err, arp.ErrTruncated), errors.Is(err, icmp.ErrTruncated):
		return drop.Truncated
	case errors.Is(err, ip.ErrChecksum):
		return drop.IPChecksum
	}
	return drop.Malformed
}
