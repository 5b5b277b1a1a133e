// Command scale measures labs in virtual time from 10 to 1,000 NICs: events per
// second, memory per NIC, and how the cost grows with their number, on FastLinQ
// hardware and on ideal hardware, which has to be cheaper. The result is Markdown
// and a figure, put into their places in a document.
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
	before := figures.Load()
	all, err := both(ctx, append(busy(100, 10, 100, 300, 1000), work{nics: 1000, qps: 1, iters: 1})...)
	if err != nil {
		return err
	}
	if err := cheaper(all); err != nil {
		return err
	}
	doc := document(all, before)
	if *out == "" {
		_, err := os.Stdout.Write(doc)
		return err
	}
	return errors.Join(figures.Put(*out, beginMark, endMark, doc),
		draw(filepath.Join(filepath.Dir(*out), drawing), all))
}

// kinds are the kinds of hardware that are compared.
var kinds = [...]string{"fastlinq", "ideal"}

// busy are labs of so many NICs with so many messages on each of 10 connections.
func busy(iters int, nics ...int) (list []work) {
	for _, n := range nics {
		list = append(list, work{nics: n, qps: 10, iters: iters})
	}
	return list
}

// both measures labs on each kind of hardware in turn.
func both(ctx context.Context, labs ...work) (all []cost, err error) {
	for _, w := range labs {
		for _, w.hardware = range kinds {
			c, err := measure(ctx, w)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr, "%d NICs of %s hardware: %v\n", w.nics, w.hardware, c.cpu)
			all = append(all, c)
		}
	}
	return all, nil
}

// What ideal hardware has to save where there is little traffic: NICs per second of
// processor time, compared with FastLinQ hardware, and memory per idle NIC.
const (
	leastSpeed = 1.3
	mostHeap   = 0.5
)

// advantage compares ideal hardware with FastLinQ hardware in the last lab.
func advantage(all []cost) (speed, heap float64) {
	fastLinQ, ideal := all[len(all)-2], all[len(all)-1]
	return fastLinQ.cpu.Seconds() / ideal.cpu.Seconds(), float64(ideal.idle) / float64(fastLinQ.idle)
}

// cheaper fails if ideal hardware saves too little.
func cheaper(all []cost) error {
	if speed, heap := advantage(all); speed < leastSpeed || heap > mostHeap {
		return fmt.Errorf("ideal hardware has %.2f times as many NICs per second of CPU, at least %.1f wanted, with "+
			"%.2f of the memory per idle NIC, at most %.1f wanted", speed, leastSpeed, heap, mostHeap)
	}
	return nil
}

// document is the result as Markdown.
func document(all []cost, loads string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Measured %s with `make bench-virtual`. Machine: %s.\n\n", time.Now().UTC().Format(time.DateOnly),
		figures.Machine())
	fmt.Fprintf(&b, "Load average (1, 5, 15 minutes) before: %s; after: %s.\n\n", loads, figures.Load())
	b.WriteString("| NICs | hardware | connections | messages | events | CPU time, s | events per second of one core " +
		"| CPU time per NIC, ms | heap per idle NIC, octets | most heap per NIC, octets |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| %d | %s | %d | %d | %d | %.2f | %.0f | %.2f | %d | %d |\n", c.nics, c.hardware, c.nics*c.qps,
			c.messages, c.events, c.cpu.Seconds(), float64(c.events)/c.cpu.Seconds(),
			float64(c.cpu.Milliseconds())/float64(c.nics),
			c.idle/c.nics, c.most/c.nics)
	}
	speed, heap := advantage(all)
	fmt.Fprintf(&b, "\nIn the last lab, whose NICs send one message each, a second of CPU time is enough for %.2f "+
		"times as many NICs of ideal hardware, and an idle one takes %.2f of the memory.\n", speed, heap)
	fmt.Fprintf(&b, "\n![CPU time over the number of NICs](%s)\n", drawing)
	return b.Bytes()
}

// draw draws the cost over the number of NICs in all labs but the last one, and
// beside it what it would be if it grew as they do from the second number on
// FastLinQ hardware.
func draw(file string, all []cost) error {
	linear := result.Curve{Name: "proportional to 100 NICs"}
	curves := make([]result.Curve, len(kinds))
	for i, c := range all[:len(all)-len(kinds)] {
		k, base := &curves[i%len(kinds)], all[len(kinds)]
		k.Name = c.hardware + " hardware"
		k.X, k.Y = append(k.X, float64(c.nics)), append(k.Y, c.cpu.Seconds())
		if i%len(kinds) == 0 {
			linear.X, linear.Y = append(linear.X, float64(c.nics)),
				append(linear.Y, base.cpu.Seconds()*float64(c.nics)/float64(base.nics))
		}
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(result.WriteCurves(f, "Labs in virtual time", "NICs", "CPU time (s)",
		append(curves, linear)), f.Close())
}
