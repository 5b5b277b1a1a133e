// Command scale measures labs in virtual time from 10 to 1,000 NICs: events per
// second, memory per NIC, and how the cost grows with their number. The result
// is Markdown and a figure, put into their places in a document.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"tapir/lab/check/figures"
	"tapir/lab/run/result"
)

// Between these lines of the document stand the figures.
const (
	beginMark = "<!-- labs in virtual time: written by make bench-virtual -->"
	endMark   = "<!-- labs in virtual time: end -->"
	drawing   = "virtual-time.svg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := flag.String("o", "",
		"put the figures into this document, and their drawing beside it, instead of printing them")
	flag.Parse()
	var all []cost
	before := figures.Load()
	for _, nics := range []int{10, 100, 300, 1000} {
		c, err := measure(ctx, work{nics: nics, qps: 10, iters: 100})
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d NICs: %v\n", nics, c.cpu)
		all = append(all, c)
	}
	doc := document(all, before)
	if *out == "" {
		_, err := os.Stdout.Write(doc)
		return err
	}
	return errors.Join(figures.Put(*out, beginMark, endMark, doc),
		draw(filepath.Join(filepath.Dir(*out), drawing), all))
}

// document is the result as Markdown.
func document(all []cost, loads string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Measured %s with `make bench-virtual`. Machine: %s.\n\n", time.Now().UTC().Format(time.DateOnly),
		figures.Machine())
	fmt.Fprintf(&b, "Load average (1, 5, 15 minutes) before: %s; after: %s.\n\n", loads, figures.Load())
	b.WriteString("| NICs | connections | messages | events | CPU time, s | events per second of one core | CPU " +
		"time per NIC, ms | heap per idle NIC, octets | most heap per NIC, octets |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %.2f | %.0f | %.1f | %d | %d |\n", c.nics, c.nics*c.qps, c.messages,
			c.events, c.cpu.Seconds(), float64(c.events)/c.cpu.Seconds(), float64(c.cpu.Milliseconds())/float64(c.nics),
			c.idle/c.nics, c.most/c.nics)
	}
	fmt.Fprintf(&b, "\n![CPU time over the number of NICs](%s)\n", drawing)
	return b.Bytes()
}

// draw draws the cost over the number of NICs, and beside it what it would be
// if it grew as they do from the first row.
func draw(file string, all []cost) error {
	measured, linear := result.Curve{Name: "measured"}, result.Curve{Name: "proportional to 100 NICs"}
	for _, c := range all {
		measured.X, measured.Y = append(measured.X, float64(c.nics)), append(measured.Y, c.cpu.Seconds())
		linear.X, linear.Y = append(linear.X, float64(c.nics)),
			append(linear.Y, all[1].cpu.Seconds()*float64(c.nics)/float64(all[1].nics))
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(result.WriteCurves(f, "Labs in virtual time", "NICs", "CPU time (s)",
		[]result.Curve{measured, linear}), f.Close())
}
