package interop

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"
)

// Soak is a long run of many cells.
type Soak struct {
	Octets   uint64        // each way of a cell
	Patience time.Duration // after which a cell counts as stuck
	Every    int           // runs one cell in so many, chosen with a fixed seed; 1: all
}

// SoakFromEnv is the soak that the environment asks for: SOAK_MIB (default
// 100) and SOAK_EVERY (default 1) are numbers, SOAK_OUT is the file to which
// the results are appended.
func SoakFromEnv() (s Soak, out *os.File, err error) {
	s = Soak{Octets: 100 << 20, Patience: 10 * time.Minute, Every: 1}
	for name, set := range map[string]func(n uint64){
		"SOAK_MIB":   func(n uint64) { s.Octets = n << 20 },
		"SOAK_EVERY": func(n uint64) { s.Every = int(n) },
	} {
		v := os.Getenv(name)
		if v == "" {
			continue
		}
		n, err := strconv.ParseUint(v, 10, 20)
		if err != nil || n == 0 {
			return s, nil, fmt.Errorf("%s=%s: want a number from 1 on", name, v)
		}
		set(n)
	}
	out, err = os.OpenFile(os.Getenv("SOAK_OUT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return s, out, err
}

// Run runs the cells against the peer one by one and writes a table of the
// results to out, by loss and frame mode, and a line for each failure to log.
// It returns how many cells failed.
func (s Soak) Run(ctx context.Context, out, log io.Writer, peer string, cells []Cell, attach Attach) (failed int) {
	cells = slices.Clone(Of(peer, cells))
	all := len(cells)
	rand.New(rand.NewPCG(3, 4)).Shuffle(all, func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	cells = cells[:(all+s.Every-1)/s.Every]
	begun := time.Now()
	sums := map[kind]*tally{}
	for i, c := range cells {
		if ctx.Err() != nil {
			break
		}
		inner, cancel := context.WithTimeout(ctx, s.Patience)
		r, err := Run(inner, c, s.Octets, uint64(i), attach)
		cancel()
		k := kind{c.Loss, c.GSO}
		if sums[k] == nil {
			sums[k] = &tally{}
		}
		sums[k].add(r, err)
		if err != nil {
			failed++
			fmt.Fprintf(log, "FAIL %v: %v\n", c, err)
		}
	}
	fmt.Fprintf(out, "### %s\n\n%d of %d cells, %d MiB each way, in %v; %d failed.\n\n", peer, len(cells), all,
		s.Octets>>20, time.Since(begun).Round(time.Second), failed)
	fmt.Fprintf(out,
		"| loss | frames | cells | failed | median Mb/s | slowest Mb/s | timeouts |\n|---|---|---|---|---|---|---|\n")
	for _, loss := range losses {
		for _, gso := range []bool{false, true} {
			if t := sums[kind{loss, gso}]; t != nil {
				t.write(out, loss, gso)
			}
		}
	}
	fmt.Fprintln(out)
	return failed
}

// kind is a row of the table.
type kind struct {
	loss int
	gso  bool
}

type tally struct {
	rates         []float64
	cells, failed int
	timeouts      uint64
}

func (t *tally) add(r Result, err error) {
	t.cells++
	if err != nil {
		t.failed++
		return
	}
	t.rates = append(t.rates, r.rate())
	t.timeouts += r.Info.Timeouts
}

func (t *tally) write(out io.Writer, loss int, gso bool) {
	frames := "wire"
	if gso {
		frames = "gso"
	}
	slices.Sort(t.rates)
	median, slowest := "-", "-"
	if n := len(t.rates); n > 0 {
		median, slowest = fmt.Sprintf("%.0f", t.rates[n/2]), fmt.Sprintf("%.0f", t.rates[0])
	}
	fmt.Fprintf(out, "| %g %% | %s | %d | %d | %s | %s | %d |\n", float64(loss)/10_000, frames, t.cells, t.failed,
		median, slowest, t.timeouts)
}
