package topo

import (
	"cmp"
	"fmt"
	"slices"

	"tapir/lab/conf"
	"tapir/lab/topo/ping"
)

// The clocks that labs run by.
const (
	Real    = "real"    // namespaces, TAPs and processes
	Virtual = "virtual" // one goroutine, seeded
)

var clocks = []string{Real, Virtual}

// virtualKinds are the kinds of nodes that there are without a kernel.
var virtualKinds = []Kind{NIC, Card, Switch, HFI, Manager, Host}

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
			d.limits = append(d.limits, limit{Virtual, d.keys[i].Errorf("%s: a %s is of the real clock alone", n.Name,
				n.Kind)})
		}
		if n.EM.FE != "" {
			d.limits = append(d.limits,
				limit{Virtual, d.keys[i].Errorf("%s: fe: a front end listens in the real clock alone", n.Name)})
		}
	}
	return d.SetClock(d.Clock)
}

// limit notes what a step needs of the clock.
func (s *stepDraft) limit(n conf.Node) {
	if s.Clock == Real {
		return
	}
	s.later(func() error { // the nodes are known
		if why := s.notVirtual(); why != "" {
			s.limits = append(s.limits,
				limit{Virtual, n.Errorf("%s: with `clock: real` the step is left out by the other", why)})
		}
		return nil
	})
}

// notVirtual says why there is no such step in virtual time.
func (s *stepDraft) notVirtual() string {
	if s.Verb == Run {
		return s.virtualProgram()
	}
	p := find(s.Steps, func(o *Step) string { return o.Name }, cmp.Or(s.Program, s.Condition.Step))
	if p != nil && p.Verb == Run && (p.Clock == Real || parseVirtual(p.Argv) != nil) {
		return p.Name + " is of the real clock alone"
	}
	return ""
}

// virtualProgram says why the program of a step is of the real clock alone.
func (s *stepDraft) virtualProgram() string {
	if err := parseVirtual(s.Argv); err != nil {
		return err.Error()
	}
	if s.Argv[0] == Tapir {
		return ""
	}
	if on := s.Node(s.On); on != nil && on.Kind != Host && on.Kind != HFI {
		return fmt.Sprintf("ping runs at hosts and HFIs in virtual time, %s is a %s", s.On, on.Kind)
	}
	return ""
}

// Tapir is the command of a program that runs the lab: in virtual time it has NICs serve and use disks.
const Tapir = "tapir"

// parseVirtual says why there is no such program in virtual time.
func parseVirtual(argv []string) error {
	if len(argv) > 1 && argv[0] == Tapir && slices.Contains([]string{"iscsi", "nvme", "fcoe"}, argv[1]) {
		return nil
	}
	if argv[0] != "ping" {
		return fmt.Errorf("programs but ping, tapir iscsi, tapir nvme and tapir fcoe are of the real clock alone")
	}
	_, err := ping.Parse(argv)
	return err
}
