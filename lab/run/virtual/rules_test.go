package virtual_test

import (
	"fmt"
	"os"
	"strconv"
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
	return strikeOn(t, "iwarp", "rules: ["+rule+"]", step, seed)
}

// strikeOn runs a lab of two NICs of a personality with faults on their link.
func strikeOn(t *testing.T, personality, faults, step string, seed uint64) (r *result.Result, said string) {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", fmt.Appendf(nil, `
clock: virtual
seed: %d
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, personality: %s}
  b: {kind: nic, ip: 10.0.0.2/24, personality: %s, frames: gso}
links: [{between: [a, b], delay: 1ms, %s}]
steps: [%s]
`, seed, personality, personality, faults, step))
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

// verified is a workload whose memory is compared, failing one that ends for a reason.
const verified = "{perf: verify, server: b, client: a, size: [65536]}"

func failing(why string) string {
	return "{perf: verify, server: b, client: a, size: [65536], error: " + why + "}"
}

// strikes checks that the lab passes and how many a rule strikes in it; one seed makes one log.
func strikes(t *testing.T, personality, rule, step string, want uint64) {
	t.Helper()
	r, said := strikeOn(t, personality, "rules: ["+rule+"]", step, 1)
	if c := r.Links[0].Counts.Rules[0]; r.Verdict != result.Passed || c.Struck != want {
		t.Errorf("%s: struck %d, want %d\n%s", rule, c.Struck, want, said)
	}
	if r, again := strikeOn(t, personality, "rules: ["+rule+"]", step, 1); r.Verdict != result.Passed || again != said {
		t.Errorf("%s: one seed, two logs:\n%s\n%s", rule, said, again)
	}
}

// TestRules has rules strike verified workloads: TCP repairs what it can, and
// what it cannot ends the connection for both.
func TestRules(t *testing.T) {
	for _, tt := range []struct {
		rule, step string
		struck     uint64
	}{
		{"{drop: fpdu, nth: 3, from: a}", verified, 1},
		{"{drop: fpdu, nth: 3, from: b, transmissions: 3}", verified, 1},
		{"{drop: fpdu, nth: 3, qp: 1, from: a}", verified, 1},
		{"{duplicate: read-response, qp: {nic: b, qpn: 2}}", "{perf: read-bw, server: b, client: a, size: 64, qps: 3, iters: 5}", 5},
		{"{drop: syn, nth: 1}", verified, 1},
		{"{drop: mpa-reply}", verified, 1},
		{"{delay: read-response, nth: 1, by: 20ms}", verified, 1},
		{"{duplicate: message, copies: 2, every: 2}", verified, 5},
		{"{reorder: fpdu, every: 7, behind: 3, from: a}", verified, 13},
		{"{flip: fpdu, every: 9, checksum: stale, from: a}", verified, 10},
		{"{flip: write, field: crc, bit: 7}", failing("CRC error"), 1},
		{"{flip: read-response, segment: 2, field: payload}", failing("CRC error"), 1},
		{"{reset: data, after: 64KiB}", failing("reset"), 1},
		{"{reset: mpa-request}", failing("."), 1},
	} {
		strikes(t, "iwarp", tt.rule, tt.step, tt.struck)
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

// TestRoCERules has rules strike the packets of verified workloads over RoCE: the transport
// repairs what it can, and what it cannot ends the connection.
func TestRoCERules(t *testing.T) {
	for _, tt := range []struct {
		rule, step string
		struck     uint64
	}{
		{"{drop: roce-write, nth: 3, from: a}", verified, 1},
		{"{drop: roce-write, nth: 3, from: a, transmissions: 3}", verified, 1},
		{"{drop: roce-read-response, every: 5}", verified, 12},
		{"{drop: roce-ack, nth: 1, from: b}", verified, 1},
		{"{drop: cm-req, nth: 1}", verified, 1},
		{"{drop: cm-rep, nth: 1}", verified, 1},
		{"{drop: cm-rtu, nth: 1}", verified, 1},
		{"{duplicate: roce, copies: 2, every: 2}", verified, 138},
		{"{reorder: roce-write, every: 7, behind: 3, from: a}", verified, 9},
		{"{delay: roce-read-response, nth: 1, by: 3ms}", verified, 1},
		{"{flip: roce, field: icrc, bit: 3, every: 9, from: a}", verified, 15},
		{"{flip: roce-write, field: payload, nth: 2}", verified, 1},
		{"{flip: roce-ack, field: syndrome, bit: 5, icrc: mended, nth: 1, from: b}", verified, 1},
		{"{flip: roce-write, field: r-key, icrc: mended}", failing("."), 1},
		{"{drop: roce-send, qp: 17, from: a, nth: 1}", verified, 1},
		{"{drop: roce, match: {dest-qp: 17, opcode: 0x0c}, qp: {nic: b, qpn: 17}}", verified, 1},
	} {
		strikes(t, "roce", tt.rule, tt.step, tt.struck)
	}
}

// TestRoCESeeds has a link lose, repeat, reorder, delay and corrupt what RoCE NICs send, by the
// seed: verify compares the SHA-256 of memory. SOAK_SEEDS runs more seeds.
func TestRoCESeeds(t *testing.T) {
	seeds := 150
	if n, err := strconv.Atoi(os.Getenv("SOAK_SEEDS")); err == nil {
		seeds = n
	}
	const faults = "jitter: 20us, loss: 1%, duplicate: 1%, reorder: 2%, reorder_depth: 6, corrupt: 1%"
	const verify = "{perf: verify, server: b, client: a, size: [1, 4096, 65536]}"
	var sum topo.LinkCounts
	for seed := range seeds {
		r, said := strikeOn(t, "roce", faults, verify, uint64(seed))
		if r.Verdict != result.Passed {
			t.Fatalf("seed %d: %s", seed, said)
		}
		c := r.Links[0].Counts
		sum.Lost, sum.Duplicated, sum.Corrupted, sum.Reordered = sum.Lost+c.Lost, sum.Duplicated+c.Duplicated, sum.Corrupted+c.Corrupted,
			sum.Reordered+c.Reordered
	}
	if sum.Lost == 0 || sum.Duplicated == 0 || sum.Corrupted == 0 || sum.Reordered == 0 {
		t.Errorf("faults: %+v", sum)
	}
	t.Logf("%d seeds: lost %d, repeated %d, corrupted %d, reordered %d", seeds, sum.Lost, sum.Duplicated, sum.Corrupted, sum.Reordered)
}

// TestStorageStrikes: rules strike FCoE, FIP, iSCSI and NVMe by name, as by the real clock, and each protocol repairs it.
func TestStorageStrikes(t *testing.T) {
	lab, err := topo.Load("../../examples/storage-strikes/lab.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.SetClock(topo.Virtual); err != nil {
		t.Fatal(err)
	}
	run(t, lab, virtual.Options{})
}
