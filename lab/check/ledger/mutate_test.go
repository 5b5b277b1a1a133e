package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The texts that mutations replace must still be there, exactly once, and what
// replaces them must be Go.
func TestMutationsStillApply(t *testing.T) {
	root, all := load(t)
	muts, err := mutations()
	if err != nil {
		t.Fatal(err)
	}
	for i := range muts {
		if _, err := muts[i].apply(root); err != nil {
			t.Errorf("%s: %v", muts[i].Clauses, err)
		}
	}
	ts, err := targets(all, muts)
	if err != nil {
		t.Fatal(err)
	}
	if len(ts) < 90 {
		t.Errorf("only %d clauses have a mutation", len(ts))
	}
}

func TestDraw(t *testing.T) {
	_, all := load(t)
	muts, err := mutations()
	if err != nil {
		t.Fatal(err)
	}
	ts, err := targets(all, muts)
	if err != nil {
		t.Fatal(err)
	}
	ids := func(n int, seed uint64) (s []string) {
		for _, v := range draw(ts, n, seed) {
			s = append(s, v.clause.ID)
		}
		return s
	}
	if a := ids(60, 1); len(a) != 60 || !slices.Equal(a, ids(60, 1)) || slices.Equal(a, ids(60, 2)) || len(ids(0, 1)) != len(ts) {
		t.Errorf("drawn %v", a)
	}
}

func TestCalls(t *testing.T) {
	got := calls([]string{"ddp.TestA", "nic/iwarp.TestB", "ddp.TestC", "iwarp/5041-7.1/x.wire"})
	want := []call{{"ddp", "^TestA$|^TestC$"}, {"nic/iwarp", "^TestB$"}, {"lab/tool/script", `^TestScripts$/^iwarp$/^5041-7\.1$/^x\.wire$`}}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A small module of its own shows what a run makes of mutants that are
// noticed, survive or do not compile.
func TestRunOfMutants(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module m\n\ngo 1.26\n",
		"a/a.go":      "package a\n\nfunc Positive(n int) bool { return n > 0 }\n\nfunc Unused() int { return 7 }\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestPositive(t *testing.T) {\n\tif Positive(0) || !Positive(1) {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := &Clause{ID: "5041-4.1-3", Test: "a.TestPositive"}
	for _, m := range []struct {
		code, with, red, fault string
	}{
		{"n > 0", "n >= 0", "a.TestPositive", ""},
		{"return 7", "return 8", "", ""},
		{"n > 0", "missing", "", "undefined: missing"},
		{"n < 0", "true", "", "occurs 0 times"},
		{"n > 0", "n >", "", "expected"},
	} {
		r := &runner{root: root, dir: t.TempDir(), log: io.Discard}
		done := r.run([]target{{c, &Mutation{File: "a/a.go", Code: m.code, With: m.with}}})
		if len(done) != 1 || done[0].red != m.red || done[0].bad() != (m.red == "") {
			t.Fatalf("%q: %+v", m.with, done)
		}
		if err := done[0].fault; (err != nil) != (m.fault != "") || err != nil && !strings.Contains(err.Error(), m.fault) {
			t.Errorf("%q: %v", m.with, err)
		}
		if text := report(done, 1, 9, count(m.red == ""), 0); !strings.Contains(text, "1 of 9") || strings.Contains(text, "nobody") != (m.red == "") {
			t.Errorf("report:\n%s", text)
		}
	}
}
