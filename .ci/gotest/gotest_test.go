package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
			rep.read("", strings.NewReader(c.in))
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

// A test that fails beside others and passes alone is flaky. One that fails alone, panics or
// races has failed, and so have more than three.
func TestRetry(t *testing.T) {
	fail := func(test, output string) string {
		return ev("run", "m/a", test, "") + ev("output", "m/a", test, output) + ev("fail", "m/a", test, "")
	}
	many := fail("Test1", "") + fail("Test2", "") + fail("Test3", "") + fail("Test4", "")
	sub := ev("run", "m/a", "TestX", "") + fail("TestX/1", "") + fail("TestX/2", "") + ev("fail", "m/a", "TestX", "")
	for _, c := range []struct {
		name, in, alone, want string
		ok                    bool
	}{
		{"passes alone", fail("TestX", "late"), "", "0 passed, 0 failed, 0 skipped, 1 flaky", true},
		{"subtests", sub, "", "0 passed, 0 failed, 0 skipped, 2 flaky", true},
		{"fails alone", fail("TestX", "late"), "TestX", "TestX fails alone, too: wrong", false},
		{"one of two", fail("TestX", "") + fail("TestY", ""), "TestX", "0 passed, 1 failed, 0 skipped, 1 flaky", false},
		{"panic", fail("TestX", "panic: oops"), "", "0 passed, 1 failed, 0 skipped\n", false},
		{"race", fail("TestX", "WARNING: DATA RACE"), "", "0 passed, 1 failed, 0 skipped\n", false},
		{"too many", many, "", "0 passed, 4 failed, 0 skipped\n", false},
		{"forbidden skip", ev("skip", "m/a", "TestX", ""), "", "0 passed, 1 failed, 0 skipped\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			rep := newReport(&b, nil)
			if !rep.read("folder", strings.NewReader(c.in+ev("fail", "m/a", "", ""))) {
				t.Error("no failure")
			}
			rep.retry(func(dir, pkg, test string) error {
				if test == c.alone || pkg != "m/a" || dir != "folder" {
					return errors.New("wrong")
				}
				return nil
			})
			if ok := rep.finish(); ok != c.ok || !strings.Contains(b.String(), c.want) {
				t.Errorf("all well: %v, no %q in:\n%s", ok, c.want, b.String())
			}
		})
	}
}

