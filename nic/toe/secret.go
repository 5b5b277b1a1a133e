package toe

import (
	"crypto/sha256"
	"encoding/binary"

	"tapir/wire/frame"
)

// newSecret stretches the seed to the key of hash.
func newSecret(seed uint64) [32]byte {
	var b [8 + 9]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	copy(b[8:], "tapir toe")
	return sha256.Sum256(b[:])
}

// hash is the keyed function F of RFC 6528 section 3 over a 4-tuple; label
// keeps its uses apart.
func (e *Engine) hash(t tuple, label string) uint32 {
	var b [32 + 16 + 2 + 16 + 2 + 8]byte
	copy(b[:], e.secret[:])
	l, r := t.local.Addr().As16(), t.remote.Addr().As16()
	copy(b[32:], l[:])
	binary.BigEndian.PutUint16(b[48:], t.local.Port())
	copy(b[50:], r[:])
	binary.BigEndian.PutUint16(b[66:], t.remote.Port())
	copy(b[68:], label)
	sum := sha256.Sum256(b[:])
	return binary.LittleEndian.Uint32(sum[:])
}

// isn is the initial sequence number: a clock of 4 microseconds plus F
// (RFC 6528 section 3).
func (e *Engine) isn(t tuple, now frame.Time) uint32 {
	return uint32(now/4000) + e.hash(t, "isn")
}
