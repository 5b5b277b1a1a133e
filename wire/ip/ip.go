// Package ip encodes and decodes IPv4 (RFC 791) and IPv6 (RFC 8200) headers
// and computes the Internet checksum (RFC 1071). All fields are big-endian on
// the wire.
package ip

import (
	"encoding/binary"
	"errors"
	"iter"
	"net/netip"
)

// Protocol numbers (IANA protocol numbers registry).
const (
	ProtoHopByHop uint8 = 0
	ProtoICMP     uint8 = 1
	ProtoIGMP     uint8 = 2
	ProtoTCP      uint8 = 6
	ProtoUDP      uint8 = 17
	ProtoRouting  uint8 = 43
	ProtoFragment uint8 = 44
	ProtoAH       uint8 = 51
	ProtoICMPv6   uint8 = 58
	ProtoNoNext   uint8 = 59
	ProtoDestOpts uint8 = 60
)

// Header lengths in octets.
const (
	HeaderLen4     = 20 // IPv4 without options
	HeaderLen6     = 40 // IPv6 without extension headers
	FragmentExtLen = 8  // the IPv6 Fragment extension header
)

// What can be wrong with a packet. Parse returns one of these unwrapped.
var (
	ErrTruncated = errors.New("ip: packet ends before its headers say")
	ErrMalformed = errors.New("ip: impossible header field")
	ErrChecksum  = errors.New("ip: header checksum wrong")
)

// Header is an IPv4 or IPv6 header.
type Header struct {
	Version   uint8  // 4 or 6
	TOS       uint8  // DSCP<<2 | ECN; the traffic class of IPv6
	FlowLabel uint32 // IPv6 only, 20 bits
	TTL       uint8  // hop limit in IPv6
	// Proto is the upper-layer protocol, after all extension headers. In an
	// IPv6 fragment it is what the Fragment header names, not followed further.
	Proto    uint8
	Src, Dst netip.Addr

	ID         uint16 // IPv4 identification
	DF, MF     bool   // don't fragment (IPv4); more fragments follow
	FragOffset uint16 // place in the unfragmented payload, in octets, multiple of 8
	Fragment   bool   // IPv6: a Fragment header is present (perhaps an atomic one)
	FragID     uint32 // IPv6 identification

	Options []byte // IPv4 options, borrowed; a multiple of 4 octets, at most 40
	// Ext holds all IPv6 extension headers, borrowed, and ExtFirst the type of
	// the first. If Ext is empty and Fragment is set, Put writes a Fragment
	// header of its own.
	Ext      []byte
	ExtFirst uint8
	// PayloadLen is the number of octets after IPv4 options or IPv6 extension
	// headers.
	PayloadLen int
}

// Parse reads the header of the packet b and returns the payload, borrowed and
// trimmed to the length that the header gives.
func Parse(b []byte) (h Header, payload []byte, err error) {
	if len(b) < 1 {
		return h, nil, ErrTruncated
	}
	switch b[0] >> 4 {
	case 4:
		payload, err = h.parse4(b)
	case 6:
		payload, err = h.parse6(b)
	default:
		err = ErrMalformed
	}
	return h, payload, err
}

func (h *Header) parse4(b []byte) ([]byte, error) {
	if len(b) < HeaderLen4 {
		return nil, ErrTruncated
	}
	hl, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if hl < HeaderLen4 || total < hl {
		return nil, ErrMalformed
	}
	if len(b) < total {
		return nil, ErrTruncated
	}
	if Checksum(b[:hl], 0) != 0 {
		return nil, ErrChecksum
	}
	if b[6]&0x80 != 0 {
		return nil, ErrMalformed // the reserved bit must be zero
	}
	h.fields4(b, hl)
	h.PayloadLen = total - hl
	return b[hl:total:total], nil
}

// fields4 sets all fields but PayloadLen; hl is the header length.
func (h *Header) fields4(b []byte, hl int) {
	frag := binary.BigEndian.Uint16(b[6:])
	h.Version, h.TOS, h.TTL, h.Proto = 4, b[1], b[8], b[9]
	h.ID = binary.BigEndian.Uint16(b[4:])
	h.DF, h.MF, h.FragOffset = frag&0x4000 != 0, frag&0x2000 != 0, frag&0x1fff<<3
	h.Src, h.Dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	if hl > HeaderLen4 {
		h.Options = b[HeaderLen4:hl:hl]
	}
}

