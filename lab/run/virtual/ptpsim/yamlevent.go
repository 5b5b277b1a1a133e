package ptpsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
)

// eventFile is an event of the file.
type eventFile struct {
	at      conf.Node
	when    time.Duration
	node    string
	link    []string
	actions []func(e *eventFile) Action
	needs   string // what the actions are about: node or link
	links   []func(*LinkConfig)
	changes []string      // of links, as text
	steps   []clock.Step  // of frequency
	late    time.Duration // of tx stamps
	stamps  *StampFault   // tx stamps
}

// fields: when, on what, and what happens.
func (e *eventFile) fields() []conf.Field {
	fields := []conf.Field{
		{Name: "at", Expect: "a time since the start, such as 5m", Set: conf.Duration(&e.when)},
		{Name: "node", Expect: "the name of a node", Set: conf.String(&e.node)},
		{Name: "link", Expect: "the names of two nodes, such as [gm, slave]", Many: true, Set: func(s string) error {
			e.link = append(e.link, s)
			return nil
		}},
		e.onNode("step", "by how much the clock is moved, such as 1ms or -1d",
			func(s string) (func(node string) Action, error) {
				d, err := conf.ParseDuration(s)
				return func(node string) Action { return StepClock(node, d) }, err
			}),
		{Name: "frequency", Expect: "a change of the oscillator's frequency in ppb",
			Set: func(s string) error {
				ppb, err := strconv.ParseFloat(s, 64)
				e.steps = append(e.steps, clock.Step{PPB: ppb})
				return err
			}},
		{Name: "down", Expect: "true or false", Set: func(s string) error {
			down, err := strconv.ParseBool(s)
			e.actions = append(e.actions, func(e *eventFile) Action {
				if len(e.link) == 2 {
					return LinkDown(e.link[0], e.link[1], down)
				}
				return NodeDown(e.node, down)
			})
			return err
		}},
		{Name: "tx_stamps", Expect: strings.Join(stampFaults[:], ", "), Set: func(s string) error {
			i := slices.Index(stampFaults[:], s)
			if i < 0 {
				return conf.ErrValue
			}
			fault := StampFault(i)
			e.stamps = &fault
			return nil
		}},
		{Name: "tx_stamp_delay", Expect: "how long after a frame its stamp is known, such as 50us",
			Set: conf.Duration(&e.late)},
		e.onNode("leap", "61, 59 or none", func(s string) (func(node string) Action, error) {
			second, err := map[string]int{"61": 1, "59": -1, "none": 0}[s], error(nil)
			if s != "none" && second == 0 {
				err = conf.ErrValue
			}
			return func(node string) Action { return Leap(node, second) }, err
		}),
	}
	for _, k := range instanceSettings {
		fields = append(fields, e.onNode(k.name, "a number from 0 to 255",
			func(s string) (func(node string) Action, error) {
				v, err := strconv.ParseUint(s, 0, 8)
				return func(node string) Action { return k.action(node, uint8(v)) }, err
			}))
	}
	return append(fields, e.linkFields()...)
}

// linkFields change the event's link.
func (e *eventFile) linkFields() []conf.Field {
	links := changeable(new(LinkConfig))
	for i := range links {
		f := &links[i]
		check := f.Set
		f.Set = func(s string) error {
			e.links = append(e.links, func(l *LinkConfig) { _ = changeable(l)[i].Set(s) })
			e.changes = append(e.changes, f.Name+" "+s)
			return check(s)
		}
	}
	return links
}

// instanceSettings are what management can change while an instance runs.
var instanceSettings = []struct {
	name   string
	action func(node string, v uint8) Action
}{
	{"priority1", func(node string, v uint8) Action { return SetOctet(node, msg.IDPriority1, v) }},
	{"priority2", func(node string, v uint8) Action { return SetOctet(node, msg.IDPriority2, v) }},
	{"domain", func(node string, v uint8) Action { return SetOctet(node, msg.IDDomain, v) }},
	{"clock_class", func(node string, v uint8) Action { return ClockClass(node, v) }},
	{"clock_accuracy", func(node string, v uint8) Action { return SetOctet(node, msg.IDClockAccuracy, v) }},
}

// onNode is a setting whose value makes an action on the event's node.
func (e *eventFile) onNode(name, expect string, parse func(s string) (func(node string) Action, error)) conf.Field {
	return conf.Field{Name: name, Expect: expect, Set: func(s string) error {
		action, err := parse(s)
		if err != nil {
			return err
		}
		e.needs = "node"
		e.actions = append(e.actions, func(e *eventFile) Action { return action(e.node) })
		return nil
	}}
}

// finish makes the event's actions.
func (e *eventFile) finish(f *scenario) error {
	node := slices.IndexFunc(f.Nodes, func(n NodeConfig) bool { return n.Name == e.node })
	link := slices.IndexFunc(f.Links, func(l LinkConfig) bool {
		return len(e.link) == 2 && (l.Ends == [2]string(e.link) || l.Ends == [2]string{e.link[1], e.link[0]})
	})
	switch {
	case (e.node == "") == (e.link == nil):
		return e.at.Errorf("expected `node:` or `link:`, whom the event is about")
	case e.node != "" && node < 0:
		return e.at.Errorf("there is no node %s", e.node)
	case e.link != nil && link < 0:
		return e.at.Errorf("there is no link %s", strings.Join(e.link, " - "))
	case e.node != "" && e.links != nil:
		return e.at.Errorf("%s is of links, not of nodes", e.changes[0])
	case e.link != nil && (e.needs != "" || e.steps != nil || e.stamps != nil):
		return e.at.Errorf("this event is of nodes, not of links")
	}
	if e.stamps != nil {
		e.actions = append(e.actions, func(e *eventFile) Action { return TxStamps(e.node, *e.stamps, e.late) })
	}
	for _, action := range e.actions {
		a := action(e)
		if a.clock && f.Nodes[node].Switch != nil {
			return e.at.Errorf("node %s is a switch", e.node)
		}
		f.Events = append(f.Events, Event{e.when, a})
	}
	if e.links != nil {
		f.Events = append(f.Events, Event{e.when, ChangeLink(e.link[0], e.link[1], strings.Join(e.changes, ", "),
			func(l *LinkConfig) {
				for _, change := range e.links {
					change(l)
				}
			})})
	}
	for _, s := range e.steps {
		o := &f.Nodes[node].Clock.Oscillator
		o.Steps = append(o.Steps, clock.Step{After: e.when, PPB: s.PPB})
		f.Events = append(f.Events, Event{e.when, Do(e.node, fmt.Sprintf("frequency %+g ppb", s.PPB),
			func(*Node) error {
				return nil
			})})
	}
	if len(e.actions) == 0 && e.links == nil && e.steps == nil {
		return e.at.Errorf("nothing happens: expected one of %s", strings.Join(happenings(), ", "))
	}
	return nil
}

// happenings are the keys that make something happen.
func happenings() (names []string) {
	for _, k := range new(eventFile).fields() {
		if !slices.Contains([]string{"at", "node", "link", "tx_stamp_delay"}, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}
