package virtual

import (
	"errors"
	"fmt"
	"slices"

	"tapir/lab/run/result"
	"tapir/lab/run/vtime"
	"tapir/lab/topo"
)

// later is something that is to happen to a node while the steps go on.
type later struct {
	step *topo.Step
	res  *result.Step
	done bool
}

// disturb does what a step does to a node, now or later.
func (l *Lab) disturb(s *topo.Step, res *result.Step) error {
	if !s.Later {
		return l.strike(s)
	}
	p := &later{step: s, res: res}
	l.later = append(l.later, p)
	if s.For > 0 {
		l.world.Schedule(l.world.Now().Add(s.For), vtime.ScenarioFirst, func() { l.happen(p, nil) })
	}
	return nil
}

// look lets happen what waited for a condition that holds now.
func (l *Lab) look() {
	if len(l.later) == 0 {
		return
	}
	for _, p := range slices.Clone(l.later) {
		c := &p.step.Condition
		if p.step.For > 0 || c.Ended && !l.program(c.Step).hasEnded() {
			continue
		}
		var err error
		if !c.Ended {
			err = l.expect(c)
		}
		if err == nil || errors.As(err, new(hopeless)) {
			l.happen(p, err)
		}
	}
}

// happen does what waited, or says why it never can be done.
func (l *Lab) happen(p *later, err error) {
	if p.done {
		return
	}
	p.done = true
	l.later = slices.DeleteFunc(l.later, func(o *later) bool { return o == p })
	if err == nil {
		err = l.strike(p.step)
	}
	if p.res.Judge(err); err != nil {
		l.log.printf("FAIL  line %d: %s: %v", p.step.Line, p.step.Text, err)
	}
}

// cancelLater fails what has not happened by the end of the lab.
func (l *Lab) cancelLater() {
	for _, p := range slices.Clone(l.later) {
		l.happen(p, topo.ErrNeverHappened)
	}
}

func errKilled(node string) error { return fmt.Errorf("%s was killed", node) }

// strike does what a step does to a node.
func (l *Lab) strike(s *topo.Step) error {
	if s.Program != "" {
		return l.program(s.Program).kill()
	}
	n := l.node(s.On)
	now := l.world.Now()
	l.world.Touch(n.place)
	switch {
	case s.Verb == topo.Start && !n.dead:
		return fmt.Errorf("%s runs: only a NIC that was killed can be started", s.On)
	case s.Verb == topo.Start:
		return n.start()
	case n.dead:
		return errKilled(s.On)
	case s.Verb == topo.Kill:
		n.kill()
		return nil
	case s.Drifts:
		return n.dev.PHC().AdjFreq(now, s.PPB)
	}
	return n.dev.PHC().AdjTime(now, s.Shift)
}

// kill ends a NIC as kill -9 ends its process: nobody is told.
func (n *node) kill() {
	n.dead, n.timed = true, nil
	n.lab.log.printf("%s | killed", n.Name)
	for _, x := range n.lab.sides {
		if x.node == n && !x.ended {
			x.lost()
		}
	}
}

// start begins a NIC anew that was killed, with the addresses that it had.
func (n *node) start() error {
	n.lives++
	if err := n.build(); err != nil {
		return err
	}
	n.dead = false
	for _, e := range n.ends {
		if k := e.link; k.rec != nil {
			e.record(k.rec.join, k.ifaces[e.side])
		}
	}
	n.begin()
	return nil
}
