package main

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// How many failed tests of a run get a second chance, and how often each has to
// pass then. More failures than that have one cause, which is not chance.
const (
	mostRetries = 3
	retryPasses = 3
)

// failure is a test, with its subtests, that has failed.
type failure struct {
	pkg, test string
	count     int  // failures that the report has counted
	final     bool // a panic or a data race: a second run proves nothing
}

// noteFailure remembers the failure of a test or subtest.
func (r *report) noteFailure(pkg, test, output string) {
	top, _, _ := strings.Cut(test, "/")
	key := pkg + " " + top
	f := r.failures[key]
	if f == nil {
		f = &failure{pkg: pkg, test: top}
		r.failures[key] = f
	}
	f.count++
	for _, mark := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
		f.final = f.final || strings.Contains(output, mark)
	}
}

// retry runs the failed tests alone by alone, which tells whether each passes. Those that do
// are printed and counted as flaky instead of failed.
func (r *report) retry(alone func(pkg, test string) error) {
	failures := r.failures
	r.failures = map[string]*failure{}
	if len(failures) > mostRetries {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(failures)) {
		f := failures[key]
		if f.final {
			continue
		}
		if err := alone(f.pkg, f.test); err != nil {
			fmt.Fprintf(r.w, "FAIL  %s %s fails alone, too: %v\n", f.pkg, f.test, err)
			continue
		}
		r.mu.Lock()
		r.failed -= f.count
		r.flaky += f.count
		r.mu.Unlock()
		fmt.Fprintf(r.w, "flaky %s %s: failed beside other tests, passed %d times of %d alone\n", f.pkg, f.test,
			retryPasses, retryPasses)
	}
}

// runAlone runs one test of the module in dir, with nothing beside it.
func runAlone(dir string, flags []string) func(pkg, test string) error {
	return func(pkg, test string) error {
		args := slices.Concat([]string{"test", "-vet", "off", "-count", fmt.Sprint(retryPasses)}, flags,
			[]string{"-run", "^" + test + "$", pkg})
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
}
