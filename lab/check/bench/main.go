// Command bench measures NICs on TAPs against the kernel's own TCP, and
// against UCX where it is installed. Every figure is a ratio to something
// measured in the same run, in turns; the result is Markdown, put
// into its place in a document.
//
// Each NIC and each end of a reference runs in a separate process: bench starts
// itself again for them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"tapir/lab/check/figures"
	"tapir/lab/host/netns"
	"tapir/nic/uapi/trap"
)

// options are what the command line chooses.
type options struct {
	rounds   int
	duration time.Duration
	sets     []string // parts of the benchmark; empty: all
	tapir    string   // the program tapir, for labs
	netstack string   // the program that is gVisor's end of a stream
	out      string
	profiles string
}

func main() {
	trap.Launched()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// children are what processes that bench starts do, by the name of their role.
// Their argument is a spec as JSON.
var children = map[string]func(ctx context.Context, spec string) error{
	"nic":    as(nicChild),
	"stream": as(streamChild),
	"idle":   as(idleChild),
	"tcp":    as(tcpChild),
	"serve":  as(serveChild),
	"trap":   as(trapChild),
	"call":   as(callChild),
	"chain":  as(chainChild),
	"umode":  as(umodeChild),
	"flood":  as(floodChild),
}

// as returns a child whose argument is a T as JSON.
func as[T any](child func(context.Context, *T) error) func(context.Context, string) error {
	return func(ctx context.Context, text string) error {
		spec := new(T)
		if err := json.Unmarshal([]byte(text), spec); err != nil {
			return err
		}
		return child(ctx, spec)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 1 {
		if args[0] == "run" {
			return runChild(ctx, args[1:])
		}
		if child := children[args[0]]; child != nil {
			return child(ctx, args[1])
		}
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 9, "how often everything is measured, in turns")
	flags.DurationVar(&o.duration, "duration", time.Second/2, "how long one measurement lasts")
	flags.StringVar(&o.out, "o", "", "put the figures into this document instead of printing them")
	flags.StringVar(&o.profiles, "profiles", "", "keep CPU profiles of the NICs in this directory")
	flags.StringVar(&o.tapir, "tapir", "bin/tapir", "the program tapir, for the nodes of labs")
	flags.StringVar(&o.netstack, "netstack", "bin/netstack",
		"the program with gVisor's netstack, built from lab/check/oracle/netstack")
	flags.Func("sets", "measure only these parts: "+strings.Join(setNames(), ","), o.choose)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if len(o.sets) > 0 && o.out != "" {
		return errors.New("-sets and -o exclude each other: a document holds all figures")
	}
	if !netns.Privileged() && !netns.Reexeced() {
		return netns.Reexec(ctx, args...)
	}
	return measure(ctx, o)
}

// choose parses the names of sets.
func (o *options) choose(names string) (err error) {
	o.sets, err = figures.Choose(names, setNames())
	return err
}

// measure runs the rounds and writes the document.
func measure(ctx context.Context, o options) error {
	dir, err := ownSockets()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bench := newBench(o)
	defer bench.close()
	before := figures.Load()
	for round := range o.rounds {
		for _, c := range bench.cases {
			if err := c.once(ctx, bench, round); err != nil {
				return err
			}
		}
	}
	doc := bench.document(before)
	if o.out == "" {
		_, err = os.Stdout.Write(doc)
		return err
	}
	return figures.Put(o.out, beginMark, endMark, doc)
}

// ownSockets makes the directory for the sockets of NICs that programs use, so
// that other NICs of this machine are not in the way.
func ownSockets() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "bench"); err == nil {
		err = os.Setenv("XDG_RUNTIME_DIR", dir)
	}
	return dir, err
}

// tries is how often a case is begun that fails: one failure in hundreds of
// connections, such as one that a busy machine lets time out, spoils no run.
const tries = 2

// once measures a case once more.
func (c *testCase) once(ctx context.Context, b *bench, round int) (err error) {
	if c.missing != "" {
		return nil
	}
	var s sample
	m := measurement{name: c.name, duration: b.opt.duration, opt: &b.opt}
	for range tries {
		if m.bed, err = b.bed(c.on); err == nil {
			s, err = c.run(ctx, &m)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, errNotHere) {
			break
		}
		fmt.Fprintf(os.Stderr, "%d/%d %-32s %v\n", round+1, b.opt.rounds, c.name, err)
	}
	if errors.Is(err, errNotHere) {
		c.missing = strings.TrimPrefix(err.Error(), errNotHere.Error()+": ")
		return nil
	}
	if err != nil {
		return fmt.Errorf("round %d, %s: %w", round+1, c.name, err)
	}
	c.samples = append(c.samples, s)
	fmt.Fprintf(os.Stderr, "%d/%d %-32s %s\n", round+1, b.opt.rounds, c.name, s)
	return nil
}

// Between these lines of the document stand the figures; the rest is written
// by hand.
const (
	beginMark = "<!-- figures begin: written by make bench -->"
	endMark   = "<!-- figures end -->"
)
