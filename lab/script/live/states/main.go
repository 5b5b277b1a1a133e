// Command states runs the library of wire scripts against a siw guest and
// compares the states with those of docs/scripts-state.md:
//
//	states [-write] [-lanes 8]
//
// A script whose state has changed runs again, up to four times in all. The exit
// code is 1 if one is never as the document says; -write makes that anew instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"tapir/lab/peer"
	"tapir/lab/script"
	"tapir/lab/script/live"
)

const (
	library  = "lab/script/testdata"
	document = "docs/scripts-state.md"
	life     = 15 * time.Minute
)

func main() {
	write := flag.Bool("write", false, "make "+document+" anew")
	lanes := flag.Int("lanes", 8, "so many scripts at a time")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *write, *lanes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "states:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, write bool, lanes int) error {
	scripts, err := live.Library(library)
	if err != nil {
		return err
	}
	image, err := peer.Build(ctx, peer.CacheDir(), os.Stderr)
	if err != nil {
		return err
	}
	w, err := live.NewWorld(ctx, image, lanes, life)
	if err != nil {
		return err
	}
	defer w.Close()
	begun := time.Now()
	rows, err := rowsOf(ctx, w, scripts)
	if err != nil {
		return err
	}
	fmt.Printf("%d scripts against siw in %v\n", len(rows), time.Since(begun).Round(time.Second))
	if write {
		return os.WriteFile(document, []byte(live.Table(rows)), 0o644)
	}
	page, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	changes, err := compare(ctx, w, scripts, live.Rows(string(page)), rows)
	if err != nil {
		return err
	}
	if changes > 0 {
		return fmt.Errorf("%d states have changed; if they are right: go run ./lab/script/live/states -write", changes)
	}
	return nil
}

// rowsOf runs scripts.
func rowsOf(ctx context.Context, w *live.World, scripts []*script.Script) ([]live.Row, error) {
	var results []live.Result
	if err := w.Run(ctx, scripts, false, func(r live.Result) { results = append(results, r) }); err != nil {
		return nil, err
	}
	return live.NewRows(library, results)
}

// runs is how often a script runs that differs from the table: siw's threads
// race with each other, so that it sometimes answers a thing and sometimes not.
const runs = 4

// compare says which states have changed, and returns how many of them do so in
// every run.
func compare(ctx context.Context, w *live.World, scripts []*script.Script, table, rows []live.Row) (changes int, err error) {
	for run := 1; ; run++ {
		changed := map[string]bool{}
		for _, c := range live.Changes(table, rows) {
			fmt.Printf("run %d: %s\n", run, c)
			name, _, _ := strings.Cut(c, ": ")
			changed[name] = true
		}
		if len(changed) == 0 || run == runs {
			return len(changed), nil
		}
		differs := func(name string) bool { return changed[name] }
		again := slices.DeleteFunc(slices.Clone(scripts), func(s *script.Script) bool { return !differs(live.NameIn(library, s)) })
		table = slices.DeleteFunc(slices.Clone(table), func(r live.Row) bool { return !differs(r.Name) })
		if rows, err = rowsOf(ctx, w, again); err != nil {
			return 0, err
		}
	}
}
