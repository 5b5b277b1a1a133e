package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// odd are words that native readers stumble over; style.md says what to write
// instead.
var odd = regexp.MustCompile(`\banew\b|\b(the|this) house\b|\b[Ii]ts rooms\b|\bas rooms\b|\bby room\b|\bmakes of it\b|` +
	`\bthe contrary of\b|\bso many\b|\bis told with\b|\bfor looking\b|\bspoils nothing\b|\bthe truth beside\b|` +
	`\bis surer\b|\bis said,|\bstands beside\b|\bwhat comes out\b|\bmends\b|\bwhat is missed\b|` +
	`\bof themselves\b|\bwhat becomes of\b|\bwhat runs\b|\bto begin with\b|\bis the judge\b`)

// literal is a string of a Go file.
var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// TestPlainWords finds such words in what users read: documents, all lines of the
// commands, and strings of the packages behind them.
func TestPlainWords(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"*.md", "*/*.md", "../*.md", "../cmd/tapir/*.go", "../lab/examples/*/README.md",
		"../examples/*/README.md", "../lab/tool/*/*.go", "../lab/conf/*/*.go", "../lab/topo/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if name == "style.md" {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			seen++
			for n, line := range strings.Split(string(text), "\n") {
				if strings.HasPrefix(pattern, "../lab") && strings.HasSuffix(name, ".go") {
					line = strings.Join(literal.FindAllString(line, -1), " ")
				}
				if word := odd.FindString(line); word != "" {
					t.Errorf("%s:%d: %q: see style.md", name, n+1, word)
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("read %d files only", seen)
	}
}

// pause is a command that hopes that some time is enough, or counts the jobs of its shell.
var pause = regexp.MustCompile(`(^|[;&|({]|\bdo)\s*(sleep \.?[0-9]|usleep )|\bkill %`)

// step is a line that a lab has printed about a step.
var step = regexp.MustCompile(`^ *[0-9.]+  ok `)

// TestNoPauses finds such commands in documents and in help: `tapir wait` and `tapir stop` wait for what is meant.
func TestNoPauses(t *testing.T) {
	for _, pattern := range []string{"*.md", "*/*.md", "../*.md", "../cmd/tapir/*.go", "../lab/examples/*/README.md",
		"../examples/*/README.md", "../examples/*/*/README.md", "../lab/tool/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for n, line := range strings.Split(string(text), "\n") {
				if pause.MatchString(strings.TrimLeft(line, "$# ")) && !step.MatchString(line) {
					t.Errorf("%s:%d: %s: wait for what is meant, by tapir wait", name, n+1, line)
				}
			}
		}
	}
}
