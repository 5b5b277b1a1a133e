package ptpsim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/wire/enum"
)

// eventFile is an event of the file.
type eventFile struct {
	at      conf.Node
	when    time.Duration
	node    string
	link    []string
	actions []func(e *eventFile) Action
	ofNode  bool // the actions are about a node
	links   []func(*LinkConfig)
	changes []string      // of links, as text
	steps   []clock.Step  // of frequency
	late    time.Duration // of tx stamps
	stamps  *StampFault   // tx stamps
}

// fields: when, on what, and what happens.
func (e *eventFile) fields() []conf.Field {
	const octet = "a number from 0 to 255"
	return append([]conf.Field{
		{Name: "at", Expect: "a time since the start, such as 5m", Set: conf.Duration(&e.when)},
		{Name: "node", Expect: "the name of a node", Set: conf.String(&e.node)},
		{Name: "link", Expect: "the names of two nodes, such as [gm, slave]", Many: true, Set: func(s string) error {
			e.link = append(e.link, s)
			return nil
		}},
		onEvent(e, "step", "by how much the clock is moved, such as 1ms or -1d", conf.ParseDuration, StepClock),
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
		{Name: "tx_stamps", Expect: strings.Join(stampFaults[:], ", "),
			Set: conf.ParsedNew(&e.stamps, parseStampFault)},
		{Name: "tx_stamp_delay", Expect: "how long after a frame its stamp is known, such as 50us",
			Set: conf.Duration(&e.late)},
		onEvent(e, "leap", "61, 59 or none", parseLeap, Leap),
		onEvent(e, "priority1", octet, parseOctet, SetOctet(msg.IDPriority1)),
		onEvent(e, "priority2", octet, parseOctet, SetOctet(msg.IDPriority2)),
		onEvent(e, "domain", octet, parseOctet, SetOctet(msg.IDDomain)),
		onEvent(e, "clock_class", octet, parseOctet, ClockClass),
		onEvent(e, "clock_accuracy", octet, parseOctet, SetOctet(msg.IDClockAccuracy)),
	}, e.linkFields()...)
}

func parseStampFault(s string) (StampFault, error) {
	return enum.Parse[StampFault](stampFaults[:], s, "%q")
}

func parseLeap(s string) (second int, err error) {
	err = conf.Choose(&second, map[string]int{"61": 1, "59": -1, "none": 0})(s)
	return second, err
}

func parseOctet(s string) (v uint8, err error) {
	err = conf.Number(&v, 0, 255)(s)
	return v, err
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

// onEvent is a setting whose value makes an action on the event's node.
func onEvent[T any](e *eventFile, name, expect string, parse func(string) (T, error),
	action func(node string, v T) Action) conf.Field {
	return conf.Field{Name: name, Expect: expect, Set: func(s string) error {
		v, err := parse(s)
		e.ofNode = true
		e.actions = append(e.actions, func(e *eventFile) Action { return action(e.node, v) })
		return err
	}}
}

// finish makes the event's actions.
func (e *eventFile) finish(f *scenario) error {
	node := slices.IndexFunc(f.Nodes, func(n NodeConfig) bool { return n.Name == e.node })
	link := slices.IndexFunc(f.Links, func(l LinkConfig) bool {
		return len(e.link) == 2 && (l.Ends == [2]string(e.link) || l.Ends == [2]string{e.link[1], e.link[0]})
	})
	err := cmp.Or(
		expect((e.node == "") != (e.link == nil), "expected `node:` or `link:`, whom the event is about"),
		expect(e.node == "" || node >= 0, "there is no node %s", e.node),
		expect(e.link == nil || link >= 0, "there is no link %s", strings.Join(e.link, " - ")),
		expect(e.node == "" || e.links == nil, "%s is of links, not of nodes", append(e.changes, "")[0]),
		expect(e.link == nil || !e.ofNode && e.steps == nil && e.stamps == nil, "this event is of nodes, not of links"))
	if err != nil {
		return e.at.Place(err)
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
