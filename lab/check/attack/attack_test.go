package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

// commandEnv has the test's program be the command.
const commandEnv = "ATTACK_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command runs this program.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), commandEnv+"=1")
	cmd.Dir = t.TempDir() // for files that have broken something
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// root is the directory of the sources.
func root(t *testing.T) string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRows runs each row for a moment, so that none becomes out of date, and looks
// at the table.
func TestRows(t *testing.T) {
	tapir, err := testenv.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	doc := filepath.Join(t.TempDir(), "attack.md")
	if err := os.WriteFile(doc, []byte("before\n"+beginMark+"\n"+endMark+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, "-tapir", tapir, "-root", root(t), "-time", "0", "-o", doc)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	table, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range allRows() {
		if n := bytes.Count(table, []byte("\n| "+r.name+" | ")); n != 1 {
			t.Errorf("%d rows %q in the table", n, r.name)
		}
	}
}

// TestJudge: a program that is no NIC does not pass.
func TestJudge(t *testing.T) {
	out, err := command(t, "-tapir", "/bin/echo", "-rows", "tap-gone,lab", "-time", "0", "-root", root(t))
	if err == nil || !strings.Contains(out, "tap-gone     FAILED") {
		t.Errorf("%v\n%s", err, out)
	}
	liar := filepath.Join(t.TempDir(), "tapir")
	if err := testenv.WriteProgram(liar, []byte("#!/bin/sh\necho 'panic: x'\nexit 2\n")); err != nil {
		t.Fatal(err)
	}
	if out, err = command(t, "-tapir", liar, "-rows", "lab", "-time", "0", "-root", root(t)); err == nil ||
		!strings.Contains(out, "panic: x") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDocumented: the committed table has the rows that there are.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/evidence/attack.md")
	if err != nil {
		t.Fatal(err)
	}
	var names, want []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, "|"); len(f) == 8 && !strings.Contains(line, "---") {
			names = append(names, strings.TrimSpace(f[1]))
		}
	}
	for _, r := range allRows() {
		want = append(want, r.name)
	}
	if len(names) == 0 || !slices.Equal(names[1:], want) {
		t.Errorf("docs/evidence/attack.md has %q, there are %q", names, want)
	}
}
