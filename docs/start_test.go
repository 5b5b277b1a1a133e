package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tapir/lab/check/testenv"
)

// said is what a command has printed so far.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// figures are what differs from run to run: numbers, addresses, paths, and the columns that depend on them.
var figures = regexp.MustCompile(`mac=[0-9a-f:]+|/[a-zA-Z0-9_./-]+|0x[0-9a-f]+|[0-9]+(\.[0-9]+)?([mnµ]?s\b)?|\s+`)

// has tells whether all lines have been printed, figures aside.
func (s *said) has(lines []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	plain := func(text string) string { return figures.ReplaceAllString(text, "#") }
	all := plain(s.b.String())
	for _, l := range lines {
		if !strings.Contains(all, plain(strings.TrimSpace(l))) {
			return false
		}
	}
	return true
}

// TestTutorials runs the commands of each tutorial, in order, and finds what is shown below each.
func TestTutorials(t *testing.T) {
	pages, err := filepath.Glob("start/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	tapir, err := testenv.Build(t.TempDir())
	testenv.Must(t, err)
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			tutorial(t, page, filepath.Dir(tapir))
		})
	}
}

// tutorial runs a page in network and mount namespaces of its own, where /run is
// empty; bin has tapir. What it leaves running ends with the namespaces.
func tutorial(t *testing.T, page, bin string) {
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	testenv.Must(t, err, os.Symlink(filepath.Join(root, "lab"), filepath.Join(dir, "lab")),
		os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")))
	holder := exec.Command("unshare", "--net", "--mount", "--propagation", "private", "sh", "-c",
		"mount -t tmpfs run /run && ip link set lo up && echo up && exec cat")
	up := new(said)
	holder.Stdout, holder.Stderr = up, up
	hold, err := holder.StdinPipe()
	testenv.Must(t, err, holder.Start())
	t.Cleanup(func() { testenv.Must(t, hold.Close(), holder.Wait()) })
	testenv.Until(t, "namespaces", func() bool { return up.has([]string{"up"}) })

	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_RUNTIME_DIR="+dir)
	enter := []string{"--net", "--mount", "--wd=" + dir, "-t", fmt.Sprint(holder.Process.Pid), "sh", "-c"}
	for _, s := range samples(t, page) {
		command, background := strings.CutSuffix(s.command, " &")
		if background && !strings.Contains(command, "&&") {
			command = "exec " + command
		}
		out := new(said)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, "nsenter", append(enter, command)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, out, out, env
		if !background {
			_ = cmd.Run() // what it prints is the result
			if !out.has(s.lines) {
				t.Fatalf("$ %s\nprinted\n%s", s.command, out.b.String())
			}
			continue
		}
		testenv.Must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended, and not well when its NIC was stopped
			_ = cmd.Wait()
		})
		testenv.Until(t, s.command, func() bool { return out.has(s.lines) })
	}
}
