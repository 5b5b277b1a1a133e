package inspect_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/capturetest"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/tool/inspect"
	"tapir/lab/topo"
	"tapir/wire/pcapng"
)

// iscsiLab is a disk that is written and read, over a link that loses, doubles and reorders.
const iscsiLab = `
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  b: {kind: nic, ip: 10.0.0.2/24}
links: [{between: [a, b], delay: 50us}]
steps:
  - {run: tapir iscsi target a --lun mem:8M, on: a, name: target, background: true}
  - wait: {step: target, output: serves}
  - {fault: a-b, delay: 50us, loss: LOSS, reorder: LOSS, duplicate: LOSS}
  - {run: tapir iscsi initiator write iscsi://10.0.0.1/iqn.2026-11.tapir:a/0 --nic b --size 512K --length 1M --seed 5 FLAGS, on: b}
  - {run: tapir iscsi initiator verify iscsi://10.0.0.1/iqn.2026-11.tapir:a/0 --nic b --size 1M --length 1M --seed 5 FLAGS, on: b}
`

// iscsiTrace is the capture of such a lab at one of its ends.
func iscsiTrace(t *testing.T, loss, flags, end string) (list []inspect.Packet, notes []string) {
	t.Helper()
	return labTrace(t, strings.NewReplacer("LOSS", loss, "FLAGS", flags).Replace(iscsiLab), end)
}

// labTrace runs a lab and returns the capture and the comments at one of its ends.
func labTrace(t *testing.T, text, end string) (list []inspect.Packet, notes []string) {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if r, err := virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Out: dir}}); err != nil || r.Verdict != result.Passed {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, p := range capturetest.Packets(t, filepath.Join(dir, "lab.pcapng")) {
		if ends := map[string]uint32{"a-b:a": 0, "a-b:b": 1}; p.Interface == ends[end] && p.ID != 0 {
			notes = append(notes, p.Comments...)
			list = append(list, inspect.Packet{Time: p.Stamp, Link: pcapng.LinkEthernet, Data: p.Data, OrigLen: int(p.OrigLen)})
		}
	}
	return inspect.Renumbered(list...), notes
}

// TestISCSITraces: what our initiator and target say breaks no rule at either end of a bad link, nor does a worse
// capture of it.
func TestISCSITraces(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--digests"} {
		for _, end := range []string{"a-b:a", "a-b:b"} {
			list, _ := iscsiTrace(t, "1%", flags, end)
			r := inspect.Judge(list)
			if v := r.Verdict(); v != inspect.Clean || len(r.Flows) != 2 || r.Flows[0].Protocol != "iSCSI" {
				t.Errorf("%s, %s: %v, %d flows: %v", flags, end, v, len(r.Flows), r.First())
			}
			if f := r.Flows[0]; f.Sides[0].Messages["Data-Out"] == 0 || r.Flows[1].Sides[1].Messages["Data-In"] == 0 ||
				!strings.Contains(f.Agreed, "ImmediateData Yes") {
				t.Errorf("%s, %s: %+v", flags, end, f)
			}
			for seed := range uint64(20) {
				for worse, list := range inspect.Degraded(rand.New(rand.NewPCG(seed, 7143)), list) {
					for _, f := range inspect.Judge(list).Findings {
						if !f.Note {
							t.Errorf("%s, %s, seed %d: %v", end, worse, seed, f)
						}
					}
				}
			}
		}
	}
}

// TestISCSINotes: the capture of a NIC has a comment for each PDU that the inspector finds, with its fields.
func TestISCSINotes(t *testing.T) {
	t.Parallel()
	list, notes := iscsiTrace(t, "0%", "--digests", "a-b:b")
	in := inspect.New(inspect.Options{Ladder: 1 << 20})
	for k := range list {
		in.Packet(&list[k])
	}
	var want, got []string
	for _, e := range in.Finish().Ladder {
		if !strings.HasPrefix(e.Name, "TCP") {
			want = append(want, "iSCSI "+e.Name+" "+e.Detail)
		}
	}
	for _, n := range notes {
		if strings.HasPrefix(n, "iSCSI ") {
			got = append(got, n)
		}
	}
	if !slices.Equal(got, want) || len(got) < 20 {
		t.Errorf("%d comments, %d PDUs:\n%s\n\n%s", len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
