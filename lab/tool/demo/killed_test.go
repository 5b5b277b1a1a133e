package demo

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// However a demo ends, it says so in one line, and nothing of it stays: not
// even the directory of its sockets, which the next demo removes.
func TestEndsInTheMiddle(t *testing.T) {
	tests := []struct {
		name   string
		target string // the process that gets the signal; "" is the demo
		signal syscall.Signal
		says   string
	}{
		{"interrupted", "", syscall.SIGINT, `^tapir: the demo was interrupted\n$`},
		{"terminated", "", syscall.SIGTERM, `^tapir: the demo was interrupted\n$`},
		{"killed", "", syscall.SIGKILL, `^$`},
		{"server killed", server, syscall.SIGKILL, `^tapir: nic0 \(process \d+\) ended by itself: signal: killed\n$`},
		{"client killed", client, syscall.SIGKILL, `^tapir: nic1 \(process \d+\) ended by itself: signal: killed\n$`},
		{"server stopped", server, syscall.SIGINT, `^tapir: .* ended.*\n$`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := surroundings(t)
			dir := t.TempDir()
			file := hold(t, dir)
			cmd := start(t, dir)
			var complaint bytes.Buffer
			cmd.Stderr = &complaint
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, file, 1<<20); err != nil {
				t.Fatal("the exchange does not begin: ", err)
			}
			pid := cmd.Process.Pid
			if tt.target != "" {
				pid = pidOf(t, tt.target)
			}
			if err := syscall.Kill(pid, tt.signal); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, file) }() // until it is closed
			err := cmd.Wait()
			file.Close()
			if e := (*exec.ExitError)(nil); !errors.As(err, &e) || tt.signal != syscall.SIGKILL && e.ExitCode() != 1 {
				t.Errorf("the demo's end: %v", err)
			}
			if !regexp.MustCompile(tt.says).MatchString(complaint.String()) {
				t.Errorf("it says %q, want %s", complaint.String(), tt.says)
			}
			if tt.target == "" && tt.signal == syscall.SIGKILL {
				awaitNone(t)
				if err := os.Remove(file.Name()); err != nil {
					t.Fatal(err)
				}
				next := start(t, dir, "--wire", "shm")
				if out, err := next.CombinedOutput(); err != nil {
					t.Fatalf("the next demo: %v\n%s", err, out)
				}
			}
			if after := surroundings(t); !slices.Equal(before, after) {
				t.Errorf("left behind:\n%v\nbefore:\n%v", after, before)
			}
		})
	}
}

// hold makes a pipe of the file that the demo's capture will be: the demo
// cannot end before the pipe is read.
func hold(t *testing.T, dir string) *os.File {
	t.Helper()
	name := filepath.Join(dir, "out", "demo.pcapng")
	if err := errors.Join(os.Mkdir(filepath.Dir(name), 0o777), syscall.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0) // which waits for nobody
	if err == nil {
		err = f.SetReadDeadline(time.Now().Add(2 * time.Minute))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// processes are those of the program under test, by NIC name; the demo's own
// name is empty.
func processes(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		line, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(line), tapir+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(string(line), "--name\x00")
		name, _, _ = strings.Cut(name, "\x00")
		found[name] = pid
	}
	return found
}

func pidOf(t *testing.T, nic string) int {
	t.Helper()
	pid, ok := processes(t)[nic]
	if !ok {
		t.Fatalf("%s does not run", nic)
	}
	return pid
}

// awaitNone waits for the end of the processes whose parent was killed.
func awaitNone(t *testing.T) {
	t.Helper()
	for range 60_000 {
		if len(processes(t)) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("still there: %v", processes(t))
}
