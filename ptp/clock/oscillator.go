package clock

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Oscillator describes what a clock is driven by. The zero value is ideal.
// Noise is given by the Allan deviation that it makes, in ppb.
type Oscillator struct {
	PPB          float64       // constant frequency offset
	Aging        float64       // ppb per day
	WhiteFM      float64       // at 1 s; falls with the root of the interval
	FlickerFM    float64       // the same from 0.1 s to 100 s
	RandomWalkFM float64       // at 1 s; rises with the root of the interval
	Temperature  float64       // amplitude in ppb of a slow sine
	Period       time.Duration // of that sine
	Steps        []Step        // changes of temperature, in any order
	Seed         uint64        // chance; equal seeds give equal noise
}

// Step is a lasting change of frequency.
type Step struct {
	After time.Duration // since the clock was made
	PPB   float64
}

// presets are typical parts: a plain crystal, one that is temperature
// compensated, one in an oven, and one without any fault.
var presets = map[string]Oscillator{
	"ideal": {},
	"xo":    {PPB: 37000, WhiteFM: 0.5, FlickerFM: 0.3, RandomWalkFM: 0.2, Temperature: 50, Period: 600 * time.Second},
	"tcxo":  {PPB: 1200, WhiteFM: 0.05, FlickerFM: 0.05, RandomWalkFM: 0.01, Temperature: 5, Period: 600 * time.Second},
	"ocxo": {PPB: 50, WhiteFM: 0.005, FlickerFM: 0.003, RandomWalkFM: 0.0003, Temperature: 0.05,
		Period: 600 * time.Second},
}

// Preset returns the oscillator called xo, tcxo, ocxo or ideal.
func Preset(name string) (Oscillator, error) {
	o, ok := presets[name]
	if !ok {
		return o, fmt.Errorf("oscillator %q: there are xo, tcxo, ocxo and ideal", name)
	}
	return o, nil
}

// grid is the interval over which the frequency is constant.
const grid = 10 * time.Millisecond

const gridSeconds = 0.01

// Flicker noise is the sum of processes that forget with time constants a
// factor of eight apart. Stage i is drawn anew every hold[i] steps: the slow
// ones need it seldom.
var hold = [...]uint64{1, 1, 4, 32, 256, 2048}

const (
	flickerFirst = 1.5 * gridSeconds // the shortest time constant
	// flickerShare is a stage's variance: (ln 8)/(2 ln 2), see Barnes and
	// Jarvis, NBS Technical Note 604.
	flickerShare = 1.5
)

// Streams of chance of one clock.
const (
	streamWhite = iota
	streamWalk
	streamJitter
	streamFlicker // and the numbers behind it
)

// maxRate bounds the frequency of an oscillator: 10 % either way, as clocks in
// tests of servos have it.
const maxRate = 1e8

// oscillator walks along the grid. It holds no pointer but to what never
// changes, so that a copy can look ahead.
type oscillator struct {
	step    uint64  // of the grid, from 0
	rate    float64 // in this step, ppb
	walk    float64
	slow    float64 // constant, aging, temperature; renewed every slowSteps
	flicker [len(hold)]float64

	static              bool // the rate never changes
	white, walkStep     float64
	forget, flickerDraw [len(hold)]float64
	noise, walks        stream
	flickers            [len(hold)]stream
	model               *Oscillator
	hasFlicker          bool
}

const slowSteps = 8

func newOscillator(o Oscillator) (oscillator, error) {
	for _, v := range []float64{o.PPB, o.Aging, o.WhiteFM, o.FlickerFM, o.RandomWalkFM, o.Temperature} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return oscillator{}, fmt.Errorf("oscillator: %v is no frequency", v)
		}
	}
	if math.Abs(o.PPB) > maxRate {
		return oscillator{}, fmt.Errorf("oscillator: %v ppb is beyond %v", o.PPB, float64(maxRate))
	}
	if o.WhiteFM < 0 || o.FlickerFM < 0 || o.RandomWalkFM < 0 {
		return oscillator{}, fmt.Errorf("oscillator: an Allan deviation is not negative")
	}
	if o.Temperature != 0 && o.Period <= 0 {
		return oscillator{}, fmt.Errorf("oscillator: a sine of temperature needs a period")
	}
	o.Steps = slices.Clone(o.Steps)
	w := oscillator{
		model:      &o,
		white:      o.WhiteFM / math.Sqrt(gridSeconds),
		walkStep:   float64(o.RandomWalkFM * math.Sqrt(3*gridSeconds)),
		noise:      newStream(o.Seed, streamWhite),
		walks:      newStream(o.Seed, streamWalk),
		hasFlicker: o.FlickerFM > 0,
		static: o.Aging == 0 && o.WhiteFM == 0 && o.FlickerFM == 0 && o.RandomWalkFM == 0 &&
			o.Temperature == 0 && len(o.Steps) == 0,
	}
	sd, constant := float64(o.FlickerFM*math.Sqrt(flickerShare)), flickerFirst
	for i := range hold {
		w.flickers[i] = newStream(o.Seed, streamFlicker+i)
		w.forget[i] = exp(-float64(float64(hold[i])*gridSeconds) / constant)
		w.flickerDraw[i] = float64(sd * math.Sqrt(1-float64(w.forget[i]*w.forget[i])))
		w.flicker[i] = float64(sd * w.flickers[i].gauss(0)) // as if it had run for ever
		constant *= 8
	}
	w.slow = w.drift()
	w.sum()
	return w, nil
}

// exp is the exponential function for arguments that are not positive.
func exp(x float64) float64 {
	n := 0
	for x < -0.5 {
		x, n = x/2, n+1
	}
	sum := 1.0
	for k := 14.0; k > 0; k-- {
		sum = 1 + float64(float64(x*sum)/k)
	}
	for ; n > 0; n-- {
		sum = float64(sum * sum)
	}
	return sum
}

// next goes on to the next step of the grid.
func (w *oscillator) next() {
	w.step++
	if w.step%slowSteps == 0 {
		w.slow = w.drift()
	}
	if w.walkStep > 0 {
		w.walk += float64(w.walkStep * w.walks.gauss(w.step))
	}
	if w.hasFlicker {
		for i, every := range hold {
			if w.step%every == 0 {
				w.flicker[i] = float64(w.forget[i]*w.flicker[i]) +
					float64(w.flickerDraw[i]*w.flickers[i].gauss(w.step/every))
			}
		}
	}
	w.sum()
}

func (w *oscillator) sum() {
	r := w.slow + w.walk
	if w.white > 0 {
		r += float64(w.white * w.noise.gauss(w.step))
	}
	if w.hasFlicker {
		for _, f := range w.flicker {
			r += f
		}
	}
	w.rate = max(-maxRate, min(maxRate, r))
}

// drift is the part of the rate that needs no chance.
func (w *oscillator) drift() float64 {
	o := w.model
	t := float64(float64(w.step) * gridSeconds)
	r := o.PPB + float64(o.Aging*t)/86400
	if o.Temperature != 0 {
		r += float64(o.Temperature * sine(t/o.Period.Seconds()))
	}
	for _, s := range o.Steps {
		if t >= s.After.Seconds() {
			r += s.PPB
		}
	}
	return r
}
