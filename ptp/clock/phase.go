package clock

import (
	"math/bits"

	"tapir/wire/frame"
)

// rate is a frequency offset in units of 2^-62.
type rate int64

const rateOne = 1 << 62

// ppbRate is the rate of an oscillator that is off by ppb.
func ppbRate(ppb float64) rate { return rate(ppb * (rateOne / 1e9)) }

// ratio is the rate num/den; the quotient must be below 2.
func ratio(num int64, den uint64) rate {
	n := uint64(num)
	if num < 0 {
		n = -n
	}
	hi, lo := bits.Mul64(n, rateOne)
	lo, carry := bits.Add64(lo, den/2, 0) // to the nearest
	q, _ := bits.Div64(hi+carry, lo, den)
	if num < 0 {
		return -rate(q)
	}
	return rate(q)
}

// times returns what remains of (1+a)(1+b) without the one.
func (a rate) times(b rate) rate {
	hi, lo := mulSigned(int64(a), int64(b))
	return a + b + rate(hi<<2|int64(lo>>62))
}

// mulSigned is the 128-bit product of a and b in two's complement.
func mulSigned(a, b int64) (hi int64, lo uint64) {
	h, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(h) - a>>63&b - b>>63&a, lo
}

// Exact is a clock's reading before it is quantized.
type Exact struct {
	NS   int64  // nanoseconds
	Frac uint32 // and 2^-32 of them
}

// Sub returns e-f in nanoseconds.
func (e Exact) Sub(f Exact) float64 {
	return float64(e.NS-f.NS) + float64((float64(e.Frac)-float64(f.Frac))*(1.0/(1<<32)))
}

// segment is a span of engine time with one frequency.
type segment struct {
	start  frame.Time
	count  Exact // the counter at start
	rate   rate
	offset int64 // from the counter to what the clock shows
}

// at is the counter at engine time t, which may lie outside the segment.
func (s *segment) at(t frame.Time) Exact {
	dt := int64(t - s.start)
	hi, lo := mulSigned(dt, int64(s.rate))
	frac, carry := bits.Add32(s.count.Frac, uint32(lo>>30), 0)
	return Exact{s.count.NS + dt + (hi<<2 | int64(lo>>62)) + int64(carry), frac}
}