func TestExactly(t *testing.T) {
	if got := exactly("TestX/a.b/c_(1)"); got != `^TestX$/^a\.b$/^c_\(1\)$` {
		t.Error(got)
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

func TestParseList(t *testing.T) {
	got, err := parseList(strings.NewReader("# all of them\n\nm/a TestX # needs a guest\n"))
	if err != nil || len(got) != 1 || !got["m/a TestX"] {
		t.Fatalf("%v, %v", got, err)
	}
	for _, bad := range []string{"m/a\n", "m/a TestX\n", "m/a TestX TestY # why\n"} {
		if _, err := parseList(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
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
	test(rep, dir, []string{"./..."}, []string{"-timeout", "1m"})
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

// TestUnits reads a module whose goroutines start in one package, in what
// imports it and in the tests of a third.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module m\n\ngo 1.26\n",
		"a/a.go":           "package a\n\nfunc A() { go func() {}() }\n",
		"a/a_test.go":      "package a\n",
		"quiet/a.go":       "package quiet\n\nfunc A() {}\n",
		"quiet/a_test.go":  "package quiet\n\nimport \"testing\"\n\nfunc FuzzX(f *testing.F) {}\n\ntype T struct{}\n\nfunc (T) FuzzY() {}\n",
		"user/a.go":        "package user\n\nimport \"m/a\"\n\nfunc U() { a.A() }\n",
		"user/a_test.go":   "package user\n",
		"untested/a.go":    "package untested\n\nimport _ \"m/a\"\n",
		"intest/a.go":      "package intest\n",
		"intest/a_test.go": "package intest_test\n\nimport _ \"m/user\"\n",
		"par/a.go":         "package par\n",
		"par/a_test.go":    "package par\n\nimport \"time\"\n\nvar _ = time.AfterFunc\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	all, err := load([]string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(concurrent(all, all), " "); got != "m/a m/intest m/par m/user" {
		t.Error(got)
	}
	list, err := targets([]string{"./...", "./quiet"}, "")
	if err != nil || len(list) != 1 || list[0].pkg != "m/quiet" || list[0].name != "FuzzX" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestRaceLogs(t *testing.T) {
	dir := t.TempDir()
	if err := raceLogs(filepath.Join(dir, "log.*")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "log.7"), []byte("DATA RACE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := raceLogs(filepath.Join(dir, "log.*")); err == nil || !strings.Contains(err.Error(), "DATA RACE") {
		t.Error(err)
	}
}

// TestKeep has inputs in the cache of which two run statements that the seed
// does not run; a longer one that runs the same is left out.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	input := func(s string) string { return "go test fuzz v1\n[]byte(\"" + s + "\")\n" }
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"a.go": "package m\n\nfunc A(b []byte) {\n\tswitch string(b[:1]) {\n\tcase \"k\":\n\t\tb[0]++\n\tcase \"l\":\n" +
			"\t\tb[0]--\n\t}\n}\n",
		"a_test.go": "package m\n\nimport \"testing\"\n\n" +
			"func FuzzX(f *testing.F) {\n\tf.Add([]byte{7})\n\tf.Fuzz(func(t *testing.T, b []byte) { A(b) })\n}\n",
		"testdata/fuzz/FuzzX/1234": input("x"),
		"cache/m/FuzzX/1":          input("kk"),
		"cache/m/FuzzX/2":          input("y"),
		"cache/m/FuzzX/3":          input("k"),
		"cache/m/FuzzX/4":          input("llll"),
		"cache/m/FuzzX/5":          input("l" + strings.Repeat("l", maxInputSize)),
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	c := campaign{cache: filepath.Join(dir, "cache")}
	x := target{pkg: "m", dir: dir, name: "FuzzX"}
	for range 2 {
		if err := c.keep(x); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob("testdata/fuzz/FuzzX/*")
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		if got := strings.Join(files, " "); err != nil || got != "1234 corpus-3 corpus-4" {
			t.Errorf("%s, %v", got, err)
		}
	}
	if h, err := x.held(); err != nil || h.inputs != 2 || h.crashers != 1 || h.octets != len(input("k")+input("llll")) {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestSoakTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fuzz.md")
	x, gone := target{pkg: "m", name: "FuzzX"}, target{pkg: "m", name: "FuzzGone"}
	const out = "fuzz: elapsed: 3s, execs: 9 (3/sec), new interesting: 2 (total: 7)\n" +
		"fuzz: elapsed: 6s, execs: 90000 (3/sec), new interesting: 4 (total: 9)\nPASS\n"
	o := readOutcome(out)
	o.cpu = time.Minute
	if o.execs != 90000 || o.found != 4 || o.perSecond() != 1500 {
		t.Errorf("%+v", o)
	}
	for n, all := range [][]target{{x, gone}, {x, {pkg: "m", name: "FuzzNew"}}} {
		s, err := newSoak(file, map[string]bool{"m FuzzX": true})
		if err != nil {
			t.Fatal(err)
		}
		s.day = "2026-01-0" + strconv.Itoa(n+1)
		s.targets = all
		if n == 0 {
			err = s.add(gone, o)
		}
		if err = errors.Join(err, s.add(x, o)); err != nil {
			t.Fatal(err)
		}
		lazy := outcome{execs: 999, cpu: time.Second}
		if s.tooSlow(gone, o) != nil || s.tooSlow(x, lazy) != nil || s.tooSlow(gone, lazy) == nil {
			t.Error("the floor is somewhere else")
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(got), "Gone") || !strings.Contains(string(got), "\n| `m FuzzX` | 2 | 2.0 | 180000 | 1500 | 0 | 0 | 2026-01-02 |\n") ||
		!strings.Contains(string(got), "\n| `m FuzzNew` | 0 | 0.0 | 0 | 0 | 0 | 0 | - |\n") {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := newSoak(file, map[string]bool{"a": true, "b": true, "c": true, "d": true}); err == nil {
		t.Error("four targets may be slow")
	}
	if _, err := parseRows("| `m FuzzX` | 2 |\n"); err == nil {
		t.Error("half a row is a row")
	}
}
