package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurity: each test, fuzz target and row of attack.md that SECURITY.md names is
// there.
func TestSecurity(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("evidence/attack.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)`").FindAllSubmatch(text, -1)
	if len(named) == 0 {
		t.Error("no test is named")
	}
	for _, m := range named {
		files, _ := filepath.Glob(filepath.Join("..", string(m[1]), "*_test.go")) // the pattern is good
		found := false
		for _, f := range files {
			src, err := os.ReadFile(f)
			found = found || err == nil && bytes.Contains(src, []byte("\nfunc "+string(m[2])+"("))
		}
		if !found {
			t.Errorf("there is no %s in %s", m[2], m[1])
		}
	}
	rows := regexp.MustCompile("rows? ((?:`[a-z0-9-]+`(?:, | and | to )?)+)").FindAllSubmatch(text, -1)
	if len(rows) == 0 {
		t.Error("no row is named")
	}
	for _, m := range rows {
		for _, name := range regexp.MustCompile("[a-z0-9-]{2,}").FindAllString(strings.NewReplacer(" and ", " ", " to ",
			" ").Replace(string(m[1])), -1) {
			if !bytes.Contains(table, []byte("\n| "+name+" |")) {
				t.Errorf("attack.md has no row %s", name)
			}
		}
	}
}
