package virtual_test

import (
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// targets is a lab with a target of each protocol.
const targets = `
clock: virtual
nodes:
  iscsi: {kind: target, ip: 10.0.0.1/24, luns: ["mem:1M", "sparse:/disk:16M,block=4096"]}
  hba: {kind: target, ip: 10.0.0.2/24, personality: iscsi, iscsi_is_target: 1, offload: true, luns: mem:16M}
  iser: {kind: target, ip: 10.0.0.3/24, personality: roce, protocol: iser, luns: mem:16M}
  nvme: {kind: target, ip: 10.0.0.4/24, protocol: nvme, port: 4421, luns: mem:16M}
  fcoe: {kind: target, ip: 10.0.0.5/24, protocol: fcoe, personality: fcoe, luns: mem:16M}
  many: {kind: target, ip: 10.0.0.10/24, count: 2, luns: mem:16M}
  w: {kind: nic, ip: 10.0.0.6/24}
  r: {kind: nic, ip: 10.0.0.7/24, personality: roce}
  f: {kind: nic, ip: 10.0.0.8/24, personality: fcoe}
  s: {kind: switch, fcf: true}
links: [[iscsi, s], [hba, s], [iser, s], [nvme, s], [fcoe, s], [many, s], [w, s], [r, s], [f, s]]
steps:
  - {run: tapir iscsi initiator write w iscsi://10.0.0.1/iqn.2026-11.tapir:iscsi/1 --length 1M --seed 3, on: w}
  - {run: tapir iscsi initiator write w iscsi://10.0.0.2/iqn.2026-11.tapir:hba/0 --length 1M, on: w}
  - {run: tapir iscsi initiator write r iser://10.0.0.3/iqn.2026-11.tapir:iser/0 --length 1M, on: r}
  - {run: "tapir nvme initiator write w nvme://10.0.0.4:4421/nqn.2026-11.tapir:nvme/1 --length 1M", on: w}
  - {run: tapir fcoe initiator write f fcoe://any/0 --length 1M, on: f}
  - {run: tapir iscsi initiator write w iscsi://10.0.0.11/iqn.2026-11.tapir:many2/0 --length 1M, on: w}
  - expect: {node: hba, counter: iscsi_octets_written, min: 1048576}
`

// TestTargets: targets serve from the start of the lab, and again when they are started again. What they
// serve does not outlast them.
func TestTargets(t *testing.T) {
	text := targets + `
  - {kill: iscsi}
  - {kill: nvme}
  - {run: tapir iscsi initiator read w iscsi://10.0.0.1/iqn.2026-11.tapir:iscsi/1 --length 1M, on: w, exit: 1}
  - {start: iscsi}
  - {run: tapir iscsi initiator verify w iscsi://10.0.0.1/iqn.2026-11.tapir:iscsi/1 --length 1M --seed 3, on: w}
`
	lab, err := topo.Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	run(t, lab, virtual.Options{})
}

// TestTargetRefused: a lab whose target cannot serve does not come up.
func TestTargetRefused(t *testing.T) {
	lab, err := topo.Parse("lab.yaml", []byte(`
clock: virtual
nodes:
  a: {kind: target, ip: 10.0.0.1/24, personality: iscsi, offload: true, luns: mem:1M}
  b: {kind: nic, ip: 10.0.0.2/24}
links: [[a, b]]
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := virtual.Run(t.Context(), lab, virtual.Options{})
	want := "a does not serve: tapir: the iSCSI function of a is that of an initiator"
	if err != nil || r.Verdict != result.Failed || !strings.Contains(r.Error, want) {
		t.Errorf("%v %v %q, want %s", err, r.Verdict, r.Error, want)
	}
}
