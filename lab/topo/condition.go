package topo

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"tapir/lab/conf"
	"tapir/lab/conf/swconf"
	"tapir/lab/host/fault"
	"tapir/opa"
	"tapir/ptp"
	"tapir/ptp/msg"
)

// conditionFields are what wait and expect look at.
func (s *stepDraft) conditionFields() []conf.Field {
	return append(s.measureFields(), []conf.Field{
		{Name: "step", Expect: "a program started before", Schema: name, Node: s.readStep},
		{Name: "output", Expect: "a regular expression that its output matches",
			Set: conf.Parsed(&s.Condition.Output, parsePattern)},
		{Name: "node", Expect: "a NIC, HFI, manager or switch", Schema: name, Node: func(n conf.Node) error {
			return s.refer(&s.Condition.Node, n, hasControl)
		}},
		{Name: "vesw",
			Expect: "the id of a vESW: the counter is that of the HFI's vport in it, as " +
				"`tapir ethtool -S --all` has it",
			Set: conf.Int(&s.Condition.VESW, 1, opa.MaxVESW)},
		{Name: "in_sync",
			Expect: "true: the manager is the master, and all members that are there are as its vESWs say",
			Schema: conf.TrueOrFalse, Set: conf.Choose(&s.Condition.InSync, map[string]bool{"true": true})},
		{Name: "role", Expect: "that of the manager: master or standby", Schema: conf.Choice("master", "standby"),
			Set: conf.Word(&s.Condition.Role, "master", "standby")},
		{Name: "listening", Expect: "a TCP port on which the NIC has a listener",
			Set: conf.Int(&s.Condition.Port, 1, 65535)},
		{Name: "ptp", Expect: "the state of a port of the node's PTP instance, such as SLAVE or MASTER",
			Schema: conf.Choice(portStates()...), Set: conf.Word(&s.Condition.PTP, portStates()...)},
		rangeField("offset", "bounds the offset from its master that the node measured last", &s.Condition.Offset),
		rangeField("true_offset", "bounds how far the node's clock is from the system's", &s.Condition.TrueOffset),
		{Name: "link", Expect: "a link", Schema: name, Node: func(n conf.Node) error {
			return s.referLink(&s.Condition.Link, n)
		}},
		{Name: "counter", Expect: "of a node as `tapir show NAME counters` has them, or of a link: " + linkCounters +
			", or a rule's name: how many it struck", Set: conf.String(&s.Condition.Counter)},
		{Name: "min", Expect: "the least number that is right (default 1, or 0 if there is a max)",
			Set: func(v string) (err error) {
				s.Condition.Min, err = strconv.ParseUint(v, 10, 64)
				s.bounds, s.least = true, true
				return err
			}},
		{Name: "max", Expect: "the greatest number that is right (default any)",
			Set: func(v string) (err error) {
				s.Condition.Max, err = strconv.ParseUint(v, 10, 64)
				if !s.least {
					s.Condition.Min = 0
				}
				s.bounds = true
				return err
			}},
	}...)
}

func (s *stepDraft) waitFields() []conf.Field {
	return []conf.Field{
		{Name: "wait", Expect: "a time such as 500ms, the name of a program that has to end, or a condition",
			Node:   s.readWait,
			Schema: conf.Schema{"anyOf": []conf.Schema{name, conf.Object(s.conditionFields())}}},
		s.timeoutField(),
	}
}

func (s *stepDraft) expectFields() []conf.Field {
	return []conf.Field{
		{Name: "expect", Expect: "a condition", Node: s.readCondition,
			Schema: conf.Object(s.filtered())},
	}
}

// filtered are conditionFields and what is of expect alone: captures are judged
// when the lab has ended.
func (s *stepDraft) filtered() []conf.Field {
	return append(s.conditionFields(), conf.Field{Name: "filter",
		Expect: "a display filter of tshark; min and max bound how many frames of the link match",
		Set:    conf.String(&s.Condition.Filter)})
}

// readWait reads a time, the name of a program, or a condition.
func (s *stepDraft) readWait(n conf.Node) error {
	text, ok := n.Text()
	if !ok {
		return conf.Decode(n, "a time, the name of a program, or a condition", s.conditionFields())
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		s.For = d
		return nil
	}
	s.Condition.Ended = true
	return s.readStep(n)
}

func (s *stepDraft) readCondition(n conf.Node) error {
	return conf.Decode(n, "a condition, such as {node: a, counter: rx_packets, min: 1}", s.filtered())
}

