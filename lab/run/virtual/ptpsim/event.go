package ptpsim

import (
	"fmt"
	"time"

	"tapir/ptp/msg"
)

// Event is something that the scenario does.
type Event struct {
	At time.Duration
	Do Action
}

// Action is what an event does; the functions that follow return one. It is
// about a node or else about the link between two.
type Action struct {
	what  string // for the log
	node  string
	ends  [2]string
	clock bool // of nodes that are no switches
	run   func(s *Sim) error
}

// check finds what the action is about.
func (a *Action) check(s *Sim) error {
	switch n := s.Node(a.node); {
	case a.node == "" && s.link(a.ends[0], a.ends[1]) == nil:
		return fmt.Errorf("there is no link between %s and %s", a.ends[0], a.ends[1])
	case a.node != "" && n == nil:
		return fmt.Errorf("there is no node %s", a.node)
	case a.clock && n.Instance == nil:
		return fmt.Errorf("node %s is a switch", a.node)
	}
	return nil
}

// act runs an action and logs it.
func (s *Sim) act(a Action) {
	what := a.what
	if err := a.run(s); err != nil {
		what += ": " + err.Error()
	}
	s.log.line(s.world.Now(), "scenario", "%s", what)
}

// onNode is an action on a node, which is polled afterwards.
func onNode(name, what string, run func(n *Node) error) Action {
	return Action{what: name + ": " + what, node: name, run: func(s *Sim) error {
		n := s.Node(name)
		defer s.world.Touch(n.place)
		return run(n)
	}}
}

// onClock is an action on a node that is no switch.
func onClock(name, what string, run func(n *Node) error) Action {
	a := onNode(name, what, run)
	a.clock = true
	return a
}

// StepClock moves a node's clock behind the back of its instance.
func StepClock(node string, by time.Duration) Action {
	return onNode(node, fmt.Sprintf("clock stepped by %v", by), func(n *Node) error {
		return n.Clock.AdjTime(n.s.world.Now(), by)
	})
}

// NodeDown lets a node fall silent and deaf, or return. Its clock runs on.
func NodeDown(node string, down bool) Action {
	return onNode(node, upDown(down), func(n *Node) error { n.down = down; return nil })
}

func upDown(down bool) string {
	if down {
		return "down"
	}
	return "up"
}

// TxStamps lets a node's stamps of sent frames fail, or be well again, and
// come late.
func TxStamps(node string, fault StampFault, late time.Duration) Action {
	what := "tx stamps " + fault.String()
	if late > 0 {
		what += fmt.Sprintf(", %v late", late)
	}
	return onClock(node, what, func(n *Node) error { n.stamps.fault, n.stamps.late = fault, late; return nil })
}

// Do runs f on a node; what is for the log.
func Do(node, what string, f func(n *Node) error) Action { return onNode(node, what, f) }

// onLink is an action on the link between two nodes.
func onLink(a, b, what string, run func(w *wire)) Action {
	return Action{what: a + " - " + b + ": " + what, ends: [2]string{a, b},
		run: func(s *Sim) error { run(s.link(a, b)); return nil }}
}

// LinkDown cuts the link between two nodes, or mends it.
func LinkDown(a, b string, down bool) Action {
	return onLink(a, b, upDown(down), func(w *wire) { w.cfg.Down = down })
}

// ChangeLink changes the link between two nodes; what is for the log.
func ChangeLink(a, b, what string, change func(c *LinkConfig)) Action {
	return onLink(a, b, what, func(w *wire) {
		change(&w.cfg)
		w.delays()
	})
}

// SetOctet sets a management id of one octet.
func SetOctet(id msg.ManagementID) func(node string, v uint8) Action {
	return func(node string, v uint8) Action {
		return onClock(node, fmt.Sprintf("%v %d", id, v), func(n *Node) error {
			return n.set(id, &msg.Octet{Value: v})
		})
	}
}

// ClockClass sets the clockClass of a grandmaster.
func ClockClass(node string, class uint8) Action {
	return onClock(node, fmt.Sprintf("clockClass %d", class), func(n *Node) error {
		return n.changeGrandmaster(func(g *msg.GrandmasterSettings) { g.Quality.Class = class })
	})
}

// Leap announces a leap second at the end of the UTC day: 1 for one more, -1
// for one less, 0 for none.
func Leap(node string, second int) Action {
	what := map[int]string{1: "leap61", -1: "leap59", 0: "no leap second"}[second]
	return onClock(node, what, func(n *Node) error {
		return n.changeGrandmaster(func(g *msg.GrandmasterSettings) {
			g.TimeFlags &^= uint8(msg.FlagLeap61 | msg.FlagLeap59)
			g.TimeFlags |= map[int]uint8{1: uint8(msg.FlagLeap61), -1: uint8(msg.FlagLeap59)}[second]
		})
	})
}

func (n *Node) changeGrandmaster(change func(*msg.GrandmasterSettings)) error {
	v, _ := n.Instance.Get(msg.IDGrandmasterSettings, 0)
	g := *v.(*msg.GrandmasterSettings)
	change(&g)
	return n.set(msg.IDGrandmasterSettings, &g)
}

func (n *Node) set(id msg.ManagementID, data any) error {
	if e := n.Instance.Set(id, 0, data, n.s.world.Now()); e != 0 {
		return fmt.Errorf("%v: %v", id, e)
	}
	return nil
}
