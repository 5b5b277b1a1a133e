package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
)

func TestRowsAreTold(t *testing.T) {
	var out bytes.Buffer
	r := row{"X1", "what", func(*bench) ([]check, error) {
		return []check{{what: "a", value: 1.25, limit: 2, unit: "ns"}, {what: "b", value: 3, limit: 8, atLeast: true, unit: "times"}}, errors.New("two\nlines")
	}}
	r.write(&out, nil)
	const want = "| X1 | what: a | 1.25 ns | ≤ 2 | met |\n| X1 | …: b | 3 times | ≥ 8 | **missed** |\n| X1 | … | | | **failed**: two; lines |\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// The document has every row.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/evidence/ptp-performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(simulated(), live()...) {
		if !strings.Contains(string(text), "\n| "+r.id+" |") {
			t.Errorf("docs/evidence/ptp-performance.md has no row %s: run make bench-ptp", r.id)
		}
	}
}

// Rows that need neither the network nor other programs.
func TestCheapRows(t *testing.T) {
	b := &bench{ctx: t.Context(), docs: "../../../docs/evidence"}
	for _, run := range []func(*bench) ([]check, error){stamp, scenarios} {
		checks, err := run(b)
		if err != nil || len(checks) == 0 {
			t.Fatal(checks, err)
		}
		if last := checks[len(checks)-1]; !last.met() { // allocations, scenarios
			t.Errorf("%v", last)
		}
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
		if !c.met() {
			t.Errorf("%s: %v, limit %v", c.what, c.value, c.limit)
		}
	}
}
