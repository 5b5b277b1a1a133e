// Command states runs the library of wire scripts against a siw guest and
// compares the states with those of docs/scripts-state.md:
//
//	states [-write] [-lanes 8]
//
// The exit code is 1 if one has changed; -write makes the document anew
// instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tapir/lab/peer"
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
	var results []live.Result
	if err := w.Run(ctx, scripts, false, func(r live.Result) { results = append(results, r) }); err != nil {
		return err
	}
	rows, err := live.NewRows(library, results)
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
	changes := live.Changes(live.Rows(string(page)), rows)
	for _, c := range changes {
		fmt.Println(c)
	}
	if len(changes) > 0 {
		return fmt.Errorf("%d states have changed; if they are right: go run ./lab/script/live/states -write", len(changes))
	}
	return nil
}
