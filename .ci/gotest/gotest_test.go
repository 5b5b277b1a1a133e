package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func ev(action, pkg, test, output string) string {
	quote := strings.NewReplacer("\n", `\n`, "\"", `\"`)
	return `{"Action":"` + action + `","Package":"` + pkg + `","Test":"` + test + `","Output":"` + quote.Replace(output) + `","Elapsed":0.5}` + "\n"
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
		ok       bool
	}{
		{"passes", ev("run", "m/a", "TestX", "") + ev("pass", "m/a", "TestX", "") + ev("pass", "m/a", "", ""),
			[]string{"ok    m/a  0.5s  1 tests", "1 passed, 0 failed, 0 skipped"}, true},
		{"subtests count, their parent does not",
			ev("run", "m/a", "TestX", "") + ev("run", "m/a", "TestX/1", "") + ev("run", "m/a", "TestX/2", "") +
				ev("pass", "m/a", "TestX/1", "") + ev("output", "m/a", "TestX/2", "    x_test.go:9: wrong\n") +
				ev("fail", "m/a", "TestX/2", "") + ev("fail", "m/a", "TestX", "") + ev("fail", "m/a", "", ""),
			[]string{"FAIL  m/a", "FAIL TestX/2", "x_test.go:9: wrong", "1 passed, 1 failed, 0 skipped"}, false},
		{"a parent that fails by itself",
			ev("run", "m/a", "TestX", "") + ev("run", "m/a", "TestX/1", "") + ev("pass", "m/a", "TestX/1", "") +
				ev("fail", "m/a", "TestX", "") + ev("fail", "m/a", "", ""),
			[]string{"FAIL TestX", "1 passed, 1 failed, 0 skipped"}, false},
		{"listed skip", ev("run", "m/a", "TestTun", "") + ev("output", "m/a", "TestTun", "    a_test.go:7: no /dev/net/tun: load the module\n") +
			ev("skip", "m/a", "TestTun", "") + ev("pass", "m/a", "", ""),
			[]string{"skip TestTun: no /dev/net/tun: load the module", "0 passed, 0 failed, 1 skipped"}, true},
		{"subtest of a listed skip", ev("run", "m/a", "TestTun", "") + ev("run", "m/a", "TestTun/v6", "") +
			ev("skip", "m/a", "TestTun/v6", "") + ev("pass", "m/a", "TestTun", "") + ev("pass", "m/a", "", ""),
			[]string{"skip TestTun/v6: no reason given", "0 passed, 0 failed, 1 skipped"}, true},
		{"unlisted skip", ev("run", "m/a", "TestY", "") + ev("output", "m/a", "TestY", "    a_test.go:7: lazy\n") +
			ev("skip", "m/a", "TestY", "") + ev("pass", "m/a", "", ""),
			[]string{"FAIL  m/a", "FAIL TestY: skipped, which .ci/skips does not allow: lazy", "0 passed, 1 failed, 0 skipped"}, false},
		{"build failure", `{"ImportPath":"m/a","Action":"build-output","Output":"a.go:1: broken\n"}` + "\n" +
			`{"Action":"fail","Package":"m/a","FailedBuild":"m/a"}` + "\n",
			[]string{"FAIL  m/a", "a.go:1: broken", "0 passed, 1 failed, 0 skipped"}, false},
		{"panic", ev("run", "m/a", "TestX", "") + ev("output", "m/a", "TestX", "panic: oops\n") + ev("fail", "m/a", "", ""),
			[]string{"FAIL  m/a", "panic: oops", "0 passed, 1 failed, 0 skipped"}, false},
		{"no tests", ev("skip", "m/a", "", ""), []string{"-     m/a  no tests", "0 passed, 0 failed, 0 skipped"}, true},
		{"plain words", "go: cannot find main module\n", []string{"go: cannot find main module"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			rep := newReport(&b, map[string]bool{"m/a TestTun": true})
			rep.read(strings.NewReader(c.in))
			if ok := rep.finish(); ok != c.ok {
				t.Errorf("all well: %v", ok)
			}
			for _, w := range c.want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("no %q in:\n%s", w, b.String())
				}
			}
		})
	}
}

