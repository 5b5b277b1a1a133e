// Command attack runs hostile peers, programs and files against the program tapir
// for a bounded time, and judges after each of them: does the attacked NIC still
// answer, does an innocent pair move verified data, is memory flat, does no
// panic stand in the log, is no goroutine, link, file or process left.
//
// Everything happens in a network, mount and PID namespace that the command makes
// for itself, so that nothing outlives it, however it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"tapir/lab/check/attack/hostile"
	"tapir/lab/check/figures"
	"tapir/nic/uapi/runtimedir"
)

// whole is how long all rows take at the default of -time, about.
const whole = 10 * time.Minute

// options are what the command line chooses.
type options struct {
	tapir string        // the program that is attacked
	root  string        // of the sources, for captures, scripts and YAML files
	time  time.Duration // for all rows
	rows  []string
	seed  uint64
	out   string
}

// row is one attack.
type row struct {
	name, what string
	// secs is how many seconds the attack lasts of the whole, and points how often
	// it happens, for attacks that have a number instead.
	secs, points int
	// grows is how many MiB the attacked process may grow, at most.
	grows int
	// missing says why this machine cannot run the row; nil: it can.
	missing func() string
	run     func(ctx context.Context, t *trial) error
}

// allRows are the attacks in the order of the table.
func allRows() []row {
	return slices.Concat(floodRows(), fabricRows(), programRows(), holdRows(), fileRows(), resourceRows(), killRows())
}

// trial is one run of a row.
type trial struct {
	row
	options
	rng  *rand.Rand
	d    time.Duration // the time of the attack
	n    int           // its points
	dir  string        // empty, of this trial alone
	calm bool          // the machine has time: latencies are judged

	count         int    // what was done, such as frames sent
	unit          string // what is counted
	before, after int    // KiB of the attacked process; 0: there is none that lasts
	note          string
	base          time.Duration // the latency before the attack
}

func main() {
	if len(os.Args) > 2 && roles[os.Args[1]] != nil {
		os.Exit(play(os.Args[1], os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp), err != nil && !errors.Is(err, errExit):
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	case err != nil || failed > 0:
		os.Exit(1)
	}
}

// errExit says that the process that did the work has said what is wrong.
var errExit = errors.New("a row failed")

// roles are what processes that this command starts do, by name.
var roles = map[string]func(args []string) error{
	"init": initRole,
	"fuzz": hostile.Fuzz, "steal": hostile.Steal,
}

func play(role string, args []string) int {
	if err := roles[role](args); err != nil {
		var exit exitError
		if errors.As(err, &exit) {
			return int(exit)
		}
		fmt.Fprintln(os.Stderr, "attack:", role+":", err)
		return 1
	}
	return 0
}

// exitError is the exit code of a process.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func run(ctx context.Context, args []string, stdout io.Writer) (failed int, err error) {
	var o options
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	flags.StringVar(&o.tapir, "tapir", "bin/tapir", "the `program` to attack")
	flags.StringVar(&o.root, "root", ".", "`directory` of the sources")
	flags.DurationVar(&o.time, "time", whole, "how long all rows take together, about")
	flags.Uint64Var(&o.seed, "seed", 0, "`number` that decides what is random; 0: the time")
	flags.StringVar(&o.out, "o", "", "put the table into this `document`, too")
	names := []string{}
	for _, r := range allRows() {
		names = append(names, r.name)
	}
	flags.Func("rows", "run only these `rows`, with commas: "+strings.Join(names, ","), func(s string) (err error) {
		o.rows, err = figures.Choose(s, names)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	if len(o.rows) > 0 && o.out != "" {
		return 0, errors.New("-rows and -o exclude each other: the document has all rows")
	}
	if os.Getenv(insideEnv) == "" {
		return 0, enclose(ctx, args)
	}
	for _, path := range []*string{&o.tapir, &o.root} {
		if *path, err = filepath.Abs(*path); err != nil {
			return 0, err
		}
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	return attack(ctx, o, stdout)
}

// attack runs the rows and writes the table.
func attack(ctx context.Context, o options, stdout io.Writer) (failed int, err error) {
	var results []result
	load := figures.Load()
	begun := time.Now()
	for i, r := range allRows() {
		if len(o.rows) > 0 && !slices.Contains(o.rows, r.name) {
			continue
		}
		at := time.Now()
		res := o.try(ctx, r, uint64(i))
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		if res.err != nil {
			failed++
		}
		results = append(results, res)
		fmt.Fprintf(stdout, "%-12s %s (%v)\n", r.name, res.outcome(), time.Since(at).Round(100*time.Millisecond))
	}
	doc := document(results, o, time.Since(begun), load)
	if o.out == "" {
		fmt.Fprintf(stdout, "\n%s", doc)
		return failed, nil
	}
	return failed, figures.Put(o.out, beginMark, endMark, doc)
}

// try runs one row.
func (o options) try(ctx context.Context, r row, stream uint64) (res result) {
	scale := float64(o.time) / float64(whole)
	t := &trial{row: r, options: o, rng: rand.New(rand.NewPCG(o.seed, stream)), calm: scale > 0.1,
		d: time.Duration(scale * float64(r.secs) * float64(time.Second)),
		n: max(1, int(scale*float64(r.points)))}
	res.trial = t
	if r.missing != nil {
		if why := r.missing(); why != "" {
			res.skipped = why
			return res
		}
	}
	if t.dir, res.err = os.MkdirTemp("", "row"); res.err != nil {
		return res
	}
	defer os.RemoveAll(t.dir)
	defer os.RemoveAll(runtimedir.Path()) // of NICs that were killed
	within, cancel := context.WithTimeout(ctx, 2*t.d+time.Duration(t.n)*5*time.Second+5*time.Minute)
	defer cancel()
	res.err = r.run(within, t)
	if left := strangers(); len(left) > 0 {
		res.err = errors.Join(res.err, fmt.Errorf("processes are left: %s", strings.Join(left, ", ")))
	}
	return res
}
