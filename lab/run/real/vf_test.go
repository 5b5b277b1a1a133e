package real

import (
	"testing"

	"tapir/lab/run/result"
)

// The VFs of a NIC that is killed are there again with it, as interfaces of the same hosts.
func TestVFsOfAKilledNIC(t *testing.T) {
	r, said := run(t, `
nodes:
  pf: {kind: nic, ip: 10.0.0.1/24, sriov: {vfs: [{netns: c, host_tap: net0, ip: 10.0.0.11/24, trust: on}, {ip: [10.0.1.1/24, "fd00::1/64"]}]}}
  c: {kind: host}
  s: {kind: host, ip: 10.0.0.2/24}
links: [[pf, s]]
steps:
  - {run: ping -c 1 -w 10 10.0.0.2, on: c}
  - {run: ip addr show pfv1, on: pf, output: "fd00::1/64"}
  - {kill: pf}
  - {run: "sh -c '! ip link show net0'", on: c}
  - {start: pf}
  - {run: ping -c 1 -w 10 10.0.0.2, on: c}
  - {run: tapir vf show pf, on: pf, output: "vf 0 .* trust on"}
`, "")
	if r.Verdict != result.Passed {
		t.Error(said)
	}
}
