package docs

import (
	"bytes"
	"context"
	"os"
	"os/exec"
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

// calm lengthens a "sleep" until nobody who was started waits for a processor
// any more: a second is not the same on every machine.
const calm = `sleep() {
	command sleep "$1"
	calm=0
	for i in $(seq 300); do
		if grep -qsE '^[0-9]+ \(tapir\) [RD]' /proc/[0-9]*/task/*/stat; then calm=0; else calm=$((calm + 1)); fi
		if [ $calm -ge 3 ]; then return; fi
		command sleep .1
	done
}
`

// TestREADME runs the README's command lines as they stand, in a network
// namespace of their own. Only `make test` is left out: that is what runs
// this.
func TestREADME(t *testing.T) {
	blocks := commands(t)
	if len(blocks) < 4 {
		t.Fatalf("found %d blocks of commands", len(blocks))
	}
	script := "set -eu\n" + calm
	ran := 0
	for _, b := range blocks {
		if b == "make test\n" {
			continue
		}
		script += "set -x\n" + b + "{ set +x; } 2>/dev/null\n"
		ran++
	}
	if ran != len(blocks)-1 {
		t.Fatalf("ran %d of %d blocks", ran, len(blocks))
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

// TestREADMELinks finds links to files that do not exist.
func TestREADMELinks(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([a-zA-Z][^):]*)\)`).FindAllSubmatch(text, -1)
	if len(links) < 4 {
		t.Fatalf("found %d links", len(links))
	}
	for _, m := range links {
		if _, err := os.Stat("../" + string(m[1])); err != nil {
			t.Error(err)
		}
	}
}

// TestArchitectureNamesFiles finds names of files and folders in
// architecture.md that are not in the tree.
func TestArchitectureNamesFiles(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
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
	committed, err := os.ReadFile("architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(now, committed) {
		t.Error("packages or imports have changed: go run ./.ci/picture >docs/architecture.svg")
	}
}
