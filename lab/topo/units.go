package topo

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/lab/host/fault"
)

// faults are the settings of a link that a fault step changes, too.
func faults(i *fault.Impairment) []conf.Field {
	return []conf.Field{
		{Name: "delay", Expect: "a time up to 1h such as 1ms, for every frame", Set: conf.Time(&i.Delay, 0, time.Hour)},
		{Name: "jitter",
			Expect: "a time up to 1h such as 200us: up to this much is added to the delay, the order stays",
			Set:    conf.Time(&i.Jitter, 0, time.Hour)},
		{Name: "rate", Expect: "bits per second, such as 100Mbit or 1Gbit",
			Set: conf.Parsed(&i.Rate, scaledBy(rates))},
		{Name: "queue", Expect: "octets that wait for their turn at that rate, such as 64KiB (default 256KiB)",
			Set: func(s string) error {
				n, err := scaledBy(sizes)(s)
				if i.Queue = int(n); n > 1<<30 {
					return conf.ErrValue
				}
				return err
			}},
		{Name: "loss", Expect: chance, Set: conf.Parsed(&i.Loss, parseChance)},
		{Name: "duplicate", Expect: chance, Set: conf.Parsed(&i.Duplicate, parseChance)},
		{Name: "reorder", Expect: chance, Set: conf.Parsed(&i.Reorder, parseChance)},
		{Name: "reorder_depth",
			Expect: "how many later frames may overtake a reordered one, from 1 to 1000 (default 1)",
			Set:    conf.Int(&i.Depth, 1, 1000)},
		{Name: "corrupt", Expect: chance + ", of TCP segments and RoCE packets",
			Set: conf.Parsed(&i.Corrupt, parseChance)},
	}
}

const chance = "a chance such as 1%, 0.01% or 50ppm"

// parseChance reads parts per million.
func parseChance(s string) (ppm int, err error) {
	unit := 1.0
	text, percent := strings.CutSuffix(s, "%")
	if percent {
		unit = 1e4
	} else if text, percent = strings.CutSuffix(s, "ppm"); !percent && s != "0" {
		return 0, conf.ErrValue
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= 0 && v*unit <= 1e6) {
		return 0, conf.ErrValue
	}
	return int(math.Round(v * unit)), nil
}

var (
	rates  = map[string]float64{"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
	sizes  = map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "kib": 1 << 10, "mib": 1 << 20}
	scaled = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)
)

// scaledBy reads a positive number with one of the units.
func scaledBy(units map[string]float64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		m := scaled.FindStringSubmatch(s)
		if m == nil {
			return 0, conf.ErrValue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		unit, known := units[strings.ToLower(m[2])]
		if err != nil || !known || v*unit < 1 || v*unit > 1e12 {
			return 0, conf.ErrValue
		}
		return int64(v * unit), nil
	}
}

// truthField is a field that is true or false.
func truthField(name, expect string, v *bool) conf.Field {
	return conf.Field{Name: name, Expect: expect, Schema: truth,
		Set: conf.Choose(v, map[string]bool{"true": true, "false": false})}
}

var truth = conf.Schema{"type": "boolean"}
