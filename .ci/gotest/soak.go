package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// floor is how many executions a fuzz target has to reach in a second of CPU
// time, and maxSlow how many targets may have a reason not to.
const (
	floor   = 1000
	maxSlow = 3
)

// soak is a long campaign, with a table of all campaigns in a file.
type soak struct {
	file string
	slow map[string]bool // "package Name" of the targets that may be below the floor
	day  string          // of this campaign
	// targets are all that there are.
	targets []target

	mu   sync.Mutex
	rows map[string]*row
}

// row is what a target has done in all campaigns.
type row struct {
	runs, execs, speed int
	minutes            float64 // of CPU time
	last               string  // day
}

func newSoak(file string, slow map[string]bool) (*soak, error) {
	if len(slow) > maxSlow {
		return nil, fmt.Errorf("%d fuzz targets have a reason to be slow: at most %d may", len(slow), maxSlow)
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s := &soak{file: file, slow: slow, day: time.Now().UTC().Format(time.DateOnly)}
	s.rows, err = parseRows(string(text))
	return s, err
}

// tooSlow is an error unless the target reached the floor or has a reason.
func (s *soak) tooSlow(t target, o outcome) error {
	if o.perSecond() >= floor || s.slow[t.pkg+" "+t.name] {
		return nil
	}
	return fmt.Errorf("%d executions in a second of CPU time: at least %d", o.perSecond(), floor)
}

// add writes a table with what the target did, so that a campaign may be
// interrupted.
func (s *soak) add(t target, o outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[t.pkg+" "+t.name]
	if r == nil {
		r = &row{}
		s.rows[t.pkg+" "+t.name] = r
	}
	r.runs++
	r.execs += o.execs
	r.minutes += o.cpu.Minutes()
	r.speed, r.last = o.perSecond(), s.day
	return s.write()
}

const soakHead = `# Fuzzing

` + "`make soak`" + ` gives every fuzz target ten minutes of CPU time and adds what it did to
this table; ` + "`make soak TARGETS=wire CPU=1m`" + ` chooses targets by a regular expression
over package and name, and the time. ` + "`make fuzz`" + ` does the same without a record.

A run fails when a target crashes or executes fewer than 1,000 inputs in a second
of CPU time; ` + "`.ci/fuzz-slow`" + ` lists the targets, at most three, that have a reason.
An input that crashes a target becomes a file in the package's ` + "`testdata/fuzz`" + `, which
every ` + "`go test`" + ` runs: the column *crashers*. Inputs that run statements which no
seed and no shorter input runs are kept there too, up to 50 and 64 KiB a target:
the column *corpus*. Speed is that of the last run, per second of CPU time.

| target | runs | CPU minutes | executions | executions/s | corpus | crashers | last run |
|---|---|---|---|---|---|---|---|
`

// write replaces the table by one of all targets, without those that are gone.
func (s *soak) write() error {
	b := []byte(soakHead)
	var sum row
	all := slices.SortedFunc(slices.Values(s.targets), func(a, b target) int {
		return strings.Compare(a.pkg+" "+a.name, b.pkg+" "+b.name)
	})
	for _, t := range all {
		h, err := t.held()
		if err != nil {
			return err
		}
		r := s.rows[t.pkg+" "+t.name]
		if r == nil {
			r = &row{last: "-"}
		}
		b = fmt.Appendf(b, "| `%s %s` | %d | %.1f | %d | %d | %v | %d | %s |\n", t.pkg, t.name, r.runs, r.minutes,
			r.execs, r.speed, h, h.crashers, r.last)
		sum.minutes += r.minutes
		sum.execs += r.execs
	}
	b = fmt.Appendf(b, "\nIn all: %d targets, %.1f hours of CPU time, %d executions.\n", len(all),
		sum.minutes/60, sum.execs)
	return os.WriteFile(s.file, b, 0o644)
}

// parseRows reads the table that write wrote.
func parseRows(text string) (map[string]*row, error) {
	rows := map[string]*row{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		f := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(f) != 8 {
			return nil, fmt.Errorf("row with %d columns, not 8: %s", len(f), line)
		}
		r := &row{last: f[7]}
		var errs [4]error
		r.runs, errs[0] = strconv.Atoi(f[1])
		r.minutes, errs[1] = strconv.ParseFloat(f[2], 64)
		r.execs, errs[2] = strconv.Atoi(f[3])
		r.speed, errs[3] = strconv.Atoi(f[4])
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("%w in %s", err, line)
		}
		rows[strings.Trim(f[0], "`")] = r
	}
	return rows, nil
}
