package crc

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCRC32CKnownValues(t *testing.T) { // RFC 3720 appendix B.4
	ascending := make([]byte, 32)
	for i := range ascending {
		ascending[i] = byte(i)
	}
	for _, c := range []struct {
		name string
		in   []byte
		wire []byte
	}{
		{"zeros", make([]byte, 32), []byte{0xaa, 0x36, 0x91, 0x8a}},
		{"ones", bytes.Repeat([]byte{0xff}, 32), []byte{0x43, 0xab, 0xa8, 0x62}},
		{"ascending", ascending, []byte{0x4e, 0x79, 0xdd, 0x46}},
	} {
		if got := binary.LittleEndian.AppendUint32(nil, CRC32C(c.in)); !bytes.Equal(got, c.wire) {
			t.Errorf("%s: % x, want % x", c.name, got, c.wire)
		}
	}
}

// Every length up to a long FPDU, at every alignment that matters, as the
// standard library has it.
func TestCRC32CAgreesWithTheStandardLibrary(t *testing.T) {
	p := make([]byte, 2000+8)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(p)
	for n := range 2000 {
		for at := range 8 {
			if b := p[at : at+n]; CRC32C(b) != crc32.Checksum(b, castagnoli) {
				t.Fatalf("%d octets at %d: %08x, want %08x", n, at, CRC32C(b), crc32.Checksum(b, castagnoli))
			}
		}
	}
	for n := 4096; n <= 1<<20; n = n*3 + 5 {
		b := make([]byte, n)
		_, _ = rng.Read(b)
		if CRC32C(b) != crc32.Checksum(b, castagnoli) {
			t.Errorf("%d octets: %08x, want %08x", n, CRC32C(b), crc32.Checksum(b, castagnoli))
		}
	}
}

func BenchmarkCRC32C(b *testing.B) {
	p := make([]byte, 1460)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		CRC32C(p)
	}
}
