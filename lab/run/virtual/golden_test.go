package virtual_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// The octets of a lab are the same on any machine: those of the library's first
// one stand in testdata. Who changes what NICs send, or what captures and logs
// say, changes that file.
func TestSameOctetsOnAnyMachine(t *testing.T) {
	sameOctets(t, "testdata/first-write.sha256", load(t, "../../examples/first-write/lab.yaml"))
}

// The same lab on ideal hardware has a hash of its own. What is below a NIC is not
// seen on the wire, so far not even in the times.
func TestSameOctetsOnIdealHardware(t *testing.T) {
	lab := load(t, "../../examples/first-write/lab.yaml")
	for i := range lab.Nodes {
		if n := &lab.Nodes[i]; n.Kind == topo.NIC {
			if err := n.NIC.Set("hardware", "ideal"); err != nil {
				t.Fatal(err)
			}
		}
	}
	sameOctets(t, "testdata/first-write-ideal.sha256", lab)
}

func sameOctets(t *testing.T, golden string, lab *topo.Lab) {
	t.Helper()
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	_, all := run(t, lab, virtual.Options{})
	var got strings.Builder
	for line := range strings.Lines(all) {
		if strings.HasSuffix(line, " lab.pcapng\n") || strings.HasSuffix(line, " log.txt\n") {
			got.WriteString(line)
		}
	}
	if got.String() != string(want) {
		t.Errorf("on %s/%s:\n%sinstead of\n%s", runtime.GOOS, runtime.GOARCH, got.String(), want)
	}
}
