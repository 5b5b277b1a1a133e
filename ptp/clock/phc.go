// Package clock is the hardware clock of a NIC: an oscillator with its
// faults, and the counter that it drives, which can be steered, set, read and
// compared as a PTP hardware clock (PHC) of Linux can.
//
// What a clock shows is a function of engine time and of the operations that
// changed it. Noise is drawn by the number of its step on a grid of 10 ms, the
// counter is kept in units of 2^-32 ns, and a reading leaves nothing behind:
// extra readings never change a later one. Readings walk along the grid, at
// about 20 ns for each of its steps since the last.
//
// A clock belongs to one thread, like the NIC that it is part of.
package clock

import (
	"errors"
	"fmt"
	"math"
	"time"

	"tapir/wire/frame"
)

// ErrRange is returned for a frequency beyond the clock's limit and for a
// time that no Stamp can hold.
var ErrRange = errors.New("beyond the clock's range")

// Config describes a clock.
type Config struct {
	Oscillator Oscillator
	Start      frame.Time    // the engine time at which the clock begins to run
	Initial    frame.Stamp   // what it shows then
	Quantum    time.Duration // stamps are multiples of it on the counter; 0 is 1 ns
	Jitter     float64       // standard deviation of stamps in ns
	MaxAdj     int64         // largest correction in ppb; 0 is the device's
	// DriftRegister makes corrections take the values that the device's
	// register can hold.
	DriftRegister bool
	// ReadTime is what GetTimeX takes from one system stamp to the other.
	ReadTime time.Duration
}

// history is the number of past segments that late readings find: frames
// whose stamps are asked for after the clock was steered.
const history = 64

// PHC is a hardware clock.
type PHC struct {
	cfg    Config
	osc    oscillator
	adj    rate  // the correction in force
	scaled int64 // as it was asked for, in scaled ppm

	until frame.Time // end of the newest segment
	last  uint       // index of the newest segment
	segs  [history]segment

	jitter     stream
	drift      DriftRegister
	driftReset bool

	ext *extEvents
}

var _ frame.Clock = (*PHC)(nil)

// New returns a running clock.
func New(cfg Config) (*PHC, error) {
	osc, err := newOscillator(cfg.Oscillator)
	if err != nil {
		return nil, err
	}
	if cfg.Quantum == 0 {
		cfg.Quantum = 1
	}
	if cfg.MaxAdj == 0 {
		cfg.MaxAdj = MaxAdj
	}
	switch {
	case cfg.Quantum < 0 || cfg.Quantum > time.Second:
		return nil, fmt.Errorf("clock: a quantum of %v", cfg.Quantum)
	case !(cfg.Jitter >= 0 && cfg.Jitter <= 1e9):
		return nil, fmt.Errorf("clock: a jitter of %v ns", cfg.Jitter)
	case cfg.MaxAdj < 0 || cfg.MaxAdj > 900_000_000:
		return nil, fmt.Errorf("clock: corrections of up to %d ppb", cfg.MaxAdj)
	case cfg.DriftRegister && cfg.MaxAdj > MaxAdj:
		return nil, fmt.Errorf("clock: the drift register corrects %d ppb at most", MaxAdj)
	case cfg.ReadTime < 0:
		return nil, fmt.Errorf("clock: a read time of %v", cfg.ReadTime)
	}
	p := &PHC{cfg: cfg, osc: osc, drift: Drift(0), jitter: newStream(cfg.Oscillator.Seed, streamJitter)}
	first := segment{start: cfg.Start, rate: ppbRate(osc.rate), offset: int64(cfg.Initial)}
	for i := range p.segs {
		p.segs[i] = first
	}
	p.until = p.gridEnd(&osc)
	return p, nil
}

// gridEnd is the engine time at which w's step ends.
func (p *PHC) gridEnd(w *oscillator) frame.Time {
	if w.static {
		return frame.Never
	}
	return p.cfg.Start + frame.Time(w.step+1)*frame.Time(grid)
}

// newest returns the segment in force at engine time now or, if now lies
// before it, the newest.
func (p *PHC) newest(now frame.Time) *segment {
	for now >= p.until {
		p.osc.next()
		p.append(p.until)
		p.until = p.gridEnd(&p.osc)
	}
	return &p.segs[p.last%history]
}

// append begins a segment at t under the oscillator's rate and the correction
// now in force.
func (p *PHC) append(t frame.Time) *segment {
	s := p.segs[p.last%history]
	if t > s.start {
		s.count, s.start = s.at(t), t
		p.last++
	}
	s.rate = ppbRate(p.osc.rate).times(p.adj)
	n := &p.segs[p.last%history]
	*n = s
	return n
}

// segment returns the segment that holds now, of those that are remembered
// the oldest if now lies before all of them.
func (p *PHC) segment(now frame.Time) *segment {
	s := p.newest(now)
	for i := uint(1); now < s.start && i < history; i++ {
		s = &p.segs[(p.last-i)%history]
	}
	return s
}

// quantize is the multiple of the quantum that ns has reached.
func (p *PHC) quantize(ns int64) int64 {
	q := int64(p.cfg.Quantum)
	if q == 1 {
		return ns
	}
	r := ns % q
	if r < 0 {
		r += q
	}
	return ns - r
}

