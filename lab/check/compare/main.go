// Command compare measures the program tapir of an older revision against the
// one of this tree. It runs old and new alternately, at least 30 times each per
// row, and compares them pair by pair. A row fails when even the upper 95 %
// bound of the median ratio new/old lies below 0.97.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"tapir/lab/check/figures"
)

const (
	minPairs = 30
	lowest   = 0.97
)

func main() {
	old := flag.String("old", "", "`revision` to compare with")
	names := flag.String("rows", "", "`names` of the rows to run, separated by commas; all if empty")
	pairs := flag.Int("pairs", minPairs, "`number` of pairs per row, at least 30")
	limit := flag.Duration("limit", 20*time.Minute, "`time` for the whole run")
	flag.Parse()
	ok, err := compare(*old, *names, max(*pairs, minPairs), *limit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// contest is the two programs and where their files lie.
type contest struct {
	dir      string
	programs [2]string // old, new
}

func compare(old, names string, pairs int, limit time.Duration) (ok bool, err error) {
	chosen, err := choose(names)
	if err != nil {
		return false, err
	}
	if old == "" {
		return false, fmt.Errorf("no revision to compare with: make bench-compare OLD=revision")
	}
	dir, err := os.MkdirTemp("", "tapir-compare-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	c := &contest{dir: dir}
	if err := c.build(old); err != nil {
		return false, err
	}
	end := time.Now().Add(limit)
	ok = true
	fmt.Println("| row | unit | old | new | new / old | 95 % | |\n|---|---|---|---|---|---|---|")
	for _, r := range chosen {
		p, err := c.row(r, pairs, end)
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.name, err)
		}
		v := judge(p.ratios(r.better))
		ok = ok && !v.slower
		fmt.Printf("| %s | %s | %.4g | %.4g | %.3f | %.3f to %.3f | %s |\n", r.name, r.unit, figures.Median(p[0]),
			figures.Median(p[1]),
			v.ratio, v.low, v.high, v)
	}
	return ok, nil
}

// choose finds rows by their names.
func choose(names string) (chosen []row, err error) {
	byName, all := map[string]row{}, []string(nil)
	for _, r := range rows {
		byName[r.name], all = r, append(all, r.name)
	}
	list, err := figures.Choose(names, all)
	for _, name := range list {
		chosen = append(chosen, byName[name])
	}
	return chosen, err
}

// build makes both programs the same way; the old one from its own sources.
func (c *contest) build(old string) error {
	source := filepath.Join(c.dir, "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		return err
	}
	if err := run("sh", "-c", `git archive "$1" >"$2.tar" && tar -x -f "$2.tar" -C "$2"`, "sh", old,
		source); err != nil {
		return err
	}
	for i, dir := range []string{source, "."} {
		c.programs[i] = filepath.Join(c.dir, []string{"old", "new"}[i])
		if err := run("go", "build", "-C", dir, "-trimpath", "-o", c.programs[i], "./cmd/tapir"); err != nil {
			return err
		}
	}
	return nil
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// samples are what the old program measured, and the new one; those with the
// same index were taken one right after the other.
type samples [2][]float64

// ratios compares the speeds pair by pair: over 1, the new program is faster.
func (s samples) ratios(better direction) []float64 {
	list := make([]float64, len(s[0]))
	for i := range list {
		list[i] = s[1][i] / s[0][i]
		if better == less {
			list[i] = 1 / list[i]
		}
	}
	return list
}

// row takes the pairs of a row. Who begins changes from pair to pair; the first
// run of each program warms the caches and does not count.
func (c *contest) row(r row, pairs int, end time.Time) (s samples, err error) {
	file := filepath.Join(c.dir, r.name+".yaml")
	if err := os.WriteFile(file, []byte(r.lab()), 0o600); err != nil {
		return s, err
	}
	for n := -1; n < pairs; n++ {
		for k := range 2 {
			i := (n + k) & 1
			v, err := r.measure(c.programs[i], file)
			if err != nil {
				return s, err
			}
			if n >= 0 {
				s[i] = append(s[i], v)
			}
		}
		if time.Now().After(end) {
			return s, fmt.Errorf("the time is over after %d of %d pairs", n+1, pairs)
		}
		fmt.Fprintf(os.Stderr, "\r%-12s %2d/%d ", r.name, n+1, pairs)
	}
	fmt.Fprint(os.Stderr, "\r", strings.Repeat(" ", 24), "\r")
	return s, nil
}

// measure runs the lab once.
func (r *row) measure(program, file string) (float64, error) {
	cmd := exec.Command(program, "lab", "run", file)
	cmd.Env = os.Environ()
	if !r.real {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, out)
	}
	if r.result != nil {
		return r.printed(string(out))
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return used.Seconds() * 1e9 / r.work, nil
}
