package topo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"tapir/lab/conf"
)

// Of node faults: kill, start and phc.

func (s *stepDraft) killFields() []conf.Field {
	return []conf.Field{
		{Name: "kill", Expect: "a node, which is gone without a word to its peers, or a program started before",
			Schema: name, Node: s.readVictim},
		s.afterField(), s.timeoutField(),
	}
}

func (s *stepDraft) startFields() []conf.Field {
	return []conf.Field{
		{Name: "start", Expect: "a killed node, which is restarted", Schema: name, Node: s.readMortal},
		s.afterField(), s.timeoutField(),
	}
}

func (s *stepDraft) phcFields() []conf.Field {
	return []conf.Field{
		{Name: "phc", Expect: "the NIC or HFI whose hardware clock is disturbed", Schema: name, Node: s.readClock},
		{Name: "step", Expect: "a time such as 10ms or -1s: so far the clock steps",
			Set: func(v string) (err error) {
				if s.Shift, err = time.ParseDuration(v); s.Shift == 0 || s.Shift.Abs() > 24*time.Hour {
					return conf.ErrValue
				}
				return err
			}},
		{Name: "ppb", Expect: "a number from -1000000000 to 1000000000: the correction of the clock's frequency from " +
			"now on, as adjtimex sets it", Set: func(v string) error {
			s.Drifts = true
			return conf.Int(&s.PPB, -1e9, 1e9)(v)
		}},
		s.afterField(), s.timeoutField(),
	}
}

// afterField puts a fault off while the steps go on.
func (s *stepDraft) afterField() conf.Field {
	return conf.Field{Name: "after", Expect: "a time such as 500ms, the name of a program that has " +
		"to end, or a condition: it happens then, while the steps go on",
		Schema: conf.Schema{"anyOf": []conf.Schema{name, conf.Object(s.conditionFields())}},
		Node:   func(n conf.Node) error { s.Later = true; return s.readWait(n) }}
}

// readVictim reads the name of a program started before, or else of a node.
func (s *stepDraft) readVictim(n conf.Node) error {
	text, _ := n.Text()
	if slices.ContainsFunc(s.Steps, func(o Step) bool { return o.Verb == Run && o.Name == text }) {
		s.Program = text
		s.later(func() error {
			return n.ErrorIf(s.Lab.Node(text) != nil,
				"both a node and a program are called %s: give the program another name", text)
		})
		return nil
	}
	return s.readMortal(n)
}

// readClock reads the name of a NIC or HFI.
func (s *stepDraft) readClock(n conf.Node) error {
	return s.refer(&s.On, n, func(of *Node) string {
		if of.Kind != NIC && of.Kind != HFI && of.Kind != Gateway {
			return fmt.Sprintf("a %s: this is for NICs and HFIs", of.Kind)
		}
		return ""
	})
}

// readMortal reads the name of a node that has a process, or is an engine, of its own.
func (s *stepDraft) readMortal(n conf.Node) error {
	return s.refer(&s.On, n, func(of *Node) string {
		if of.Kind == Host {
			return "a host has no process of its own: take its link down"
		}
		if of.Card != "" {
			s.limits = append(s.limits, limit{Real, n.Errorf("%s: functions of a card are killed one by one in "+
				"virtual time alone: in real time they have one process: kill %s", of.Name, of.Card)})
		}
		return ""
	})
}

func finishKill(s *stepDraft, n conf.Node) error { return s.finishFaultOf("kill "+s.On+s.Program, n) }

func finishStart(s *stepDraft, n conf.Node) error { return s.finishFaultOf("start "+s.On, n) }

func finishPHC(s *stepDraft, n conf.Node) error {
	text := fmt.Sprintf("phc %s: step by %v", s.On, s.Shift)
	if s.Drifts {
		text = fmt.Sprintf("phc %s: %d ppb", s.On, s.PPB)
	}
	return cmp.Or(n.ErrorIf(s.Shift == 0 && !s.Drifts, "phc: say step or ppb"),
		n.ErrorIf(s.Shift != 0 && s.Drifts, "phc: step and ppb are two steps"),
		s.finishFaultOf(text, n))
}

func (s *stepDraft) finishFaultOf(text string, n conf.Node) error {
	s.Text = text
	switch {
	case !s.Later:
		return nil
	case s.For > 0:
		s.Text += " after " + s.For.String()
		return nil
	}
	s.Text += " after: " + s.Condition.String()
	return s.checkCondition(n)
}

// ErrNeverHappened is what is wrong with a fault that was put off for longer
// than the lab went on.
var ErrNeverHappened = errors.New("the lab has ended before: it never happened")
