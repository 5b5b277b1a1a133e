package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tapir/lab/tool/inspect"
)

// TestInspect holds the reports shown in inspect.md against real ones, and its
// table of siw's deviations against the rules.
func TestInspect(t *testing.T) {
	text, err := os.ReadFile("howto/inspect.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```\n\\$ tapir inspect( --ladder)? (lab/[^\n]+)\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) < 2 {
		t.Fatalf("%d reports", len(blocks))
	}
	for _, b := range blocks {
		if got := report(t, string(b[2]), len(b[1]) > 0); strings.TrimSpace(got) != strings.TrimSpace(string(b[3])) {
			t.Errorf("%s:\n%s", b[2], got)
		}
	}
	for _, r := range inspect.Rules() {
		if r.Siw && !strings.Contains(string(text), "| "+r.Clause+" |") {
			t.Errorf("nothing about %s: %s", r.Clause, r.Says)
		}
	}
}

func report(t *testing.T, file string, ladder bool) string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := inspect.New(inspect.Options{Ladder: 1000})
	if err := inspect.Read(f, in); err != nil {
		t.Fatal(err)
	}
	r := in.Finish()
	var b bytes.Buffer
	if ladder {
		err = r.WriteLadder(&b)
	}
	if err == nil {
		err = r.WriteText(&b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
