// Command bench measures NICs on TAPs against the kernel's own TCP, and
// against UCX where it is installed. Every figure is a ratio to something
// measured in the same run, in turns; the result is Markdown, put
// into its place in a document.
//
// Each NIC and each end of a reference is a process of its own: bench starts
// itself again for them.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"time"

	"tapir/lab/netns"
)

// options are what the command line chooses.
type options struct {
	rounds   int
	duration time.Duration
	only     *regexp.Regexp
	out      string
	profiles string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "nic":
			return nicChild(ctx, args[1:])
		case "tcp":
			return tcpChild(args[1:])
		}
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often everything is measured, in turns")
	flags.DurationVar(&o.duration, "duration", time.Second, "how long one measurement lasts")
	flags.StringVar(&o.out, "o", "", "put the figures into this document instead of printing them")
	flags.StringVar(&o.profiles, "profiles", "", "keep CPU profiles of the NICs in this directory")
	only := flags.String("only", "", "measure only the cases whose name matches this expression")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	if !netns.Privileged() && !netns.Reexeced() {
		return netns.Reexec(ctx, args...)
	}
	return measure(ctx, o)
}

// measure runs the rounds and writes the document.
func measure(ctx context.Context, o options) error {
	bench, err := newBench(o)
	if err != nil {
		return err
	}
	defer bench.close()
	before := loadAverage()
	for round := range o.rounds {
		for _, c := range bench.cases {
			s, err := c.run(ctx, bench)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, c.name, err)
			}
			c.samples = append(c.samples, s)
			fmt.Fprintf(os.Stderr, "%d/%d %-28s %s\n", round+1, o.rounds, c.name, s)
		}
	}
	doc := bench.document(before)
	if o.out == "" {
		_, err = os.Stdout.Write(doc)
		return err
	}
	return replace(o.out, doc)
}

// Between these lines of the document stand the figures; the rest is written
// by hand.
const (
	beginMark = "<!-- figures begin: written by make bench -->\n"
	endMark   = "<!-- figures end -->\n"
)

// replace puts the figures into their place in the file.
func replace(file string, figures []byte) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(beginMark))
	_, after, ok2 := bytes.Cut(rest, []byte(endMark))
	if !ok || !ok2 {
		return fmt.Errorf("%s: the lines %q and %q are missing", file, beginMark, endMark)
	}
	return os.WriteFile(file, slices.Concat(before, []byte(beginMark), figures, []byte(endMark), after), 0o644)
}
