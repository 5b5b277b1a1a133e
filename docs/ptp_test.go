package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestScenarios holds docs/evidence/ptp-scenarios.md against the tests that it names.
func TestScenarios(t *testing.T) {
	text, err := os.ReadFile("evidence/ptp-scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	code := ""
	for _, dir := range []string{"../lab/check/linuxptp/suite", "../lab/check/linuxptp/interop"} {
		files, _ := filepath.Glob(dir + "/*_test.go")
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code += string(b)
		}
	}
	covered, names := 0, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !regexp.MustCompile(`^ \d\d-`).MatchString(cells[1]) {
			continue
		}
		name, test, remark := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4])
		switch {
		case names[name]:
			t.Errorf("%s is there twice", name)
		case test == "" && remark == "":
			t.Errorf("%s: neither a test nor a reason", name)
		case test != "" && !strings.Contains(code, "\nfunc "+test+"(t *testing.T) {"):
			t.Errorf("%s: there is no %s", name, test)
		case test != "":
			covered++
		}
		names[name] = true
	}
	if len(names) < 37 || covered < 35 {
		t.Errorf("%d scenarios, %d of them with a test", len(names), covered)
	}
}
