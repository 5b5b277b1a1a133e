package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

// event is a line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string

	dir string // of the module; "" = that of this directory
}

// report counts and prints results. Only tests without subtests count, so that
// one failure is one failure.
type report struct {
	w       io.Writer
	allowed map[string]bool // "package Test"

	mu                      sync.Mutex
	passed, failed, skipped int
	flaky                   int // failed, and passed alone
	failures                []*failure
	pkgs                    map[string]*pkg
	build                   map[string]*strings.Builder
}

// pkg is a package whose tests run.
type pkg struct {
	output map[string]*strings.Builder // by test; "" = the package's own
	failed map[string]bool             // tests with a failed subtest
	parent map[string]bool             // tests with subtests
	lines  []string                    // to print when the package ends
	bad    int
	ran    int
}

func newReport(w io.Writer, allowed map[string]bool) *report {
	return &report{w: w, allowed: allowed, pkgs: map[string]*pkg{},
		build: map[string]*strings.Builder{}}
}

// check records one step that is not a Go test.
func (r *report) check(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed++
		fmt.Fprintf(r.w, "FAIL  %s: %v\n", name, err)
		return
	}
	r.passed++
	fmt.Fprintf(r.w, "ok    %s\n", name)
}

// read follows the events of `go test -json` in the module in dir to the end, and tells
// whether one of them is a failure.
func (r *report) read(dir string, in io.Reader) (failed bool) {
	br := bufio.NewReader(in)
	for {
		line, err := br.ReadBytes('\n')
		e := event{dir: dir}
		if len(line) > 0 && json.Unmarshal(line, &e) == nil {
			failed = failed || e.Action == "fail"
			r.event(e)
		} else if len(line) > 0 {
			fmt.Fprintf(r.w, "%s", line) // go test speaks plainly when it cannot start
		}
		if err != nil {
			return failed
		}
	}
}

func (r *report) event(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Action == "build-output" {
		r.text(r.build, e.ImportPath).WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.pkgs[e.Package]
	if p == nil {
		p = &pkg{output: map[string]*strings.Builder{}, failed: map[string]bool{}, parent: map[string]bool{}}
		r.pkgs[e.Package] = p
	}
	switch e.Action {
	case "run":
		if up := parentOf(e.Test); up != "" {
			p.parent[up] = true
		}
	case "output":
		r.text(p.output, e.Test).WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.test(p, e)
		} else {
			r.end(p, e)
		}
	}
}

func (r *report) text(m map[string]*strings.Builder, key string) *strings.Builder {
	b := m[key]
	if b == nil {
		b = &strings.Builder{}
		m[key] = b
	}
	return b
}

func parentOf(test string) string {
	i := strings.LastIndexByte(test, '/')
	return test[:max(i, 0)]
}

// test records the end of one test or subtest.
func (r *report) test(p *pkg, e event) {
	defer delete(p.output, e.Test)
	if p.parent[e.Test] && (e.Action != "fail" || p.failed[e.Test]) {
		if e.Action == "fail" {
			p.failed[parentOf(e.Test)] = true
		}
		return // its subtests have been counted
	}
	p.ran++
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		why := reason(r.text(p.output, e.Test).String())
		if r.mayskip(e.Package, e.Test) {
			r.skipped++
			p.lines = append(p.lines, fmt.Sprintf("      skip %s: %s", e.Test, why))
			return
		}
		r.bad(p, e)
		p.lines = append(p.lines, fmt.Sprintf("      FAIL %s: skipped, which .ci/skips does not allow: %s", e.Test,
			why))
	case "fail":
		r.bad(p, e)
		out := r.text(p.output, e.Test).String()
		r.noteFailure(e, out)
		p.lines = append(p.lines, fmt.Sprintf("      FAIL %s\n%s", e.Test, strings.TrimRight(out, "\n")))
	}
}

func (r *report) bad(p *pkg, e event) {
	r.failed++
	p.bad++
	p.failed[parentOf(e.Test)] = true
}

// mayskip tells whether the test, or one that it is part of, is listed.
func (r *report) mayskip(pkg, test string) bool {
	for ; test != ""; test = parentOf(test) {
		if r.allowed[pkg+" "+test] {
			return true
		}
	}
	return false
}

// reason is what a skipped test said, without the marks of go test.
func reason(out string) string {
	var said []string
	for _, line := range strings.Split(out, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if i := strings.Index(line, ".go:"); i >= 0 {
			if _, text, ok := strings.Cut(line[i+4:], ": "); ok {
				line = text
			}
		}
		said = append(said, line)
	}
	if said == nil {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// end prints a package that has ended.
func (r *report) end(p *pkg, e event) {
	defer delete(r.pkgs, e.Package)
	switch {
	case e.Action == "fail":
		if p.bad == 0 { // did not build, panicked outside a test, or timed out
			r.failed++
			p.lines = append(p.lines, r.text(r.build, e.FailedBuild).String()+r.rest(p))
		}
		fmt.Fprintf(r.w, "FAIL  %s  %.1fs\n", e.Package, e.Elapsed)
	case p.bad > 0:
		fmt.Fprintf(r.w, "FAIL  %s  %.1fs\n", e.Package, e.Elapsed)
	case p.ran == 0:
		fmt.Fprintf(r.w, "-     %s  no tests\n", e.Package)
	default:
		fmt.Fprintf(r.w, "ok    %s  %.1fs  %d tests\n", e.Package, e.Elapsed, p.ran)
	}
	for _, line := range p.lines {
		fmt.Fprintln(r.w, line)
	}
}

// rest is what tests that never ended, and the package itself, have said.
func (r *report) rest(p *pkg) string {
	var b strings.Builder
	for _, out := range p.output {
		b.WriteString(out.String())
	}
	return b.String()
}

// finish prints the closing line and tells whether all is well.
func (r *report) finish() bool {
	fmt.Fprintf(r.w, "%d passed, %d failed, %d skipped", r.passed, r.failed, r.skipped)
	if r.flaky > 0 {
		fmt.Fprintf(r.w, ", %d flaky", r.flaky)
	}
	fmt.Fprintln(r.w)
	return r.failed == 0
}
