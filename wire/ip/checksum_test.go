package ip

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
)

// plainSum is RFC 1071's definition, word by word.
func plainSum(b []byte, s uint32) uint16 {
	for len(b) > 1 {
		s += uint32(b[0])<<8 | uint32(b[1])
		s = s>>16 + s&0xffff
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	s = s>>16 + s&0xffff
	return uint16(s>>16 + s)
}

func TestSumEqualsDefinition(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 2048)
	for round := range 4000 {
		for i := range buf {
			buf[i] = byte(rnd.Uint32())
			if round%3 == 0 {
				buf[i] = 0xff // every addition carries
			}
		}
		lo := rnd.IntN(16)
		b := buf[lo : lo+rnd.IntN(len(buf)-16)]
		initial := rnd.Uint32()
		if round%3 == 0 {
			initial = 0xffffffff
		}
		want := plainSum(b, initial>>16+initial&0xffff)
		// 0 and 0xffff are the same number in one's complement.
		if got := Fold(Sum(b, initial)); got%0xffff != want%0xffff {
			t.Fatalf("len %d initial %#x: %#x, want %#x", len(b), initial, got, want)
		}
	}
}

func TestChecksumOfAChecksummedPacketIsZero(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	src, dst := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("fe80::2")
	for n := 2; n < 400; n++ {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		b[0], b[1] = 0, 0
		ps := PseudoSum(src, dst, ProtoTCP, n)
		c := Checksum(b, ps)
		b[0], b[1] = byte(c>>8), byte(c)
		if Checksum(b, ps) != 0 {
			t.Fatalf("length %d: not zero", n)
		}
		b[n-1] ^= 1
		if Checksum(b, ps) == 0 {
			t.Fatalf("length %d: flipped bit went unnoticed", n)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{20, 64, 1460, 65536} {
		p := make([]byte, n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				Checksum(p, 0)
			}
		})
	}
}
