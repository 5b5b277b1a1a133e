package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/lab/run/result"
	"tapir/lab/tool/ui/record"
	"tapir/lab/topo"
)

// Runner runs the steps of a lab that is up.
type Runner struct {
	Lab     *topo.Lab
	World   World
	Options Options
	Log     *Log
	Capture string         // file of the lab's capture
	Began   time.Time      // of a real lab
	Tables  *record.Tables // of nodes over time; nil: they are not recorded
	Epoch   int64          // time of the capture at the start of the lab, in nanoseconds

	mu      sync.Mutex // of started
	started []*program // in order
	pending []*pending
	reading sync.Mutex // of steps that are asked for
	faults  sync.Map   // *sync.Mutex by node: one fault at a time
	failed  error      // see Fail
}

// program is a program that a step started.
type program struct {
	Program
	step   *topo.Step
	res    *result.Step
	killed atomic.Bool // by a step: its exit code says nothing
	serves string      // the node whose disks it serves; empty: it is of a step of the file
}

// Steps runs the lab's steps in order until one fails or ctx ends. What is
// judged by captures is judged by Finish.
func (r *Runner) Steps(ctx context.Context) *result.Result {
	res := result.New(r.Lab)
	res.Began = r.Began
	r.Next(ctx, res)
	return res
}

// Next runs in order the steps that have not been reached, such as those by
// which the lab was extended, until one fails.
func (r *Runner) Next(ctx context.Context, all *result.Result) {
	for i, res := range all.Steps {
		s := &r.Lab.Steps[i]
		if res.Verdict != result.Skipped {
			continue
		}
		res.Begin(r.World.Now())
		if s.Condition.Filter != "" {
			continue // till the capture is complete
		}
		err := r.step(ctx, s, res)
		if err != nil && res.Disturbed != "" {
			err = fmt.Errorf("%w (%s)", err, res.Disturbed)
		}
		if res.End(r.World.Now(), err); err != nil {
			r.fail(s, err)
			break
		}
		note := ""
		switch {
		case res.Disturbed != "":
			note = " (" + res.Disturbed + ")"
		case s.Background:
			note = " (in the background)"
		case s.Later:
			note = " (later)"
		case s.Fails != nil:
			note = ": it failed as it should"
		case res.Perf != nil:
			note = ": " + res.Perf.String()
		}
		r.Log.Printf("ok    %s%s", s.Text, note)
		r.sampleTables(ctx)
	}
}

// sampleTables records the tables of now, so that those of a step can be seen at its end.
func (r *Runner) sampleTables(ctx context.Context) {
	if r.Tables != nil {
		r.Tables.Take(r.World.Now(), func(node string) map[string]any {
			limited, cancel := r.World.Limit(context.WithoutCancel(ctx), countersWithin)
			defer cancel()
			return r.World.Tables(limited, node)
		})
	}
}

// fail logs why a step failed.
func (r *Runner) fail(s *topo.Step, err error) {
	r.Log.Printf("FAIL  line %d: %s: %v", s.Line, s.Text, err)
}

// ErrInterrupted is the error of a step whose lab is interrupted.
var ErrInterrupted = errors.New("interrupted")

// overdue is the error of what was not done in time.
type overdue struct{ error }

func (o overdue) Unwrap() error { return o.error }

func (r *Runner) step(ctx context.Context, s *topo.Step, res *result.Step) error {
	limited, cancel := r.World.Limit(ctx, s.Timeout+s.For+s.Condition.Throughout)
	defer cancel()
	before := r.lateness(&s.Condition)
	err := r.act(limited, s, res)
	res.Disturbed = r.disturbed(&s.Condition, before)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ErrInterrupted
	case limited.Err() != nil || errors.As(err, new(overdue)):
		return fmt.Errorf("not done after %v: %w", s.Timeout, err)
	}
	return err
}

