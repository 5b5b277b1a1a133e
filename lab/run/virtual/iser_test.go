package virtual_test

import (
	"testing"

	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// TestISERCut: over RoCE, an initiator that waits for a target whose link is cut finds out within 6 seconds, and tells
// at once. A new session finds the disk when the link is back.
func TestISERCut(t *testing.T) {
	lab, err := topo.Parse("lab.yaml", []byte(`
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, personality: roce}
  b: {kind: nic, ip: 10.0.0.2/24, personality: roce}
links: [{between: [a, b], rate: 1Gbit, capture: false}]
steps:
  - {run: tapir iscsi target a --lun mem:64M --iser, on: a, name: target, background: true}
  - {wait: {step: target, output: serves}}
  - run: tapir iscsi initiator write b iser://10.0.0.1/iqn.2026-11.tapir:a/0
    on: b
    name: write
    background: true
    exit: 1
    output: transport retry counter exceeded
  - {wait: {node: a, counter: iscsi_octets_written, min: 8000000}}
  - {link: a-b, state: down}
  - {wait: write, timeout: 6s}
  - {link: a-b, state: up}
  - {run: tapir iscsi initiator write b iser://10.0.0.1/iqn.2026-11.tapir:a/0 --length 4M --seed 1, on: b}
  - {run: tapir iscsi initiator verify b iser://10.0.0.1/iqn.2026-11.tapir:a/0 --length 4M --seed 1, on: b}
`))
	if err != nil {
		t.Fatal(err)
	}
	run(t, lab, virtual.Options{})
}
