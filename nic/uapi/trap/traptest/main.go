// Package traptest helps the tests of what is served to supervised programs.
package traptest

import (
	"os"
	"strings"
	"testing"

	"tapir/nic/uapi/trap"
)

// Program begins the name of a program that is part of the test binary: its
// last argument.
const Program = "test-program:"

// Main is the whole of TestMain. In a launched process, and in one of programs,
// it is that; else it runs before, in whose directory things may be left, and
// the tests. What is compiled to preload stays out of the user's cache.
func Main(m *testing.M, programs map[string]func(), before func(dir string)) {
	trap.Launched()
	if name, ok := strings.CutPrefix(os.Args[len(os.Args)-1], Program); ok {
		programs[name]()
		os.Exit(0)
	}
	os.Exit(testAll(m, before))
}

func testAll(m *testing.M, before func(dir string)) int {
	dir, err := os.MkdirTemp("", "tapir-trap")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_CACHE_HOME", dir)
	before(dir)
	return m.Run()
}

// Nothing is done before the tests.
func Nothing(string) {}

// Output runs a program to its end under guard (testenv.Guard), and returns what it
// wrote.
func Output(t *testing.T, o trap.Options, guard func(t testing.TB, pid int, out *os.File) func()) string {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	o.Stdout, o.Stderr = out, out
	program, err := trap.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer guard(t, program.PID(), nil)()
	if _, err := program.Wait(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
