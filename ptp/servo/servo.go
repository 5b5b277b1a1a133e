// Package servo turns measured offsets into corrections of a clock's
// frequency, and filters measured delays. It has the behaviour of linuxptp's
// servos, so that what is known of those holds here.
//
// Offsets are in nanoseconds, positive when the steered clock is ahead of its
// master; frequencies in ppb. Every product is rounded before it is added, so
// that all machines compute the same.
package servo

import (
	"fmt"
	"math"

	"tapir/wire/enum"
	"tapir/wire/frame"
)

// State is what a servo asks for after a sample. Its name is that of
// linuxptp's log: s0 to s3.
type State uint8

const (
	Unlocked     State = iota // leave the clock alone
	Jump                      // step it by the offset, then set the frequency
	Locked                    // set the frequency
	LockedStable              // the same; the offset has been small for a while
)

func (s State) String() string {
	if s > LockedStable {
		return "s?"
	}
	return [...]string{"s0", "s1", "s2", "s3"}[s]
}

// Servo steers one clock.
type Servo interface {
	// Sample takes an offset measured when the steered clock showed local.
	// weight, in (0, 1], is the trust in it. It returns by how many ppb the
	// clock is too fast: the correction is its negative.
	Sample(offset float64, local frame.Stamp, weight float64) (ppb float64, s State)
	// SetInterval tells the time between samples in seconds.
	SetInterval(seconds float64)
	// Reset forgets the offsets, not the frequency.
	Reset()
	// SetFrequency tells by how many ppb the clock would be too fast
	// uncorrected, by the correction that is in force; to be followed by Reset.
	SetFrequency(ppb float64)
	// Frequency is the estimate of how fast the clock would run uncorrected,
	// in ppb.
	Frequency() float64
}

// Kind names a servo.
type Kind uint8

const (
	KindPI     Kind = iota // proportional-integral
	KindLinReg             // linear regression over a window that adapts
	KindNull               // frequency left alone, for clocks that are syntonized otherwise
)

var kindNames = [...]string{"pi", "linreg", "nullf"}

func (k Kind) String() string {
	return enum.Name(kindNames[:], k, "unknown")
}

// ParseKind returns the servo called pi, linreg or nullf.
func ParseKind(name string) (Kind, error) {
	for i, n := range kindNames {
		if n == name {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("servo %q: there are pi, linreg and nullf", name)
}

// DefaultFirstStep is the offset in ns beyond which the first adjustment is a
// step.
const DefaultFirstStep = 20_000

// Config describes a servo. Zero values of the thresholds switch them off.
type Config struct {
	Kind Kind
	// Software selects the constants for software time stamps.
	Software bool
	// Kp and Ki replace the constants of the PI servo; 0 leaves them.
	Kp, Ki float64
	// FirstStep is the offset in ns beyond which the first adjustment is a
	// step; Step the one for all later ones.
	FirstStep, Step float64
	// MaxFrequency bounds the correction in ppb; 0 is 900,000,000.
	MaxFrequency float64
	// StableOffset is the offset in ns that StableCount samples in a row must
	// stay within for LockedStable.
	StableOffset float64
	StableCount  int
	// Frequency is the correction already in force, in ppb: the servo starts
	// from it.
	Frequency float64
}

// DefaultConfig is a PI servo with linuxptp's defaults.
func DefaultConfig() Config { return Config{FirstStep: DefaultFirstStep} }

// New returns a servo for samples once a second.
func New(cfg Config) (Servo, error) {
	for _, v := range []float64{cfg.Kp, cfg.Ki, cfg.FirstStep, cfg.Step, cfg.MaxFrequency, cfg.StableOffset} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("servo: %v is no threshold or constant", v)
		}
	}
	if cfg.MaxFrequency == 0 {
		cfg.MaxFrequency = 900_000_000
	}
	if math.IsNaN(cfg.Frequency) || math.Abs(cfg.Frequency) > cfg.MaxFrequency {
		return nil, fmt.Errorf("servo: a frequency of %v ppb", cfg.Frequency)
	}
	var inner Servo
	switch cfg.Kind {
	case KindPI:
		inner = newPI(cfg)
	case KindLinReg:
		inner = newLinReg(cfg)
	case KindNull:
		inner = &null{}
	default:
		return nil, fmt.Errorf("servo: kind %d", cfg.Kind)
	}
	if cfg.StableCount > 0 {
		return &stable{Servo: inner, within: cfg.StableOffset, need: cfg.StableCount}, nil
	}
	return inner, nil
}

// stable tells LockedStable from Locked.
type stable struct {
	Servo
	within     float64
	need, have int
}

func (s *stable) Sample(offset float64, local frame.Stamp, weight float64) (float64, State) {
	ppb, state := s.Servo.Sample(offset, local, weight)
	if state != Locked || math.Abs(offset) > s.within {
		s.have = 0
		return ppb, state
	}
	if s.have = min(s.have+1, s.need); s.have == s.need {
		state = LockedStable
	}
	return ppb, state
}

func (s *stable) Reset() {
	s.have = 0
	s.Servo.Reset()
}

// null leaves the frequency alone and steps nothing.
type null struct{}

func (*null) Sample(float64, frame.Stamp, float64) (float64, State) { return 0, Locked }
func (*null) SetInterval(float64)                                   {}
func (*null) Reset()                                                {}
func (*null) SetFrequency(float64)                                  {}
func (*null) Frequency() float64                                    { return 0 }

func clamp(v, limit float64) float64 { return max(-limit, min(limit, v)) }
