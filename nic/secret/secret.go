// Package secret is what others must not guess of a NIC: the keys behind its
// STags (RFC 5042 section 8.1.1), initial sequence numbers and ports (RFC
// 6528, RFC 6056), packet identifiers and hashes. It draws no random numbers
// of its own: who makes a NIC brings a random root, or one that follows from a
// seed, which tests and virtual time want.
package secret

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// Secret is a key of 256 bits.
type Secret [32]byte

// FromSeed is the root of the NIC of that name. Who knows the seed knows it.
func FromSeed(seed uint64, name string) Secret {
	var root Secret
	binary.BigEndian.PutUint64(root[:], seed)
	return root.For(name)
}

// For is the key for one use. It tells nothing of the root or of other keys.
func (s Secret) For(use string) Secret { return sha256.Sum256(append(s[:], use...)) }

// Source draws numbers that follow from a key.
type Source interface{ Uint64() uint64 }

// Source is the ChaCha8 generator of the key.
func (s Secret) Source() Source { return rand.NewChaCha8(s) }

// Fill fills b with what the generator makes.
func (s Secret) Fill(b []byte) { _, _ = rand.NewChaCha8(s).Read(b) }
