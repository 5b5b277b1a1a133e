package topo

import (
	"fmt"
	"slices"

	"tapir/lab/conf"
)

// The clocks that labs run by.
const (
	Real    = "real"    // namespaces, TAPs and processes
	Virtual = "virtual" // one goroutine, seeded
)

var clocks = []string{Real, Virtual}

// virtualKinds are the kinds of nodes that there are without a kernel.
var virtualKinds = []Kind{NIC, Switch}

// limit is something in the file that one clock cannot do.
type limit struct {
	clock string
	err   error // with its place
}

// SetClock lets the lab run by another clock than the file says. Something that
// this clock cannot do is a *conf.Error.
func (l *Lab) SetClock(clock string) error {
	if !slices.Contains(clocks, clock) {
		return fmt.Errorf("clock %q: want real or virtual", clock)
	}
	for _, x := range l.limits {
		if x.clock == clock {
			return x.err
		}
	}
	l.Clock, l.Steps = clock, nil
	for _, s := range l.all {
		if s.Clock == "" || s.Clock == clock {
			l.Steps = append(l.Steps, s)
		}
	}
	return nil
}

// finish settles the clock once all has been read.
func (d *draft) finish() error {
	d.all = d.Steps
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if !slices.Contains(virtualKinds, n.Kind) {
			d.limits = append(d.limits, limit{Virtual, d.keys[i].Errorf("%s: a %s is of the real clock alone", n.Name, n.Kind)})
		}
		if n.PTP != nil {
			d.limits = append(d.limits, limit{Virtual, d.keys[i].Errorf("%s: ptp: PTP of NICs is of the real clock alone; tapir ptp sim has clocks in virtual time", n.Name)})
		}
	}
	return d.SetClock(d.Clock)
}

// limit notes what a step needs of the clock.
func (s *stepDraft) limit(n conf.Node) {
	if s.Clock != Real && s.Condition.OfPTP() {
		s.limits = append(s.limits, limit{Virtual, n.Errorf("conditions on PTP are of the real clock alone")})
	}
	if s.Clock == Real || s.Verb != Run && s.Condition.Step == "" && s.Program == "" {
		return
	}
	s.limits = append(s.limits, limit{Virtual,
		n.Errorf("programs are of the real clock alone: with `clock: real` the step is left out by the other")})
}