func (r *Runner) act(ctx context.Context, s *topo.Step, res *result.Step) error {
	switch s.Verb {
	case topo.Run:
		return r.run(ctx, s, res)
	case topo.Perf:
		return s.Outcome(r.perf(ctx, s, res))
	case topo.Fault, topo.Plug:
		return r.World.Change(s)
	case topo.Kill, topo.Start, topo.PHC:
		return r.disturb(ctx, s, res)
	case topo.Wait:
		return r.wait(ctx, s)
	}
	return r.throughout(ctx, &s.Condition)
}

// run starts a program and, unless it runs in the background, waits for its end.
func (r *Runner) run(ctx context.Context, s *topo.Step, res *result.Step) error {
	p, err := r.World.Start(s)
	if err != nil {
		return err
	}
	started := r.note(&program{Program: p, step: s, res: res})
	if s.Background {
		return nil
	}
	return r.finish(ctx, started, s.Timeout)
}

// note notes a program that runs.
func (r *Runner) note(p *program) *program {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, p)
	return p
}

// finish waits for a program's end and judges it.
func (r *Runner) finish(ctx context.Context, p *program, limit time.Duration) error {
	err := r.World.Await(ctx, p.Program, limit)
	if errors.Is(err, context.DeadlineExceeded) {
		p.Stop()
		return overdue{fmt.Errorf("%s does not end%s", p.step.Name, p.said())}
	}
	if err != nil {
		return err
	}
	return p.verdict()
}

// verdict returns what is wrong with a program that has ended.
func (p *program) verdict() error {
	code, ending := p.ExitCode(), "exit code 0"
	if err := p.Err(); err != nil {
		ending = strings.Replace(err.Error(), "exit status", "exit code", 1)
	}
	p.res.Exit, p.res.Output = &code, p.Said()
	if p.killed.Load() {
		code = p.step.Exit
	}
	return p.step.Verdict(code, ending, p.Said(), p.Tail())
}

// said is the end of what a program said, for errors.
func (p *program) said() string {
	if t := p.Tail(); t != "" {
		return ": " + t
	}
	return ""
}

// kill ends a program at once.
func (p *program) kill() error {
	if p.HasEnded() {
		return errors.New("it has ended before")
	}
	p.killed.Store(true)
	p.Kill()
	return nil
}

func (r *Runner) program(name string) *program {
	return r.find(func(p *program) bool { return p.serves == "" && p.step.Name == name })
}

// find returns the first of the programs that is so, or nil.
func (r *Runner) find(is func(*program) bool) *program {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.started, is); i >= 0 {
		return r.started[i]
	}
	return nil
}

