package virtual_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"tapir/lab/run/virtual"
)

// The octets of a lab are the same on any machine: those of the library's first
// one stand in testdata. Who changes what NICs send, or what captures and logs
// say, changes that file.
func TestSameOctetsOnAnyMachine(t *testing.T) {
	want, err := os.ReadFile("testdata/first-write.sha256")
	if err != nil {
		t.Fatal(err)
	}
	_, all := run(t, load(t, "../../examples/first-write/lab.yaml"), virtual.Options{})
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