func (h *Header) parse6(b []byte) ([]byte, error) {
	if len(b) < HeaderLen6 {
		return nil, ErrTruncated
	}
	end := HeaderLen6 + int(binary.BigEndian.Uint16(b[4:]))
	if len(b) < end {
		return nil, ErrTruncated
	}
	return h.fields6(b[:end:end])
}

// fields6 sets all fields of the packet b and returns its payload.
func (h *Header) fields6(b []byte) ([]byte, error) {
	v := binary.BigEndian.Uint32(b)
	h.Version, h.TOS, h.FlowLabel, h.TTL = 6, uint8(v>>20), v&0xfffff, b[7]
	h.Src, h.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	n, err := h.walk(b[6], b[HeaderLen6:])
	if err != nil {
		return nil, err
	}
	payload := b[HeaderLen6+n:]
	if n > 0 {
		h.ExtFirst, h.Ext = b[6], b[HeaderLen6:HeaderLen6+n:HeaderLen6+n]
	}
	h.PayloadLen = len(payload)
	return payload, nil
}

// walk passes over the extension headers at the front of b, the first of type
// next, sets Proto and the fragment fields and returns their length. Hop-by-hop
// options that are not first (RFC 8200 section 4.1) are no extension header: they
// become Proto.
func (h *Header) walk(next uint8, b []byte) (n int, err error) {
	for {
		switch next {
		case ProtoHopByHop, ProtoRouting, ProtoDestOpts, ProtoFragment, ProtoAH:
		default:
			h.Proto = next
			return n, nil
		}
		if next == ProtoHopByHop && (n != 0 || h.Fragment) {
			h.Proto = next
			return n, nil
		}
		ext := b[n:]
		if len(ext) < 8 {
			return 0, ErrTruncated
		}
		if next == ProtoFragment {
			if h.Fragment {
				return 0, ErrMalformed
			}
			frag := binary.BigEndian.Uint16(ext[2:])
			h.Fragment, h.FragID = true, binary.BigEndian.Uint32(ext[4:])
			h.FragOffset, h.MF = frag&^7, frag&1 != 0
			if h.MF || h.FragOffset != 0 {
				h.Proto = ext[0]
				return n + FragmentExtLen, nil
			}
		}
		l := extensionLen(next, ext)
		if len(ext) < l {
			return 0, ErrTruncated
		}
		next = ext[0]
		n += l
	}
}

// ParseQuoted reads the header at the front of b, a packet as ICMP errors
// quote it: cut off anywhere behind the header, its checksum perhaps altered
// by a router. It returns as much of the payload as there is, borrowed.
// PayloadLen is what the header says.
func ParseQuoted(b []byte) (h Header, payload []byte, err error) {
	if len(b) < HeaderLen4 {
		return h, nil, ErrTruncated
	}
	switch b[0] >> 4 {
	case 4:
		hl, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
		if hl < HeaderLen4 || total < hl || len(b) < hl {
			return h, nil, ErrMalformed
		}
		h.fields4(b, hl)
		h.PayloadLen = total - hl
		return h, b[hl:min(total, len(b))], nil
	case 6:
		if len(b) < HeaderLen6 {
			return h, nil, ErrTruncated
		}
		total := HeaderLen6 + int(binary.BigEndian.Uint16(b[4:]))
		payload, err = h.fields6(b[:min(total, len(b))])
		h.PayloadLen = total - HeaderLen6 - len(h.Ext)
		return h, payload, err
	}
	return h, nil, ErrMalformed
}

// Reassembled continues the walk over extension headers where a Fragment
// header ended it: payload is the whole payload of the reassembled packet. It
// clears the fragment fields, sets Proto, Ext and PayloadLen and returns the
// upper-layer payload.
func (h *Header) Reassembled(payload []byte) ([]byte, error) {
	h.MF, h.FragOffset = false, 0
	h.Options, h.Ext, h.ExtFirst = nil, nil, h.Proto
	n := 0
	if h.Version == 6 {
		h.Fragment = true // a second Fragment header would be malformed
		var err error
		if n, err = h.walk(h.Proto, payload); err != nil {
			return nil, err
		}
		h.Fragment, h.Ext = false, payload[:n:n]
	}
	h.PayloadLen = len(payload) - n
	return payload[n:], nil
}

