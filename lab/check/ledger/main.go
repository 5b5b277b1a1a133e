package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const usage = `usage: go run ./lab/check/ledger [flags]

Without -mutate it writes docs/evidence/ledger.md from lab/check/ledger/clauses. With it, it
disables the code behind some clauses, one after another, and runs the tests
that the ledger names: each must turn red. The tree itself is not changed.

  go run ./lab/check/ledger
  go run ./lab/check/ledger -mutate -n 60 -seed 1
  go run ./lab/check/ledger -mutate -clause 5041-7.1-4

`

// errSurvived: some mutant passed its tests, or could not be tried.
var errSurvived = errors.New("mutants survived")

type options struct {
	mutate bool
	n      int
	seed   uint64
	clause string
	out    string
}

func main() {
	var o options
	fs := flag.NewFlagSet("ledger", flag.ExitOnError)
	fs.BoolVar(&o.mutate, "mutate", false, "break the code and see the tests fail")
	fs.IntVar(&o.n, "n", 60, "how many clauses to draw, 0 = all that have a mutation")
	fs.Uint64Var(&o.seed, "seed", 1, "what the draw follows from")
	fs.StringVar(&o.clause, "clause", "", "mutate for these clauses alone, divided by commas")
	fs.StringVar(&o.out, "o", "", "write the report of -mutate to this file too")
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), usage)
		fs.PrintDefaults()
	}
	fs.Parse(os.Args[1:])
	if fs.NArg() > 0 {
		fs.Usage()
		os.Exit(2)
	}
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
}

func run(o options, w io.Writer) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	all, err := clauses()
	if err != nil {
		return err
	}
	if !o.mutate {
		return os.WriteFile(filepath.Join(root, "docs/evidence/ledger.md"), []byte(page(all)), 0o644)
	}
	muts, err := mutations()
	if err != nil {
		return err
	}
	ts, err := targets(all, muts)
	if err != nil {
		return err
	}
	chosen, err := choose(ts, o)
	if err != nil {
		return err
	}
	return mutateAll(root, o, w, chosen, len(ts))
}

// choose draws the clauses, or takes those that were named.
func choose(ts []target, o options) ([]target, error) {
	if o.clause == "" {
		return draw(ts, o.n, o.seed), nil
	}
	var out []target
	for id := range strings.SplitSeq(o.clause, ",") {
		i := slices.IndexFunc(ts, func(t target) bool { return t.clause.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("no mutation for clause %q", id)
		}
		out = append(out, ts[i])
	}
	return out, nil
}

func mutateAll(root string, o options, w io.Writer, ts []target, pool int) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(w, "seed %d: %d of %d clauses that have a mutation\n", o.seed, len(ts), pool)
	start := time.Now()
	r := &runner{root: root, dir: dir, log: w}
	done := r.run(ts)
	survived := 0
	for i := range done {
		survived += count(done[i].bad())
	}
	fmt.Fprintf(w, "%d mutants, %d noticed, %d survived, %.0f s\n", len(done), len(done)-survived, survived,
		time.Since(start).Seconds())
	if o.out != "" {
		if err := os.WriteFile(o.out, []byte(report(done, o.seed, pool, survived, time.Since(start))), 0o644); err !=
			nil {
			return err
		}
	}
	if survived > 0 {
		return fmt.Errorf("%w: %d", errSurvived, survived)
	}
	return nil
}

// report is docs/evidence/mutate.md.
func report(done []verdict, seed uint64, pool, survived int, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Mutants

`+"`make mutate`"+` draws clauses of the [ledger](ledger.md) by seed, disables the code
that enforces each, and runs the tests that the ledger names for it. A mutant
that no test notices is a failure. It works on an overlay: the tree stays as it
is. `+"`make mutate SEED=7 N=0`"+` draws by another seed, or takes all.

The last run: seed %d, %d of %d clauses that have a mutation, %d noticed, %d
survived, %.0f s.

| clause | file | disabled | noticed by |
|---|---|---|---|
`, seed, len(done), pool, len(done)-survived, survived, took.Seconds())
	for _, v := range done {
		red := "`" + v.red + "`"
		if v.bad() {
			red = "**nobody**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", v.clause.ID, v.mutation.File, code(v.mutation.Code), red)
	}
	return b.String()
}

// code is the first line of s, for a table.
func code(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if more {
		line += " ..."
	}
	return "`" + strings.ReplaceAll(line, "|", `\|`) + "`"
}
