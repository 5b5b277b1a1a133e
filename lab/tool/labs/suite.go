// Package labs runs labs: one by its clock, several with their verdicts and
// reports, or one event at a time.
package labs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"tapir/lab/run/real"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/tool/usage"
	"tapir/lab/topo"
)

// Of a virtual lab of manyNodes, whose heap is large and hardly changes, garbage is collected when
// the heap has grown by manyGrowth percent, unless GOGC says otherwise: by the 100 of Go, half of its
// memory would be garbage.
const (
	manyNodes  = 500
	manyGrowth = 50
)

// Run runs a lab by its clock.
func Run(ctx context.Context, lab *topo.Lab, o real.Options, v virtual.Options) (*result.Result, error) {
	if lab.Clock == topo.Virtual {
		if len(lab.Nodes) >= manyNodes && os.Getenv("GOGC") == "" {
			defer debug.SetGCPercent(debug.SetGCPercent(manyGrowth))
		}
		return virtual.Run(ctx, lab, v)
	}
	return real.Run(ctx, lab, o)
}

// makeOut makes the directory of --out before anything runs.
func makeOut(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return usage.Errorf("--out: %w", err)
	}
	return nil
}

// One is a lab that runs with all that happens printed.
type One struct {
	Version string // of the program, for the lab's control socket
	Lab     *topo.Lab
	Out     string // directory; empty: nothing is kept
	Print   io.Writer
	Step    func(context.Context, *virtual.Event) error // after each event of the virtual clock; nil: nothing
}

// Run runs the lab. That it fails is an exit code, as it has been printed.
func (o *One) Run(ctx context.Context) error {
	if err := makeOut(o.Out); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	options := steps.Options{Out: o.Out, Print: o.Print}
	r, err := Run(ctx, o.Lab, real.Options{Options: options, Tapir: self, Echo: true, Control: o.Version},
		virtual.Options{Options: options, Step: o.Step})
	err = errors.Join(err, keep(o.Print, o.Lab, r, o.Version, o.Out))
	switch {
	case r.Error != "":
		err = errors.Join(errors.New(r.Error), err)
	case err == nil && r.Verdict != result.Passed:
		err = usage.Exit(1)
	}
	return err
}

// Suite is several labs that run one after the other.
type Suite struct {
	Version string // of the program
	Labs    []*topo.Lab
	Out     string // directory with a folder for each lab; empty: nothing is kept
	// Attached: the nodes are up already, as of real.Attach.
	Attached bool
	// Files with the results of all labs; empty: not written.
	JUnit, Results, HTML string
	JSON                 bool // print the results as JSON instead of lines
}

// Run runs the labs, prints their verdicts and writes the reports. It fails if
// a lab does.
func (s *Suite) Run(ctx context.Context, w io.Writer) error {
	if err := makeOut(s.Out); err != nil {
		return err
	}
	self, err := os.Executable() // the program that nodes run
	if err != nil {
		return err
	}
	var all []*result.Result
	var errs []error
	failed := 0
	for _, lab := range s.Labs {
		if ctx.Err() != nil { // it is in the reports, as not reached
			all = append(all, result.New(lab))
			continue
		}
		options := steps.Options{Draw: s.HTML != ""}
		if s.Out != "" {
			options.Out = filepath.Join(s.Out, lab.Name)
		}
		r, err := s.run(ctx, lab, real.Options{Options: options, Tapir: self})
		all = append(all, r)
		if r.Verdict != result.Passed {
			failed++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("lab %s: %w", lab.Name, err))
		}
		if !s.JSON {
			printVerdict(w, r)
			errs = append(errs, keep(w, lab, r, s.Version, options.Out))
		}
	}
	if s.JSON {
		errs = append(errs, result.JSON(w, all...))
	}
	if ctx.Err() != nil {
		errs = append(errs, errors.New("interrupted"))
	} else if failed > 0 {
		errs = append(errs, fmt.Errorf("%d of %d labs failed", failed, len(s.Labs)))
	}
	return errors.Join(append(errs, s.write(all))...)
}

func (s *Suite) run(ctx context.Context, lab *topo.Lab, o real.Options) (*result.Result, error) {
	if s.Attached {
		return real.Attach(ctx, lab, o)
	}
	return Run(ctx, lab, o, virtual.Options{Options: o.Options})
}

// Add adds a lab, unless it has a step that attached nodes cannot do.
func (s *Suite) Add(lab *topo.Lab) error {
	s.Labs = append(s.Labs, lab)
	if !s.Attached {
		return nil
	}
	return usage.Wrap(real.Attachable(lab))
}

// write writes the reports.
func (s *Suite) write(all []*result.Result) (err error) {
	for _, report := range []struct {
		name  string
		write func(io.Writer, ...*result.Result) error
	}{{s.JUnit, result.JUnit}, {s.Results, result.JSON}, {s.HTML, result.HTML}} {
		if report.name != "" {
			err = errors.Join(err, result.WriteFile(report.name, func(w io.Writer) error {
				return report.write(w, all...)
			}))
		}
	}
	return err
}

// printVerdict prints a line for a lab, and one for each step that failed.
func printVerdict(w io.Writer, r *result.Result) {
	fmt.Fprintf(w, "%s  %-20s %d of %d steps  %.1f s\n", r.Verdict, r.Lab, r.Done(), len(r.Steps), r.Seconds)
	for _, s := range r.Steps {
		if s.Verdict == result.Failed {
			fmt.Fprintf(w, "      line %d: %s: %s\n", s.Line, s.Text, s.Error)
		}
	}
	if r.Error != "" {
		fmt.Fprintf(w, "      %s\n", r.Error)
	}
}
