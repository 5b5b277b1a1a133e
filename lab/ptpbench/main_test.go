package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/ptpsim"
)

func TestRowsAreTold(t *testing.T) {
	var out bytes.Buffer
	r := row{"X1", "what", func(*bench) ([]ptpsim.Check, error) {
		return []ptpsim.Check{{What: "a", Value: 1.25, Limit: 2, Unit: "ns"}, {What: "b", Value: 3, Limit: 8, AtLeast: true, Unit: "times"}}, errors.New("two\nlines")
	}}
	r.write(&out, nil)
	const want = "| X1 | what: a | 1.25 ns | ≤ 2 | met |\n| X1 | …: b | 3 times | ≥ 8 | **missed** |\n| X1 | … | | | **failed**: two; lines |\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestReplace(t *testing.T) {
	doc := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(doc, []byte("head\n"+begin+"old\n"+end+"tail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replace(doc, []byte("new\n")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(doc); string(got) != "head\n"+begin+"new\n"+end+"tail\n" {
		t.Errorf("got %q", got)
	}
	if err := replace(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("a document that is not there")
	}
	if err := os.WriteFile(doc, []byte("head\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replace(doc, nil); err == nil {
		t.Error("a document without a place")
	}
}

// The document has every row.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/ptp-performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(simulated(), live()...) {
		if !strings.Contains(string(text), "\n| "+r.id+" |") {
			t.Errorf("docs/ptp-performance.md has no row %s: run make bench-ptp", r.id)
		}
	}
}

// Rows that need neither the network nor other programs.
func TestCheapRows(t *testing.T) {
	b := &bench{ctx: t.Context(), docs: "../../docs"}
	for _, run := range []func(*bench) ([]ptpsim.Check, error){stamp, scenarios} {
		checks, err := run(b)
		if err != nil || len(checks) == 0 {
			t.Fatal(checks, err)
		}
		if last := checks[len(checks)-1]; !last.Met() { // allocations, scenarios
			t.Errorf("%v", last)
		}
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	if d := deviation([]float64{1, 3}); math.Abs(d-1) > 1e-9 {
		t.Errorf("standard deviation %v", d)
	}
}

func TestOneStamp(t *testing.T) {
	checks, err := oneStamp(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !c.Met() {
			t.Errorf("%s: %v, limit %v", c.What, c.Value, c.Limit)
		}
	}
}
