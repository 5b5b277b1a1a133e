package servo

import (
	"math"

	"tapir/wire/frame"
)

// The linear regression servo fits a line through the offsets that the clock
// would have had without corrections. Windows of 4 to 64 samples compete:
// the one with the best recent predictions is used.
const (
	regressMin, regressMax = 2, 6 // powers of two
	errorSmoothing         = 0.02
	maxError               = 1e18
)

type point struct{ x, y float64 } // seconds, ns, from the newest sample

type linreg struct {
	cfg      Config
	interval float64
	points   [1 << regressMax]point
	n, next  int
	origin   frame.Stamp // of the x axis: the newest sample
	steered  float64     // ns that corrections have taken away since the first
	applied  float64     // ppb now in force
	freq     float64
	first    bool
	errors   [regressMax + 1]float64 // smoothed squared errors, 0 when there are none
	fits     [regressMax + 1]line
}

type line struct {
	slope, intercept float64 // ns per second, ns at the newest sample
	ok               bool
}

func newLinReg(cfg Config) *linreg {
	return &linreg{cfg: cfg, interval: 1, applied: cfg.Frequency, freq: cfg.Frequency, first: true}
}

func (l *linreg) SetInterval(seconds float64) {
	if seconds > 0 && !math.IsInf(seconds, 0) {
		l.interval = seconds
	}
}

func (l *linreg) Sample(offset float64, local frame.Stamp, _ float64) (float64, State) {
	elapsed := 0.0
	if l.n > 0 {
		if elapsed = float64(local-l.origin) / nanosecondsPerSecond; elapsed <= 0 {
			l.Reset()
			elapsed = 0
		}
	}
	l.add(offset, local, elapsed)
	if l.n < 1<<regressMin {
		return l.applied, Unlocked
	}
	best := l.fit()
	l.freq = clamp(best.slope, l.cfg.MaxFrequency)
	now := best.intercept - l.steered // smoothed offset at this sample
	state := l.decide(offset)
	if state == Unlocked {
		l.Reset()
		return l.applied, Unlocked
	}
	if state == Jump {
		l.shift(-offset)
		l.origin -= frame.Stamp(offset)
		now -= offset
	}
	// What is left of the offset shall be gone with the next sample, but not
	// within less than a second: clocks in a row would pass on more noise than
	// they get. The line is of the free clock, so that this does not feed back.
	l.applied = clamp(l.freq+now/max(l.interval, 1), l.cfg.MaxFrequency)
	return l.applied, state
}

// decide tells whether the clock is to be stepped, and when a later step
// needs all to be measured anew.
func (l *linreg) decide(offset float64) State {
	size := math.Abs(offset)
	switch first := l.first; {
	case first && l.cfg.FirstStep > 0 && size > l.cfg.FirstStep, first && l.cfg.Step > 0 && size > l.cfg.Step:
		l.first = false
		return Jump
	case l.cfg.Step > 0 && size > l.cfg.Step:
		l.first = true
		return Unlocked
	}
	l.first = false
	return Locked
}

// add puts the sample at the origin: what the clock would show had it never
// been corrected.
func (l *linreg) add(offset float64, local frame.Stamp, elapsed float64) {
	l.steered += float64(l.applied * elapsed)
	free := offset + l.steered
	for size := regressMin; size <= regressMax; size++ {
		if f := l.fits[size]; f.ok {
			miss := free - (f.intercept + float64(f.slope*elapsed))
			l.smooth(size, float64(miss*miss))
		}
	}
	for i := range l.n {
		l.points[i].x -= elapsed
	}
	l.points[l.next] = point{0, free}
	l.next = (l.next + 1) % len(l.points)
	l.n = min(l.n+1, len(l.points))
	l.origin = local
}

func (l *linreg) smooth(size int, squared float64) {
	squared = min(squared, maxError)
	if l.errors[size] == 0 {
		l.errors[size] = squared
		return
	}
	l.errors[size] += float64(errorSmoothing * (squared - l.errors[size]))
}

// fit returns the line of the window that predicts best.
func (l *linreg) fit() (best line) {
	bestSize := -1
	for size := regressMin; size <= regressMax && 1<<size <= l.n; size++ {
		l.fits[size] = l.regress(1 << size)
		if bestSize < 0 || l.errors[size] > 0 && l.errors[size] < l.errors[bestSize] {
			bestSize = size
		}
	}
	return l.fits[bestSize]
}

// regress fits a line through the last n samples by least squares.
func (l *linreg) regress(n int) line {
	var sx, sy, sxx, sxy float64
	base := l.points[(l.next-1+len(l.points))%len(l.points)].y // keeps the sums small
	for i := 1; i <= n; i++ {
		p := l.points[(l.next-i+len(l.points))%len(l.points)]
		y := p.y - base
		sx, sy = sx+p.x, sy+y
		sxx, sxy = sxx+float64(p.x*p.x), sxy+float64(p.x*y)
	}
	count := float64(n)
	det := float64(count*sxx) - float64(sx*sx)
	if det <= 0 {
		return line{}
	}
	slope := (float64(count*sxy) - float64(sx*sy)) / det
	return line{slope, base + (sy-float64(slope*sx))/count, true}
}

// shift moves all samples: the clock was stepped.
func (l *linreg) shift(by float64) {
	for i := range l.n {
		l.points[i].y += by
	}
	for i := range l.fits {
		l.fits[i].intercept += by
	}
}

func (l *linreg) Reset() {
	l.n, l.next, l.steered = 0, 0, 0
	l.errors = [regressMax + 1]float64{}
	l.fits = [regressMax + 1]line{}
}

// SetFrequency starts from a correction that somebody else has made.
func (l *linreg) SetFrequency(ppb float64) {
	l.freq = clamp(ppb, l.cfg.MaxFrequency)
	l.applied = l.freq
}

func (l *linreg) Frequency() float64 { return l.freq }