// IsFragment reports whether the packet is one of several fragments.
func (h *Header) IsFragment() bool { return h.MF || h.FragOffset != 0 }

// SourceRouted reports whether an IPv4 packet carries a loose or strict source
// route, which hosts refuse (RFC 7126 section 4.3).
func (h *Header) SourceRouted() bool {
	for o := h.Options; len(o) > 0 && o[0] != 0; {
		if o[0] == 1 {
			o = o[1:]
			continue
		}
		if o[0] == 131 || o[0] == 137 {
			return true
		}
		if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			return false
		}
		o = o[o[1]:]
	}
	return false
}

// Extensions are the types and the octets, borrowed, of the IPv6 extension
// headers that Parse has found, in order.
func (h *Header) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		next := h.ExtFirst
		for e := h.Ext; len(e) >= 8; {
			l := min(extensionLen(next, e), len(e))
			if !yield(next, e[:l:l]) {
				return
			}
			next, e = e[0], e[l:]
		}
	}
}

// extensionLen is the length of the extension header at the front of b.
func extensionLen(typ uint8, b []byte) int {
	switch typ {
	case ProtoFragment:
		return FragmentExtLen
	case ProtoAH:
		return int(b[1])*4 + 8
	}
	return int(b[1])*8 + 8
}

// HeaderLen is the encoded length in octets, with options or extension
// headers.
func (h *Header) HeaderLen() int {
	if h.Version == 4 {
		return HeaderLen4 + len(h.Options)
	}
	if len(h.Ext) == 0 && h.Fragment {
		return HeaderLen6 + FragmentExtLen
	}
	return HeaderLen6 + len(h.Ext)
}

// Put writes the header to the front of b, which must hold HeaderLen octets,
// with the IPv4 header checksum, and returns HeaderLen. Version, Src, Dst and
// PayloadLen must be set and agree.
func (h *Header) Put(b []byte) int {
	if h.Version == 4 {
		return h.put4(b)
	}
	return h.put6(b)
}

func (h *Header) put4(b []byte) int {
	n := HeaderLen4 + len(h.Options)
	b = b[:n]
	b[0], b[1] = 0x40|uint8(n/4), h.TOS
	binary.BigEndian.PutUint16(b[2:], uint16(n+h.PayloadLen))
	binary.BigEndian.PutUint16(b[4:], h.ID)
	frag := h.FragOffset >> 3
	if h.DF {
		frag |= 0x4000
	}
	if h.MF {
		frag |= 0x2000
	}
	binary.BigEndian.PutUint16(b[6:], frag)
	b[8], b[9], b[10], b[11] = h.TTL, h.Proto, 0, 0
	src, dst := h.Src.As4(), h.Dst.As4()
	copy(b[12:16], src[:])
	copy(b[16:20], dst[:])
	copy(b[HeaderLen4:], h.Options)
	binary.BigEndian.PutUint16(b[10:], Checksum(b, 0))
	return n
}

func (h *Header) put6(b []byte) int {
	n := h.HeaderLen()
	b = b[:n]
	binary.BigEndian.PutUint32(b, 6<<28|uint32(h.TOS)<<20|h.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(b[4:], uint16(n-HeaderLen6+h.PayloadLen))
	b[6], b[7] = h.Proto, h.TTL
	src, dst := h.Src.As16(), h.Dst.As16()
	copy(b[8:24], src[:])
	copy(b[24:40], dst[:])
	switch {
	case len(h.Ext) > 0:
		b[6] = h.ExtFirst
		copy(b[HeaderLen6:], h.Ext)
	case h.Fragment:
		b[6] = ProtoFragment
		e := b[HeaderLen6:]
		e[0], e[1] = h.Proto, 0
		frag := h.FragOffset &^ 7
		if h.MF {
			frag |= 1
		}
		binary.BigEndian.PutUint16(e[2:], frag)
		binary.BigEndian.PutUint32(e[4:], h.FragID)
	}
	return n
}
