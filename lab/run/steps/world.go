// Package steps runs the steps of a lab against a World, which is either real
// (lab/run/real) or in virtual time (lab/run/virtual).
package steps

import (
	"context"
	"fmt"
	"io"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/tool/perf"
	"tapir/lab/topo"
	"tapir/ptp"
)

// Options say how to run a lab. The zero value is good.
type Options struct {
	Out   string    // directory for captures, log and reports; empty: none are kept
	Draw  bool      // draw the ladders of failures even if nothing is kept
	Print io.Writer // gets a line for each thing that happens; nil: none
}

// World is what a Runner acts on: the nodes, links and programs of a lab that is
// up, and its time.
type World interface {
	// Now is the time since the start of the lab.
	Now() time.Duration
	// Limit bounds work that takes no time of the world, as context.WithTimeout.
	Limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Sleep lets d pass.
	Sleep(ctx context.Context, d time.Duration) error
	// Poll calls done until it returns true or an error, for d at most: then
	// the error is context.DeadlineExceeded.
	Poll(ctx context.Context, d time.Duration, done func() (bool, error)) error
	// Later calls do once, as soon as a step's time has come or due returns
	// true; with an error, if due returns one. When ctx has ended, cancel calls
	// do with topo.ErrNeverHappened, unless it was called before.
	Later(ctx context.Context, s *topo.Step, due func() (bool, error), do func(error)) (cancel func())

	// Start starts the program of a step.
	Start(s *topo.Step) (Program, error)
	// Await waits until a program has ended, as Poll does.
	Await(ctx context.Context, p Program, d time.Duration) error
	// Perf runs a workload, all pairs side by side. There are no reports if none
	// has begun. Samples are of virtual time, if their report is kept.
	Perf(ctx context.Context, s *topo.Step) ([]perf.Report, []result.Samples, error)

	// Change does to a link what a step of verb Fault or Plug says.
	Change(s *topo.Step) error
	// Kill ends a node without a word to its peers; Restart starts it again.
	Kill(node string)
	Restart(ctx context.Context, node string) error
	Killed(node string) bool
	// AdjustPHC steps or slews the hardware clock of a NIC.
	AdjustPHC(ctx context.Context, s *topo.Step) error

	// Listens tells whether a NIC has a listener on a TCP port.
	Listens(ctx context.Context, nic string, port uint16) (bool, error)
	// PTP is the state of a node's PTP instance, nil if it has none, and the
	// true offset of its clock in nanoseconds.
	PTP(ctx context.Context, node string) (*ptp.Snapshot, int64, error)
	// Manager is the state of a fabric manager.
	Manager(ctx context.Context, node string) (role string, inSync bool, err error)
	// Counters are those of a node or, if vesw is not 0, of its vport there.
	Counters(ctx context.Context, node string, vesw uint16) ([]result.Counter, error)
	LinkCounts(link string) topo.LinkCounts
	// Tables are those of a node, by kind, as ctl.Recorded names them; an Ethernet Manager's state is
	// of kind manager. Those of record.Lab are links, by name.
	Tables(ctx context.Context, node string) map[string]any

	// Captured tells whether a link is captured.
	Captured(link string) bool
	// End ends everything that runs and completes the capture. It notes in r
	// what links and nodes did. The error names what was left over.
	End(ctx context.Context, r *result.Result) error
	// Close releases everything.
	Close()
}

// Program is a program that a step started.
type Program interface {
	HasEnded() bool
	ExitCode() int
	Err() error   // how it ended, if not with exit code 0
	Said() string // all of its output
	Tail() string // the end of its output, for errors
	Kill()        // as kill -9 does
	Stop()
}

// Hopeless is the failure of a condition that cannot come true any more.
type Hopeless struct{ error }

// Unwrap returns the reason.
func (h Hopeless) Unwrap() error { return h.error }

// Never wraps the reason why a condition cannot come true any more.
func Never(err error) error { return Hopeless{err} }

// Killed is the error of a node that was killed.
func Killed(node string) error { return fmt.Errorf("%s was killed", node) }

// Wanted tells whether somebody will read the capture of a link.
func (o *Options) Wanted(lab *topo.Lab, link *topo.Link) bool {
	if o.Out != "" || o.Draw {
		return link.Capture
	}
	for i := range lab.Steps {
		if c := &lab.Steps[i].Condition; c.Filter != "" && c.Link == link.Name {
			return true
		}
	}
	return false
}

// Failed writes and returns the result of a lab that did not come up.
func (o *Options) Failed(lab *topo.Lab, began time.Time, after time.Duration, why error) (*result.Result, error) {
	r := result.New(lab)
	r.Began = began
	r.Judge(after, why)
	return r, o.write(r)
}

func (o *Options) write(r *result.Result) error {
	if o.Out == "" {
		return nil
	}
	if err := result.Write(o.Out, r); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
