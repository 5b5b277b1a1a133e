package crc

import (
	"encoding/binary"
)

// The fields of a 16B local route header that a fabric may change on the way,
// by little-endian quadword: BECN, SC, FECN and LT; Age and what shares its
// octets.
const (
	variant16B0 uint64 = 0x91f0000080000000
	variant16B1 uint64 = 0xffff000000000000
)

// OPA16B is version 1 of the ICRC of the 16B packet whose octets from the
// header to the pad are b, at least 16: the CRC-32 of Ethernet and InfiniBand
// over b with the variant fields set to ones. It is stored least significant
// octet first.
//
// b is altered and restored, which costs less than a CRC in pieces: it must
// not be read by others meanwhile.
func OPA16B(b []byte) uint32 {
	q0, q1 := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	binary.LittleEndian.PutUint64(b, q0|variant16B0)
	binary.LittleEndian.PutUint64(b[8:], q1|variant16B1)
	sum := IEEE(0, b)
	binary.LittleEndian.PutUint64(b, q0)
	binary.LittleEndian.PutUint64(b[8:], q1)
	return sum
}

// OPA9B is the same for a 9B packet with a BTH behind its local route header:
// b runs from the header to the pad of the payload and has at least 16 octets.
// SC and the BTH octet with FECN and BECN count as ones. b is altered and
// restored.
func OPA9B(b []byte) uint32 {
	const sc, ecn = 0, 12
	was := [2]byte{b[sc], b[ecn]}
	b[sc] |= 0xf0
	b[ecn] = 0xff
	sum := IEEE(0, b)
	b[sc], b[ecn] = was[0], was[1]
	return sum
}
