package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

// block returns the first block of run.md that matches, without indentation.
func block(t *testing.T, pattern string) string {
	t.Helper()
	text, err := os.ReadFile("howto/run.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)" + pattern).FindSubmatch(text)
	if m == nil {
		t.Fatalf("run.md has no %s", pattern)
	}
	return regexp.MustCompile(`(?m)^ {10}`).ReplaceAllString(string(m[1]), "")
}

// pings are n lines of rping.
func pings(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("ping data: rdma-ping-%d: %c", i, 'A'+i))
	}
	return lines
}

func contains(t *testing.T, out string, lines []string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(out, l) {
			t.Errorf("%q is missing in\n%s", l, out)
		}
	}
}

// TestRun runs commands of run.md as they stand there.
func TestRun(t *testing.T) {
	tapir, err := testenv.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("first", func(t *testing.T) { runFirst(t, filepath.Dir(tapir)) })
	t.Run("user", func(t *testing.T) { runUser(t, tapir) })
	t.Run("CI", func(t *testing.T) { runCI(t, filepath.Dir(tapir)) })
}

// runFirst runs the script of the first five minutes, whose namespaces and control sockets
// are those of a /run of its own; dir has tapir.
func runFirst(t *testing.T, dir string) {
	script := "mount -t tmpfs tmpfs /run\n" + block(t, "## Five minutes.*?```sh\n(.*?)```")
	cmd := exec.CommandContext(t.Context(), "unshare", "-mnpf", "--kill-child", "--mount-proc", "sh", "-ec", script)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "XDG_RUNTIME_DIR=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	contains(t, string(out), pings(3))
}

// runUser does what an ordinary user is told to do, as one.
func runUser(t *testing.T, tapir string) {
	dir := testenv.PublicDir(t)
	testenv.Copy(t, dir, tapir)
	cmd := testenv.Unprivileged(t, t.Context(), dir, "sh", "-ec", block(t, "## Without root.*?```sh\n(.*?)```"))
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(dir, "run"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "XDG_RUNTIME_DIR="+dir+"/run")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	contains(t, string(out), append(pings(2), "ready nic0 mac=6a:07:24:1f:79:2b", "ready nic1 mac=66:07:24:1f:77:78"))
}

// runCI runs the last step of the job; dir has tapir.
func runCI(t *testing.T, dir string) {
	if err := os.WriteFile(filepath.Join(dir, "sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil { // we are root
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", block(t, "```yaml\n.*- run: \\|\n(.*?)```"))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	contains(t, string(out), pings(10))
}
