package virtual

import (
	"fmt"

	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/icmp"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/udp"
)

// frameText describes a frame by its headers in less than a line.
func frameText(b []byte) string {
	h, n, err := ether.Parse(b)
	if err != nil {
		return fmt.Sprintf("%d octets without a header", len(b))
	}
	switch h.Type {
	case ether.TypeARP:
		if p, err := arp.Parse(b[n:]); err == nil {
			return arpText(&p)
		}
	case ether.TypeIPv4, ether.TypeIPv6:
		if p, payload, err := ip.Parse(b[n:]); err == nil {
			return packetText(&p, payload)
		}
	}
	return fmt.Sprintf("%v > %v type %#04x, %d octets", h.Src, h.Dst, h.Type, len(b)-n)
}

func arpText(p *arp.Packet) string {
	if p.Op == arp.Reply {
		return fmt.Sprintf("ARP %v is at %v", p.SenderIP, p.SenderMAC)
	}
	return fmt.Sprintf("ARP %v asks for %v", p.SenderIP, p.TargetIP)
}

func packetText(h *ip.Header, b []byte) string {
	switch h.Proto {
	case ip.ProtoTCP:
		if t, payload, err := tcp.Parse(b); err == nil {
			return fmt.Sprintf("%v:%d > %v:%d %v seq %d ack %d len %d", h.Src, t.SrcPort, h.Dst, t.DstPort, t.Flags,
				t.Seq, t.Ack, len(payload))
		}
	case ip.ProtoUDP:
		if u, payload, err := udp.Parse(b); err == nil {
			return fmt.Sprintf("%v:%d > %v:%d UDP len %d", h.Src, u.Src, h.Dst, u.Dst, len(payload))
		}
	case ip.ProtoICMP, ip.ProtoICMPv6:
		if m, err := icmp.Parse(b); err == nil {
			return fmt.Sprintf("%v > %v ICMP type %d code %d", h.Src, h.Dst, m.Type, m.Code)
		}
	}
	return fmt.Sprintf("%v > %v protocol %d, %d octets", h.Src, h.Dst, h.Proto, len(b))
}
