package programs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestQueues has the stock librxe write into its queues all that it can: inline
// data, lists, immediate data, atomics, windows of both types, more requests
// than a ring holds; resize a CQ that is in use; write to the end of regions of up to 5 GiB;
// and fail.
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
	if said := l.says(t, python, script, IPv4, "7700"); !strings.Contains(said, "errors ok") {
		t.Error(said)
	}
	if err := l.empty(t.Context()); err != nil {
		t.Error(err)
	}
}
