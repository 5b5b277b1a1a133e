package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"tapir/lab/run/result"
	"tapir/lab/topo"
)

// hopeless returns err if the condition that it is about cannot come true.
func hopeless(err error) error {
	if errors.As(err, new(Hopeless)) {
		return err
	}
	return nil
}

// expect returns why a condition does not hold now.
func (r *Runner) expect(ctx context.Context, c *topo.Condition) error {
	w := r.World
	if c.Node != "" && w.Killed(c.Node) {
		return Never(Killed(c.Node))
	}
	switch {
	case c.Output != nil:
		return r.says(c)
	case c.Port != 0:
		ok, err := w.Listens(ctx, c.Node, c.Port)
		if err == nil && !ok {
			err = fmt.Errorf("%s does not listen on port %d", c.Node, c.Port)
		}
		return err
	case c.OfPTP():
		instance, truth, err := w.PTP(ctx, c.Node)
		if err == nil && instance == nil {
			err = fmt.Errorf("%s runs no PTP instance", c.Node)
		}
		if err != nil {
			return err
		}
		return c.KeepsTime(instance, truth)
	case c.InSync || c.Role != "":
		role, inSync, err := w.Manager(ctx, c.Node)
		if err != nil {
			return err
		}
		return c.Manages(role, inSync)
	case c.Link != "":
		counts := w.LinkCounts(c.Link)
		n, _ := counts.Get(c.Counter) // the file was checked
		return c.Bounds(n)
	}
	list, err := w.Counters(ctx, c.Node, c.VESW)
	if err != nil {
		return err
	}
	for _, x := range list {
		if x.Name == c.Counter {
			return c.Bounds(x.Value)
		}
	}
	return Never(fmt.Errorf("%s has no counter %s: tapir show lists them, and tapir ethtool -S --all those of vports",
		c.Node, c.Counter))
}

// says judges the output of a program.
func (r *Runner) says(c *topo.Condition) error {
	p := r.program(c.Step)
	ended := p.HasEnded() // before its output is read
	if c.Output.MatchString(p.Said()) {
		return nil
	}
	err := fmt.Errorf("the output of %s does not match %q%s", c.Step, topo.Plain(c.Output), p.said())
	if ended {
		return Never(err)
	}
	return err
}

// pending is a fault that waits for its time or condition while the steps go on.
type pending struct {
	res    *result.Step
	cancel func()
	err    error // valid after cancel
}

// disturb does what a step does to a node or program, now or later.
func (r *Runner) disturb(ctx context.Context, s *topo.Step, res *result.Step) error {
	if !s.Later {
		return r.strike(ctx, s)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &pending{res: res}
	r.pending = append(r.pending, p)
	due := func() (bool, error) {
		c := &s.Condition
		if c.Ended {
			return r.program(c.Step).HasEnded(), nil
		}
		err := r.expect(ctx, c)
		return err == nil, hopeless(err)
	}
	cancel := r.World.Later(ctx, s, due, func(err error) {
		if err == nil {
			err = r.strike(ctx, s)
		}
		if p.err = err; err != nil {
			r.fail(s, err)
		}
	})
	p.cancel = func() {
		stop()
		cancel()
	}
	return nil
}

// Cancel cancels the faults that have not happened yet.
func (r *Runner) Cancel() {
	for _, p := range r.pending {
		p.cancel()
	}
}

// strike does what a step does to a node or program.
func (r *Runner) strike(ctx context.Context, s *topo.Step) error {
	if s.Program != "" {
		return r.program(s.Program).kill()
	}
	defer r.lock(s.On).Unlock()
	killed := r.World.Killed(s.On)
	switch {
	case s.Verb == topo.Start && !killed:
		return fmt.Errorf("%s runs: only a node that was killed can be started", s.On)
	case s.Verb == topo.Start:
		return cmp.Or(r.World.Restart(ctx, s.On), r.serve(ctx, r.Lab.Node(s.On)))
	case killed:
		return Killed(s.On)
	case s.Verb == topo.PHC:
		return r.World.AdjustPHC(ctx, s)
	}
	r.Log.Printf("%s | killed", s.On)
	serving := func(p *program) bool { return p.serves == s.On && !p.killed.Load() }
	if p := r.find(serving); p != nil {
		p.killed.Store(true) // it ends with its NIC
	}
	r.World.Kill(s.On)
	return nil
}

// lock locks a node against other faults.
func (r *Runner) lock(node string) *sync.Mutex {
	m, _ := r.faults.LoadOrStore(node, new(sync.Mutex))
	m.(*sync.Mutex).Lock()
	return m.(*sync.Mutex)
}
