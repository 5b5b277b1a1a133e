package main

import (
	"encoding/json"
	"fmt"
	"go/format"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Mutation disables the code that enforces some clauses.
type Mutation struct {
	Clauses string `yaml:"clauses"` // ids, divided by spaces
	File    string `yaml:"file"`    // relative to the module
	Code    string `yaml:"code"`    // occurs exactly once in it
	With    string `yaml:"with"`    // what stands there instead
}

// mutations reads the table.
func mutations() ([]Mutation, error) { return read[Mutation]("mutations") }

// apply returns the file with the mutation made.
func (m *Mutation) apply(root string) ([]byte, error) {
	src, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(src), m.Code); n != 1 || m.Code == m.With {
		return nil, fmt.Errorf("%s: %q occurs %d times, or is not changed", m.File, m.Code, n)
	}
	out := strings.Replace(string(src), m.Code, m.With, 1)
	if _, err := format.Source([]byte(out)); err != nil {
		return nil, fmt.Errorf("%s with %q: %w", m.File, m.With, err)
	}
	return []byte(out), nil
}

// target is a clause with a mutation to try.
type target struct {
	clause   *Clause
	mutation *Mutation
}

// targets pairs each clause that has a mutation with the first one.
func targets(all []Clause, muts []Mutation) (out []target, err error) {
	seen := map[string]bool{}
	for i := range muts {
		for _, id := range strings.Fields(muts[i].Clauses) {
			c := byID(all, id)
			if c == nil || c.Test == "" {
				return nil, fmt.Errorf("%s: a mutation for %s, which has no test", muts[i].File, id)
			}
			if seen[id] {
				return nil, fmt.Errorf("%s: %s has a mutation already", muts[i].File, id)
			}
			seen[id] = true
			out = append(out, target{c, &muts[i]})
		}
	}
	return out, nil
}

// draw chooses n of the targets by seed, all if n is 0.
func draw(ts []target, n int, seed uint64) []target {
	ts = slices.Clone(ts)
	slices.SortFunc(ts, func(a, b target) int { return strings.Compare(a.clause.ID, b.clause.ID) })
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(ts), func(i, j int) { ts[i], ts[j] = ts[j], ts[i] })
	if n > 0 {
		ts = ts[:min(n, len(ts))]
	}
	return ts
}

// verdict is how one mutation went: the test that noticed it, or none; fault
// says why it could not be tried.
type verdict struct {
	target
	red   string
	fault error
	took  time.Duration
}

// bad tells whether the mutation shows nothing.
func (v *verdict) bad() bool { return v.red == "" }

// runner tries mutations in a folder of its own, over an overlay: the tree
// itself stays as it is.
type runner struct {
	root, dir string
	log       io.Writer
}

func (r *runner) try(t target) verdict {
	start := time.Now()
	red, err := r.noticed(t)
	return verdict{t, red, err, time.Since(start)}
}

// noticed makes the mutation and returns the name of the test that notices it.
func (r *runner) noticed(t target) (red string, err error) {
	src, err := t.mutation.apply(r.root)
	if err != nil {
		return "", err
	}
	mutant, overlay := filepath.Join(r.dir, "mutant.go"), filepath.Join(r.dir, "overlay.json")
	table, err := json.Marshal(
		map[string]any{"Replace": map[string]string{filepath.Join(r.root, t.mutation.File): mutant}})
	if err == nil {
		err = os.WriteFile(mutant, src, 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, table, 0o600)
	}
	for _, call := range calls(t.clause.Tests()) {
		if err != nil || red != "" {
			break
		}
		red, err = r.test(overlay, call)
	}
	return red, err
}

// scriptRoom is the directory whose tests run the wire scripts.
const scriptRoom = "lab/tool/script"

// call is one run of go test.
type call struct{ room, pattern string }

// calls groups tests by room, in the order of their names' first mention.
func calls(tests []string) (out []call) {
	for _, name := range tests {
		c := call{scriptRoom, "^TestScripts$/^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"}
		if !strings.HasSuffix(name, ".wire") {
			dot := strings.LastIndexByte(name, '.')
			c = call{name[:dot], "^" + name[dot+1:] + "$"}
		}
		i := slices.IndexFunc(out, func(o call) bool { return o.room == c.room && !strings.Contains(o.pattern, "/") })
		if i >= 0 && !strings.Contains(c.pattern, "/") {
			out[i].pattern += "|" + c.pattern
			continue
		}
		out = append(out, c)
	}
	return out
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// test runs c over the overlay and returns the name of a test that failed, ""
// if all passed. A mutant that does not compile, or a pattern that matches no
// test, is an error.
func (r *runner) test(overlay string, c call) (red string, err error) {
	args := []string{"test", "-count=1", "-vet=off", "-timeout", "60s", "-overlay", overlay, "-run", c.pattern,
		"./" + c.room}
	if r.usesRapid(c.room) {
		args = append(args, "-rapid.nofailfile") // what a mutant fails at is of no interest later
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = r.root
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case err == nil && strings.Contains(text, "no tests to run"):
		return "", fmt.Errorf("%s: no test matches %s", c.room, c.pattern)
	case err == nil:
		return "", nil
	}
	if m := failed.FindStringSubmatch(text); m != nil {
		return c.room + "." + m[1], nil
	}
	if strings.Contains(text, "panic:") {
		return c.room + " (panic)", nil
	}
	return "", fmt.Errorf("go test %s: %w\n%s", c.room, err, text)
}

// usesRapid tells whether the tests of room know rapid's flags.
func (r *runner) usesRapid(room string) bool {
	files, _ := filepath.Glob(filepath.Join(r.root, room, "*_test.go"))
	for _, f := range files {
		if src, err := os.ReadFile(f); err == nil && strings.Contains(string(src), `"pgregory.net/rapid"`) {
			return true
		}
	}
	return false
}

// run tries all of ts and reports line by line.
func (r *runner) run(ts []target) (done []verdict) {
	for i, t := range ts {
		v := r.try(t)
		fmt.Fprintf(r.log, "%3d/%d %-16s ", i+1, len(ts), t.clause.ID)
		switch {
		case v.fault != nil:
			fmt.Fprintf(r.log, "NOT TRIED: %v\n", v.fault)
		case v.red == "":
			fmt.Fprintf(r.log, "SURVIVED: %s with %q\n", t.mutation.File, t.mutation.With)
		default:
			fmt.Fprintf(r.log, "%s (%.1f s)\n", v.red, v.took.Seconds())
		}
		done = append(done, v)
	}
	return done
}
