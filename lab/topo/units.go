package topo

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/lab/host/fault"
)

// faults are the settings of a link that a fault step changes, too.
var faults = []conf.Field[fault.Impairment]{
	{Name: "delay", Expect: "a time up to 1h such as 1ms, for every frame",
		Set: func(i *fault.Impairment, s string) error {
			return conf.Time(&i.Delay, s, 0, time.Hour)
		}},
	{Name: "jitter", Expect: "a time up to 1h such as 200us: up to this much is added to the delay, the order stays",
		Set: func(i *fault.Impairment, s string) error {
			return conf.Time(&i.Jitter, s, 0, time.Hour)
		}},
	{Name: "rate", Expect: "bits per second, such as 100Mbit or 1Gbit", Set: func(i *fault.Impairment, s string) error {
		return setScaled(&i.Rate, s, rates)
	}},
	{Name: "queue", Expect: "octets that wait for their turn at that rate, such as 64KiB (default 256KiB)",
		Set: func(i *fault.Impairment, s string) error {
			var n int64
			err := setScaled(&n, s, sizes)
			if i.Queue = int(n); n > 1<<30 {
				return conf.ErrValue
			}
			return err
		}},
	{Name: "loss", Expect: chance, Set: func(i *fault.Impairment, s string) error { return setChance(&i.Loss, s) }},
	{Name: "duplicate", Expect: chance, Set: func(i *fault.Impairment, s string) error {
		return setChance(&i.Duplicate, s)
	}},
	{Name: "reorder", Expect: chance, Set: func(i *fault.Impairment, s string) error {
		return setChance(&i.Reorder, s)
	}},
	{Name: "reorder_depth", Expect: "how many later frames may overtake a reordered one, from 1 to 1000 (default 1)",
		Set: func(i *fault.Impairment, s string) error {
			return conf.Int(&i.Depth, s, 1, 1000)
		}},
	{Name: "corrupt", Expect: chance + ", of TCP segments", Set: func(i *fault.Impairment, s string) error {
		return setChance(&i.Corrupt, s)
	}},
}

const chance = "a chance such as 1%, 0.01% or 50ppm"

// setChance reads parts per million.
func setChance(ppm *int, s string) error {
	unit := 1.0
	text, percent := strings.CutSuffix(s, "%")
	if percent {
		unit = 1e4
	} else if text, percent = strings.CutSuffix(s, "ppm"); !percent && s != "0" {
		return conf.ErrValue
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= 0 && v*unit <= 1e6) {
		return conf.ErrValue
	}
	*ppm = int(math.Round(v * unit))
	return nil
}

var (
	rates  = map[string]float64{"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
	sizes  = map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "kib": 1 << 10, "mib": 1 << 20}
	scaled = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)
)

// setScaled reads a positive number with a unit.
func setScaled(n *int64, s string, units map[string]float64) error {
	m := scaled.FindStringSubmatch(s)
	if m == nil {
		return conf.ErrValue
	}
	v, err := strconv.ParseFloat(m[1], 64)
	unit, known := units[strings.ToLower(m[2])]
	if err != nil || !known || v*unit < 1 || v*unit > 1e12 {
		return conf.ErrValue
	}
	*n = int64(v * unit)
	return nil
}

func setBool(v *bool, s string) error {
	*v = s == "true"
	if s != "true" && s != "false" {
		return conf.ErrValue
	}
	return nil
}

var truth = conf.Schema{"type": "boolean"}

// words splits a command line at spaces; quotes keep them.
func words(s string) (all []string, err error) {
	var word strings.Builder
	started := false
	quote := rune(0)
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, started = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if started {
				all = append(all, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote has no end")
	}
	if started {
		all = append(all, word.String())
	}
	if len(all) == 0 {
		return nil, errors.New("expected a command line")
	}
	return all, nil
}
