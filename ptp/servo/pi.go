package servo

import (
	"math"

	"tapir/wire/frame"
)

// Constants of the PI servo: scale and exponent by which they follow the
// interval, and the bound on their product with it.
const (
	kpExponent, kiExponent      = -0.3, 0.4
	kpNormMax, kiNormMax        = 0.7, 0.3
	hardwareKp, hardwareKi      = 0.7, 0.3
	softwareKp, softwareKi      = 0.1, 0.001
	estimateScale               = 0.016 // over ki: seconds of frequency estimation
	estimateMost                = 1000  // seconds
	estimateMargin              = 0.001 // samples that come a little early count
	nanosecondsPerSecond        = 1e9
	firstSample, estimating     = 0, 1
	tracking                int = 2
)

type pi struct {
	cfg    Config
	kp, ki float64
	drift  float64
	phase  int // firstSample, estimating, tracking
	offset float64
	local  frame.Stamp
	first  bool // no adjustment was made yet
}

func newPI(cfg Config) *pi {
	p := &pi{cfg: cfg, drift: cfg.Frequency, first: true}
	p.SetInterval(1)
	return p
}

// SetInterval follows the interval: kp = min(Sp T^-0.3, 0.7/T) and
// ki = min(Si T^0.4, 0.3/T).
func (p *pi) SetInterval(seconds float64) {
	if !(seconds > 0) || math.IsInf(seconds, 0) {
		return
	}
	sp, si := hardwareKp, hardwareKi
	if p.cfg.Software {
		sp, si = softwareKp, softwareKi
	}
	p.kp = min(float64(sp*pow(seconds, kpExponent)), kpNormMax/seconds)
	p.ki = min(float64(si*pow(seconds, kiExponent)), kiNormMax/seconds)
	if p.cfg.Kp > 0 {
		p.kp = p.cfg.Kp
	}
	if p.cfg.Ki > 0 {
		p.ki = p.cfg.Ki
	}
}

func (p *pi) Sample(offset float64, local frame.Stamp, weight float64) (float64, State) {
	switch p.phase {
	case firstSample:
		p.offset, p.local, p.phase = offset, local, estimating
		return p.drift, Unlocked
	case estimating:
		return p.estimate(offset, local)
	}
	if p.cfg.Step > 0 && math.Abs(offset) > p.cfg.Step {
		p.phase = firstSample
		return p.drift, Unlocked
	}
	integral := float64(float64(p.ki*offset) * weight)
	ppb := float64(float64(p.kp*offset)*weight) + p.drift + integral
	if bound := clamp(ppb, p.cfg.MaxFrequency); bound != ppb {
		ppb = bound // the integral does not wind up
	} else {
		p.drift += integral
	}
	return ppb, Locked
}

// estimate takes the frequency from the slope between two samples.
func (p *pi) estimate(offset float64, local frame.Stamp) (float64, State) {
	if local <= p.local {
		p.phase = firstSample
		return p.drift, Unlocked
	}
	elapsed := float64(local-p.local) / nanosecondsPerSecond
	if float64(elapsed*(1+estimateMargin)) < min(estimateScale/p.ki, estimateMost) {
		return p.drift, Unlocked
	}
	p.drift += float64((1e9 - p.drift) * ((offset - p.offset) / float64(local-p.local)))
	p.drift = clamp(p.drift, p.cfg.MaxFrequency)
	p.phase = tracking
	state := Locked
	if p.first && p.cfg.FirstStep > 0 && math.Abs(offset) > p.cfg.FirstStep || p.cfg.Step > 0 &&
		math.Abs(offset) > p.cfg.Step {
		state = Jump
	}
	p.first = false
	return p.drift, state
}

func (p *pi) Reset()                   { p.phase = firstSample }
func (p *pi) SetFrequency(ppb float64) { p.drift = clamp(ppb, p.cfg.MaxFrequency) }
func (p *pi) Frequency() float64       { return p.drift }

// pow is x to the power of y for positive x, the same on every machine.
func pow(x, y float64) float64 { return exp(float64(y * log(x))) }

// log is the natural logarithm of a positive number.
func log(x float64) float64 {
	frac, e := math.Frexp(x)
	if frac < math.Sqrt2/2 {
		frac, e = float64(frac*2), e-1
	}
	z := (frac - 1) / (frac + 1)
	zz, sum := float64(z*z), 0.0
	for k := 25.0; k > 0; k -= 2 {
		sum = float64(zz*sum) + 1/k
	}
	return float64(float64(2*z)*sum) + float64(float64(e)*math.Ln2)
}

func exp(x float64) float64 {
	n := math.Floor(x/math.Ln2 + 0.5)
	r := x - float64(n*math.Ln2)
	sum := 1.0
	for k := 18.0; k > 0; k-- {
		sum = 1 + float64(float64(r*sum)/k)
	}
	return math.Ldexp(sum, int(n))
}
