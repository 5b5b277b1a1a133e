package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// minFuzz is the shortest run that does more than replay the seeds.
const minFuzz = 3 * time.Second

// minimize is how many tries an input that reaches new code gets to become
// shorter. Go's default, a minute, is longer than most of these runs.
const minimize = "20x"

// target is a fuzz target.
type target struct {
	pkg, dir, name string
	binary         func() (string, error) // the instrumented test binary of the package
}

// outcome is what a target did.
type outcome struct {
	execs, found int           // executions, inputs that reached new code
	cpu          time.Duration // of the fuzzer and its worker
}

// perSecond is the executions in a second of CPU time.
func (o outcome) perSecond() int {
	if o.cpu == 0 {
		return 0
	}
	return int(float64(o.execs) / o.cpu.Seconds())
}

// campaign fuzzes targets.
type campaign struct {
	rep   *report
	cache string        // where the fuzzer keeps inputs that reached new code
	each  time.Duration // for each target: elapsed time, with soak CPU time
	soak  *soak         // or nil
}

// fuzz runs the targets of pkgs whose "package Name" matches pattern, one per
// processor at a time. They share the budget, unless it is a soak.
func fuzz(rep *report, pkgs []string, pattern *regexp.Regexp, each, budget time.Duration, soak *soak) {
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		rep.check("fuzz", err)
		return
	}
	defer os.RemoveAll(dir)
	all, err := targets(pkgs, dir)
	cache, err2 := exec.Command("go", "env", "GOCACHE").Output()
	if err := errors.Join(err, err2); err != nil {
		rep.check("list of fuzz targets", err)
		return
	}
	var chosen []target
	for _, t := range all {
		if pattern.MatchString(t.pkg + " " + t.name) {
			chosen = append(chosen, t)
		}
	}
	if soak != nil {
		soak.targets = all
	}
	c := campaign{rep: rep, cache: filepath.Join(strings.TrimSpace(string(cache)), "fuzz"), each: each, soak: soak}
	workers := runtime.NumCPU()
	if soak == nil {
		c.each = share(each, budget, len(chosen), workers)
	}
	fmt.Fprintf(rep.w, "fuzzing %d targets for %v each\n", len(chosen), c.each)
	work := make(chan target)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for t := range work {
				c.run(t)
			}
		})
	}
	for _, t := range chosen {
		work <- t
	}
	close(work)
	wg.Wait()
}

// targets are those of pkgs, whose binaries go to dir when they are first asked
// for.
func targets(pkgs []string, dir string) (all []target, err error) {
	units, err := load(pkgs)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, u := range units {
		if seen[u.ImportPath] {
			continue
		}
		seen[u.ImportPath] = true
		file := filepath.Join(dir, strings.ReplaceAll(u.ImportPath, "/", "_")+".test")
		binary := sync.OnceValues(func() (string, error) {
			return file, command("", "go", "test", "-c", "-vet", "off", "-fuzz", ".", "-o", file, u.ImportPath)
		})
		for _, name := range u.fuzz {
			all = append(all, target{u.ImportPath, u.Dir, name, binary})
		}
	}
	return all, nil
}

// run fuzzes one target and reports it.
func (c *campaign) run(t target) {
	name := "fuzz " + t.pkg + " " + t.name
	if c.soak == nil {
		o, err := c.once(t, c.each)
		c.rep.check(fmt.Sprintf("%s  %d/s", name, o.perSecond()), err)
		return
	}
	o, err := c.forCPU(t)
	if err == nil {
		err = c.soak.tooSlow(t, o)
	}
	err = errors.Join(err, c.keep(t), c.soak.add(t, o))
	c.rep.check(fmt.Sprintf("%s  %d/s, %d new inputs", name, o.perSecond(), o.found), err)
}

// forCPU lets the target have its CPU time. On a busy machine that takes longer
// than its time: the fuzzer is then started again for the rest.
func (c *campaign) forCPU(t target) (all outcome, err error) {
	const starts = 4
	for n := 0; n < starts && err == nil && all.cpu < c.each*9/10; n++ {
		var o outcome
		o, err = c.once(t, max(c.each-all.cpu, minFuzz))
		all.execs += o.execs
		all.found += o.found
		all.cpu += o.cpu
	}
	return all, err
}

// slower is how many times longer a target gets that did not come to fuzzing,
// since the inputs that it begins with took all its time.
const slower = 8

// once lets the fuzzer run for d. The binary starts in the package's directory,
// as under go test, and shares go's cache of inputs.
func (c *campaign) once(t target, d time.Duration) (outcome, error) {
	binary, err := t.binary()
	if err != nil {
		return outcome{}, err
	}
	run := func(d time.Duration) (o outcome, err error) {
		cmd := exec.Command(binary, "-test.run", "^$", "-test.parallel", "1", "-test.fuzz", "^"+t.name+"$",
			"-test.fuzztime", d.String(), "-test.fuzzminimizetime", minimize,
			"-test.fuzzcachedir", filepath.Join(c.cache, filepath.FromSlash(t.pkg)))
		cmd.Dir = t.dir
		out, err := cmd.CombinedOutput()
		o = readOutcome(string(out))
		if cmd.ProcessState != nil {
			o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		if err != nil && !onlyTimeUp(string(out)) {
			return o, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
		return o, nil
	}
	o, err := run(d)
	if err != nil && notBegun(err.Error()) {
		o, err = run(slower * d)
	}
	return o, err
}

var (
	execsLine = regexp.MustCompile(`, execs: (\d+) `)
	foundLine = regexp.MustCompile(`, new interesting: (\d+) `)
)

// readOutcome takes from the fuzzer's output the last count of executions and
// of inputs found.
func readOutcome(out string) outcome {
	last := func(r *regexp.Regexp) (n int) {
		if all := r.FindAllStringSubmatch(out, -1); all != nil {
			n, _ = strconv.Atoi(all[len(all)-1][1])
		}
		return n
	}
	return outcome{execs: last(execsLine), found: last(foundLine)}
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

// share is the time for each of n targets.
func share(each, budget time.Duration, n, workers int) time.Duration {
	if n == 0 {
		return each
	}
	d := min(each, budget*time.Duration(workers)/time.Duration(n))
	return max(d.Round(time.Second), min(each, minFuzz))
}
