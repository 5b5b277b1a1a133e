package virtual_test

import (
	"fmt"
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// strike runs a lab of two NICs with a rule on their link.
func strike(t *testing.T, rule, step string, seed uint64) (r *result.Result, said string) {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", fmt.Appendf(nil, `
clock: virtual
seed: %d
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  b: {kind: nic, ip: 10.0.0.2/24, frames: gso}
links: [{between: [a, b], delay: 1ms, rules: [%s]}]
steps: [%s]
`, seed, rule, step))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r, err = virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Print: &log}})
	if err != nil {
		t.Fatal(err)
	}
	return r, log.String()
}

// TestRules has rules strike verified workloads: TCP repairs what it can, and
// what it cannot ends the connection for both.
func TestRules(t *testing.T) {
	const verify = "{perf: verify, server: b, client: a, size: [65536]}"
	fails := func(why string) string {
		return "{perf: verify, server: b, client: a, size: [65536], error: " + why + "}"
	}
	for _, tt := range []struct {
		rule, step string
		struck     uint64
	}{
		{"{drop: fpdu, nth: 3, from: a}", verify, 1},
		{"{drop: fpdu, nth: 3, from: b, transmissions: 3}", verify, 1},
		{"{drop: fpdu, nth: 3, qp: 1, from: a}", verify, 1},
		{"{duplicate: read-response, qp: {nic: b, qpn: 2}}", "{perf: read-bw, server: b, client: a, size: 64, qps: 3, iters: 5}", 5},
		{"{drop: syn, nth: 1}", verify, 1},
		{"{drop: mpa-reply}", verify, 1},
		{"{delay: read-response, nth: 1, by: 20ms}", verify, 1},
		{"{duplicate: message, copies: 2, every: 2}", verify, 5},
		{"{reorder: fpdu, every: 7, behind: 3, from: a}", verify, 13},
		{"{flip: fpdu, every: 9, checksum: stale, from: a}", verify, 10},
		{"{flip: write, field: crc, bit: 7}", fails("CRC error"), 1},
		{"{flip: read-response, segment: 2, field: payload}", fails("CRC error"), 1},
		{"{reset: data, after: 64KiB}", fails("reset"), 1},
		{"{reset: mpa-request}", fails("."), 1},
	} {
		r, said := strike(t, tt.rule, tt.step, 1)
		c := r.Links[0].Counts.Rules[0]
		if r.Verdict != result.Passed || c.Struck != tt.struck {
			t.Errorf("%s: struck %d, want %d\n%s", tt.rule, c.Struck, tt.struck, said)
		}
		if r, again := strike(t, tt.rule, tt.step, 1); r.Verdict != result.Passed || again != said {
			t.Errorf("%s: one seed, two logs:\n%s\n%s", tt.rule, said, again)
		}
	}
}

// TestSilentRule: a rule that never struck fails the lab unless it may.
func TestSilentRule(t *testing.T) {
	const ping = "{perf: verify, server: b, client: a, size: [8]}"
	if r, _ := strike(t, "{drop: write, nth: 99}", ping, 1); r.Verdict != result.Failed || !strings.Contains(r.Error, "rule drop-write never struck") {
		t.Errorf("%s %s", r.Verdict, r.Error)
	}
	if r, _ := strike(t, "{drop: write, qp: 9, from: a}", ping, 1); r.Verdict != result.Failed || !strings.Contains(r.Error, "no write on a connection of QP 9 of a passed the link") {
		t.Errorf("%s %s", r.Verdict, r.Error)
	}
	if r, _ := strike(t, "{drop: write, nth: 99, optional: true}", ping, 1); r.Verdict != result.Passed {
		t.Error(r.Error)
	}
}
