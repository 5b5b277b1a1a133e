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

// Copy leaves alone what lies in front of the copy and behind it.
func TestCopyIsACopyAndItsCRC(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{2})
	src, dst, want := make([]byte, 2000), make([]byte, 2100), make([]byte, 2100)
	_, _ = rng.Read(src)
	for n := range len(src) + 1 {
		for _, at := range []int{0, 1, 8, 16, 18, 31, 64} {
			_, _ = rng.Read(dst)
			copy(want, dst)
			end := at + copy(want[at:], src[:n])
			if got := Copy(dst, at, src[:n]); got != crc32.Checksum(want[:end], castagnoli) {
				t.Fatalf("%d octets behind %d: %08x, want %08x", n, at, got, crc32.Checksum(want[:end], castagnoli))
			}
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d octets behind %d: not a copy, or more than that", n, at)
			}
		}
	}
}

func TestUpdateContinues(t *testing.T) {
	p := make([]byte, 1500)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(p)
	for cut := range len(p) {
		if got := Update(CRC32C(p[:cut]), p[cut:]); got != CRC32C(p) {
			t.Fatalf("cut at %d: %08x, want %08x", cut, got, CRC32C(p))
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

func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 1444), make([]byte, 1460)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		Copy(dst, 16, src)
	}
}
