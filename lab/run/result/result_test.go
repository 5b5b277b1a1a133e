package result

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tapir/lab/topo"
)

const pair = `
name: pair
seed: 7
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  h: {kind: host, ip: 10.0.0.2/24}
links: [[a, h]]
steps:
  - {run: ping -c 1 10.0.0.1, on: h}
  - {run: "echo <b>", on: h}
  - wait: 1ms
`

func newResult(t *testing.T) *Result {
	t.Helper()
	lab, err := topo.Parse("pair.yaml", []byte(pair))
	if err != nil {
		t.Fatal(err)
	}
	return New(lab)
}

// What is not reached is there, too, and a step that fails fails the lab.
func TestJudge(t *testing.T) {
	r := newResult(t)
	r.Steps[0].Begin(100 * time.Millisecond)
	r.Steps[0].End(400*time.Millisecond, nil)
	r.Steps[1].Begin(500 * time.Millisecond)
	r.Steps[1].End(time.Second, errors.New("no"))
	r.Judge(2*time.Second, nil)
	if r.Verdict != Failed || r.Done() != 2 || r.Seconds != 2 {
		t.Errorf("%+v", r)
	}
	for i, want := range []Step{{Verdict: Passed, Start: 0.1, Seconds: 0.3}, {Verdict: Failed, Error: "no", Start: 0.5, Seconds: 0.5}, {Verdict: Skipped}} {
		if s := r.Steps[i]; s.Verdict != want.Verdict || s.Error != want.Error || s.Start != want.Start || s.Seconds != want.Seconds {
			t.Errorf("step %d: %+v", i, s)
		}
	}
	if r = newResult(t); r.Verdict != Skipped {
		t.Errorf("before it begins: %s", r.Verdict)
	}
	if r.Judge(0, nil); r.Verdict != Passed || r.Error != "" {
		t.Errorf("nothing failed: %+v", r)
	}
	if r.Judge(0, errors.New("a has ended")); r.Verdict != Failed || r.Error != "a has ended" {
		t.Errorf("a node failed: %+v", r)
	}
}

// What is written is what was read.
func TestWrite(t *testing.T) {
	dir, r := t.TempDir(), newResult(t)
	r.Nodes[0].Counters = []Counter{{"rx_packets", 3}}
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	again := &Result{}
	if err := errors.Join(json.Unmarshal(data, again), json.Unmarshal(data, &got)); err != nil {
		t.Fatal(err)
	}
	data, err = json.Marshal(again)
	if err := errors.Join(err, json.Unmarshal(data, &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || again.Nodes[0].Addresses[0] != "10.0.0.1/24" || again.Seed != 7 || again.Links[0].Name != "a-h" {
		t.Errorf("%s\n%+v", diff, again)
	}
}
