package crc

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// Every length up to a long packet, at several alignments, as the standard library has it, by
// itself and with a copy.
func TestIEEEAgreesWithTheStandardLibrary(t *testing.T) {
	p, dst := make([]byte, 4400+8), make([]byte, 4400+8)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(p)
	for n := range 4400 {
		for at := range 3 {
			b, start := p[at:at+n], uint32(n*at)
			want := crc32.Update(start, crc32.IEEETable, b)
			if got := IEEE(start, b); got != want {
				t.Fatalf("%d octets at %d: %08x, want %08x", n, at, got, want)
			}
			clear(dst)
			if got := IEEECopy(start, dst[at:at+n], b); got != want {
				t.Fatalf("%d octets at %d copied: %08x, want %08x", n, at, got, want)
			}
			if !bytes.Equal(dst[at:at+n], b) || dst[at+n] != 0 {
				t.Fatalf("%d octets at %d: not a copy, or more than that", n, at)
			}
		}
	}
}

func BenchmarkIEEE(b *testing.B) {
	p := make([]byte, 4096)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		IEEE(0, p)
	}
}

func BenchmarkIEEECopy(b *testing.B) {
	src, dst := make([]byte, 4096), make([]byte, 8192)[54:][:4096]
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		IEEECopy(0, dst, src)
	}
}

func BenchmarkIEEEOfTheStandardLibrary(b *testing.B) {
	p := make([]byte, 4096)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		crc32.ChecksumIEEE(p)
	}
}
