package clock

import (
	"math"
	"math/bits"
)

// mix is the finalizer of splitmix64: a bijection that leaves no trace of its
// argument's order.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// golden spreads consecutive counters over all 64 bits.
const golden = 0x9e3779b97f4a7c15

// stream is one source of chance: its n-th value depends on the key and n
// alone, so that who asks, and how often, changes nothing.
type stream uint64

func newStream(seed uint64, number int) stream {
	return stream(mix(mix(seed+golden) + uint64(number+1)*golden))
}

func (s stream) bits(n uint64) uint64 { return mix(uint64(s) + n*golden) }

// gauss is a draw of mean 0 and variance 1: the number of ones among 64
// random bits, whose distribution is a normal one sampled at integers, plus a
// uniform value that fills the gaps. It ends at eight standard deviations.
func (s stream) gauss(n uint64) float64 {
	b := s.bits(n)
	ones := bits.OnesCount64(b) - 32
	fill := float64(mix(b)>>11) * (1.0 / (1 << 53))
	return float64((float64(ones) + fill - 0.5) * 0.24935149047701483) // 1/sqrt(16+1/12)
}

// sine is the sine of a whole turn's fraction x, the same on every machine.
func sine(x float64) float64 {
	x -= math.Floor(x)
	switch { // fold into the first quarter
	case x > 0.75:
		x -= 1
	case x > 0.25:
		x = 0.5 - x
	}
	x = float64(x * (2 * math.Pi))
	xx := float64(x * x)
	sum := 1.0
	for _, k := range [...]float64{156, 110, 72, 42, 20, 6} {
		sum = 1 - float64(float64(xx*sum)/k)
	}
	return float64(x * sum)
}
