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
	"time"

	"tapir/lab/host/process"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/perf"
	"tapir/lab/topo"
)

// Now implements steps.World.
func (b *bed) Now() time.Duration { return time.Since(b.start) }

// Limit implements steps.World.
func (b *bed) Limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// Sleep implements steps.World.
func (b *bed) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Poll implements steps.World; ctx is bounded already.
func (b *bed) Poll(ctx context.Context, _ time.Duration, done func() (bool, error)) error {
	return process.Until(ctx, done)
}

// Later implements steps.World: it waits on a goroutine.
func (b *bed) Later(ctx context.Context, s *topo.Step, due func() (bool, error), do func(error)) (cancel func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var err error
		if s.For > 0 {
			err = b.Sleep(ctx, s.For)
		} else {
			err = process.Until(ctx, due)
		}
		if ctx.Err() != nil {
			err = topo.ErrNeverHappened
		}
		do(err)
	}()
	return func() { <-ended }
}

// Start implements steps.World.
func (b *bed) Start(s *topo.Step) (steps.Program, error) {
	n := b.nodes[s.On]
	argv, tapir := slices.Clone(s.Argv), b.opt.Tapir
	if n.away {
		tapir = "tapir" // of its own root directory
	}
	if n.Kind == topo.Peer {
		argv = b.inPeer(s)
	} else if argv[0] == topo.Tapir {
		argv[0] = tapir // this one, wherever it lies
	}
	if _, err := exec.LookPath(argv[0]); err != nil && !n.away {
		return nil, err
	}
	if len(s.NICs) > 0 {
		argv = append([]string{tapir, "run", "--nic", strings.Join(s.NICs, ","), "--kill-after-posts",
			strconv.Itoa(s.KillAfter), "--"}, argv...)
	}
	proc, err := b.spawn(n, s.Name, slices.Concat(n.enter, argv))
	if err != nil {
		return nil, err
	}
	b.started = append(b.started, proc)
	return proc, nil
}

// Await implements steps.World.
func (b *bed) Await(ctx context.Context, p steps.Program, _ time.Duration) error {
	select {
	case <-p.(*process.Process).Ended():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Change implements steps.World.
func (b *bed) Change(s *topo.Step) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	c := b.links[s.Link]
	if s.Verb == topo.Plug {
		return c.plug(s.Down)
	}
	return b.change(c, s)
}

// Perf implements steps.World.
func (b *bed) Perf(ctx context.Context, s *topo.Step) ([]perf.Report, []result.Samples, error) {
	reports, errs := make([]perf.Report, len(s.Pairs)), make([]error, len(s.Pairs))
	var wait sync.WaitGroup
	for i := range s.Pairs {
		wait.Go(func() { errs[i] = b.pair(ctx, &s.Pairs[i], &reports[i]) })
	}
	wait.Wait()
	if !slices.ContainsFunc(reports, func(r perf.Report) bool { return r.Op != "" }) {
		reports = nil // none has begun
	}
	return reports, nil, errors.Join(errs...)
}

// pair runs one pair of a workload, its server first.
func (b *bed) pair(ctx context.Context, p *topo.Pair, report *perf.Report) error {
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
			return b.Listens(ctx, p.Server, p.Job.Port)
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
