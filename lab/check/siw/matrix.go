package siw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tapir/lab/host/peer"
)

// Matrix runs many cells with one guest, which it replaces when it dies.
type Matrix struct {
	Cells  []Cell
	Budget time.Duration // cells not begun by then fail
	Log    io.Writer     // a line per cell, and what failed
	Tapir  string        // the program tapir
	Stream bool          // guest and NIC meet at a socket (--wire stream:PATH), without TAP and bridge
	Keep   string        // directory for the captures of cells that fail; empty: none are kept
}

// life is how long a guest may live beyond the budget.
const life = 5 * time.Minute

// Run runs the cells, in order, and returns their results in that order. The
// judge works beside the next cell.
func (m *Matrix) Run(ctx context.Context, image peer.Image) ([]Result, error) {
	w, err := NewWorld(ctx, image, m.Budget+life, m.Stream)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if w.Tapir, err = filepath.Abs(m.Tapir); err != nil { // programs run in directories of their own
		return nil, err
	}
	results := make([]Result, len(m.Cells))
	judge := make(chan *Result, 16)
	var judged sync.WaitGroup
	judged.Go(func() {
		for r := range judge {
			r.Judge(ctx, m.Keep)
			m.tell(r)
		}
	})
	begun := time.Now()
	for i, c := range m.Cells {
		if time.Since(begun) > m.Budget || ctx.Err() != nil {
			results[i] = Result{Cell: c, Err: fmt.Errorf("not begun within %v", m.Budget)}
		} else {
			results[i] = m.run(ctx, w, c)
		}
		judge <- &results[i]
	}
	close(judge)
	judged.Wait()
	return results, nil
}

// unanswered is what perftest says when siw has acknowledged the octets of an
// MPA request and then neither answers it nor gives up, which happens now and
// then when a program listens again.
const unanswered = "RDMA_CM_EVENT_UNREACHABLE; error: -110"

// errPanic is the end of a guest's kernel: that of Linux 6.1 now and then panics in
// cm_work_handler of iw_cm when connections end as soon as they are there: ten of cmtime
// at once, or that of rdma_xclient, whose FIN follows its first message.
var errPanic = errors.New("the guest's kernel panicked")

// lives is how often a cell is run at most.
const lives = 4

// run runs one cell, and repeats it if siw left its program without an answer or
// crashed.
func (m *Matrix) run(ctx context.Context, w *World, c Cell) Result {
	for again := 1; ; again++ {
		r := m.once(ctx, w, c)
		switch {
		case again == lives:
			return r
		case errors.Is(r.Err, errPanic):
			fmt.Fprintf(m.Log, "again %v: %v\n", c, r.Err)
		case r.Err != nil && c.Program != nil && strings.Contains(r.NIC, unanswered):
			fmt.Fprintf(m.Log, "again %v: siw has not answered an MPA request\n", c)
		default:
			return r
		}
	}
}

// once runs one cell; a guest that does not survive it is named and replaced.
func (m *Matrix) once(ctx context.Context, w *World, c Cell) Result {
	r := w.Run(ctx, c)
	select {
	case <-w.Guest.Ended():
		console, _ := w.Guest.Console()
		r.Err = died(string(console))
	default:
		if r.Err == nil {
			return r
		}
	}
	if err := w.Reboot(ctx); err != nil {
		r.Err = fmt.Errorf("%w; no new guest: %w", r.Err, err)
	}
	return r
}

// died says how a guest has ended, by its console: a kernel that panicked says
// where it was.
func died(console string) error {
	if !strings.Contains(console, "Kernel panic") {
		return fmt.Errorf("the guest died: %s", tail(console))
	}
	for line := range strings.Lines(console) {
		if _, at, ok := strings.Cut(line, "RIP: "); ok {
			return fmt.Errorf("%w in %s", errPanic, strings.TrimSpace(at))
		}
	}
	return fmt.Errorf("%w: %s", errPanic, tail(console))
}

func (m *Matrix) tell(r *Result) {
	if r.Err == nil {
		fmt.Fprintf(m.Log, "ok    %v  %.1fs\n", r.Cell, r.Took.Seconds())
		return
	}
	fmt.Fprintf(m.Log, "FAIL  %v  %.1fs: %v\n", r.Cell, r.Took.Seconds(), r.Err)
}

// Failed are the results that are not as they should be.
func Failed(results []Result) (failed []Result) {
	for _, r := range results {
		if r.Err != nil {
			failed = append(failed, r)
		}
	}
	return failed
}