// readStep reads the name of a program that runs before this step.
func (s *stepDraft) readStep(n conf.Node) error {
	text, _ := n.Text()
	for _, other := range s.Steps {
		if other.Verb == Run && other.Name == text {
			s.Condition.Step = text
			return nil
		}
	}
	return n.Errorf("no program called %q was started before", text)
}

// linkCounters are those of a link.
const linkCounters = "frames, lost, duplicated, corrupted, reordered, refused, late_us_p50, late_us_p99, " +
	"late_us_p999, late_us_max"

func finishWait(s *stepDraft, n conf.Node) error {
	if s.For > 0 {
		s.Text = "wait " + s.For.String()
		return nil
	}
	s.Text = "wait: " + s.Condition.String()
	return s.checkCondition(n)
}

func finishExpect(s *stepDraft, n conf.Node) error {
	s.Text = "expect: " + s.Condition.String()
	return s.checkCondition(n)
}

// checkCondition tells what does not go together.
func (s *stepDraft) checkCondition(n conf.Node) error {
	c := &s.Condition
	about := 0
	for _, name := range []string{c.Step, c.Node, c.Link} {
		if name != "" {
			about++
		}
	}
	counts := c.Counter != "" || c.Filter != ""
	ofNode := c.Port != 0 || c.InSync || c.Role != "" || c.OfPTP()
	if err := cmp.Or(
		n.ErrorIf(about != 1, "a condition is about one step, one node or one link"),
		n.ErrorIf(c.Output != nil && c.Step == "", "output: is of a step"),
		n.ErrorIf(c.Step != "" && c.Output == nil && !c.Ended, "%s: say which output", c.Step),
		n.ErrorIf(c.Port != 0 && c.Node == "", "listening: is of a node"),
		n.ErrorIf(c.Filter != "" && c.Link == "", "filter: is of a link"),
		n.ErrorIf(c.Counter != "" && (c.Step != "" || c.Filter != "" || c.Port != 0),
			"counter: is of a node or a link, and stands alone"),
		n.ErrorIf(c.Node == "" && (c.VESW != 0 || ofNode), "vesw, in_sync, role, ptp and offsets: are of a node"),
		n.ErrorIf(c.VESW != 0 && c.Counter == "", "vesw %d: say which counter", c.VESW),
		n.ErrorIf(c.Node != "" && !counts && !ofNode, "%s: say which counter, or listening", c.Node),
		n.ErrorIf(c.Link != "" && !counts, "%s: say which counter", c.Link),
		n.ErrorIf(s.bounds && !counts, "min and max bound a counter or a filter"),
		n.ErrorIf(c.Min > c.Max, "min %d is greater than max %d", c.Min, c.Max),
	); err != nil {
		return err
	}
	if link, counter := c.Link, c.Counter; link != "" && counter != "" && !isLinkCounter(counter) {
		s.atEnd(func() error {
			return n.ErrorIf(!s.rules[link][counter], "%s: a link counts %s, and what its rules struck, by their names",
				counter, linkCounters)
		})
	}
	if link := c.Link; c.Filter != "" {
		s.later(func() error {
			l := s.Lab.Link(link)
			return n.ErrorIf(l != nil && !l.Capture, "%s: it is not captured", link)
		})
	}
	s.later(func() error { return c.suits(s.Lab.Node(c.Node), n) })
	return s.checkMeasure(n)
}

// suits tells what such a node has not.
func (c *Condition) suits(of *Node, n conf.Node) error {
	if of == nil {
		return nil
	}
	return cmp.Or(
		n.ErrorIf(c.Port != 0 && of.Kind != NIC, "%s: listening: %s", of.Name, isNIC(of)),
		n.ErrorIf(c.VESW != 0 && of.Kind != HFI && of.Kind != Gateway, "%s: vesw: a %s is no HFI", of.Name, of.Kind),
		n.ErrorIf((c.InSync || c.Role != "") && of.Kind != Manager, "%s: in_sync and role: a %s is no manager", of.Name,
			of.Kind),
		n.ErrorIf(c.OfPTP() && of.PTP == nil && (of.Kind != Switch || of.Switch.Mode != swconf.Boundary),
			"%s: it has no PTP instance: give it `ptp:`, or a switch `mode: bc`", of.Name))
}

// OfPTP tells whether the condition is about a PTP instance.
func (c *Condition) OfPTP() bool {
	return c.PTP != "" || c.Offset.Given() || c.TrueOffset.Given() || c.MTIE.Tau > 0 || c.TDEV.Tau > 0
}

