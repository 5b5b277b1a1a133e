package ip

import (
	"slices"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// Options of IPv6 whose type says that the packet is not for those who do not
// know them (RFC 8200 section 4.2), by the two highest bits of the type.
const (
	skipOption    = 0 // the packet is processed all the same
	discardOption = 1 // silently
	reportOption  = 2 // and an ICMP error is sent, even to a multicast
)

// extensionsIn judges the IPv6 extension headers of the packet in hand, the
// first of which begins at an octet of the packet; ok tells that it may pass.
func (l *Layer) extensionsIn(p *Packet, at int) (v Verdict, ok bool) {
	for typ, ext := range p.IP.Extensions() {
		switch typ {
		case ip.ProtoRouting: // no type of which is known here (section 4.4, RFC 5095)
			if ext[3] != 0 {
				return l.problem(p, drop.IPOptions, icmp.ErroneousField6, at+2), false
			}
		case ip.ProtoHopByHop, ip.ProtoDestOpts:
			if v, ok := l.optionsIn(p, ext, at); !ok {
				return v, false
			}
		}
		at += len(ext)
	}
	return Consumed, true
}

// knownOptions are those that ask nothing of a host: Pad1, PadN and Router Alert
// (RFC 2711).
var knownOptions = []uint8{0, 1, 5}

// optionsIn judges the options of one extension header.
func (l *Layer) optionsIn(p *Packet, ext []byte, at int) (v Verdict, ok bool) {
	for i := 2; i < len(ext); {
		typ := ext[i]
		n := 1 // Pad1 alone has no length
		if typ != 0 {
			if i+2 > len(ext) || i+2+int(ext[i+1]) > len(ext) {
				return p.Refuse(drop.Malformed), false
			}
			n = 2 + int(ext[i+1])
		}
		if action := typ >> 6; action != skipOption && !slices.Contains(knownOptions, typ) {
			if action == discardOption || action != reportOption && p.IP.Dst.IsMulticast() {
				return p.Refuse(drop.IPOptions), false
			}
			return l.problem(p, drop.IPOptions, icmp.UnknownOption6, at+i), false
		}
		i += n
	}
	return Consumed, true
}

// unknownProtocol refuses what no handler takes (RFC 1122 section 3.2.2.1, RFC
// 8200 section 4).
func (l *Layer) unknownProtocol(p *Packet) Verdict {
	if p.shared || p.IP.Version == 6 && p.IP.Proto == ip.ProtoNoNext {
		return p.Refuse(drop.IPProtocol)
	}
	if p.IP.Version == 4 {
		l.sendError(p, icmp.Message{Type: icmp.Unreachable4, Code: icmp.ProtocolUnreachable4})
		return p.Discard(drop.IPProtocol)
	}
	at, named := ip.HeaderLen6, 6 // the field that names the first header
	if p.whole != nil {
		at = p.whole.head.HeaderLen()
		named = at - ip.FragmentExtLen
	}
	for _, ext := range p.IP.Extensions() {
		named, at = at, at+len(ext)
	}
	return l.problem(p, drop.IPProtocol, icmp.UnknownNextHeader6, named)
}

// problem refuses the IPv6 packet in hand and reports the octet that is wrong.
func (l *Layer) problem(p *Packet, r frame.DropReason, code uint8, at int) Verdict {
	if !p.shared {
		l.sendError(p, icmp.Message{Type: icmp.ParamProblem6, Code: code, Rest: uint32(at)})
	}
	return p.Refuse(r)
}
