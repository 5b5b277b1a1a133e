package docs

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// commands returns the shell blocks of README.md, in order.
func commands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
	}
	return blocks
}

// TestREADME runs the README's command lines as they stand, in a network
// namespace of their own. The README is short and its tables are narrow.
func TestREADME(t *testing.T) {
	blocks := commands(t)
	if len(blocks) < 4 {
		t.Fatalf("found %d blocks of commands", len(blocks))
	}
	text, _ := os.ReadFile("../README.md") // has been read
	if n := bytes.Count(text, []byte("\n")); n > 150 {
		t.Errorf("README.md has %d lines, allowed are 150", n)
	}
	for _, cell := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAll(text, -1) {
		for _, c := range bytes.Split(cell, []byte("|")) {
			if len(c) > 120 {
				t.Errorf("a cell of %d octets: %s", len(c), c)
			}
		}
	}
	script := "set -eu\n"
	for _, b := range blocks {
		script += "set -x\n" + b + "{ set +x; } 2>/dev/null\n"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"wire: tap",                         // the demo
		"3 packets transmitted, 3 received", // ping
		"rx_packets",                        // show
		"1048576",                           // perf
		"MPA Request Frame",                 // the capture
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// TestDoors finds the command of each door of the README in the tutorial beside it,
// where a test runs it, or among the commands of the README.
func TestDoors(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	doors := regexp.MustCompile("(?m)^\\| an? .* \\| `(.*)` \\| \\[.*\\]\\((.*)\\) \\|$").FindAllSubmatch(text, -1)
	if len(doors) != 4 {
		t.Fatalf("found %d doors", len(doors))
	}
	for _, d := range doors {
		page, err := os.ReadFile("../" + string(d[2]))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(page, append([]byte("\n$ "), d[1]...)) {
			t.Errorf("%s does not run %s", d[2], d[1])
		}
	}
}

// TestLinks finds links of the README, the documents and the examples' pages to
// files that do not exist.
func TestLinks(t *testing.T) {
	link, found := regexp.MustCompile(`\]\(([a-zA-Z.][^):# ]*)(?:#[^)]*)?\)`), 0
	for _, pattern := range []string{"*.md", "*/*.md", "../*.md", "../examples/*/README.md", "../lab/examples/*/README.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllSubmatch(text, -1) {
				found++
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
	if found < 200 {
		t.Fatalf("found %d links", found)
	}
}

// TestArchitectureNamesFiles finds names of files and folders in
// architecture.md that are not in the tree.
func TestArchitectureNamesFiles(t *testing.T) {
	text, err := os.ReadFile("concepts/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`((?:cmd|docs|wire|mpa|ddp|rdmap|opa|vnic|ptp|nic|lab)/[a-z_0-9/]+(?:\\.go|\\.md)?)`").FindAllSubmatch(text, -1)
	if lines := bytes.Count(text, []byte("\n")); len(names) < 20 || lines > 200 {
		t.Fatalf("found %d names in %d lines", len(names), lines)
	}
	for _, m := range names {
		if _, err := os.Stat("../" + string(m[1])); err != nil {
			t.Error(err)
		}
	}
}

// TestPicture draws the packages again and compares.
func TestPicture(t *testing.T) {
	cmd := exec.Command("go", "run", "./.ci/picture")
	cmd.Dir = ".."
	now, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("concepts/architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(now, committed) {
		t.Error("packages or imports have changed: go run ./.ci/picture >docs/concepts/architecture.svg")
	}
}

// TestMap finds pages that docs/README.md does not list.
func TestMap(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("*/*.md")
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		if !bytes.Contains(text, []byte("]("+page+")")) {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
}
