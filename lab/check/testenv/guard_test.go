package testenv

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// failing keeps what a test that fails says.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Errorf(format string, args ...any) { f.said += fmt.Sprintf(format, args...) }

// A wait for a program that does not end is left with a message about it.
func TestGuard(t *testing.T) {
	defer func(p time.Duration) { patience = p }(patience)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("sh", "-c", "setsid sleep 1234 & sleep 4321 >&- & wait")
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	f := &failing{TB: t}
	patience = time.Minute
	Guard(f, cmd.Process.Pid, r)()
	if f.said != "" {
		t.Error("failed at once:", f.said)
	}
	for !strings.Contains(threads(waitedFor(cmd.Process.Pid, pipeOf(r))), "sleep 1234") || !strings.Contains(threads(waitedFor(cmd.Process.Pid, "")), "sleep 4321") {
		time.Sleep(time.Millisecond)
	}
	patience = time.Millisecond
	done := Guard(f, cmd.Process.Pid, r)
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	done()
	for _, want := range []string{"sleep 1234", "sleep 4321", "State S (sleeping)", "SigBlk 0", "testenv.TestGuard"} {
		if !strings.Contains(f.said, want) {
			t.Errorf("nothing is said of %s:\n%s", want, f.said)
		}
	}
}
