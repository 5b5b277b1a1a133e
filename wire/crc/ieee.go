package crc

import (
	"encoding/binary"
	"hash/crc32"
)

// IEEE is the CRC-32 of Ethernet and InfiniBand of what crc is the CRC-32 of, followed
// by b.
func IEEE(crc uint32, b []byte) uint32 {
	switch {
	case len(b) < 64:
		return Short(crc, b)
	case !folds || len(b) < foldMin+64:
		return crc32.Update(crc, crc32.IEEETable, b)
	}
	lead := len(b) & 63
	crc = Short(crc, b[:lead])
	return finishIEEE(foldIEEE(^crc, b[lead:]))
}

// IEEECopy copies src to dst, which has its length, and continues crc over the copy:
// that of the octets in dst even if src changes meanwhile.
func IEEECopy(crc uint32, dst, src []byte) uint32 {
	if !folds || len(src) < foldMin+64 {
		copy(dst, src)
		return IEEE(crc, dst)
	}
	lead := len(src) & 63
	copy(dst[:lead], src)
	crc = Short(crc, dst[:lead])
	return finishIEEE(foldIEEECopy(^crc, dst[lead:len(src)], src[lead:]))
}

// finishIEEE is the CRC-32 of what was folded into 16 octets. Its register begins with 0,
// not with ones: the CRC before is among them.
func finishIEEE(lower, upper uint64) uint32 { return Eight(Eight(^uint32(0), lower), upper) }

// ieeeTable[n][v] is the register after octet v and n octets 0: tables for 8 octets at a
// time.
var ieeeTable = func() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for n := 1; n < len(t); n++ {
		for v, s := range t[n-1] {
			t[n][v] = t[0][byte(s)] ^ s>>8
		}
	}
	return t
}()

// Four continues the CRC-32 crc over 4 octets, the first of them in the lowest bits of v.
func Four(crc, v uint32) uint32 {
	v ^= ^crc
	t := &ieeeTable
	return ^(t[3][byte(v)] ^ t[2][byte(v>>8)] ^ t[1][byte(v>>16)] ^ t[0][v>>24])
}

// Eight continues the CRC-32 crc over 8 octets, the first of them in the lowest bits of v.
func Eight(crc uint32, v uint64) uint32 {
	v ^= uint64(^crc)
	t := &ieeeTable
	return ^(t[7][byte(v)] ^ t[6][byte(v>>8)] ^ t[5][byte(v>>16)] ^ t[4][byte(v>>24)] ^
		t[3][byte(v>>32)] ^ t[2][byte(v>>40)] ^ t[1][byte(v>>48)] ^ t[0][v>>56])
}

// Short continues the CRC-32 crc over b, some octets.
func Short(crc uint32, b []byte) uint32 {
	for ; len(b) >= 8; b = b[8:] {
		crc = Eight(crc, binary.LittleEndian.Uint64(b))
	}
	s := ^crc
	for _, v := range b {
		s = ieeeTable[0][byte(s)^v] ^ s>>8
	}
	return ^s
}
