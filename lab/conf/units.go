package conf

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Chance reads a chance such as 1%, 0.01% or 50ppm, as parts per million.
func Chance(s string) (ppm int, err error) {
	unit := 1.0
	text, percent := strings.CutSuffix(s, "%")
	if percent {
		unit = 1e4
	} else if text, percent = strings.CutSuffix(s, "ppm"); !percent && s != "0" {
		return 0, ErrValue
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= 0 && v*unit <= 1e6) {
		return 0, ErrValue
	}
	return int(math.Round(v * unit)), nil
}

// Readers of numbers with units.
var (
	Rate   = scaledBy(rates) // bits per second, such as 100Mbit
	Octets = scaledBy(sizes) // such as 64KiB
)

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
			return 0, ErrValue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		unit, known := units[strings.ToLower(m[2])]
		if err != nil || !known || v*unit < 1 || v*unit > 1e12 {
			return 0, ErrValue
		}
		return int64(v * unit), nil
	}
}
