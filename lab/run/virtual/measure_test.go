package virtual_test

import (
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// A clock that is 1 µs fast in each second: bounds with signs, parts of the samples, MTIE and TDEV see it exactly.
func TestMeasures(t *testing.T) {
	for _, tt := range []struct{ step, want string }{
		{`expect: {node: a, true_offset: {min: 0s, max: 9400ns}, for: 2s}`, ""},
		{`expect: {node: a, true_offset: {min: 1us}}`, ""},
		{`expect: {node: a, true_offset: {max: 1us}}`, "its true offset 7."},
		{`expect: {node: a, true_offset: {min: -1h, max: -1ns}, for: 2s}`, "after 0s: a is MASTER, its offset 0s, its true offset 7."},
		{`expect: {node: a, true_offset: {max: 8us}, for: 2s}`, "after 68"},
		{`expect: {node: a, true_offset: {max: 9200ns}, for: 2s, percentile: 90}`, ""},
		{`expect: {node: a, true_offset: {max: 8us}, for: 2s, percentile: 90}`, "of 1001 samples 34"},
		{`expect: {node: a, mtie: {tau: 1s, max: 1001ns}, tdev: {tau: 500ms, max: 1ns}, for: 4s}`, ""},
		{`expect: {node: a, mtie: {tau: 1s, max: 990ns}, for: 4s}`, "the MTIE over 1s is 1000 ns, expected at most 990ns"},
		{`wait: {node: a, true_offset: {min: 8us}, for: 1s}`, ""},
		{`{wait: {node: a, true_offset: {max: 3us}, for: 1s}, timeout: 2s}`, "not done after 2s"},
		{`expect: {link: a-b, counter: lost, max: 0, for: 1s}`, ""},
	} {
		lab, err := topo.Parse("lab.yaml", []byte(`
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, phc_ppb: 1000, ptp: {priority1: 1}}
  b: {kind: nic, ip: 10.0.0.2/24}
links: [[a, b]]
steps:
  - wait: 2050ms
  - wait: {node: a, ptp: MASTER}
  - `+tt.step+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", tt.step, err)
		}
		r, err := virtual.Run(t.Context(), lab, virtual.Options{})
		if err != nil {
			t.Fatal(err)
		}
		last := r.Steps[2]
		if (last.Verdict == result.Passed) != (tt.want == "") || !strings.Contains(last.Error, tt.want) {
			t.Errorf("%s: %s %s, want %q", tt.step, last.Verdict, last.Error, tt.want)
		}
	}
}