// At returns the stamp of an event at engine time now, jitter and
// quantization included. Events at the same time have the same stamp.
func (p *PHC) At(now frame.Time) frame.Stamp {
	s := p.segment(now)
	c := s.at(now)
	if p.cfg.Jitter > 0 {
		c.NS += int64(math.Floor(float64(p.cfg.Jitter*p.jitter.gauss(uint64(now))) + float64(c.Frac)/(1<<32)))
	}
	return frame.Stamp(p.quantize(c.NS) + s.offset)
}

// Now returns what the clock's registers show at engine time now: quantized,
// without the jitter of stamps.
func (p *PHC) Now(now frame.Time) frame.Stamp {
	s := p.segment(now)
	return frame.Stamp(p.quantize(s.at(now).NS) + s.offset)
}

// Exact returns the truth about the clock at engine time now.
func (p *PHC) Exact(now frame.Time) Exact {
	s := p.segment(now)
	c := s.at(now)
	c.NS += s.offset
	return c
}

// Counter returns the free counter behind the clock in nanoseconds: it is
// steered by frequency, but no change of time moves it.
func (p *PHC) Counter(now frame.Time) int64 { return p.quantize(p.segment(now).at(now).NS) }

// ResetCounter sets the free counter to zero, as enabling the device's unit
// does. What the clock shows goes on.
func (p *PHC) ResetCounter(now frame.Time) {
	s := p.change(now)
	count := s.at(now).NS // now may be late
	s.count.NS -= count
	s.offset += count
}

// Rate returns the frequency offset of the steered clock at engine time now,
// in ppb: the truth, for comparison with what a servo believes.
func (p *PHC) Rate(now frame.Time) float64 { return float64(p.segment(now).rate) * (1e9 / rateOne) }

// MaxAdj is the largest correction of the frequency in ppb.
func (p *PHC) MaxAdj() int64 { return p.cfg.MaxAdj }

// Frequency is the correction last asked for, in units of 2^-16 ppm.
func (p *PHC) Frequency() int64 { return p.scaled }

// AdjFine corrects the frequency of the oscillator by scaledPPM, in units of
// 2^-16 ppm, from engine time now on. It replaces the last correction.
func (p *PHC) AdjFine(now frame.Time, scaledPPM int64) error {
	limit := p.cfg.MaxAdj*65536/1000 + 65
	if scaledPPM > limit || scaledPPM < -limit {
		return fmt.Errorf("clock: a correction of %d ppb: %w", scaledPPM/65536*1000, ErrRange)
	}
	p.scaled = scaledPPM
	if !p.cfg.DriftRegister {
		p.steer(now, ratio(scaledPPM, scaledOne))
		return nil
	}
	p.DriftReset(now)
	err := p.DriftWrite(Drift(scaledPPM))
	p.DriftRelease(now)
	return err
}

// AdjFreq corrects the frequency by ppb; see AdjFine.
func (p *PHC) AdjFreq(now frame.Time, ppb int64) error {
	if ppb > p.cfg.MaxAdj || ppb < -p.cfg.MaxAdj {
		return fmt.Errorf("clock: a correction of %d ppb: %w", ppb, ErrRange)
	}
	return p.AdjFine(now, ppb*65536/1000)
}

// steer puts a correction in force.
func (p *PHC) steer(now frame.Time, adj rate) {
	p.newest(now) // under the correction before
	p.adj = adj
	p.append(now)
}

// change begins a segment at now for its caller to alter. A change that comes
// late takes effect where the newest segment begins.
func (p *PHC) change(now frame.Time) *segment {
	p.newest(now)
	return p.append(now)
}

// AdjTime moves the clock by d at engine time now.
func (p *PHC) AdjTime(now frame.Time, d time.Duration) error {
	s := p.change(now)
	shown := p.quantize(s.at(now).NS) + s.offset
	if d > 0 && shown > math.MaxInt64-int64(d) || d < 0 && shown < math.MinInt64-int64(d) {
		return fmt.Errorf("clock: moved by %v: %w", d, ErrRange)
	}
	s.offset += int64(d)
	return nil
}

// SetTime makes the clock show s at engine time now.
func (p *PHC) SetTime(now frame.Time, s frame.Stamp) error {
	n := p.change(now)
	n.offset = int64(s) - p.quantize(n.at(now).NS)
	return nil
}

// TimeX is a reading of the clock between two of the system's.
type TimeX struct {
	Before frame.Time
	PHC    frame.Stamp
	After  frame.Time
}

// GetTimeX reads the clock between two system stamps, the first of which is
// taken at engine time now. The clock is read half way.
func (p *PHC) GetTimeX(now frame.Time) TimeX {
	return TimeX{Before: now, PHC: p.Now(now.Add(p.cfg.ReadTime / 2)), After: now.Add(p.cfg.ReadTime)}
}

// CrossTimestamp reads the clock and the system's at one instant.
func (p *PHC) CrossTimestamp(now frame.Time) (system frame.Time, device frame.Stamp) {
	return now, p.Now(now)
}
