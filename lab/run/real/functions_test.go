package real

import (
	"testing"

	"tapir/lab/run/result"
)

// Functions of one device, each with its host TAP, talk to peers at its ports, RDMA and
// the operating system's packets. A driver of one that is unloaded and loaded again is
// none of its neighbor's business. The other device is of ideal hardware.
//
// OV-01
func TestFunctions(t *testing.T) {
	r, said := run(t, `
nodes:
  card:
    kind: card
    port_mode: 2x25G
    mf_mode: npar
    frames: gso
    functions:
      - {name: f0, port: 0, ip: 10.0.0.1/24}
      - {name: f1, port: 0, ip: 10.0.0.2/24}
      - {name: f2, port: 1, ip: 10.0.1.1/24, personality: eth}
  peer:
    kind: card
    hardware: ideal
    frames: gso
    functions: [{name: b, ip: 10.0.0.9/24}, {name: b1, ip: 10.0.0.8/24}]
  c: {kind: host, ip: 10.0.1.9/24}
links: [[card, peer], [card, c]]
steps:
  - {run: ping -c 1 -w 10 -I eth0 10.0.0.9, on: f0}
  - {run: ping -c 1 -w 10 -I eth1 10.0.0.9, on: f1}
  - {run: ping -c 1 -w 10 10.0.1.1, on: c}
  - {perf: verify, client: f0, server: b, size: [8, 65536]}
  - {perf: verify, client: b, server: f1, size: [8, 65536]}
  - {run: tapir set f1 driver=unloaded, on: f1}
  - {perf: verify, client: f0, server: b, size: [65536]}
  - {run: tapir set f1 driver=loaded, on: f1}
  - {perf: write-bw, client: f1, server: b, size: 65536, iters: 20}
  - {run: ping -c 1 -w 10 -I eth1 10.0.0.1, on: b1}
  - {perf: verify, client: b1, server: f0, size: [8, 65536]}
  - expect: {node: f1, counter: tx_packets, min: 10}
`, "")
	if r.Verdict != result.Passed {
		t.Error(said)
	}
}
