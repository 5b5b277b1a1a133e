package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const prefix = "tapir-test"

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// A directory that a living lab holds is left alone; one of nobody goes.
func TestMake(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	held, remove, err := Make(prefix)
	if err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(os.TempDir(), prefix+"123")
	foreign := filepath.Join(os.TempDir(), prefix+"-other")
	for _, dir := range []string{filepath.Join(stale, "tapir"), foreign} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(os.TempDir(), prefix+"4")
	if err := os.Symlink(foreign, link); err != nil {
		t.Fatal(err)
	}
	second, removeSecond, err := Make(prefix)
	if err != nil {
		t.Fatal(err)
	}
	if got := Held(prefix); !slices.Equal(got, slices.Sorted(slices.Values([]string{held, second}))) {
		t.Errorf("held are %q", got)
	}
	for name, want := range map[string]bool{held: true, second: true, foreign: true, link: true, stale: false} {
		if exists(name) != want {
			t.Errorf("%s exists: %v", name, !want)
		}
	}
	remove()
	removeSecond()
	if exists(held) || exists(second) {
		t.Error("a directory stays after its lab")
	}
}
