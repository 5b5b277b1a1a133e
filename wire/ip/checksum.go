package ip

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Sum adds the 16-bit big-endian words of b to initial in one's complement
// arithmetic (RFC 1071) and returns the partial sum, not complemented. An odd
// last octet counts as the high half of a word, so only the last of several
// chained pieces may have an odd length.
func Sum(b []byte, initial uint32) uint32 {
	// The sum of little-endian words is the byte-swapped sum of big-endian
	// ones (RFC 1071 section 2B), so whole machine words can be added.
	var s, c uint64
	le := binary.LittleEndian
	if sums && len(b) >= sumMin {
		n := len(b) &^ 63
		s, b = sumWords(b[:n]), b[n:]
	}
	for len(b) >= 64 {
		p := b[:64:64]
		s, c = bits.Add64(s, le.Uint64(p[0:]), c)
		s, c = bits.Add64(s, le.Uint64(p[8:]), c)
		s, c = bits.Add64(s, le.Uint64(p[16:]), c)
		s, c = bits.Add64(s, le.Uint64(p[24:]), c)
		s, c = bits.Add64(s, le.Uint64(p[32:]), c)
		s, c = bits.Add64(s, le.Uint64(p[40:]), c)
		s, c = bits.Add64(s, le.Uint64(p[48:]), c)
		s, c = bits.Add64(s, le.Uint64(p[56:]), c)
		b = b[64:]
	}
	for len(b) >= 32 {
		p := b[:32:32]
		s, c = bits.Add64(s, le.Uint64(p[0:]), c)
		s, c = bits.Add64(s, le.Uint64(p[8:]), c)
		s, c = bits.Add64(s, le.Uint64(p[16:]), c)
		s, c = bits.Add64(s, le.Uint64(p[24:]), c)
		b = b[32:]
	}
	for len(b) >= 8 {
		s, c = bits.Add64(s, le.Uint64(b), c)
		b = b[8:]
	}
	var last uint64
	if len(b) >= 4 {
		last = uint64(le.Uint32(b))
		b = b[4:]
		s, c = bits.Add64(s, last, c)
	}
	last = 0
	switch len(b) {
	case 3:
		last = uint64(le.Uint16(b)) | uint64(b[2])<<16
	case 2:
		last = uint64(le.Uint16(b))
	case 1:
		last = uint64(b[0])
	}
	s, c = bits.Add64(s, last, c)
	s, c = bits.Add64(s, 0, c)
	s += c
	s = s>>32 + s&0xffffffff
	s = s>>32 + s&0xffffffff
	return uint32(Fold(initial)) + uint32(bits.ReverseBytes16(Fold(uint32(s))))
}

// Fold reduces a partial sum to 16 bits.
func Fold(s uint32) uint16 {
	s = s>>16 + s&0xffff
	return uint16(s>>16 + s)
}

// Checksum is the Internet checksum of b with the partial sum initial: the
// one's complement of the folded sum. It is 0 when b holds a correct checksum
// and initial its pseudo-header.
func Checksum(b []byte, initial uint32) uint16 { return ^Fold(Sum(b, initial)) }

// PseudoSum is the partial sum of the pseudo-header of an upper-layer packet
// of length octets (RFC 9293 section 3.1, RFC 8200 section 8.1).
func PseudoSum(src, dst netip.Addr, proto uint8, length int) uint32 {
	s := uint32(proto) + uint32(length>>16) + uint32(length&0xffff)
	return s + addrSum(src) + addrSum(dst)
}

func addrSum(a netip.Addr) uint32 {
	if a.Is4() {
		v := a.As4()
		w := binary.BigEndian.Uint32(v[:])
		return w>>16 + w&0xffff
	}
	v := a.As16()
	var s uint32
	for i := 0; i < 16; i += 2 {
		s += uint32(v[i])<<8 + uint32(v[i+1])
	}
	return s
}
