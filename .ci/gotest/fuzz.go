package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// minFuzz is the shortest run that does more than replay the seeds.
const minFuzz = 3 * time.Second

// minimize is how many tries an input that reaches new code gets to become
// shorter. Go's default, a minute, is longer than most of these runs.
const minimize = "20x"

type target struct{ pkg, name string }

// fuzz runs every target of pkgs for each, or for less if the budget is small,
// one per processor at a time.
func fuzz(rep *report, pkgs []string, each, budget time.Duration) {
	out, err := exec.Command("go", append([]string{"test", "-list", "^Fuzz"}, pkgs...)...).Output()
	if err != nil {
		rep.check("list of fuzz targets", err)
		return
	}
	targets := parseList(string(out))
	workers := runtime.NumCPU()
	d := share(each, budget, len(targets), workers)
	fmt.Fprintf(rep.w, "fuzzing %d targets for %v each\n", len(targets), d)
	work := make(chan target)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for t := range work {
				rep.check("fuzz "+t.pkg+" "+t.name, t.fuzz(d))
			}
		})
	}
	for _, t := range targets {
		work <- t
	}
	close(work)
	wg.Wait()
}

// slower is how many times longer a target gets that did not come to fuzzing,
// since the inputs that it begins with took all its time.
const slower = 8

func (t target) fuzz(d time.Duration) error {
	run := func(d time.Duration) error {
		err := command("", "go", "test", "-run", "^$", "-parallel", "1",
			"-fuzz", "^"+t.name+"$", "-fuzztime", d.String(), "-fuzzminimizetime", minimize, t.pkg)
		if err != nil && onlyTimeUp(err.Error()) {
			return nil
		}
		return err
	}
	err := run(d)
	if err != nil && notBegun(err.Error()) {
		err = run(slower * d)
	}
	return err
}

// onlyTimeUp tells whether a fuzz run that failed found nothing but the end of
// its time: the fuzzer of Go at times reports that as a failure. A finding
// names its input, a crash its panic.
func onlyTimeUp(out string) bool {
	return timeUp(out) && strings.Contains(out, "now fuzzing with")
}

// notBegun tells whether it ended before that, without a finding.
func notBegun(out string) bool {
	return timeUp(out) && strings.Contains(out, "gathering baseline coverage") &&
		!strings.Contains(out, "now fuzzing with")
}

func timeUp(out string) bool {
	for _, finding := range []string{"Failing input", "panic", "_test.go:", "fatal error", "testdata/fuzz"} {
		if strings.Contains(out, finding) {
			return false
		}
	}
	return strings.Contains(out, "\n    context deadline exceeded\n")
}

// parseList reads the output of `go test -list`: the names of a package's
// targets come before its "ok" line.
func parseList(out string) (all []target) {
	var names []string
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 1 && strings.HasPrefix(f[0], "Fuzz"):
			names = append(names, f[0])
		case len(f) > 1 && f[0] == "ok":
			for _, n := range names {
				all = append(all, target{f[1], n})
			}
			names = nil
		}
	}
	return all
}

// share is the time for each of n targets.
func share(each, budget time.Duration, n, workers int) time.Duration {
	if n == 0 {
		return each
	}
	d := min(each, budget*time.Duration(workers)/time.Duration(n))
	return max(d.Round(time.Second), min(each, minFuzz))
}
