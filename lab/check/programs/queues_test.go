package programs

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"tapir/lab/host/process"
)

// TestQueues has the stock librxe write into its queues all that it can: inline
// data, lists, immediate data, atomics, windows of both types, more requests
// than a ring holds; resize a CQ that is in use; and fail.
func TestQueues(t *testing.T) {
	const python = "/usr/bin/python3" // the one that the package is for
	if out, err := exec.Command(python, "-c", "import pyverbs.device").CombinedOutput(); err != nil {
		t.Fatalf("python3-pyverbs is not installed: %s", out)
	}
	script, err := filepath.Abs("testdata/queues.py")
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*within)
	defer cancel()
	p, err := process.Start(ctx, l.pair.A.NS, process.Options{Dir: l.dir, Argv: l.under(server, Auto, []string{python, script, IPv4, "7700"})})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(ctx); err != nil || p.Line("errors ok") == "" {
		t.Errorf("%v: %s", err, p.Tail())
	}
	if err := l.empty(ctx); err != nil {
		t.Error(err)
	}
}
