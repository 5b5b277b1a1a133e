package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tapir/lab/host/process"
	"tapir/lab/run/result"
	"tapir/lab/tool/perf"
	"tapir/lab/topo"
)

// program is a program that a step started.
type program struct {
	step   *topo.Step
	proc   *process.Process
	res    *result.Step
	killed atomic.Bool // by a step: its exit code says nothing
}

// Steps runs the lab's steps in order until one fails or ctx ends. What is
// judged by captures is judged by Finish.
func (b *Bed) Steps(ctx context.Context) (r *result.Result) {
	r = b.newResult()
	b.Next(ctx, r)
	return r
}

// Next runs those steps that have not been reached, such as the lab has been
// extended by, in order until one fails.
func (b *Bed) Next(ctx context.Context, r *result.Result) {
	for i, res := range r.Steps {
		s := &b.lab.Steps[i]
		if res.Verdict != result.Skipped {
			continue
		}
		res.Begin(b.now())
		if s.Condition.Filter != "" {
			continue // till the capture is complete
		}
		err := b.step(ctx, s, res)
		if res.End(b.now(), err); err != nil {
			b.log.printf("FAIL  line %d: %s: %v", s.Line, s.Text, err)
			break
		}
		note := ""
		if s.Background {
			note = " (in the background)"
		} else if s.Later {
			note = " (later)"
		} else if s.Fails != nil {
			note = ": it failed as it should"
		} else if res.Perf != nil {
			note = ": " + res.Perf.String()
		}
		b.log.printf("ok    %s%s", s.Text, note)
	}
}

// errInterrupted is what becomes of a step when its lab is.
var errInterrupted = errors.New("interrupted")

// step runs one step.
func (b *Bed) step(ctx context.Context, s *topo.Step, res *result.Step) error {
	limited, cancel := context.WithTimeout(ctx, s.Timeout+s.For)
	defer cancel()
	err := b.act(limited, s, res)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errInterrupted
	case limited.Err() != nil:
		return fmt.Errorf("not done after %v: %w", s.Timeout, err)
	}
	return err
}

func (b *Bed) act(ctx context.Context, s *topo.Step, res *result.Step) error {
	switch s.Verb {
	case topo.Run:
		return b.run(ctx, s, res)
	case topo.Perf:
		return s.Outcome(b.perf(ctx, s, res))
	case topo.Fault:
		return b.links[s.Link].impair(s)
	case topo.Plug:
		return b.links[s.Link].plug(s.Down)
	case topo.Kill, topo.Start, topo.PHC:
		return b.disturb(ctx, s, res)
	case topo.Wait:
		return b.wait(ctx, s)
	}
	return b.expect(ctx, &s.Condition)
}

// impair makes the faults and rules of a step those of a link.
func (c *cable) impair(s *topo.Step) error {
	return errors.Join(c.set(s.Fault), c.wire.SetRules(s.Rules))
}

func (b *Bed) run(ctx context.Context, s *topo.Step, res *result.Step) error {
	n := b.nodes[s.On]
	argv := slices.Clone(s.Argv)
	if n.Kind == topo.Peer {
		argv = b.inPeer(s)
	} else if argv[0] == "tapir" {
		argv[0] = b.opt.Tapir // this one, wherever it lies
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return err
	}
	if len(s.NICs) > 0 {
		argv = append([]string{b.opt.Tapir, "run", "--nic", strings.Join(s.NICs, ","), "--kill-after-posts", strconv.Itoa(s.KillAfter), "--"}, argv...)
	}
	proc, err := b.spawn(n, s.Name, argv)
	if err != nil {
		return err
	}
	p := &program{step: s, proc: proc, res: res}
	b.mu.Lock()
	b.started = append(b.started, p)
	b.mu.Unlock()
	if s.Background {
		return nil
	}
	return p.finish(ctx)
}

// finish waits for a program's end and judges it.
func (p *program) finish(ctx context.Context) error {
	select {
	case <-p.proc.Ended():
	case <-ctx.Done():
		p.proc.Stop()
		return fmt.Errorf("%s does not end%s", p.step.Name, p.said())
	}
	return p.verdict()
}

