package swconf

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"time"
)

// Distribution is how queueing delays are distributed.
type Distribution uint8

// Distributions of queueing delays.
const (
	NoDelay     Distribution = iota
	Fixed                    // always Max
	Uniform                  // between Min and Max
	Exponential              // Min, and on top of it exponentially with the mean Max-Min
	Gaussian                 // Min, and on top of it half a bell with the deviation Max-Min
)

// Delay is what a frame waits in an egress queue at least. A queue keeps the
// order of its frames, so one that waits long holds up those behind it.
type Delay struct {
	Dist     Distribution
	Min, Max time.Duration
}

// ParseDelay reads "0", "250us", "0-500us" (uniform) or "exp:10us" (the mean),
// "exp:5us+10us" (a minimum, and the mean of what comes on top), and the same
// with "gauss:" (the deviation).
func ParseDelay(s string) (d Delay, err error) {
	bad := fmt.Errorf("%q is no queueing delay", s)
	parse := func(low, high string) error {
		var err1, err2 error
		d.Min, err1 = time.ParseDuration(low)
		d.Max, err2 = time.ParseDuration(high)
		return errors.Join(err1, err2)
	}
	if kind, mean, ok := strings.Cut(s, ":"); ok {
		low, extra, least := strings.Cut(mean, "+")
		if !least {
			low, extra = "0", mean
		}
		d.Dist = tailed[kind]
		if parse(low, extra) != nil || d.Dist == NoDelay || d.Min < 0 || d.Max <= 0 {
			return Delay{}, bad
		}
		d.Max += d.Min
		return d, nil
	}
	low, high, ranged := strings.Cut(s, "-")
	if !ranged {
		low, high = "0", s
	}
	if parse(low, high) != nil || d.Min < 0 || d.Max < d.Min {
		return Delay{}, bad
	}
	switch {
	case ranged:
		d.Dist = Uniform
	case d.Max > 0:
		d.Dist = Fixed
	}
	return d, nil
}

// tailed are the distributions that have no largest delay.
var tailed = map[string]Distribution{"exp": Exponential, "gauss": Gaussian}

func (d Delay) String() string {
	switch d.Dist {
	case Fixed:
		return d.Max.String()
	case Uniform:
		return fmt.Sprintf("%v-%v", d.Min, d.Max)
	case Exponential:
		return fmt.Sprintf("exp:%v+%v", d.Min, d.Max-d.Min)
	case Gaussian:
		return fmt.Sprintf("gauss:%v+%v", d.Min, d.Max-d.Min)
	}
	return "0s"
}

// Draw is the next delay. It uses integers only, so that a seed gives the same
// delays on every machine.
func (d Delay) Draw(rng *rand.Rand) time.Duration {
	switch d.Dist {
	case Fixed:
		return d.Max
	case Uniform:
		return d.Min + time.Duration(rng.Int64N(int64(d.Max-d.Min)+1))
	case Exponential:
		whole, fraction := exponential(rng)
		mean := uint64(d.Max - d.Min)
		part, _ := bits.Mul64(mean, fraction)
		return d.Min + time.Duration(whole*mean+part)
	case Gaussian:
		hi, lo := bits.Mul64(uint64(d.Max-d.Min), gaussian(rng))
		return d.Min + time.Duration(hi<<32|lo>>32)
	}
	return 0
}

// gaussian is the size of a normal value in 2^-32 of its deviation: the number
// of ones among 64 random bits, which is one sampled at integers, with the
// gaps filled evenly.
func gaussian(rng *rand.Rand) uint64 {
	const perOne = 1070956497 // 2^32 / sqrt(16+1/12)
	v := int64(bits.OnesCount64(rng.Uint64())-32)<<32 + int64(rng.Uint32()) - 1<<31
	hi, lo := bits.Mul64(uint64(max(v, -v)), perOne)
	return hi<<32 | lo>>32
}

// exponential draws from the exponential distribution of mean 1 by comparisons
// alone (J. von Neumann, Various techniques used in connection with random
// digits, 1951). The fraction is in 2^-64.
func exponential(rng *rand.Rand) (whole, fraction uint64) {
	for {
		first := rng.Uint64()
		odd := true // length of the descending run
		for last := first; ; odd = !odd {
			next := rng.Uint64()
			if next >= last {
				break
			}
			last = next
		}
		if odd {
			return whole, first
		}
		whole++
	}
}
