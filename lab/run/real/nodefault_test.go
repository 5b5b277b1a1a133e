package real

import (
	"os"
	"path/filepath"
	"testing"

	"tapir/lab/run/result"
)

// What is killed begins anew, with its addresses; links find its queue pairs and
// the capture has its frames in all its lives. What is to happen later happens
// while a workload runs.
func TestKill(t *testing.T) {
	r, said := run(t, `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, phc_drift_register: 0}
  b: {kind: nic, ip: 10.0.0.2/24, frames: gso}
links:
  - between: [a, b]
    rate: 1Gbit
    rules: [{drop: fpdu, nth: 3, qp: 1, from: a, name: own}, {drop: fpdu, nth: 4, qp: {nic: b, qpn: 9}, name: nobody, optional: true}]
steps:
  - {kill: b}
  - {start: b}
  - {perf: verify, client: a, server: b, size: 4096}
  - {kill: a, after: 50ms}
  - {perf: write-bw, client: a, server: b, duration: 30s, error: ^a was killed$}
  - {start: a}
  - {perf: verify, client: b, server: a, size: 4096}
  - expect: {link: a-b, counter: own, min: 1}
  - expect: {link: a-b, counter: nobody, max: 0}
  - {run: sleep 100, on: a, name: sleeper, background: true}
  - {kill: sleeper}
  - wait: sleeper
  - {phc: a, step: 1h}
  - {phc: a, ppb: 5000}
  - {run: tapir ptp status a, on: a, output: '(?s)true offset +3[56][0-9]{11} ns.*correction +\+5000\.000 ppb'}
  - expect: {link: a-b, filter: frame.comment contains "RDMA Read Request last", min: 2}
`, "")
	if r.Verdict != result.Passed {
		t.Error(said)
	}
}

// TestKillAnyKind: a node of any kind is killed and starts again, as in virtual time.
func TestKillAnyKind(t *testing.T) {
	files, err := filepath.Glob("../virtual/testdata/kill/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if r, said := run(t, string(text), ""); r.Verdict != result.Passed {
				t.Error(said)
			}
		})
	}
}
