package virtual_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/tool/inspect"
)

// The Terminate that answers the last step's Write arrives, and is known to quote
// what arrived, not what was sent: the flipped STag is all there is to find.
func TestTheLastFramesArrive(t *testing.T) {
	out := t.TempDir()
	if _, err := virtual.Run(t.Context(), load(t, "../../examples/bad-rkey/lab.yaml"), virtual.Options{Options: steps.Options{Out: out}}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(out, "lab.pcapng"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := inspect.New(inspect.Options{Ladder: 1000})
	if err := inspect.Read(f, in); err != nil {
		t.Fatal(err)
	}
	r := in.Finish()
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Detail, "instead of") {
		t.Errorf("findings %+v", r.Findings)
	}
	said := 0
	for _, s := range r.Ladder {
		if strings.Contains(s.Detail, "invalid STag") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("b's Terminate is %d times in %+v", said, r.Ladder)
	}
}
