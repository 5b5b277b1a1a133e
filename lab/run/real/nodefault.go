package real

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tapir/lab/host/process"
	"tapir/lab/run/result"
	"tapir/lab/topo"
)

// pending is something that is to happen to a node while the steps go on.
type pending struct {
	step   *topo.Step
	res    *result.Step
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid after done
}

// disturb does what a step does to a node or program, now or later.
func (b *Bed) disturb(ctx context.Context, s *topo.Step, res *result.Step) error {
	if !s.Later {
		return b.strike(ctx, s)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &pending{step: s, res: res, cancel: cancel, done: make(chan struct{})}
	b.pending = append(b.pending, p)
	go func() {
		defer close(p.done)
		if p.err = b.comes(ctx, s); p.err == nil {
			p.err = b.strike(ctx, s)
		}
		if p.err != nil {
			b.log.printf("FAIL  line %d: %s: %v", s.Line, s.Text, p.err)
		}
	}()
	return nil
}

// comes waits until what is to happen is due.
func (b *Bed) comes(ctx context.Context, s *topo.Step) (err error) {
	switch {
	case s.For > 0:
		select {
		case <-time.After(s.For):
		case <-ctx.Done():
		}
	case s.Condition.Ended:
		select {
		case <-b.program(s.Condition.Step).proc.Ended():
		case <-ctx.Done():
		}
	default:
		err = process.Until(ctx, func() (bool, error) {
			why := b.expect(ctx, &s.Condition)
			if errors.As(why, new(hopeless)) {
				return false, why
			}
			return why == nil, nil
		})
	}
	if ctx.Err() != nil {
		return topo.ErrNeverHappened
	}
	return err
}

// cancelPending ends what has not happened yet.
func (b *Bed) cancelPending() {
	for _, p := range b.pending {
		p.cancel()
		<-p.done
	}
}

// unlessKilled is what became of a node: err, unless that it was killed says
// it better.
func (b *Bed) unlessKilled(name string, err error) error {
	if b.nodes[name].dead.Load() {
		return fmt.Errorf("%s was killed", name)
	}
	return err
}

// strike does what a step does to a node or program.
func (b *Bed) strike(ctx context.Context, s *topo.Step) error {
	if s.Program != "" {
		return b.program(s.Program).kill()
	}
	n := b.nodes[s.On]
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.Verb == topo.Start {
		if !n.dead.Load() {
			return fmt.Errorf("%s runs: only a NIC that was killed can be started", s.On)
		}
		return b.restart(ctx, n)
	}
	if err := b.unlessKilled(s.On, nil); err != nil {
		return err
	}
	if s.Verb == topo.Kill {
		b.kill(n)
		return nil
	}
	client, err := b.dial(s.On)
	if err != nil {
		return err
	}
	defer client.Close()
	if s.Drifts {
		return client.PHCAdjFine(ctx, s.PPB*65536/1000)
	}
	return client.PHCAdjTime(ctx, int64(s.Shift))
}

// kill ends a NIC's process at once: nobody is told.
func (b *Bed) kill(n *node) {
	n.dead.Store(true)
	n.proc.Kill()
	b.log.printf("%s | killed", n.Name)
	if n.ptp != nil {
		<-n.ptp
		n.ptp = nil
	}
}

// restart begins a NIC anew, with the station address that it had. It does not
// draw the same numbers once more, which would look like its old connections.
func (b *Bed) restart(ctx context.Context, n *node) error {
	n.lives++
	n.again = []string{fmt.Sprint("--seed=", n.NIC.Seed+uint64(n.lives))}
	for word := range strings.FieldsSeq(n.proc.Line("ready " + n.Name)) {
		if mac, ok := strings.CutPrefix(word, "mac="); ok {
			n.again = append(n.again, "--mac="+mac)
		}
	}
	if err := n.start(ctx, b); err != nil {
		return err
	}
	n.dead.Store(false)
	if n.PTP == nil {
		return nil
	}
	return b.startClock(ctx, n)
}

// kill ends a program at once.
func (p *program) kill() error {
	if p.proc.HasEnded() {
		return errors.New("it has ended before")
	}
	p.killed.Store(true)
	p.proc.Kill()
	return nil
}
