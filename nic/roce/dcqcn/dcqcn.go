// Package dcqcn is the reaction point of RoCE's congestion control: how fast a queue pair
// may send after congestion notification packets (CNPs). DCQCN is the one of "Congestion
// Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), whose sections are named here;
// a Controller of another kind takes its place by a line in Algorithms.
//
// Nothing here has a clock: times are those that callers name. There are no floats, so that
// equal seeds give equal packets on every machine.
package dcqcn

import (
	"math/bits"
	"time"

	"tapir/wire/frame"
)

// Params are the parameters of an engine, with the names of the FastLinQ driver core. What
// is 0 has the default of Defaults.
type Params struct {
	Enable bool // reserves limiters, notifies of congestion and reacts to it
	// NoNotification: no CNPs are sent. NoReaction: those that come change nothing.
	NoNotification, NoReaction bool
	Algorithm                  Algorithm

	CNPTimeout  int   // µs between CNPs of a queue pair
	CNPDSCP     uint8 // of CNPs
	CNPPriority uint8 // of CNPs with a VLAN tag

	ByteCount int // octets between increases of the rate (B of the paper)
	MaxRate   int // Mb/s that a queue pair sends at most; 0: the speed of the link
	RAI, RHAI int // Mb/s of additive and of hyper increase
	G         int // gain of alpha, in parts of 65536
	K         int // µs between updates of alpha
	Timeout   int // µs between increases of the rate (T of the paper)
}

// Defaults are the parameters of the paper at 40 Gb/s; DSCP and priority of CNPs are those
// that vendors use.
var Defaults = Params{CNPTimeout: 50, CNPDSCP: 48, CNPPriority: 6, ByteCount: 10_000_000, RAI: 40, RHAI: 400,
	G: 256, K: 55, Timeout: 55}

// Limiters is how many queue pairs of a function can have one at a time; each further queue
// pair sends without.
const Limiters = 64

// MinRate is the least rate, in bit/s.
const MinRate = 10_000_000

// Controller decides how fast one queue pair sends. Rates are in bit/s.
type Controller interface {
	// Start resets the controller. line is the rate without congestion, which no rate exceeds.
	Start(line uint64)
	// CNP takes a congestion notification packet.
	CNP(now frame.Time)
	// Sent takes in that octets were sent.
	Sent(octets int, now frame.Time)
	// Expire runs the timers that are due.
	Expire(now frame.Time)
	// Next is when a timer is due; frame.Never: none runs.
	Next() frame.Time
	// State is the state now.
	State() State
}

// State describes a Controller.
type State struct {
	Rate, Target uint64 // bit/s; Target is where Rate recovers to
	Alpha        uint32 // estimate of congestion, in millionths
	Limited      bool   // Rate is below that of the line
}

// Algorithm is a kind of Controller.
type Algorithm uint8

// The kinds.
const (
	DCQCN Algorithm = iota
	AIMD            // halves the rate at a CNP, adds RAI each Timeout
)

// Algorithms are all kinds: their names as settings have them, and how one is made.
var Algorithms = []struct {
	Name string
	New  func(p *Params) Controller
}{
	DCQCN: {"dcqcn", func(p *Params) Controller { return &reaction{p: p} }},
	AIMD:  {"aimd", func(p *Params) Controller { return &aimd{p: p} }},
}

// one is 1 as a fraction of 32 bits; recovery is F of the paper.
const (
	one      = 1 << 32
	recovery = 5
	mega     = 1_000_000
)

// reaction is the reaction point of DCQCN (section 3.1 and figure 7).
type reaction struct {
	p                  *Params
	line, rate, target uint64
	alpha              uint64     // of one
	alphaAt            frame.Time // of its last update
	timer              frame.Time // when the rate is increased next
	octets             int        // since the byte counter was increased last
	times, counts      uint64     // increases by the timer and the byte counter since the last CNP
	begun              bool       // there was a CNP
	limited            bool
}

// Start implements Controller.
func (r *reaction) Start(line uint64) {
	*r = reaction{p: r.p, line: line, rate: line, target: line, alpha: one}
}

