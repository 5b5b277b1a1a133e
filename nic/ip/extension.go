package ip

import (
	"slices"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// fault is what makes a packet unacceptable.
type fault struct {
	reason frame.DropReason
	silent bool  // no ICMP error is sent
	code   uint8 // of the Parameter Problem that IPv6 sends
	at     int   // the octet of the packet that is wrong
}

// reject refuses the packet in hand and reports, for IPv6, what is wrong with it.
func (l *Layer) reject(p *Packet, f *fault) Verdict {
	if !p.shared && !f.silent && p.IP.Version == 6 {
		l.sendError(p, icmp.Message{Type: icmp.ParamProblem6, Code: f.code, Rest: uint32(f.at)})
	}
	return p.Refuse(f.reason)
}

// unknownProtocol refuses what no handler takes (RFC 1122 section 3.2.2.1, RFC
// 8200 section 4).
func (l *Layer) unknownProtocol(p *Packet) Verdict {
	if !p.shared && p.IP.Version == 4 {
		l.sendError(p, icmp.Message{Type: icmp.Unreachable4, Code: icmp.ProtocolUnreachable4})
	}
	at, named := ip.HeaderLen6, 6 // the field that names the first header
	if p.whole != nil {
		at = p.whole.head.HeaderLen()
		named = at - ip.FragmentExtLen
	}
	for _, ext := range p.IP.Extensions() {
		named, at = at, at+len(ext)
	}
	return l.reject(p, &fault{drop.IPProtocol, p.IP.Proto == ip.ProtoNoNext, icmp.UnknownNextHeader6, named})
}

// extensionFault finds what is wrong with the IPv6 extension headers of the packet
// in hand, the first of which begins at an octet of the packet; nil if nothing is.
func (p *Packet) extensionFault(at int) *fault {
	for typ, ext := range p.IP.Extensions() {
		switch typ {
		case ip.ProtoRouting: // no type of which is known here (RFC 8200 section 4.4, RFC 5095)
			if ext[3] != 0 {
				return &fault{reason: drop.IPOptions, code: icmp.ErroneousField6, at: at + 2}
			}
		case ip.ProtoHopByHop, ip.ProtoDestOpts:
			if f := optionFault(ext, at, p.IP.Dst.IsMulticast()); f != nil {
				return f
			}
		}
		at += len(ext)
	}
	return nil
}

// What the two highest bits of an option's type ask of those who do not know it
// (RFC 8200 section 4.2).
const (
	skipOption    = 0 // the packet is processed all the same
	discardOption = 1 // silently
	reportOption  = 2 // and an ICMP error is sent, even to a multicast
)

// knownOptions are those that ask nothing of a host: Pad1, PadN and Router Alert
// (RFC 2711).
var knownOptions = []uint8{0, 1, 5}

// optionFault finds the first option of an extension header that forbids the
// packet to those who do not know it.
func optionFault(ext []byte, at int, multicast bool) *fault {
	for i := 2; i < len(ext); {
		typ := ext[i]
		n := 1 // Pad1 alone has no length
		if typ != 0 {
			if i+2 > len(ext) || i+2+int(ext[i+1]) > len(ext) {
				return &fault{reason: drop.Malformed, silent: true}
			}
			n = 2 + int(ext[i+1])
		}
		if action := typ >> 6; action != skipOption && !slices.Contains(knownOptions, typ) {
			silent := action == discardOption || action != reportOption && multicast
			return &fault{drop.IPOptions, silent, icmp.UnknownOption6, at + i}
		}
		i += n
	}
	return nil
}

// fragmentFault finds what is wrong with the fragment in hand: it has whole units
// of 8 octets, no more than fits into a datagram and, if it is the first, all
// extension headers (RFC 8200 section 4.5).
func (p *Packet) fragmentFault() *fault {
	const payloadLength, fragmentOffset = 4, 2 // where these fields are
	head := p.IP
	switch {
	case len(p.Body) == 0:
		return &fault{reason: drop.Fragment, silent: true}
	case p.IP.MF && len(p.Body)%8 != 0:
		return &fault{reason: drop.Fragment, code: icmp.ErroneousField6, at: payloadLength}
	case int(p.IP.FragOffset)+len(p.Body)+ip.HeaderLen4 > maxDatagramSize:
		return &fault{reason: drop.Fragment, code: icmp.ErroneousField6,
			at: head.HeaderLen() - ip.FragmentExtLen + fragmentOffset}
	case p.IP.FragOffset == 0:
		if _, err := head.Reassembled(p.Body); err == ip.ErrTruncated {
			return &fault{reason: drop.Fragment, code: icmp.IncompleteChain6}
		}
	}
	return nil
}
