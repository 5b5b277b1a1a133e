package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// How many failed tests of a run get a second chance, and how often each has to
// pass then. More failures than that have one cause, which is not chance.
const (
	mostRetries = 3
	retryPasses = 3
)

// failure is a test or subtest that has failed.
type failure struct {
	dir, pkg, test string
	final          bool // a panic or a data race: a second run proves nothing
}

// noteFailure remembers the failure of a test or subtest.
func (r *report) noteFailure(e event, output string) {
	f := &failure{dir: e.dir, pkg: e.Package, test: e.Test}
	for _, mark := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
		f.final = f.final || strings.Contains(output, mark)
	}
	r.failures = append(r.failures, f)
}

// retry runs the failed tests alone by alone, which tells whether each passes. Those that do
// are printed and counted as flaky instead of failed.
func (r *report) retry(alone func(dir, pkg, test string) error) {
	failures := r.failures
	r.failures = nil
	if len(failures) > mostRetries {
		return
	}
	for _, f := range failures {
		if f.final {
			continue
		}
		if err := alone(f.dir, f.pkg, f.test); err != nil {
			fmt.Fprintf(r.w, "FAIL  %s %s fails alone, too: %v\n", f.pkg, f.test, err)
			continue
		}
		r.mu.Lock()
		r.failed--
		r.flaky++
		r.mu.Unlock()
		fmt.Fprintf(r.w, "flaky %s %s: failed beside other tests, passed %d times of %d alone\n", f.pkg, f.test,
			retryPasses, retryPasses)
	}
}

// runAlone runs one test of the module in dir, with nothing beside it.
func runAlone(flags []string) func(dir, pkg, test string) error {
	return func(dir, pkg, test string) error {
		args := slices.Concat([]string{"test", "-vet", "off", "-count", fmt.Sprint(retryPasses)}, flags,
			[]string{"-run", exactly(test), pkg})
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
}

// exactly is the pattern of -run for one test or subtest.
func exactly(test string) string {
	var all []string
	for name := range strings.SplitSeq(test, "/") {
		all = append(all, "^"+regexp.QuoteMeta(name)+"$")
	}
	return strings.Join(all, "/")
}