func (c *Condition) ptpText() (text string) {
	if c.PTP != "" {
		text += " " + c.PTP
	}
	if c.Offset.Given() {
		text += fmt.Sprintf(" offset %v", c.Offset)
	}
	if c.TrueOffset.Given() {
		text += fmt.Sprintf(" true offset %v", c.TrueOffset)
	}
	if c.MTIE.Tau > 0 {
		text += fmt.Sprintf(" MTIE over %v at most %v", c.MTIE.Tau, c.MTIE.Max)
	}
	if c.TDEV.Tau > 0 {
		text += fmt.Sprintf(" TDEV over %v at most %v", c.TDEV.Tau, c.TDEV.Max)
	}
	return text
}

// portStates are those of PTP ports.
func portStates() (names []string) {
	for s := msg.StateInitializing; s <= msg.StateSlave; s++ {
		names = append(names, s.String())
	}
	return names
}

// String is the condition in words.
func (c *Condition) String() string { return c.what() + c.measureText() }

func (c *Condition) what() string {
	switch {
	case c.Ended:
		return c.Step + " has ended"
	case c.Output != nil:
		return fmt.Sprintf("%s says %s", c.Step, c.Output.String()[len("(?m)"):])
	case c.Port != 0:
		return fmt.Sprintf("%s listens on port %d", c.Node, c.Port)
	case c.OfPTP():
		return c.Node + ":" + c.ptpText()
	case c.InSync:
		return c.Node + " is in sync"
	case c.Role != "":
		return c.Node + " is " + c.Role
	}
	what := c.Counter
	if c.VESW != 0 {
		what = fmt.Sprintf("vESW %d: %s", c.VESW, what)
	}
	if c.Filter != "" {
		what = fmt.Sprintf("frames with %q", c.Filter)
	}
	bounds := fmt.Sprintf("%d or more", c.Min)
	switch {
	case c.Min == c.Max:
		bounds = fmt.Sprint(c.Min)
	case c.Min == 0:
		bounds = fmt.Sprintf("at most %d", c.Max)
	case c.Max != 1<<64-1:
		bounds = fmt.Sprintf("%d to %d", c.Min, c.Max)
	}
	return fmt.Sprintf("%s%s: %s: %s", c.Node, c.Link, what, bounds)
}

// KeepsTime says why a PTP instance is not as c wants it; truth is how far its
// clock is from the system's, in nanoseconds.
func (c *Condition) KeepsTime(s *ptp.Snapshot, truth int64) error {
	states, found := "", c.PTP == ""
	for _, p := range s.Ports {
		states += " " + p.StateName
		found = found || p.StateName == c.PTP
	}
	offset, off := s.Current.OffsetFromMaster.Duration(), time.Duration(truth)
	if !found || !c.Offset.Holds(offset) || !c.TrueOffset.Holds(off) {
		return fmt.Errorf("%s is%s, its offset %v, its true offset %v", c.Node, states, offset, off)
	}
	return nil
}

// Manages says why a manager of that role is not as c wants it.
func (c *Condition) Manages(role string, inSync bool) error {
	switch {
	case c.Role != "" && role != c.Role:
		return fmt.Errorf("%s is %s", c.Node, role)
	case c.InSync && (role != "master" || !inSync):
		return fmt.Errorf("%s is %s and not in sync", c.Node, role)
	}
	return nil
}

// Bounds says what is wrong with the value of what the condition counts.
func (c *Condition) Bounds(n uint64) error {
	if n < c.Min || n > c.Max {
		return fmt.Errorf("it is %d", n)
	}
	return nil
}

// LinkCounts are the counters of a link in both directions together.
type LinkCounts struct {
	Frames     uint64 `json:"frames"`
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	Corrupted  uint64 `json:"corrupted"`
	Reordered  uint64 `json:"reordered"`
	Refused    uint64 `json:"refused"`
	// Late is how late frames left the link; nil: never, as in virtual time.
	Late *fault.Late `json:"late,omitempty"`
	// Rules counts what the rules struck.
	Rules []fault.Count `json:"rules,omitempty"`
}

// Get is the counter of that name, or what the rule of that name struck.
func (c *LinkCounts) Get(name string) (n uint64, ok bool) {
	n, ok = map[string]uint64{"frames": c.Frames, "lost": c.Lost, "duplicated": c.Duplicated, "corrupted": c.Corrupted,
		"reordered": c.Reordered, "refused": c.Refused}[name]
	if late, ok := c.Late.Counter(name); ok {
		return late, true
	}
	for _, r := range c.Rules {
		if r.Name == name {
			return r.Struck, true
		}
	}
	return n, ok
}

func isLinkCounter(name string) bool {
	_, ok := new(LinkCounts).Get(name)
	return ok
}