// broken returns what is wrong with programs in the background that have ended:
// to wait for them would be in vain.
func (r *Runner) broken() error {
	for _, p := range r.started {
		if p.step.Background && p.HasEnded() {
			if err := p.verdict(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Runner) perf(ctx context.Context, s *topo.Step, res *result.Step) error {
	reports, samples, err := r.World.Perf(ctx, s)
	res.Samples = samples
	if len(reports) > 0 {
		res.Perf = result.NewPerfReport(s.Pairs, reports)
	}
	for _, rep := range reports {
		if l := rep.Latency; err == nil && l != nil {
			err = s.Latency.Check(perfconf.Latency{P50: l.Median, P99: l.P99, P999: l.P999, Max: l.Max})
		}
	}
	return err
}

// wait waits for what the step says.
func (r *Runner) wait(ctx context.Context, s *topo.Step) error {
	c := &s.Condition
	switch {
	case s.For > 0:
		return r.World.Sleep(ctx, s.For)
	case c.Ended:
		return r.finish(ctx, r.program(c.Step), s.Timeout)
	}
	var last error
	since := time.Duration(-1) // when it began to hold
	err := r.World.Poll(ctx, s.Timeout+c.Throughout, func() (bool, error) {
		if err := r.broken(); err != nil {
			return false, err
		}
		if last = r.expect(ctx, c); last != nil {
			since = -1
			return false, hopeless(last)
		}
		if since < 0 {
			since = r.World.Now()
		}
		if held := r.World.Now() - since; held < c.Throughout {
			last = fmt.Errorf("it has held for %v only", held)
			return false, nil
		}
		return true, nil
	})
	if errors.Is(err, context.DeadlineExceeded) && last != nil {
		return overdue{last}
	}
	return err
}

// Fail fails the lab for a reason that is not in the file.
func (r *Runner) Fail(why error) { r.failed = why }

// Finish ends the lab, judges what only its end shows, and writes the result
// into the output directory.
func (r *Runner) Finish(ctx context.Context, all *result.Result) error {
	defer r.World.Close()
	r.Cancel()
	r.collect(ctx, all)
	err := errors.Join(r.failed, r.World.End(ctx, all))
	if err != nil {
		r.Log.Printf("FAIL  %v", err)
	}
	r.judgeCaptures(ctx, all)
	all.Judge(r.World.Now(), err)
	if err == nil && all.Error != "" {
		r.Log.Printf("FAIL  %s", all.Error)
	}
	if r.Options.Out != "" || r.Options.Draw {
		all.Draw(result.Recording{Start: r.Epoch, Open: func(link string) (io.ReadCloser, error) {
			if !r.World.Captured(link) {
				return nil, nil
			}
			return os.Open(r.Capture)
		}})
	}
	for line := range strings.Lines(all.Compare()) {
		r.Log.Printf("%s", strings.TrimSuffix(line, "\n"))
	}
	r.Log.Printf("lab %s: %s after %d of %d steps", r.Lab.Name, all.Verdict, all.Done(), len(all.Steps))
	if r.Tables != nil {
		if err := result.WriteFile(filepath.Join(r.Options.Out, record.TablesFile), r.Tables.Write); err != nil {
			return fmt.Errorf("write the tables: %w", err)
		}
	}
	return r.Options.write(all)
}

// countersWithin bounds how long a node may take to tell its counters.
const countersWithin = 5 * time.Second

// collect notes what programs and nodes have to tell before they end. A program
// in the background that has ended on its own is judged.
func (r *Runner) collect(ctx context.Context, all *result.Result) {
	for _, p := range r.pending {
		p.res.Judge(p.err)
	}
	for _, p := range r.started {
		if p.step.Background && p.res.Verdict == result.Passed && p.HasEnded() {
			err := p.verdict()
			if p.res.Judge(err); err != nil && p.serves != "" {
				r.failed = errors.Join(r.failed, err)
			} else if err != nil {
				r.fail(p.step, err)
			}
		}
		p.res.Output = p.Said()
	}
	r.sampleTables(ctx)
	for i := range all.Nodes {
		limited, cancel := r.World.Limit(context.WithoutCancel(ctx), countersWithin)
		list, _ := r.World.Counters(limited, all.Nodes[i].Name, 0) // a node that cannot tell has its own error
		if r.Options.Out != "" && r.Lab.Nodes[i].Kind == topo.Manager {
			all.Nodes[i].Tables = r.World.Tables(limited, all.Nodes[i].Name)
			delete(all.Nodes[i].Tables, "counters") // which it has beside
		}
		cancel()
		all.Nodes[i].Counters = slices.DeleteFunc(list, func(c result.Counter) bool { return c.Value == 0 })
	}
}

// judgeCaptures judges the steps that look into captures, if those before were
// reached.
func (r *Runner) judgeCaptures(ctx context.Context, all *result.Result) {
	for i, res := range all.Steps {
		s := &r.Lab.Steps[i]
		if s.Condition.Filter == "" || res.Verdict == result.Skipped {
			continue
		}
		res.Begin(r.World.Now())
		err := r.filter(ctx, s)
		if res.End(r.World.Now(), err); err != nil {
			r.fail(s, err)
		} else {
			r.Log.Printf("ok    %s", s.Text)
		}
	}
}

// filter judges a step by the complete capture.
func (r *Runner) filter(ctx context.Context, s *topo.Step) error {
	if !r.World.Captured(s.Condition.Link) {
		return errors.New("the link was not captured")
	}
	limited, cancel := r.World.Limit(ctx, s.Timeout)
	defer cancel()
	err := result.Filter(limited, r.Capture, &s.Condition)
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}
