package runtimedir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDirectory(t *testing.T) {
	own := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", own)
	if got := Path(); got != filepath.Join(own, "tapir") {
		t.Errorf("own runtime directory: %s", got)
	}
	for _, other := range []string{"", "/no/such/dir", "/dev/null"} {
		t.Setenv("XDG_RUNTIME_DIR", other)
		if got := Path(); got != "/run/tapir" && got != fmt.Sprintf("/tmp/tapir-%d", outerUID()) {
			t.Errorf("%q: %s", other, got)
		}
	}
}

func TestRunning(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if got := Running(); len(got) != 0 {
		t.Errorf("without a directory: %q", got)
	}
	if err := os.Mkdir(Path(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Programs("nic1"), Programs("a.run"), filepath.Join(Path(), "nic0.sock")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := Running(); !slices.Equal(got, []string{"a.run", "nic1"}) {
		t.Errorf("%q", got)
	}
}
