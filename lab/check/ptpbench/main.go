// Command ptpbench measures PTP: simulated clocks, whose values are exact, and
// NICs on TAPs against stock ptp4l and chronyd, for which the load of the machine
// is reported, too. The result is Markdown, put into its place in a document.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"tapir/lab/check/figures"
)

// bench is one run.
type bench struct {
	ctx    context.Context
	tapir  string // the program, for what runs under it
	oracle string // the tests of lab/check/oracle, with their benchmarks
	docs   string
	rounds int
	seeds  int // of simulated rows
}

// row is one line of the table.
type row struct {
	id, what string
	run      func(b *bench) ([]check, error)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ptpbench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	b := bench{ctx: ctx, seeds: 3}
	rows := append(simulated(), live()...)
	var only, out string
	flags := flag.NewFlagSet("ptpbench", flag.ContinueOnError)
	flags.IntVar(&b.rounds, "rounds", 3, "how often the rows on TAPs are measured; medians count")
	flags.StringVar(&b.tapir, "tapir", "bin/tapir", "the program")
	flags.StringVar(&b.oracle, "oracle", "bin/oracle.test", "the tests of lab/check/oracle, compiled")
	flags.StringVar(&b.docs, "docs", "docs/evidence", "directory of ptp-scenarios.md")
	flags.StringVar(&out, "o", "", "put the table into this document instead of printing it")
	flags.StringVar(&only, "rows", "", "measure only these rows, such as S1,R4")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if only != "" && out != "" {
		return errors.New("-rows and -o exclude each other: a document holds all rows")
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.id)
	}
	chosen, err := figures.Choose(only, ids)
	if err != nil {
		return err
	}
	var doc bytes.Buffer
	before := figures.Load()
	var table bytes.Buffer
	table.WriteString("| row | what | value | limit | |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		if !slices.Contains(chosen, r.id) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %s\n", r.id, r.what)
		r.write(&table, &b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Fprintf(&doc, "Measured %s with `make bench-ptp`, rounds: %d. %s. Load average (1, 5, 15 minutes) before: "+
		"%s; after: %s.\n\n", time.Now().UTC().Format(time.DateOnly), b.rounds, figures.Machine(), before,
		figures.Load())
	doc.Write(table.Bytes())
	if out == "" {
		_, err := os.Stdout.Write(doc.Bytes())
		return err
	}
	return figures.Put(out, begin, end, doc.Bytes())
}

// write measures a row. What cannot be measured is a line too.
func (r *row) write(w *bytes.Buffer, b *bench) {
	checks, err := r.run(b)
	what := r.what
	for _, c := range checks {
		sign, verdict := "≤", "met"
		if c.atLeast {
			sign = "≥"
		}
		if !c.met() {
			verdict = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s: %s | %.4g %s | %s %g | %s |\n", r.id, what, c.what, c.value, c.unit, sign, c.limit,
			verdict)
		what = "…"
	}
	if err != nil {
		fmt.Fprintf(w, "| %s | %s | | | **failed**: %s |\n", r.id, what, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// The figures' place in the document.
const begin, end = "<!-- begin: make bench-ptp writes this -->", "<!-- end -->"
