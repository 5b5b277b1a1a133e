package topo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"tapir/lab/conf"
)

// Range bounds an offset, with its sign. The zero Range bounds nothing.
type Range struct{ Min, Max time.Duration }

// Given tells whether it bounds anything.
func (r Range) Given() bool { return r != Range{} }

// Holds tells whether d is in it.
func (r Range) Holds(d time.Duration) bool { return !r.Given() || d >= r.Min && d <= r.Max }

// Width is the distance from no offset to the nearer bound.
func (r Range) Width() time.Duration {
	if r.Min <= 0 && r.Max >= 0 {
		return min(max(r.Min, -math.MaxInt64).Abs(), r.Max)
	}
	return r.Max - r.Min
}

// String is the range for people.
func (r Range) String() string {
	switch {
	case r.Min == -r.Max:
		return fmt.Sprintf("within %v", r.Max)
	case r.Min == math.MinInt64:
		return fmt.Sprintf("at most %v", r.Max)
	case r.Max == math.MaxInt64:
		return fmt.Sprintf("at least %v", r.Min)
	}
	return fmt.Sprintf("%v to %v", r.Min, r.Max)
}

// Stability bounds how far a clock wanders within a time (ITU-T G.810).
type Stability struct{ Tau, Max time.Duration }

// farthest bounds what a file may say of offsets.
const farthest = time.Hour

// rangeField reads a time, which bounds an offset either way, or {min, max}.
func rangeField(name, what string, r *Range) conf.Field {
	expect := "a time up to 1h such as 10us, or {min: -1us, max: 5us}: " + what
	return conf.Field{Name: name, Expect: expect,
		Schema: conf.Schema{"anyOf": []conf.Schema{{"type": "string"}, conf.Object(boundFields(new(Range)))}},
		Node: func(n conf.Node) error {
			if text, ok := n.Text(); ok {
				if conf.Time(&r.Max, 1, farthest)(text) != nil {
					return errors.New("expected " + expect)
				}
				r.Min = -r.Max
				return nil
			}
			*r = Range{math.MinInt64, math.MaxInt64}
			if err := conf.Decode(n, "bounds, such as {min: -1us, max: 5us}", boundFields(r)); err != nil {
				return err
			}
			return n.ErrorIf(r.Min >= r.Max, "%s: min %v is not below max %v", name, r.Min, r.Max)
		}}
}

func boundFields(r *Range) []conf.Field {
	return []conf.Field{
		{Name: "min", Expect: "a time from -1h to 1h, such as -1us", Set: conf.Time(&r.Min, -farthest, farthest)},
		{Name: "max", Expect: "a time from -1h to 1h, such as 5us", Set: conf.Time(&r.Max, -farthest, farthest)},
	}
}

// measureFields say how long a condition is looked at, and how its samples are judged.
func (s *stepDraft) measureFields() []conf.Field {
	c := &s.Condition
	stability := func(name, long string, x *Stability) conf.Field {
		fields := []conf.Field{
			{Name: "tau", Expect: "a time such as 1s", Set: conf.Time(&x.Tau, time.Millisecond, farthest)},
			{Name: "max", Expect: "a time such as 500ns", Set: conf.Time(&x.Max, 1, farthest)},
		}
		return conf.Field{Name: name,
			Expect: "bounds the " + long + " of the true offset, such as {tau: 1s, max: 500ns}",
			Schema: conf.Object(fields, "tau", "max"), Node: func(n conf.Node) error {
				if err := conf.Decode(n, "{tau: 1s, max: 500ns}", fields); err != nil {
					return err
				}
				return n.ErrorIf(x.Tau == 0 || x.Max == 0, "%s: say tau and max", name)
			}}
	}
	return []conf.Field{
		{Name: "for", Expect: "a time up to 1h such as 10s: the condition has to hold all that time",
			Set: conf.Time(&c.Throughout, time.Millisecond, time.Hour)},
		{Name: "percentile", Expect: "a number from 50 to 100: this part of the samples of `for` has to be right",
			Set: func(v string) (err error) {
				c.Percentile, err = strconv.ParseFloat(v, 64)
				if err != nil || !(c.Percentile >= 50 && c.Percentile <= 100) {
					return conf.ErrValue
				}
				return nil
			}},
		stability("mtie", "maximum time interval error", &c.MTIE),
		stability("tdev", "time deviation", &c.TDEV),
	}
}

// checkMeasure tells what does not go together.
func (s *stepDraft) checkMeasure(n conf.Node) error {
	c := &s.Condition
	longest := max(c.MTIE.Tau, c.TDEV.Tau)
	return cmp.Or(
		n.ErrorIf(c.Throughout > 0 && s.Later, "for: is of wait and expect"),
		n.ErrorIf(c.Throughout > 0 && (c.Filter != "" || c.Ended), "for: a filter or an end is judged once"),
		n.ErrorIf(c.Throughout == 0 && (c.Percentile > 0 || longest > 0),
			"percentile, mtie and tdev need for: how long"),
		n.ErrorIf(s.Verb != Expect && (c.Percentile > 0 || longest > 0), "percentile, mtie and tdev are of expect"),
		n.ErrorIf(c.Throughout < 3*longest, "for: %v is less than three times tau, %v", c.Throughout, longest),
		n.ErrorIf(longest > 0 && min(cmp.Or(c.MTIE.Tau, longest), cmp.Or(c.TDEV.Tau, longest)) < c.Every(),
			"tau: there is a sample each %v", c.Every()))
}

// Every is the time between two samples of a condition that is looked at for some time.
func (c *Condition) Every() time.Duration {
	return min(max((c.Throughout/1000).Truncate(time.Millisecond), time.Millisecond), time.Second)
}

func (c *Condition) measureText() (text string) {
	if c.Throughout > 0 {
		text = fmt.Sprintf(" for %v", c.Throughout)
	}
	if c.Percentile > 0 {
		text += fmt.Sprintf(", %v %%", c.Percentile)
	}
	return text
}
