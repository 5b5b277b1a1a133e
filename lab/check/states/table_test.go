package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"tapir/lab/tool/live"
	"tapir/lab/tool/script"
)

const root = "../../tool/script/testdata"

// The committed table has a row for each script, as the library and Table say;
// what it says of siw is checked by states.
func TestTableIsUpToDate(t *testing.T) {
	b, err := os.ReadFile("../../../docs/evidence/scripts-state.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := Rows(string(b))
	if Table(rows) != string(b) {
		t.Error("docs/evidence/scripts-state.md is not what its rows make; run as root: go run ./lab/check/states -write")
	}
	scripts, err := Library(root)
	if err != nil {
		t.Fatal(err)
	}
	var want []Row
	for _, s := range scripts {
		o := script.Outcome{}
		if why := s.NotLive(script.Linux); why != "" {
			o = script.Outcome{Frames: script.NotApplicable, Inside: script.NotApplicable, Why: []string{why}}
		}
		r, err := row(root, live.Result{Script: s, Outcome: o})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(rows, func(have Row) bool { return have.Name == r.Name })
		switch {
		case i < 0:
			t.Errorf("%s: not in the table", r.Name)
		case rows[i].Clause != r.Clause || (rows[i].Frames == "n/a") != (r.Frames == "n/a") || r.Frames == "n/a" && rows[i] != r:
			t.Errorf("%s: the table has %+v, want %+v", r.Name, rows[i], r)
		case rows[i].Frames+rows[i].Inside != "holdsholds" && rows[i].Why == "":
			t.Errorf("%s: it differs without a reason", r.Name)
		}
		want = append(want, r)
	}
	if len(rows) != len(want) || len(want) < 300 {
		t.Errorf("%d rows of %d scripts", len(rows), len(want))
	}
}

func TestChanges(t *testing.T) {
	had := []Row{{Name: "a", Frames: "holds", Inside: "holds"}, {Name: "b", Frames: "holds", Inside: "holds"}, {Name: "d", Frames: "n/a", Inside: "n/a"}}
	have := []Row{{Name: "a", Frames: "holds", Inside: "holds"}, {Name: "b", Frames: "holds", Inside: "differs", Why: "1"}, {Name: "c", Frames: "holds", Inside: "holds"}}
	want := []string{"b: frames holds, inside differs; the table says holds, holds: 1", "c: not in the table", "d: in the table only"}
	if list := Changes(had, have); !slices.Equal(list, want) {
		t.Errorf("%q", list)
	}
	if list := Changes(had, had); len(list) != 0 {
		t.Errorf("the same: %q", list)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		why  []string
		want string
	}{
		{[]string{"no async access-error 1/1/0", "more has happened than the script says: expect async qp-fatal"}, "1"},
		{[]string{"wrong error, M bit, D bit: terminate 2/0/3", "no async access-error 1/1/0"}, "1, 2"},
		{[]string{"something | else", "no async x"}, "1; something / else"},
		{[]string{"wrong message: not rst: fin"}, "7"},
		{[]string{strings.Repeat("x", 200)}, strings.Repeat("x", 110) + "..."},
	} {
		if have := explain(c.why); have != c.want {
			t.Errorf("%q: %q, want %q", c.why, have, c.want)
		}
	}
}

func TestResultText(t *testing.T) {
	s, err := script.Parse("x.wire", "protocol iwarp\n0 listen")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    script.Outcome
		want string
	}{
		{script.Outcome{}, "x.wire: holds"},
		{script.Outcome{Unseen: 2}, "x.wire: holds (not seen: 2)"},
		{script.Outcome{Inside: script.Differs, Why: []string{"a", "b"}}, "x.wire: differs: frames hold, inside differs\n  a\n  b"},
		{script.Outcome{Frames: script.NotApplicable, Inside: script.NotApplicable, Why: []string{"no"}}, "x.wire: n/a: no"},
	} {
		if have := (live.Result{Script: s, Outcome: c.o}).String(); have != c.want {
			t.Errorf("%q, want %q", have, c.want)
		}
	}
}
