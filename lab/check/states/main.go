// Command states runs the library of wire scripts against a Linux guest, those of iWARP with
// the siw driver and those of RoCE with rxe, and compares the states with those of docs/evidence/scripts-state.md:
//
//	states [-write] [-lanes 8]
//
// A script whose state has changed runs again, up to four times in all, at last in
// a guest of its own. The exit code is 1 if one is never as the document says;
// -write rewrites it instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"tapir/lab/host/peer"
	"tapir/lab/tool/live"
	"tapir/lab/tool/script"
)

const (
	library  = "lab/tool/script/testdata"
	document = "docs/evidence/scripts-state.md"
	life     = 15 * time.Minute
)

func main() {
	write := flag.Bool("write", false, "rewrite "+document)
	lanes := flag.Int("lanes", 8, "number of scripts that run at the same time")
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
	scripts, err := Library(library)
	if err != nil {
		return err
	}
	image, err := peer.Build(ctx, peer.CacheDir(), os.Stderr)
	if err != nil {
		return err
	}
	g := &guest{image: image, lanes: lanes}
	defer g.close()
	begun := time.Now()
	rows, err := g.rows(ctx, scripts)
	if err != nil {
		return err
	}
	fmt.Printf("%d scripts against siw and rxe in %v\n", len(rows), time.Since(begun).Round(time.Second))
	if write {
		return os.WriteFile(document, []byte(Table(rows)), 0o644)
	}
	page, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	changes, err := compare(ctx, g, scripts, Rows(string(page)), rows)
	if err != nil {
		return err
	}
	if changes > 0 {
		return fmt.Errorf("%d states have changed; if they are right: go run ./lab/check/states -write", changes)
	}
	return nil
}

// guest is where scripts run, booted when they first do.
type guest struct {
	image peer.Image
	lanes int
	world *live.World
}

// mostStopped is how many guests may stop before that is an error: now and then
// siw_destroy_listen finds its list damaged, which ends the guest's kernel.
const mostStopped = 3

// rows runs scripts; what a guest that stopped has not run goes to another one.
func (g *guest) rows(ctx context.Context, scripts []*script.Script) (_ []Row, err error) {
	var results []live.Result
	for stopped := 0; ; {
		if g.world == nil {
			if g.world, err = live.NewWorld(ctx, g.image, g.lanes, life); err != nil {
				return nil, err
			}
		}
		done := map[*script.Script]bool{}
		err := g.world.Run(ctx, scripts, false, func(r live.Result) {
			results, done[r.Script] = append(results, r), true
		})
		if err == nil {
			return NewRows(library, results)
		}
		if stopped++; stopped == mostStopped || !errors.Is(err, live.ErrStopped) {
			return nil, err
		}
		fmt.Printf("%v; the other scripts run in a new guest\n", err)
		g.close()
		scripts = slices.DeleteFunc(slices.Clone(scripts), func(s *script.Script) bool { return done[s] })
	}
}

// close ends the guest; the next scripts have one of their own.
func (g *guest) close() {
	if g.world != nil {
		g.world.Close()
		g.world = nil
	}
}

// A script that differs from the table runs so often: siw's threads race with each
// other, so that it sometimes answers a thing and sometimes not. The later runs
// have a guest that has not been through hundreds of broken streams.
const (
	runs       = 4
	inOldGuest = 2
)

// compare says which states have changed, and returns how many of them do so in
// every run.
func compare(ctx context.Context, g *guest, scripts []*script.Script, table, rows []Row) (changes int, err error) {
	for run := 1; ; run++ {
		changed := map[string]bool{}
		for _, c := range Changes(table, rows) {
			fmt.Printf("run %d: %s\n", run, c)
			name, _, _ := strings.Cut(c, ": ")
			changed[name] = true
		}
		if len(changed) == 0 || run == runs {
			return len(changed), nil
		}
		differs := func(name string) bool { return changed[name] }
		again := slices.DeleteFunc(slices.Clone(scripts), func(s *script.Script) bool {
			return !differs(NameIn(library, s))
		})
		table = slices.DeleteFunc(slices.Clone(table), func(r Row) bool { return !differs(r.Name) })
		if run == inOldGuest {
			g.close()
		}
		if rows, err = g.rows(ctx, again); err != nil {
			return 0, err
		}
	}
}
