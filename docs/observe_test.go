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

	"tapir/lab/check/testenv"
)

// sample is a command of a page with the output shown below it.
type sample struct {
	command string
	lines   []string
}

// samples returns what the page's console blocks show, in order.
func samples(t *testing.T, page string) (list []sample) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllSubmatch(text, -1) {
		for line := range strings.Lines(string(m[1])) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, sample{command: strings.TrimSpace(command)})
			} else {
				last := &list[len(list)-1]
				last.lines = append(last.lines, line)
			}
		}
	}
	return list
}

// volatile is what differs between runs: numbers, and the padding that follows
// from their lengths.
var volatile = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+(\.[0-9]+)?([mn\x{b5}]?s\b)?|\s+`)

func steady(s string) string {
	return volatile.ReplaceAllStringFunc(strings.TrimSpace(s), func(m string) string {
		if strings.TrimSpace(m) == "" {
			return " "
		}
		return "#"
	})
}

// patience stands for "timeout 1" on a machine that may be busy: what it waits for, not how long.
const patience = `await() { for i in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep .1; done; }
until_shown() {
	text=$1; shift
	"$@" >"$XDG_RUNTIME_DIR/followed" & pid=$!
	await grep -q "$text" "$XDG_RUNTIME_DIR/followed"
	kill $pid; wait $pid; cat "$XDG_RUNTIME_DIR/followed"
}
`

// patient is a command of the page. One in the background writes elsewhere, not between the words of another.
func patient(command string) string {
	if job, ok := strings.CutSuffix(command, "&"); ok {
		command = job + `>>"$XDG_RUNTIME_DIR/jobs" 2>&1 &`
	}
	return strings.ReplaceAll(command, "timeout 1", "until_shown ACTIVE_COMPLETE")
}

// TestObserve runs the commands of observe.md in a network namespace of their
// own. Every line shown is printed, but for numbers.
func TestObserve(t *testing.T) {
	list := samples(t, "howto/observe.md")
	if len(list) < 15 {
		t.Fatalf("found %d commands", len(list))
	}
	bin := t.TempDir()
	if _, err := testenv.Build(bin); err != nil {
		t.Fatal(err)
	}
	script, shown := patience, 0
	for _, s := range list {
		script += patient(s.command) + "\n"
		shown += len(s.lines)
	}
	if shown < 50 {
		t.Fatalf("%d lines are shown", shown)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script+"kill %1\nwait\ncat \"$XDG_RUNTIME_DIR/jobs\"\n")
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "PATH="+bin+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	said := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		said[steady(line)] = true
	}
	for _, s := range list {
		for _, line := range s.lines {
			if !said[steady(line)] {
				t.Errorf("$ %s\nprints no line like\n%sbut all that follows:\n%s", s.command, line, out.String())
				return
			}
		}
	}
}
