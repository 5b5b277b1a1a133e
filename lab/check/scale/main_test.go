package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Ten times the NICs have ten times the events and take ten times the memory.
func TestCostGrowsWithNICs(t *testing.T) {
	all, err := both(t.Context(), append(busy(20, 10, 100), work{nics: 100, qps: 1, iters: 1})...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if want := int64(c.nics * c.qps * c.iters); c.messages != want {
			t.Errorf("%d messages, want %d", c.messages, want)
		}
	}
	few, many := all[0], all[2]
	t.Logf("%+v, %+v", few, many)
	for _, x := range []struct {
		what      string
		few, many float64
	}{
		{"events", float64(few.events), float64(many.events)},
		{"octets of heap before the step", float64(few.idle), float64(many.idle)},
		{"octets of heap behind it", float64(few.left), float64(many.left)},
	} {
		if r := x.many / x.few; r > 11.5 {
			t.Errorf("%s: %.0f of %d NICs, %.0f of %d: %.1f times", x.what, x.few, few.nics, x.many, many.nics, r)
		}
	}
	if perMessage := float64(many.events) / float64(many.messages); perMessage > 2 {
		t.Errorf("%.2f events a message", perMessage)
	}

	if _, heap := advantage(all); heap > mostHeap {
		t.Errorf("an idle NIC of ideal hardware takes %.2f of the memory", heap)
	}

	file := filepath.Join(t.TempDir(), drawing)
	if err := draw(file, all); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(svg, []byte("CPU time (s)")) {
		t.Errorf("%v: %.100s", err, svg)
	}
	if doc := string(document(all, "1 1 1")); !strings.Contains(doc, "| 100 | ideal | 1000 | 20000 |") {
		t.Error(doc)
	}
}
