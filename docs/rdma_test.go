package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tapir/nic/al"
	"tapir/nic/verbs"
)

// testName is a test as the tables write it: `nic/verbs.TestCheck`.
var testName = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`")

// testsOf lists the test functions of a package.
func testsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// namedTests checks that every test that a page names exists, and returns
// their number.
func namedTests(t *testing.T, text string) int {
	t.Helper()
	packages := map[string][]string{}
	named := testName.FindAllStringSubmatch(text, -1)
	for _, m := range named {
		if packages[m[1]] == nil {
			packages[m[1]] = testsOf(t, m[1])
		}
		if !slices.Contains(packages[m[1]], m[2]) {
			t.Errorf("%s has no test %s", m[1], m[2])
		}
	}
	return len(named)
}

// TestRDMARows checks the tables of rdma.md: every test that they name exists,
// every row of the requirements is there, and has a test unless it says what
// it waits for.
func TestRDMARows(t *testing.T) {
	text, err := os.ReadFile("concepts/rdma.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := namedTests(t, string(text)); n < 60 {
		t.Errorf("only %d tests are named", n)
	}
	var ids []string
	for n := 1; n <= 21; n++ {
		ids = append(ids, fmt.Sprintf("| RD-%02d |", n))
	}
	for n := 1; n <= 28; n++ {
		ids = append(ids, fmt.Sprintf("| IW-%02d |", n))
	}
	for _, id := range ids {
		_, row, found := strings.Cut(string(text), id)
		row, _, _ = strings.Cut(row, "\n")
		switch {
		case id == "| RD-18 |": // XRC: among what an RNIC refuses
		case !found:
			t.Errorf("no row %s", id)
		case !testName.MatchString(row) && !strings.Contains(row, "not there yet"):
			t.Errorf("%s names no test", id)
		}
	}
}

// TestRDMAEvents compares the table of events with the code.
func TestRDMAEvents(t *testing.T) {
	text, err := os.ReadFile("concepts/rdma.md")
	if err != nil {
		t.Fatal(err)
	}
	for low := range verbs.NumEventTypes {
		tr := al.Translate(low)
		row := fmt.Sprintf("| %s | %v | %d | %v |", tr.IBTF, tr.Upper, tr.Upper, tr.Route)
		switch {
		case tr.Route == al.AddClient || tr.Route == al.RemoveClient:
			row = fmt.Sprintf("| %s | | | %v |", tr.IBTF, tr.Route)
		case tr.IBTF == "":
			row = tr.Upper.String()
			if tr.Route == al.Consumed {
				continue
			}
		}
		if !strings.Contains(string(text), row) {
			t.Errorf("%v: no row %q", low, row)
		}
	}
}
