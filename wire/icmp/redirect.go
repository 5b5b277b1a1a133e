package icmp

import (
	"encoding/binary"
	"net/netip"
)

// Redirect types (RFC 792, RFC 4861 section 4.5).
const (
	Redirect4 uint8 = 5
	Redirect6 uint8 = 137
)

const (
	maxRedirectCode4    = 3 // network, host, and both by type of service
	optRedirectedHeader = 4
	redirectedHeaderLen = 8 // in front of the quoted packet
)

// Redirect tells a host of a better first hop. Hop is Dst itself if Dst is on
// the link.
type Redirect struct {
	Hop, Dst netip.Addr
	Packet   []byte // the packet quoted, borrowed; nil if there is none
}

// Redirect reads a Redirect message of either family.
func (m *Message) Redirect() (r Redirect, err error) {
	if m.Type == Redirect4 {
		h, _, err := m.Quoted()
		if err != nil || h.Version != 4 || m.Code > maxRedirectCode4 {
			return r, ErrMalformed
		}
		var hop [4]byte
		binary.BigEndian.PutUint32(hop[:], m.Rest)
		return Redirect{Hop: netip.AddrFrom4(hop), Dst: h.Dst, Packet: m.Body}, nil
	}
	if m.Type != Redirect6 || m.Code != 0 {
		return r, ErrMalformed
	}
	if len(m.Body) < 32 {
		return r, ErrTruncated
	}
	r.Hop, r.Dst = netip.AddrFrom16([16]byte(m.Body)), netip.AddrFrom16([16]byte(m.Body[16:]))
	if r.Dst.IsMulticast() || r.Hop != r.Dst && !r.Hop.IsLinkLocalUnicast() {
		return r, ErrMalformed
	}
	for b := m.Body[32:]; len(b) > 0; {
		n := 0
		if len(b) >= 2 {
			n = int(b[1]) * 8
		}
		if n == 0 || n > len(b) {
			return r, ErrMalformed
		}
		if b[0] == optRedirectedHeader {
			r.Packet = b[redirectedHeaderLen:n]
		}
		b = b[n:]
	}
	return r, nil
}

// Message encodes r, with its body appended to b. A quoted packet is cut to
// whole units of 8 octets in ICMPv6.
func (r *Redirect) Message(b []byte) Message {
	if r.Dst.Is4() {
		hop := r.Hop.As4()
		return Message{Type: Redirect4, Code: 1, Rest: binary.BigEndian.Uint32(hop[:]), Body: append(b, r.Packet...)}
	}
	hop, dst := r.Hop.As16(), r.Dst.As16()
	b = append(append(b, hop[:]...), dst[:]...)
	if n := min(len(r.Packet)/8, 254); n > 0 {
		b = append(b, optRedirectedHeader, byte(1+n), 0, 0, 0, 0, 0, 0)
		b = append(b, r.Packet[:8*n]...)
	}
	return Message{Type: Redirect6, Body: b}
}
