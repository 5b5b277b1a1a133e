package real

import (
	"testing"

	"tapir/lab/run/result"
)

// A target serves from the start of the lab, and again after a kill; a file has what was written.
// One that cannot serve fails the lab.
func TestTarget(t *testing.T) {
	disk := t.TempDir() + "/disk"
	r, said := run(t, `
nodes:
  a: {kind: target, ip: 10.0.0.1/24, luns: "sparse:`+disk+`:16M"}
  b: {kind: nic, ip: 10.0.0.2/24}
links: [[a, b]]
steps:
  - {run: tapir iscsi initiator write b iscsi://10.0.0.1/iqn.2026-11.tapir:a/0 --length 1M --seed 3, on: b}
  - {kill: a}
  - {start: a}
  - {run: tapir iscsi initiator verify b iscsi://10.0.0.1/iqn.2026-11.tapir:a/0 --length 1M --seed 3, on: b}
`, "")
	if r.Verdict != result.Passed || r.Nodes[0].Kind != "target" {
		t.Error(r.Nodes[0].Kind, said)
	}
	nothingLeft(t)
}
