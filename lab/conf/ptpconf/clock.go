package ptpconf

import (
	"math"

	"tapir/lab/conf"
	"tapir/ptp/clock"
)

// Clock are the settings of a hardware clock, bound to c. The oscillator is the
// name of a preset, or a mapping of the settings of Oscillator.
func Clock(c *clock.Config) []conf.Field {
	oscillator := Oscillator(&c.Oscillator)
	return []conf.Field{
		{Name: "oscillator", Schema: conf.Schema{"anyOf": []conf.Schema{conf.Choice("xo", "tcxo", "ocxo", "ideal"),
			conf.Object(oscillator)}}, Node: func(n conf.Node) error {
			if name, ok := n.Text(); ok {
				return conf.Parsed(&c.Oscillator, clock.Preset)(name)
			}
			err := conf.Decode(n, "the name of a preset, or the settings of an oscillator", oscillator)
			if err == nil {
				_, err = clock.New(clock.Config{Oscillator: c.Oscillator})
			}
			return err
		}},
		{Name: "quantum", Expect: "the granularity of stamps, such as 8ns", Set: conf.Duration(&c.Quantum)},
		{Name: "jitter", Expect: "the standard deviation of stamps, such as 4ns", Set: conf.Nanoseconds(&c.Jitter)},
		{Name: "max_adj", Expect: "the largest correction in ppb",
			Set: conf.Number(&c.MaxAdj, math.MinInt64, math.MaxInt64)},
		{Name: "drift_register", Expect: "true or false", Set: conf.Bool(&c.DriftRegister)},
	}
}

// Oscillator are the settings of an oscillator, bound to o. A preset comes
// first.
func Oscillator(o *clock.Oscillator) []conf.Field {
	return []conf.Field{
		{Name: "preset", Expect: "xo, tcxo, ocxo or ideal", Set: func(s string) error {
			p, err := clock.Preset(s)
			p.Seed = o.Seed
			*o = p
			return err
		}},
		{Name: "ppb", Expect: "the frequency offset in ppb, such as 37000", Set: conf.Float(&o.PPB, -math.MaxFloat64)},
		{Name: "aging", Expect: "the aging in ppb a day", Set: conf.Float(&o.Aging, -math.MaxFloat64)},
		{Name: "white_fm", Expect: "the Allan deviation of white noise at 1 s in ppb", Set: conf.Float(&o.WhiteFM, 0)},
		{Name: "flicker_fm", Expect: "the Allan deviation of flicker noise in ppb", Set: conf.Float(&o.FlickerFM, 0)},
		{Name: "random_walk_fm", Expect: "the Allan deviation of random walk at 1 s in ppb",
			Set: conf.Float(&o.RandomWalkFM, 0)},
		{Name: "temperature", Expect: "the amplitude of a sine of temperature in ppb",
			Set: conf.Float(&o.Temperature, -math.MaxFloat64)},
		{Name: "period", Expect: "the period of the sine of temperature, such as 600s", Set: conf.Duration(&o.Period)},
		{Name: "seed", Expect: "a number", Set: conf.Uint64(&o.Seed)},
	}
}
