// Package isn makes initial sequence numbers that nobody outside can guess:
// those of RFC 6528, and SYN cookies (RFC 4987 section 3.6), which are such
// numbers, too.
package isn

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"

	"tapir/wire/frame"
)

// Secret is the key behind the numbers of one engine.
type Secret [32]byte

// Hash is the keyed function F of RFC 6528 section 3 over a 4-tuple; label,
// at most 8 octets, keeps its uses apart.
func (s *Secret) Hash(local, remote netip.AddrPort, label string) uint32 {
	var b [32 + 16 + 2 + 16 + 2 + 8]byte
	copy(b[:], s[:])
	l, r := local.Addr().As16(), remote.Addr().As16()
	copy(b[32:], l[:])
	binary.BigEndian.PutUint16(b[48:], local.Port())
	copy(b[50:], r[:])
	binary.BigEndian.PutUint16(b[66:], remote.Port())
	copy(b[68:], label)
	sum := sha256.Sum256(b[:])
	return binary.LittleEndian.Uint32(sum[:])
}

// Number is the initial sequence number: a clock of 4 microseconds plus F
// (RFC 6528 section 3).
func (s *Secret) Number(local, remote netip.AddrPort, now frame.Time) uint32 {
	return uint32(now/4000) + s.Hash(local, remote, "isn")
}
