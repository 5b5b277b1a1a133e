// Package crc holds the cyclic redundancy checks of the protocols above:
// CRC32C (Castagnoli, RFC 3720 appendix B.4) for MPA and CRC32 (IEEE 802.3).
package crc

import (
	"encoding/binary"
	"hash/crc32"
)

// Size is the length in octets of a CRC on the wire.
const Size = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C is the Castagnoli CRC of b.
func CRC32C(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Update32C is the Castagnoli CRC of the bytes behind crc followed by b; crc
// is 0 for no bytes.
func Update32C(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// CRC32 is the IEEE 802.3 CRC of b.
func CRC32(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// PutMPA stores a CRC32C at the front of b in the octet order of MPA (RFC
// 5044 section 4.4, errata): least significant octet first.
func PutMPA(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// MPA reads a CRC32C stored by PutMPA.
func MPA(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