// verdict is what is wrong with a program that has ended.
func (p *program) verdict() error {
	code := p.proc.ExitCode()
	p.res.Exit, p.res.Output = &code, p.proc.Said()
	if p.killed.Load() {
		code = p.step.Exit
	}
	return p.step.Verdict(code, ending(p.proc), p.proc.Said(), p.proc.Tail())
}

func ending(p *process.Process) string {
	if p.Err() == nil {
		return "exit code 0"
	}
	return strings.Replace(p.Err().Error(), "exit status", "exit code", 1)
}

// said is the end of what a program said, for errors.
func (p *program) said() string {
	if t := p.proc.Tail(); t != "" {
		return ": " + t
	}
	return ""
}

func (b *Bed) program(name string) *program {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.started {
		if p.step.Name == name {
			return p
		}
	}
	return nil
}

// perf runs a workload, all pairs side by side.
func (b *Bed) perf(ctx context.Context, s *topo.Step, res *result.Step) error {
	reports, errs := make([]perf.Report, len(s.Pairs)), make([]error, len(s.Pairs))
	var wait sync.WaitGroup
	for i := range s.Pairs {
		wait.Go(func() { errs[i] = b.pair(ctx, &s.Pairs[i], &reports[i]) })
	}
	wait.Wait()
	if slices.ContainsFunc(reports, func(r perf.Report) bool { return r.Op != "" }) { // one has begun
		res.Perf = &result.PerfReport{Report: perf.Together(reports)}
	}
	return errors.Join(errs...)
}

// pair runs one pair of a workload, its server first.
func (b *Bed) pair(ctx context.Context, p *topo.Pair, report *perf.Report) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, name := range []string{p.Server, p.Client} {
		if err := b.unlessKilled(name, nil); err != nil {
			return err
		}
	}
	server, err := b.dial(p.Server)
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := b.dial(p.Client)
	if err != nil {
		return err
	}
	defer client.Close()
	served := make(chan error, 1)
	go func() {
		var report perf.Report
		served <- server.Perf(ctx, p.Job.Server(), nil, &report)
	}()
	err = process.Until(ctx, func() (bool, error) {
		select {
		case err := <-served:
			return false, b.unlessKilled(p.Server, fmt.Errorf("%s does not serve: %w", p.Server, err))
		default:
			return b.listens(ctx, p.Server, p.Job.Port)
		}
	})
	if err != nil {
		return err
	}
	report.Op = p.Job.Op
	if err := client.Perf(ctx, p.Job, follow(report), report); err != nil {
		return b.unlessKilled(p.Client, err)
	}
	if err := report.Verdict(); err != nil {
		return err
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s does not end serving", p.Server)
	}
}

// follow notes how far a workload comes, for when it fails: else its report has
// that in more detail.
func follow(r *perf.Report) func(json.RawMessage) {
	return func(raw json.RawMessage) {
		var p perf.Progress
		if json.Unmarshal(raw, &p) == nil && p.Data == "" {
			r.Progress = append(r.Progress, p)
		}
	}
}

// wait waits for what the step says.
func (b *Bed) wait(ctx context.Context, s *topo.Step) error {
	if s.For > 0 {
		select {
		case <-time.After(s.For):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.Condition.Ended {
		return b.program(s.Condition.Step).finish(ctx)
	}
	var last error
	err := process.Until(ctx, func() (bool, error) {
		if err := b.broken(); err != nil {
			return false, err
		}
		last = b.expect(ctx, &s.Condition)
		if errors.As(last, new(hopeless)) {
			return false, last
		}
		return last == nil, nil
	})
	if errors.Is(err, context.DeadlineExceeded) && last != nil {
		return last
	}
	return err
}

// broken is a program in the background that has ended as it should not: what
// waits for it would wait in vain.
func (b *Bed) broken() error {
	for _, p := range b.started {
		if p.step.Background && p.proc.HasEnded() {
			if err := p.verdict(); err != nil {
				return err
			}
		}
	}
	return nil
}
