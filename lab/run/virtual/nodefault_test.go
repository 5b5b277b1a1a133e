package virtual_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

func disturbed(t *testing.T, list string) (*result.Result, string) {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", []byte(`
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, user_timeout: 2s}
  b: {kind: nic, ip: 10.0.0.2/24}
links: [{between: [a, b], rate: 1Gbit}]
steps:
`+list))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r, err := virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Print: &log}})
	if err != nil {
		t.Fatal(err)
	}
	return r, log.String()
}

// A NIC that is killed says nothing: its peer's TCP gives up. One that begins
// anew knows of no connection, and says so. What the lab notes is exact.
func TestKill(t *testing.T) {
	r, said := disturbed(t, `
  - {kill: b, after: 5ms}
  - {perf: write-bw, client: a, server: b, duration: 1s, error: timed out}
  - {start: b}
  - {perf: verify, client: a, server: b, size: 4096}
  - {kill: b, after: {link: a-b, counter: frames, min: 3500}}
  - {start: b, after: 300ms}
  - {perf: write-bw, client: a, server: b, duration: 2s, error: reset by peer}
  - {kill: a, after: 5ms}
  - {perf: write-bw, client: a, server: b, duration: 1s, error: ^a was killed$}
`)
	if r.Verdict != result.Passed {
		t.Fatal(said)
	}
	const line = "   0.005  b | killed\n"
	if _, again := disturbed(t, "  - {kill: b, after: 5ms}\n  - wait: 10ms\n"); !strings.Contains(said, line) || !strings.Contains(again, line) {
		t.Errorf("%s%s", said, again)
	}
}

// What cannot be done, or is never done, fails the lab.
func TestKillInVain(t *testing.T) {
	for _, tt := range []struct{ steps, want string }{
		{"  - {start: a}\n", "line 8: start a: a runs: only a node that was killed can be started"},
		{"  - {kill: a}\n  - {kill: a}\n", "line 9: kill a: a was killed"},
		{"  - {kill: a}\n  - expect: {node: a, counter: rx_packets}\n", "rx_packets: 1 or more: a was killed"},
		{"  - {kill: a}\n  - {perf: verify, client: b, server: a}\n", "perf verify from b to a: a was killed"},
		{"  - {kill: a, after: 1h}\n", "line 8: kill a after 1h0m0s: the lab has ended before: it never happened"},
		{"  - {phc: a, step: 1s, after: {link: a-b, counter: lost}}\n", "never happened"},
		{"  - {kill: b}\n  - {phc: b, ppb: 1, after: 1ms}\n  - wait: 2ms\n", "line 9: phc b: 1 ppb after 1ms: b was killed"},
		{"  - {phc: a, ppb: 1000000000}\n", "beyond the clock's range"},
	} {
		r, said := disturbed(t, tt.steps)
		if r.Verdict != result.Failed || !strings.Contains(said, tt.want) {
			t.Errorf("%s%s\nwant %q", tt.steps, said, tt.want)
		}
	}
}

// TestKillAnyKind: a node of any kind is killed and starts again. The real clock runs the same labs.
func TestKillAnyKind(t *testing.T) {
	files, err := filepath.Glob("testdata/kill/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			lab, err := topo.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := lab.SetClock(topo.Virtual); err != nil {
				if slices.ContainsFunc(lab.Nodes, func(n topo.Node) bool { return n.Kind == topo.Gateway }) {
					return
				}
				t.Fatal(err)
			}
			var log strings.Builder
			r, err := virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Print: &log, Out: t.TempDir()}})
			if err != nil || r.Verdict != result.Passed {
				t.Fatalf("%v %s\n%s", err, r.Error, &log)
			}
		})
	}
}

// TestKillCard: a function of a card that was killed is not started alone, and one that was killed before
// starts with the card.
func TestKillCard(t *testing.T) {
	for _, tt := range []struct{ steps, want string }{
		{"  - {kill: card}\n  - {start: f0}\n", "line 12: start f0: card was killed"},
		{"  - {kill: card}\n  - {kill: f0}\n", "line 12: kill f0: f0 was killed"},
		{"  - {start: card}\n", "line 11: start card: card runs: only a node that was killed can be started"},
		{"  - {kill: f1}\n  - {kill: card}\n  - {start: card}\n  - {perf: verify, client: f1, server: b, size: 8}\n", ""},
	} {
		lab, err := topo.Parse("lab.yaml", []byte(`clock: virtual
nodes:
  card:
    kind: card
    port_mode: 1x25G
    mf_mode: npar
    functions: [{name: f0, ip: 10.0.0.1/24}, {name: f1, ip: 10.0.0.2/24}]
  b: {kind: nic, ip: 10.0.0.9/24}
links: [[card, b]]
steps:
`+tt.steps))
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		r, err := virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Print: &log}})
		if err != nil || (r.Verdict == result.Passed) != (tt.want == "") || !strings.Contains(log.String(), tt.want) {
			t.Errorf("%s%v %s\nwant %q", tt.steps, err, &log, tt.want)
		}
	}
}
