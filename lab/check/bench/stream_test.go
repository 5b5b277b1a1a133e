package main

import "testing"

// TestStreamIsCompared looks at the pattern from every offset of some words,
// around its end, too.
func TestStreamIsCompared(t *testing.T) {
	pattern := newPattern()
	for at := range 64 {
		off := uint64(patternOctets - 32 + at)
		var piece []byte
		for i := range uint64(20) {
			piece = append(piece, pattern[(off+i)%patternOctets])
		}
		for _, n := range []int{1, 7, 8, 20} {
			if !asExpected(piece[:n], off) || asExpected(piece[:n], off+1) && n > 7 {
				t.Fatalf("%d octets at %d", n, off)
			}
		}
		for i := range 8 {
			piece[i] ^= 1
			if asExpected(piece, off) {
				t.Fatalf("octet %d of the piece at %d is wrong, unnoticed", i, off)
			}
			piece[i] ^= 1
		}
	}
}
