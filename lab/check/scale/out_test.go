package main

import (
	"context"
	"runtime"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// mostAllocated is how many times as much a lab may allocate that is recorded: 2.86 times were
// seen with 200 NICs, of which the tables of nodes over time take 1.2. An allocation for each
// captured frame makes it 5.
const mostAllocated = 3.1

// TestOutAllocatesLittle: recording a lab, with its capture, samples and reports, allocates little.
// Each frame for everybody is captured at every port of the switch, so that what is allocated for
// each captured frame would show.
func TestOutAllocatesLittle(t *testing.T) {
	const file = `
clock: virtual
nodes:
  n: {kind: nic, count: 200, ip: 10.0.0.1/16}
  s: {kind: switch}
links:
  - [n, s]
steps:
  - {perf: write-bw, client: n, server: n, size: 64, qps: 1, depth: 8, iters: 20}
`
	allocated := func(out string) uint64 {
		l, err := topo.Parse("out.yaml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := virtual.Run(context.Background(), l, virtual.Options{Options: steps.Options{Out: out}})
		runtime.ReadMemStats(&after)
		if err != nil || r.Verdict != result.Passed {
			t.Fatalf("%v %v", r, err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated("") // what is made once
	plain, recorded := allocated(""), allocated(t.TempDir())
	ratio := float64(recorded) / float64(plain)
	t.Logf("octets allocated: %d, with an output directory %d: %.2f times as many", plain, recorded, ratio)
	if ratio > mostAllocated {
		t.Errorf("an output directory makes a lab allocate %.2f times as much, at most %.2f wanted", ratio,
			mostAllocated)
	}
}