func TestChecksCount(t *testing.T) {
	var b strings.Builder
	rep := newReport(&b, nil)
	rep.check("gofmt", nil)
	rep.check("go vet", errors.New("bad"))
	if rep.finish() || b.String() != "ok    gofmt\nFAIL  go vet: bad\n1 passed, 1 failed, 0 skipped\n" {
		t.Fatal(b.String())
	}
}

func TestParseSkips(t *testing.T) {
	got, err := parseSkips(strings.NewReader("# all of them\n\nm/a TestX # needs a guest\n"))
	if err != nil || len(got) != 1 || !got["m/a TestX"] {
		t.Fatalf("%v, %v", got, err)
	}
	for _, bad := range []string{"m/a\n", "m/a TestX\n", "m/a TestX TestY # why\n"} {
		if _, err := parseSkips(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParseList(t *testing.T) {
	got := parseList("FuzzA\nFuzzB\nok  \tm/a\t0.01s\nok  \tm/b\t0.01s\n?   \tm/c\t[no test files]\nFuzzC\nok  \tm/d\t0.01s\n")
	want := []target{{"m/a", "FuzzA"}, {"m/a", "FuzzB"}, {"m/d", "FuzzC"}}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		each, budget time.Duration
		n, workers   int
		want         time.Duration
	}{
		{20 * time.Second, 4 * time.Minute, 20, 2, 20 * time.Second},
		{20 * time.Second, 4 * time.Minute, 40, 2, 12 * time.Second},
		{20 * time.Second, 4 * time.Minute, 1000, 2, 3 * time.Second},
		{time.Second, 4 * time.Minute, 1000, 2, time.Second},
		{time.Second, 4 * time.Minute, 0, 2, time.Second},
	} {
		if got := share(c.each, c.budget, c.n, c.workers); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestToolsAreNamedEverywhere runs the script that brings the tools where
// nothing is installed, not even a package manager.
func TestToolsAreNamedEverywhere(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"id", "cat"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/bin/sh", "../tools")
	cmd.Env = []string{"PATH=" + bin}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, manager := range []string{"apt-get install", "dnf install", "pacman -S", "apk add"} {
		if !strings.Contains(string(out), manager) {
			t.Errorf("no %q in:\n%s", manager, out)
		}
	}
}

// TestModuleInAFolder runs the tests of another module.
func TestModuleInAFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module apart\n\ngo 1.26\n",
		"a_test.go": "package apart\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {}\n\nfunc TestBad(t *testing.T) { t.Error(\"wrong\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	rep := newReport(&b, nil)
	run(rep, dir, []string{"./..."}, time.Minute)
	if rep.finish() || !strings.Contains(b.String(), "ok    go vet "+dir) || !strings.Contains(b.String(), "2 passed, 1 failed, 0 skipped") {
		t.Fatal(b.String())
	}
}

func TestOnlyTimeUp(t *testing.T) {
	const head = "fuzz: elapsed: 0s, gathering baseline coverage: 28/28 completed, now fuzzing with 1 workers\n"
	const slow = "fuzz: elapsed: 1s, gathering baseline coverage: 90/96 completed\n--- FAIL: FuzzX (1.03s)\n    context deadline exceeded\nFAIL\n"
	if onlyTimeUp(slow) || !notBegun(slow) || notBegun(head+slow) || notBegun("") {
		t.Error("a target that did not come to fuzzing is not seen")
	}
	for _, c := range []struct {
		out  string
		want bool
	}{
		{head + "--- FAIL: FuzzX (20.12s)\n    context deadline exceeded\nFAIL\n", true},
		{head + "--- FAIL: FuzzX (3.1s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: bad\n    Failing input written to testdata/fuzz/FuzzX/1\n", false},
		{head + "--- FAIL: FuzzX (3.1s)\n    fuzzing process hung or terminated unexpectedly: panic: index out of range\n    context deadline exceeded\n", false},
		{"x_test.go:4: undefined: y\n    context deadline exceeded\n", false},
		{"", false},
	} {
		if got := onlyTimeUp(c.out); got != c.want {
			t.Errorf("onlyTimeUp(%q) = %v", c.out, got)
		}
	}
}
