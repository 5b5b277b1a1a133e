// Package discipline computes path delays and offsets from the time stamps of
// a slave port and turns offsets into corrections of its clock: the delay
// filter, the servo, and what a clock runs on with in holdover.
package discipline

import (
	"math"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/wire/frame"
)

// Config describes how a clock is steered.
type Config struct {
	servo.Config
	DelayFilter       servo.FilterKind
	DelayFilterLength int
	// Lucky uses only the least delayed of every Lucky Syncs; 0 and 1 use all.
	Lucky int
	// SanityFreqLimit restarts the servo when the clock runs by more than
	// this many ppb off, against engine time; 0 never.
	SanityFreqLimit float64
}

// NewFilter returns a delay filter as c describes it.
func (c *Config) NewFilter() (servo.Filter, error) {
	return servo.NewFilter(c.DelayFilter, c.DelayFilterLength)
}

// Discipline is the state of one clock that is steered. It touches no clock:
// its owner does what it returns.
type Discipline struct {
	path
	cfg     Config
	servo   servo.Servo
	state   servo.State
	lucky   *servo.Lucky
	freq    float64
	hold    float64 // the recent mean of freq while the offset was small
	settled int     // samples in it, at most holdSamples; -1: one more has to confirm

	checked bool // lastRx and lastNow are valid
	lastRx  frame.Stamp
	lastNow frame.Time
}

// New returns a discipline of a clock that can be corrected by maxAdj ppb.
func New(cfg Config, maxAdj int64) (d *Discipline, err error) {
	if most := float64(maxAdj); maxAdj > 0 && (cfg.MaxFrequency == 0 || cfg.MaxFrequency > most) {
		cfg.MaxFrequency = most
	}
	d = &Discipline{cfg: cfg, freq: -cfg.Frequency, hold: -cfg.Frequency}
	if d.servo, err = servo.New(cfg.Config); err != nil {
		return nil, err
	}
	if d.filter, err = cfg.NewFilter(); err != nil {
		return nil, err
	}
	if cfg.Lucky != 0 && cfg.Lucky != 1 {
		d.lucky, err = servo.NewLucky(cfg.Lucky)
	}
	return d, err
}

// State is what the servo said last.
func (d *Discipline) State() servo.State { return d.state }

// Frequency is the correction in force, in ppb; positive makes the clock
// faster.
func (d *Discipline) Frequency() float64 { return d.freq }

// SetInterval tells the time between Syncs.
func (d *Discipline) SetInterval(iv time.Duration) {
	if d.lucky != nil {
		iv *= time.Duration(d.cfg.Lucky)
	}
	d.servo.SetInterval(float64(iv) / float64(time.Second))
}

// Stepped drops what a step of the clock makes useless.
func (d *Discipline) Stepped() {
	d.path.stepped()
	d.checked = false
	if d.lucky != nil {
		d.lucky.Reset()
	}
}

// Forget drops all that was measured of a master; the servo begins anew with
// the frequency that is in force.
func (d *Discipline) Forget() {
	d.Stepped()
	d.delayOK = false
	d.filter.Reset()
	d.state, d.settled = servo.Unlocked, 0
	d.servo.SetFrequency(-d.freq)
	d.servo.Reset()
}

// Release is Forget, and returns the correction with which the clock shall run
// on: that of the time when it followed closely. A servo at work on a large
// offset leaves a frequency far off.
func (d *Discipline) Release() float64 {
	d.freq = d.hold
	d.Forget()
	return d.freq
}

// Sane compares the clock with engine time: false if it ran away, or was
// stepped by somebody else.
func (d *Discipline) Sane(rx frame.Stamp, now frame.Time) bool {
	const least = 100 * time.Millisecond
	if d.cfg.SanityFreqLimit <= 0 {
		return true
	}
	was, rx0, now0 := d.checked, d.lastRx, d.lastNow
	if was && now.Sub(now0) < least {
		return true
	}
	d.checked, d.lastRx, d.lastNow = true, rx, now
	if !was {
		return true
	}
	off := float64(rx-rx0)/float64(now.Sub(now0)) - 1
	return math.Abs(float64(off*1e9)-d.freq) <= d.cfg.SanityFreqLimit
}

// Sync is a Sync that is used: when it left, on the master's clock and with
// Correction still to be added, and when it came.
type Sync struct {
	Origin, Ingress frame.Stamp
	Correction      msg.TimeInterval
}

// Sync takes the times of a Sync. It returns those to compute the offset with,
// which may be of an earlier one; false if there are none yet.
func (d *Discipline) Sync(s Sync) (Sync, bool) {
	if d.lucky != nil {
		best, at, ok := d.lucky.Sample(int64(s.Ingress-s.Origin)-int64(s.Correction>>16), s.Ingress)
		if !ok {
			return s, false
		}
		s = Sync{at - frame.Stamp(best), at, 0}
	}
	d.path.sync(s, d.state == servo.Unlocked)
	return s, true
}

// Free notes an offset that shall not be corrected.
func (d *Discipline) Free() { d.state = servo.Unlocked }

// Sample gives an offset to the servo, measured when the clock showed at. It
// returns the correction to be set in ppb, if the state is not Unlocked; with
// the state Jump the clock is to be stepped by the offset too.
func (d *Discipline) Sample(o Offset, at frame.Stamp) (ppb float64, s servo.State) {
	fast, s := d.servo.Sample(o.Exact, at, 1)
	if d.state = s; s == servo.Unlocked {
		return d.freq, s
	}
	d.freq = -fast
	d.settle(o.Exact)
	return d.freq, s
}

const (
	// holdSamples is how many corrections the mean for holdover has.
	holdSamples = 16
	// holdOffset is the offset in ns up to which a clock has settled.
	holdOffset = 20_000
	// holdChange is a change of the correction in ppb that has to prove itself.
	holdChange = 500_000
)

// settle keeps the mean correction while the clock follows closely.
func (d *Discipline) settle(offset float64) {
	if d.state < servo.Locked || math.Abs(offset) > holdOffset {
		d.settled = 0
		return
	}
	if d.settled == 0 && math.Abs(d.freq-d.hold) > holdChange {
		d.settled = -1 // the next offset will show whether this is right
		return
	}
	d.settled = min(max(d.settled, 0)+1, holdSamples)
	d.hold += float64((d.freq - d.hold) / float64(d.settled))
}
