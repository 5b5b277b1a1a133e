// Command matrix runs the NIC's iWARP against Linux siw in a guest, or its RoCE
// against rxe, every cell of package siw, and writes the results into a document:
//
//	matrix [-roce] [-o docs/evidence/interop.md] [-only TEXT] [-repeat N] [-keep DIR] [-tapir bin/tapir] [-budget 25m]
//
// The exit code is 1 if a cell fails.
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

	"tapir/lab/check/siw"
	"tapir/lab/host/peer"
	"tapir/lab/tool/tshark"
)

func main() {
	out := flag.String("o", "", "document whose generated part to replace")
	only := flag.String("only", "", "run only the cells whose name contains this")
	keep := flag.String("keep", "", "directory for the captures of cells that fail")
	roce := flag.Bool("roce", false, "RoCE against rxe instead of iWARP against siw")
	repeat := flag.Int("repeat", 1, "number of runs of each cell")
	tapir := flag.String("tapir", "bin/tapir", "the program, for tapir run")
	budget := flag.Duration("budget", 25*time.Minute, "time for the cells")
	stream := flag.Bool("stream", false, "run the smoke cells alone, on the wire stream:PATH without TAP and bridge")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, options{*out, *only, *keep, *tapir, *repeat, *budget, *stream, *roce})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

type options struct {
	out, only, keep, tapir string
	repeat                 int
	budget                 time.Duration
	stream, roce           bool
}

func run(ctx context.Context, o options) (failed int, err error) {
	if err := tshark.Available(); err != nil {
		return 0, err
	}
	image, err := peer.Build(ctx, peer.CacheDir(), os.Stderr)
	if err != nil {
		return 0, err
	}
	var cells []siw.Cell
	all := siw.Smoke()
	switch {
	case o.roce:
		all = append(siw.SmokeRoCE(), siw.RoCE()...)
	case !o.stream:
		all = append(all, siw.All()...)
	}
	for _, c := range all {
		if strings.Contains(c.String(), o.only) {
			cells = append(cells, slices.Repeat([]siw.Cell{c}, o.repeat)...)
		}
	}
	if len(cells) == 0 {
		return 0, nil
	}
	begun := time.Now()
	m := siw.Matrix{Cells: cells, Budget: o.budget, Log: os.Stdout, Tapir: o.tapir, Keep: o.keep, Stream: o.stream}
	results, err := m.Run(ctx, image)
	if err != nil {
		return 0, err
	}
	bad, err := again(ctx, m, image, siw.Failed(results))
	if err != nil {
		return 0, err
	}
	fmt.Printf("%d cells, %d failed, in %v\n", len(results), len(bad), time.Since(begun).Round(time.Second))
	for _, r := range bad {
		fmt.Printf("FAIL  %v: %v\nNIC: %s\nguest: %s\n", r.Cell, r.Err, r.NIC, r.Guest)
	}
	if o.out == "" {
		return len(bad), nil
	}
	head := fmt.Sprintf("%s, Linux %s, %d cells in %v, %d failed.\n\n", time.Now().UTC().Format(time.DateOnly),
		strings.Fields(image.Linux)[0], len(results), time.Since(begun).Round(time.Second), len(bad))
	return len(bad), siw.WriteFile(o.out, results, head)
}

// mostRetries is how many failed cells get a second chance. More failures than that
// have one cause, which is not chance.
const mostRetries = 3

// again runs failed cells alone, each in a guest that has seen nothing else, and returns
// what fails there, too. A cell that passes is printed as flaky.
func again(ctx context.Context, m siw.Matrix, image peer.Image, bad []siw.Result) (still []siw.Result, err error) {
	if len(bad) > mostRetries {
		return bad, nil
	}
	for _, r := range bad {
		m.Cells = []siw.Cell{r.Cell}
		second, err := m.Run(ctx, image)
		if err != nil {
			return nil, err
		}
		if len(siw.Failed(second)) > 0 {
			still = append(still, r)
			continue
		}
		fmt.Printf("flaky %v: failed beside other cells, passed alone: %v\n", r.Cell, r.Err)
	}
	return still, nil
}
