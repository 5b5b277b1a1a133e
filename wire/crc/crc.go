// Package crc holds the cyclic redundancy checks of the protocols above:
// CRC32C (Castagnoli, RFC 3720 appendix B.4), which MPA stores least
// significant octet first (RFC 5044 section 4.4).
package crc

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C is the Castagnoli CRC of b.
func CRC32C(b []byte) uint32 { return Update(0, b) }

// Update is the CRC of what crc is the CRC of, followed by b.
func Update(crc uint32, b []byte) uint32 {
	if folds && len(b) >= foldMin {
		return ^fold(^crc, b)
	}
	return crc32.Update(crc, castagnoli, b)
}

// Copy copies src to dst[at:], which must have room for it, and returns the
// CRC of dst up to the end of the copy. It is that of the octets in dst even
// if src changes meanwhile.
func Copy(dst []byte, at int, src []byte) uint32 {
	end := at + len(src)
	if folds && len(src) >= foldMin {
		return ^foldCopy(^uint32(0), dst[:end], at, src)
	}
	copy(dst[at:end], src)
	return CRC32C(dst[:end])
}
