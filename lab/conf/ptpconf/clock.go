package ptpconf

import (
	"fmt"
	"strconv"
	"time"

	"tapir/lab/conf"
	"tapir/ptp/clock"
)

// Clock are the settings of a hardware clock. The oscillator is the name of a
// preset, or a mapping of the settings of Oscillator.
var Clock = []conf.Field[clock.Config]{
	{Name: "oscillator", Schema: conf.Schema{"anyOf": []conf.Schema{conf.Choice("xo", "tcxo", "ocxo", "ideal"), conf.Object(Oscillator)}}, Node: setOscillator},
	{Name: "quantum", Expect: "the granularity of stamps, such as 8ns", Set: func(c *clock.Config, s string) error { return setDuration(&c.Quantum, s, false) }},
	{Name: "jitter", Expect: "the standard deviation of stamps, such as 4ns", Set: func(c *clock.Config, s string) error {
		var d time.Duration
		err := setDuration(&d, s, false)
		c.Jitter = float64(d)
		return err
	}},
	{Name: "max_adj", Expect: "the largest correction in ppb", Set: func(c *clock.Config, s string) (err error) {
		c.MaxAdj, err = strconv.ParseInt(s, 0, 64)
		return err
	}},
	{Name: "drift_register", Expect: "true or false", Set: func(c *clock.Config, s string) (err error) {
		c.DriftRegister, err = strconv.ParseBool(s)
		return err
	}},
}

// Oscillator are the settings of an oscillator. A preset comes first.
var Oscillator = []conf.Field[clock.Oscillator]{
	{Name: "preset", Expect: "xo, tcxo, ocxo or ideal", Set: func(o *clock.Oscillator, s string) error {
		p, err := clock.Preset(s)
		p.Seed = o.Seed
		*o = p
		return err
	}},
	ppb("ppb", "the frequency offset in ppb, such as 37000", true, func(o *clock.Oscillator) *float64 { return &o.PPB }),
	ppb("aging", "the aging in ppb a day", true, func(o *clock.Oscillator) *float64 { return &o.Aging }),
	ppb("white_fm", "the Allan deviation of white noise at 1 s in ppb", false, func(o *clock.Oscillator) *float64 { return &o.WhiteFM }),
	ppb("flicker_fm", "the Allan deviation of flicker noise in ppb", false, func(o *clock.Oscillator) *float64 { return &o.FlickerFM }),
	ppb("random_walk_fm", "the Allan deviation of random walk at 1 s in ppb", false, func(o *clock.Oscillator) *float64 { return &o.RandomWalkFM }),
	ppb("temperature", "the amplitude of a sine of temperature in ppb", true, func(o *clock.Oscillator) *float64 { return &o.Temperature }),
	{Name: "period", Expect: "the period of the sine of temperature, such as 600s", Set: func(o *clock.Oscillator, s string) error { return setDuration(&o.Period, s, false) }},
	{Name: "seed", Expect: "a number", Set: func(o *clock.Oscillator, s string) (err error) {
		o.Seed, err = strconv.ParseUint(s, 0, 64)
		return err
	}},
}

func ppb(name, expect string, signed bool, of func(*clock.Oscillator) *float64) conf.Field[clock.Oscillator] {
	return conf.Field[clock.Oscillator]{Name: name, Expect: expect, Set: func(o *clock.Oscillator, s string) error {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || v < 0 && !signed {
			return errValue
		}
		*of(o) = v
		return nil
	}}
}

func setOscillator(c *clock.Config, n conf.Node) (err error) {
	if name, ok := n.Text(); ok {
		c.Oscillator, err = clock.Preset(name)
		return err
	}
	if err := conf.Decode(n, &c.Oscillator, "the name of a preset, or the settings of an oscillator", Oscillator); err != nil {
		return err
	}
	if _, err := clock.New(clock.Config{Oscillator: c.Oscillator}); err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}