// CNP implements Controller: equations 1 of section 3.1.
func (r *reaction) CNP(now frame.Time) {
	r.Expire(now)
	r.decay(now)
	r.target = r.rate
	hi, lo := bits.Mul64(r.rate, 2*one-r.alpha)
	r.rate = max(min(MinRate, r.line), hi<<31|lo>>33)
	r.alpha += (one - r.alpha) * uint64(r.p.G) >> 16
	r.alphaAt, r.timer = now, now.Add(micros(r.p.Timeout))
	r.octets, r.times, r.counts, r.begun, r.limited = 0, 0, 0, true, true
}

// decay updates alpha for each period without a CNP: equation 2.
func (r *reaction) decay(now frame.Time) {
	if !r.begun {
		return
	}
	period := micros(r.p.K)
	n := now.Sub(r.alphaAt) / period
	r.alphaAt = r.alphaAt.Add(n * period)
	for f := uint64(1<<16-r.p.G) << 16; n > 0; n >>= 1 {
		if n&1 != 0 {
			r.alpha = fraction(r.alpha, f)
		}
		f = fraction(f, f)
	}
}

// fraction is a times b, of one.
func fraction(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi<<32 | lo>>32
}

// Sent implements Controller.
func (r *reaction) Sent(octets int, now frame.Time) {
	if !r.limited {
		return
	}
	r.Expire(now)
	for r.octets += octets; r.octets >= r.p.ByteCount; r.octets -= r.p.ByteCount {
		r.counts++
		r.increase()
	}
}

// Expire implements Controller.
func (r *reaction) Expire(now frame.Time) {
	if !r.limited || r.timer > now {
		return
	}
	r.decay(now)
	for r.limited && r.timer <= now {
		r.timer = r.timer.Add(micros(r.p.Timeout))
		r.times++
		r.increase()
	}
}

// increase is a step of fast recovery, hyper or additive increase: equations 3 and 4.
func (r *reaction) increase() {
	switch least := min(r.times, r.counts); {
	case max(r.times, r.counts) <= recovery:
	case least > recovery:
		r.target += (least - recovery) * uint64(r.p.RHAI) * mega
	default:
		r.target += uint64(r.p.RAI) * mega
	}
	r.target = min(r.target, r.line)
	r.rate = min((r.target+r.rate+1)/2, r.line)
	r.limited = r.rate < r.line
}

// Next implements Controller.
func (r *reaction) Next() frame.Time {
	if !r.limited {
		return frame.Never
	}
	return r.timer
}

// State implements Controller.
func (r *reaction) State() State {
	return State{r.rate, r.target, uint32(r.alpha * mega >> 32), r.limited}
}

// aimd halves the rate at a CNP and increases it with time alone.
type aimd struct {
	p          *Params
	line, rate uint64
	timer      frame.Time
}

// Start implements Controller.
func (a *aimd) Start(line uint64) { *a = aimd{p: a.p, line: line, rate: line} }

// CNP implements Controller.
func (a *aimd) CNP(now frame.Time) {
	a.Expire(now)
	a.rate = max(min(MinRate, a.line), a.rate/2)
	a.timer = now.Add(micros(a.p.Timeout))
}

// Sent implements Controller.
func (a *aimd) Sent(int, frame.Time) {}

// Expire implements Controller.
func (a *aimd) Expire(now frame.Time) {
	for a.rate < a.line && a.timer <= now {
		a.timer = a.timer.Add(micros(a.p.Timeout))
		a.rate = min(a.line, a.rate+uint64(a.p.RAI)*mega)
	}
}

// Next implements Controller.
func (a *aimd) Next() frame.Time {
	if a.rate == a.line {
		return frame.Never
	}
	return a.timer
}

// State implements Controller.
func (a *aimd) State() State { return State{Rate: a.rate, Target: a.line, Limited: a.rate < a.line} }

func micros(n int) time.Duration { return time.Duration(n) * time.Microsecond }
