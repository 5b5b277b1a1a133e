package topo

import (
	"strings"
	"testing"
)

func TestMeasureMistakes(t *testing.T) {
	const head = "nodes:\n  a: {kind: nic, ip: 10.0.0.1/24, ptp: {}}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks: [[a, b]]\nsteps:\n  - "
	for step, want := range map[string]string{
		`expect: {node: a, offset: {min: 2us, max: 1us}}`:         "6:31: offset: min 2µs is not below max 1µs",
		`expect: {node: a, offset: {most: 1us}}`:                  "6:32: most: unknown key; expected one of min, max",
		`expect: {node: a, offset: x}`:                            "6:31: offset: expected a time up to 1h",
		`expect: {node: a, offset: 1us, percentile: 99}`:          "percentile, mtie and tdev need for",
		`expect: {node: a, offset: 1us, for: 1s, percentile: 30}`: "percentile: expected a number from 50 to 100",
		`expect: {node: a, mtie: {tau: 1s}, for: 9s}`:             "mtie: say tau and max",
		`expect: {node: a, mtie: {tau: 1s, max: 1us}, for: 2s}`:   "for: 2s is less than three times tau, 1s",
		`expect: {node: a, mtie: {tau: 2ms, max: 1us}, for: 9s}`:  "tau: there is a sample each 9ms",
		`wait: {node: a, tdev: {tau: 1s, max: 1us}, for: 9s}`:     "percentile, mtie and tdev are of expect",
		`expect: {link: a-b, filter: tcp, for: 2s}`:               "for: a filter or an end is judged once",
		`{kill: b, after: {node: a, offset: 1us, for: 2s}}`:       "for: is of wait and expect",
		`expect: {node: b, mtie: {tau: 1s, max: 1us}, for: 9s}`:   "b: it has no PTP instance",
	} {
		if _, err := Parse("lab.yaml", []byte(head+step+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", step, err, want)
		}
	}
	l, err := Parse("lab.yaml", []byte(head+`expect: {node: a, offset: {max: 1us}, true_offset: {min: -1us, max: 2us}, tdev: {tau: 1s, max: 9ns}, for: 9s, percentile: 99.5}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Steps[0].Text; got != "expect: a: offset at most 1µs true offset -1µs to 2µs TDEV over 1s at most 9ns for 9s, 99.5 %" {
		t.Error(got)
	}
}
