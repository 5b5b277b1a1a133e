package testenv

import (
	"errors"
	"os"
	"testing"
)

// Apart runs the tests of a package with a directory of their own for sockets and caches: other NICs of
// this machine are not to be found. It returns the exit code.
func Apart(m *testing.M, name string) int {
	dir, err := os.MkdirTemp("", name)
	if err == nil {
		err = errors.Join(os.Setenv("XDG_RUNTIME_DIR", dir), os.Setenv("XDG_CACHE_HOME", dir))
	}
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	return m.Run()
}
