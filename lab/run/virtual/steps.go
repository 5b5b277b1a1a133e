package virtual

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual/station"
	"tapir/lab/run/virtual/vtime"
	"tapir/lab/tool/ptprun"
	"tapir/lab/topo"
	"tapir/lab/topo/ping"
	"tapir/ptp"
)

// Now implements steps.World.
func (l *lab) Now() time.Duration { return time.Duration(l.world.Now()) }

// Limit implements steps.World: virtual time stands still while others work.
func (l *lab) Limit(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

// Sleep implements steps.World.
func (l *lab) Sleep(ctx context.Context, d time.Duration) error {
	_, err := l.until(ctx, l.world.Now().Add(d), never)
	return err
}

// lookEvery is how often a wait looks at its condition.
const lookEvery = time.Millisecond

// Poll implements steps.World.
func (l *lab) Poll(ctx context.Context, d time.Duration, done func() (bool, error)) error {
	end := l.world.Now().Add(d)
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if l.world.Now() >= end {
			return context.DeadlineExceeded
		}
		if _, err := l.until(ctx, min(end, l.world.Now().Add(lookEvery)), never); err != nil {
			return err
		}
	}
}

// deferred is a fault that waits while the steps go on.
type deferred struct {
	due  func() (bool, error)
	do   func(error)
	done bool
}

// Later implements steps.World.
func (l *lab) Later(_ context.Context, s *topo.Step, due func() (bool, error), do func(error)) (cancel func()) {
	p := &deferred{due: due, do: do}
	l.deferred = append(l.deferred, p)
	if s.For > 0 {
		p.due = func() (bool, error) { return false, nil }
		l.world.Schedule(l.world.Now().Add(s.For), vtime.ScenarioFirst, func() { l.fire(p, nil) })
	}
	return func() { l.fire(p, topo.ErrNeverHappened) }
}

// checkDeferred does what waited for a condition that holds now.
func (l *lab) checkDeferred() {
	for _, p := range slices.Clone(l.deferred) {
		if ok, err := p.due(); ok || err != nil {
			l.fire(p, err)
		}
	}
}

// fire does what waited, or reports why it never can be done.
func (l *lab) fire(p *deferred, err error) {
	if p.done {
		return
	}
	p.done = true
	l.deferred = slices.DeleteFunc(l.deferred, func(o *deferred) bool { return o == p })
	p.do(err)
}

// program is a ping.
type program struct {
	*station.Ping
	said strings.Builder
}

// Start implements steps.World.
func (l *lab) Start(s *topo.Step) (p steps.Program, err error) {
	if s.Argv[0] == topo.Tapir {
		p, err = l.startTool(s)
	} else {
		p, err = l.ping(s)
	}
	if err == nil {
		l.programs = append(l.programs, p)
	}
	return p, err
}

func (l *lab) ping(s *topo.Step) (*program, error) {
	o, err := ping.Parse(s.Argv)
	if err != nil {
		return nil, err
	}
	p := new(program)
	n := l.node(s.On)
	p.Ping = n.host.Ping(o, l.world.Now(), func(line string) {
		fmt.Fprintln(&p.said, line)
		l.log.Printf("%s | %s", s.Name, line)
	})
	l.world.Touch(n.place)
	return p, nil
}

// Await implements steps.World.
func (l *lab) Await(ctx context.Context, p steps.Program, d time.Duration) error {
	ended, err := l.until(ctx, l.world.Now().Add(d), p.HasEnded)
	if err == nil && !ended {
		err = context.DeadlineExceeded
	}
	return err
}

// Said, Tail and the methods below make the ping a steps.Program.
func (p *program) Said() string { return p.said.String() }

// Tail implements steps.Program.
func (p *program) Tail() string { return p.said.String() }

// Err implements steps.Program.
func (p *program) Err() error { return failed(p.ExitCode()) }

// failed is the error of a program with an exit code.
func failed(code int) error {
	if code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// Stop implements steps.Program.
func (p *program) Stop() {
	if !p.HasEnded() {
		p.Kill()
	}
}

// Change implements steps.World.
func (l *lab) Change(s *topo.Step) error {
	k := l.link(s.Link)
	if s.Verb == topo.Plug {
		k.plug(s.Down)
		return nil
	}
	k.set(s.Fault)
	if k.rules == nil {
		return nil
	}
	return k.rules.SetRules(s.Rules)
}

// Killed implements steps.World.
func (l *lab) Killed(node string) bool { return l.node(node).dead }

// Kill implements steps.World. A card dies with its functions.
func (l *lab) Kill(nic string) {
	n := l.node(nic)
	l.world.Touch(n.place)
	for _, f := range n.functions() {
		if !f.dead {
			l.Kill(f.Name)
		}
	}
	n.dead, n.timed = true, nil
	n.reset()
	l.endTools(n)
	for _, x := range l.sides {
		if x.node == n && !x.ended {
			x.lost()
		}
	}
}

// Restart implements steps.World.
func (l *lab) Restart(ctx context.Context, nic string) error {
	n := l.node(nic)
	if n.Card != "" && l.Killed(n.Card) {
		return steps.Killed(n.Card)
	}
	l.world.Touch(n.place)
	n.lives++
	if n.Kind == topo.Card {
		n.dead = false
		for _, f := range n.functions() {
			if err := l.Restart(ctx, f.Name); err != nil {
				return err
			}
		}
		return nil
	}
	if n.sw != nil {
		n.sw.Close()
	}
	if err := n.build(); err != nil {
		return err
	}
	n.dead = false
	for _, e := range n.ends {
		if k := e.link; k.rec != nil && e.node == n && n.dev != nil { // of a card the link records alone
			e.record(k.rec.join, k.ifaces[e.side])
		}
	}
	n.begin()
	return nil
}

// AdjustPHC implements steps.World.
func (l *lab) AdjustPHC(_ context.Context, s *topo.Step) error {
	n, now := l.node(s.On), l.world.Now()
	l.world.Touch(n.place)
	if s.Drifts {
		return n.clock().PTP.PHC().AdjFreq(now, s.PPB)
	}
	return n.clock().PTP.PHC().AdjTime(now, s.Shift)
}

// Listens implements steps.World.
func (l *lab) Listens(_ context.Context, name string, port uint16) (bool, error) {
	return steps.Listens(l.node(name).dev.ShowCEP(), port), nil
}

// PTP implements steps.World.
func (l *lab) PTP(_ context.Context, node string) (*ptp.Snapshot, int64, error) {
	n := l.node(node)
	instance, phc := n.instance()
	if instance == nil {
		return nil, 0, nil
	}
	s := instance.Snapshot()
	return &s, ptprun.ClockOf(phc, realtime{l.world}, l.world.Now()).TrueOffset, nil
}

// Manager implements steps.World.
func (l *lab) Manager(_ context.Context, node string) (role string, inSync bool, err error) {
	s := l.node(node).hfi.mgr.Status()
	return s.Role, s.InSync, nil
}

// Counters implements steps.World.
func (l *lab) Counters(_ context.Context, node string, vesw uint16) ([]result.Counter, error) {
	n := l.node(node)
	if vesw != 0 {
		return n.hfi.vportCounters(vesw)
	}
	return n.counters(), nil
}

// LinkCounts implements steps.World.
func (l *lab) LinkCounts(link string) topo.LinkCounts { return l.link(link).counts() }

// Captured implements steps.World.
func (l *lab) Captured(link string) bool { return l.link(link).rec != nil }
