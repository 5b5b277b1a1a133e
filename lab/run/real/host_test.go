package real

import (
	"testing"

	"tapir/lab/run/result"
)

// A host has an interface for each of its links, with addresses of its own.
func TestSeveralInterfaces(t *testing.T) {
	r, said := run(t, `
nodes:
  a: {kind: nic, ip: 10.0.1.1/24}
  b: {kind: nic, ip: 10.0.2.1/24}
  h: {kind: host, at: {a-h: [10.0.1.9/24, "fd00::9/64"], h-b: 10.0.2.9/24}}
links: [[a, h], [h, b]]
steps:
  - {run: ping -c 1 -w 10 10.0.1.9, on: a}
  - {run: ping -c 1 -w 10 10.0.2.1, on: h}
  - {run: ip -o addr show eth1, on: h, output: 10.0.2.9/24}
`, "")
	if r.Verdict != result.Passed {
		t.Error(said)
	}
}
