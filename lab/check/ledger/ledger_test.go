package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func load(t *testing.T) (root string, all []Clause) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if all, err = clauses(); err != nil {
		t.Fatal(err)
	}
	return root, all
}

// Each MUST has a test, or a reason why it is not a NIC's business; these are
// one in ten at most.
func TestEveryMustHasATest(t *testing.T) {
	_, all := load(t)
	for _, fault := range check(all) {
		t.Error(fault)
	}
	var total tally
	for i := range all {
		total.add(&all[i])
	}
	if total.must < 430 || total.should < 50 {
		t.Errorf("only %d MUST and %d SHOULD", total.must, total.should)
	}
	if total.mustNA*10 > total.must {
		t.Errorf("%d of %d MUST are not applicable, more than a tenth", total.mustNA, total.must)
	}
}

func TestNamedTestsExistAndAreRun(t *testing.T) {
	root, all := load(t)
	x, err := indexTests(root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		for _, name := range all[i].Tests() {
			if fault := x.missing(name); fault != "" {
				t.Errorf("%s: %s: %s", all[i].ID, name, fault)
			}
		}
	}
	for id, where := range x.tags {
		if byID(all, id) == nil {
			t.Errorf("%s names clause %s, which the ledger does not have", where, id)
		}
	}
	for name, ids := range x.tests {
		for _, id := range ids {
			if c := byID(all, id); c != nil && !strings.Contains(" "+c.Test+" ", " "+name+" ") {
				t.Errorf("%s says that it shows %s, but does not stand there", name, id)
			}
		}
	}
}

func TestPageIsUpToDate(t *testing.T) {
	root, all := load(t)
	have, err := os.ReadFile(filepath.Join(root, "docs/evidence/ledger.md"))
	if err != nil || string(have) != page(all) {
		t.Errorf("docs/evidence/ledger.md is not what `go run ./lab/check/ledger` writes: %v", err)
	}
}

// Where the texts of the RFCs lie beside the module, the ledger must hold
// every sentence with a requirement, word for word.
func TestNoClauseIsMissing(t *testing.T) {
	root, all := load(t)
	for _, r := range rfcs {
		text, err := os.ReadFile(filepath.Join(root, "../shared/rfc/rfc"+r.number+".txt"))
		if os.IsNotExist(err) || r.number == iscsi {
			continue
		}
		found := sentences(r.number, string(text))
		if len(found) < 40 {
			t.Errorf("RFC %s: %d sentences", r.number, len(found))
		}
		for _, s := range found {
			c := byID(all, s.id)
			switch {
			case c == nil:
				t.Errorf("%s is missing: %s", s.id, s.text)
			case c.Level != s.level:
				t.Errorf("%s is a %s: %s", s.id, s.level, s.text)
			case !strings.Contains(s.text, strings.Trim(c.Quote, ". ")):
				t.Errorf("%s does not read %q but %q", s.id, c.Quote, s.text)
			}
		}
		for i := range all {
			if all[i].RFC() == r.number && !contains(found, all[i].ID) {
				t.Errorf("RFC %s has no sentence %s", r.number, all[i].ID)
			}
		}
	}
}

func contains(list []sentence, id string) bool {
	for _, s := range list {
		if s.id == id {
			return true
		}
	}
	return false
}

func TestSentences(t *testing.T) {
	const text = `RFC 9999                 A Title                 October 2007

1.  Scope .......................... 3
1.  Scope

   The key words "MUST" and "SHOULD" are those of RFC 2119.

   It MUST be so.  Then it is not required.  This SHOULD
   hold (e.g. here), and also

Someone                     Standards Track                     [Page 1]

RFC 9999                 A Title                 October 2007

   MUST NOT end.

2.1.  More

   *  A REQUIRED item

   *  Another, RECOMMENDED one
`
	want := []sentence{
		{"9999-1-1", "MUST", "It MUST be so."},
		{"9999-1-2", "MUST", "This SHOULD hold (e.g. here), and also MUST NOT end."},
		{"9999-2.1-1", "MUST", "* A REQUIRED item"},
		{"9999-2.1-2", "SHOULD", "* Another, RECOMMENDED one"},
	}
	got := sentences("9999", text)
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func TestCheckFindsFaults(t *testing.T) {
	ok := Clause{ID: "5041-4.1-3", Level: "MUST", Quote: "MUST", What: "w", Test: "ddp.TestX"}
	with := func(change func(*Clause)) Clause {
		c := ok
		change(&c)
		return c
	}
	for want, list := range map[string][]Clause{
		"":                           {ok},
		"occurs twice":               {ok, ok},
		"not an id":                  {with(func(c *Clause) { c.ID = "5041-4.1" })},
		"has no text":                {with(func(c *Clause) { c.Quote = "" })},
		"without a test or a reason": {with(func(c *Clause) { c.Test = "" })},
		"more than one":              {with(func(c *Clause) { c.NA = "why" })},
		"is not followed":            {with(func(c *Clause) { c.Test, c.Not = "", "why" })},
		"level":                      {with(func(c *Clause) { c.Level = "MAY" })},
		"does not say how":           {with(func(c *Clause) { c.What = "" })},
	} {
		got := check(list)
		if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%q: %v", want, got)
		}
	}
}

func TestExpandTags(t *testing.T) {
	got := strings.Join(expandTags("Section 4 (5041-4.1-3, 5041-4.2-1\nto 5041-4.2-4)."), " ")
	if got != "5041-4.1-3 5041-4.2-1 5041-4.2-4 5041-4.2-2 5041-4.2-3" {
		t.Error(got)
	}
}

var clauseID = regexp.MustCompile(`^(5040|5041|5044|6581|7306|7143|IBTA)-[0-9A-Z.]+-[0-9]+$`)

// check returns what is wrong with the clauses themselves.
func check(all []Clause) (faults []string) {
	seen := map[string]bool{}
	for i := range all {
		c := &all[i]
		bad := func(format string, args ...any) {
			faults = append(faults, c.ID+": "+fmt.Sprintf(format, args...))
		}
		switch {
		case !clauseID.MatchString(c.ID):
			bad("not an id of the form RFC-section-number")
		case seen[c.ID]:
			bad("occurs twice")
		case c.Quote == "":
			bad("has no text")
		}
		seen[c.ID] = true
		answers := 0
		for _, s := range []string{c.Test, c.Not, c.NA} {
			if s != "" {
				answers++
			}
		}
		switch {
		case c.Level != "MUST" && c.Level != "SHOULD":
			bad("level is %q", c.Level)
		case answers == 0:
			bad("%s without a test or a reason", c.Level)
		case answers > 1:
			bad("more than one of test, not and na")
		case c.Not != "" && c.Level == "MUST":
			bad("a MUST that is not followed: %s", c.Not)
		case c.Test != "" && c.What == "":
			bad("does not say how the code does it")
		}
	}
	return faults
}
