package ptpconf

import (
	"math"
	"strconv"
	"time"

	"tapir/lab/conf"
	"tapir/ptp/clock"
)

// Clock are the settings of a hardware clock. The oscillator is the name of a
// preset, or a mapping of the settings of Oscillator.
var Clock = []conf.Field[clock.Config]{
	{Name: "oscillator", Schema: conf.Schema{"anyOf": []conf.Schema{conf.Choice("xo", "tcxo", "ocxo", "ideal"),
		conf.Object(Oscillator)}}, Node: setOscillator},
	conf.DurationField("quantum", "the granularity of stamps, such as 8ns", false,
		func(c *clock.Config) *time.Duration {
			return &c.Quantum
		}), conf.NanosecondsField("jitter", "the standard deviation of stamps, such as 4ns",
		func(c *clock.Config) *float64 {
			return &c.Jitter
		}),
	{Name: "max_adj", Expect: "the largest correction in ppb", Set: func(c *clock.Config, s string) (err error) {
		c.MaxAdj, err = strconv.ParseInt(s, 0, 64)
		return err
	}},
	conf.BoolField("drift_register", "true or false", func(c *clock.Config) *bool { return &c.DriftRegister }),
}

// Oscillator are the settings of an oscillator. A preset comes first.
var Oscillator = []conf.Field[clock.Oscillator]{
	{Name: "preset", Expect: "xo, tcxo, ocxo or ideal", Set: func(o *clock.Oscillator, s string) error {
		p, err := clock.Preset(s)
		p.Seed = o.Seed
		*o = p
		return err
	}},
	conf.FloatField("ppb", "the frequency offset in ppb, such as 37000", func(o *clock.Oscillator) *float64 {
		return &o.PPB
	}, -math.MaxFloat64), conf.FloatField("aging", "the aging in ppb a day", func(o *clock.Oscillator) *float64 {
		return &o.Aging
	}, -math.MaxFloat64),
	conf.FloatField("white_fm", "the Allan deviation of white noise at 1 s in ppb", func(o *clock.Oscillator) *float64 {
		return &o.WhiteFM
	}, 0), conf.FloatField("flicker_fm", "the Allan deviation of flicker noise in ppb",
		func(o *clock.Oscillator) *float64 {
			return &o.FlickerFM
		}, 0),
	conf.FloatField("random_walk_fm", "the Allan deviation of random walk at 1 s in ppb",
		func(o *clock.Oscillator) *float64 {
			return &o.RandomWalkFM
		}, 0), conf.FloatField("temperature", "the amplitude of a sine of temperature in ppb",
		func(o *clock.Oscillator) *float64 {
			return &o.Temperature
		}, -math.MaxFloat64),
	conf.DurationField("period", "the period of the sine of temperature, such as 600s", false,
		func(o *clock.Oscillator) *time.Duration {
			return &o.Period
		}),
	{Name: "seed", Expect: "a number", Set: func(o *clock.Oscillator, s string) (err error) {
		o.Seed, err = strconv.ParseUint(s, 0, 64)
		return err
	}},
}

func setOscillator(c *clock.Config, n conf.Node) (err error) {
	if name, ok := n.Text(); ok {
		c.Oscillator, err = clock.Preset(name)
		return err
	}
	if err := conf.Decode(n, &c.Oscillator, "the name of a preset, or the settings of an oscillator",
		Oscillator); err != nil {
		return err
	}
	_, err = clock.New(clock.Config{Oscillator: c.Oscillator})
	return err
}
