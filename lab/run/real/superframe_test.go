package real

import (
	"testing"

	"tapir/lab/run/result"
)

// Small messages of RoCE share super-frames, with no more packets than Linux takes from a TAP.
func TestRoCESuperFrames(t *testing.T) {
	r, said := run(t, `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, personality: roce, frames: gso}
  b: {kind: nic, ip: 10.0.0.2/24, personality: roce, frames: gso}
links: [[a, b]]
steps:
  - {perf: write-bw, server: b, client: a, size: [8], iters: 4096, depth: 256}
`, "")
	if r.Verdict != result.Passed {
		t.Error(said)
	}
}
