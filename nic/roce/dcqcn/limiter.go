package dcqcn

import (
	"cmp"
	"math"
	"math/bits"
	"time"

	"tapir/wire/frame"
)

const (
	// burst is how long a frame takes at most: a super-frame of a slow queue pair is shorter.
	burst = 50 * time.Microsecond
	// lateness is for how long a queue pair makes up whose turn came late.
	lateness = 100 * time.Microsecond
)

// Limiter paces the data of one queue pair at the rate of its Controller.
type Limiter struct {
	Controller
	capped bool       // the rate never exceeds that of Params.MaxRate
	free   frame.Time // when the next frame may leave
	rate   uint64     // by which free was computed
	paces  bool       // the rate is below that of the link
	late   bool       // somebody was refused, whose frame has not left
	armed  bool       // somebody waits for Deadline
}

// WithDefaults returns p with the defaults in the place of zeros.
func (p Params) WithDefaults() Params {
	d := &Defaults
	p.CNPTimeout, p.CNPDSCP = cmp.Or(p.CNPTimeout, d.CNPTimeout), cmp.Or(p.CNPDSCP, d.CNPDSCP)
	p.CNPPriority, p.ByteCount = cmp.Or(p.CNPPriority, d.CNPPriority), cmp.Or(p.ByteCount, d.ByteCount)
	p.RAI, p.RHAI, p.G = cmp.Or(p.RAI, d.RAI), cmp.Or(p.RHAI, d.RHAI), cmp.Or(p.G, d.G)
	p.K, p.Timeout = cmp.Or(p.K, d.K), cmp.Or(p.Timeout, d.Timeout)
	return p
}

// NewLimiters makes the limiters of an engine, which share p.
func NewLimiters(p *Params) []*Limiter {
	list := make([]*Limiter, Limiters)
	for i := range list {
		list[i] = &Limiter{Controller: Algorithms[p.Algorithm].New(p), capped: p.MaxRate > 0}
	}
	return list
}

// Start resets the limiter and its controller. line is the rate without congestion, in bit/s.
func (l *Limiter) Start(line uint64) {
	*l = Limiter{Controller: l.Controller, capped: l.capped, rate: line}
	l.Controller.Start(line)
}

// Holds tells whether the next frame has to wait; then Deadline says until when.
func (l *Limiter) Holds(now frame.Time) bool {
	l.Expire(now)
	s := l.State()
	if l.paces = s.Limited || l.capped; !l.paces {
		l.late, l.armed, l.free = false, false, 0
		return false
	}
	if s.Rate != l.rate && l.free > now { // what is left of the last frame takes another time
		hi, lo := bits.Mul64(uint64(l.free-now), l.rate)
		rest, _ := bits.Div64(hi, lo, s.Rate) // a frame of 64 KiB at MinRate takes 53 ms
		l.free = now.Add(time.Duration(rest))
	}
	l.rate = s.Rate
	if l.free <= now {
		return false
	}
	l.late, l.armed = true, true
	return true
}

// Spend accounts for a frame that leaves, with its octets on the wire.
func (l *Limiter) Spend(octets int, now frame.Time) {
	if l.Sent(octets, now); !l.paces {
		return
	}
	from := now
	if l.late {
		from = now.Add(-lateness)
	}
	l.free = max(l.free, from).Add(time.Duration(uint64(octets) * 8e9 / l.rate))
	l.late = l.late && l.free <= now
}

// Deadline is when a frame that Holds has refused may leave, or its rate changes; frame.Never:
// none was, or Woken was called since.
func (l *Limiter) Deadline() frame.Time {
	if !l.armed {
		return frame.Never
	}
	return min(l.free, l.Next())
}

// Woken tells that the deadline has come.
func (l *Limiter) Woken() { l.armed = false }

// Burst is how many octets a frame has at most.
func (l *Limiter) Burst() int {
	s := l.State()
	if !s.Limited && !l.capped {
		return math.MaxInt
	}
	return int(s.Rate / uint64(8*time.Second/burst))
}
