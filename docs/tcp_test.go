package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scriptFolder is a folder of scripts as the table of tcp.md writes it: an RFC
// and a section.
var scriptFolder = regexp.MustCompile("`(\\d{3,4}-[A-Z0-9.]+)`")

// TestTCPRows checks the table of tcp.md: every test and folder of scripts that
// it names exists, no row is without, no folder is missing, and the number of
// scripts is right.
func TestTCPRows(t *testing.T) {
	b, err := os.ReadFile("concepts/tcp.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	const rows = 32
	for n := 1; n <= rows; n++ {
		_, row, found := strings.Cut(text, fmt.Sprintf("| TE-%02d |", n))
		row, _, _ = strings.Cut(row, "\n")
		if !found || !testName.MatchString(row) {
			t.Errorf("row %d names no test", n)
		}
	}
	packages := map[string][]string{}
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		if packages[m[1]] == nil {
			packages[m[1]] = testsOf(t, m[1])
		}
		if !slices.Contains(packages[m[1]], m[2]) {
			t.Errorf("%s has no test %s", m[1], m[2])
		}
	}
	folders, err := os.ReadDir("../lab/tool/script/testdata/tcp")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range scriptFolder.FindAllStringSubmatch(text, -1) {
		named[m[1]] = true
	}
	for _, f := range folders {
		if !named[f.Name()] {
			t.Errorf("no row names the scripts of %s", f.Name())
		}
		delete(named, f.Name())
	}
	for name := range named {
		t.Errorf("there are no scripts of %s", name)
	}
	scripts, err := filepath.Glob("../lab/tool/script/testdata/tcp/*/*.wire")
	if err != nil || !strings.Contains(text, fmt.Sprintf("\n%d in all", len(scripts))) {
		t.Errorf("%d scripts: %v", len(scripts), err)
	}
}
