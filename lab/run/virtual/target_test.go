package virtual_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
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

// TestCapsulesInCaptures: over either transport, captures say what commands and responses Sends are.
func TestCapsulesInCaptures(t *testing.T) {
	for _, personality := range []string{"iwarp", "roce"} {
		text := strings.ReplaceAll(`
clock: virtual
nodes:
  a: {kind: target, ip: 10.0.0.1/24, protocol: nvme, personality: PP, luns: mem:1M}
  c: {kind: target, ip: 10.0.0.3/24, protocol: iser, personality: PP, luns: mem:1M}
  b: {kind: nic, ip: 10.0.0.2/24, personality: PP}
  s: {kind: switch}
links: [[a, s], [b, s], [c, s]]
steps:
  - {run: tapir nvme initiator write b nvme://10.0.0.1/nqn.2026-11.tapir:a/1 --length 8K --size 4K --depth 1, on: b}
  - {run: tapir iscsi initiator read b iser://10.0.0.3/iqn.2026-11.tapir:c/0 --length 64K, on: b}
`, "PP", personality)
		lab, err := topo.Parse("lab.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out := t.TempDir()
		r, err := virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Out: out}})
		if err != nil || r.Verdict != result.Passed {
			t.Fatal(err, r.Verdict, r.Error)
		}
		capture, err := os.ReadFile(filepath.Join(out, "lab.pcapng"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"NVMe Connect CID 0 queue 1 of ", "NVMe Write CID 0 namespace 1, 8 blocks at 8, 4096 octets",
			"NVMe completion CID 0 SQHD 3 success", "iSER Login Request ITT 0x0 stage 0 to 1",
			"iSER SCSI Command ITT 0x3 LUN 0 CmdSN 3 CDB 0x88 reads 65536 read STag 0x", "iSER SCSI Response ITT 0x3 status 0x0",
		} {
			// Sender and receiver say it.
			if n := bytes.Count(capture, []byte(want)); n < 2 {
				t.Errorf("%s: %d times %q", personality, n, want)
			}
		}
	}
}
