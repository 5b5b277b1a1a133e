package real

import (
	"fmt"
	"testing"

	"tapir/lab/run/result"
)

// NICs of ideal hardware talk to each other and to FastLinQ hardware, with the
// operating system beside them: a verified RDMA Write, and a ping.
func TestIdealHardware(t *testing.T) {
	for _, b := range []string{"ideal", "fastlinq"} {
		t.Run(b, func(t *testing.T) {
			r, said := run(t, fmt.Sprintf(`
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, hardware: ideal}
  b: {kind: nic, ip: 10.0.0.2/24, frames: gso, hardware: %s}
links: [[a, b]]
steps:
  - {run: ping -c 1 -w 10 10.0.0.2, on: a}
  - {perf: verify, client: a, server: b, size: [8, 65536]}
  - {perf: write-bw, client: b, server: a, size: 65536, iters: 20}
  - expect: {node: a, counter: rdma_write_in, min: 20}
`, b), "")
			if r.Verdict != result.Passed {
				t.Error(said)
			}
		})
	}
}
