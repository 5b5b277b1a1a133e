// Package crc holds the cyclic redundancy checks of the protocols above:
// CRC32C (Castagnoli, RFC 3720 appendix B.4), which MPA stores least
// significant octet first (RFC 5044 section 4.4).
package crc

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C is the Castagnoli CRC of b.
func CRC32C(b []byte) uint32 {
	if len(b) >= foldMin && folds {
		return ^fold(^uint32(0), b)
	}
	return crc32.Checksum(b, castagnoli)
}
