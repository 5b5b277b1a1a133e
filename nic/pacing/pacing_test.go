package pacing

import (
	"testing"
	"time"

	"tapir/wire/frame"
)

// sender sends frames of some octets by a node whenever it may.
type sender struct {
	*Node
	octets, sent int64
	idle         bool
}

func (s *sender) poll(t *Tree) {
	for !s.idle && s.Ready() {
		s.Spend(s.octets)
		t.Port().SpendHere(s.octets)
		s.sent += s.octets
	}
}

// run lets senders share a port for a time.
func run(t *Tree, from frame.Time, d time.Duration, senders ...*sender) (end frame.Time) {
	for end = from; end < from.Add(d); {
		t.Begin(end)
		for _, s := range senders {
			s.poll(t)
		}
		end = max(t.Next(), end)
		if end == frame.Never {
			break
		}
	}
	return end
}

// Siblings share the port by weight, octet for octet, however often each asks and
// whatever its frames; what one leaves is the other's.
func TestShares(t *testing.T) {
	var tree Tree
	tree.Port().SetRate(1000)
	pf := tree.Port().Child(true)
	a, b := &sender{Node: pf.Child(true), octets: 1500}, &sender{Node: pf.Child(true), octets: 300}
	at := run(&tree, 0, time.Second/10, a, b)
	if all := a.sent + b.sent; all < 12_499_000 || all > 12_501_500 || a.sent < all*49/100 || a.sent > all*51/100 {
		t.Errorf("%d and %d octets in 0.1 s of 1 Gb/s", a.sent, b.sent)
	}
	a.sent, b.sent = 0, 0
	b.SetWeight(3)
	at = run(&tree, at, time.Second/10, a, b)
	if all := a.sent + b.sent; all < 12_499_000 || all > 12_501_500 || b.sent < all*74/100 || b.sent > all*76/100 {
		t.Errorf("1 to 3: %d and %d octets", a.sent, b.sent)
	}
	a.sent, b.idle = 0, true
	at = run(&tree, at, time.Second/10, a, b)
	if a.sent < 12_498_000 {
		t.Errorf("alone: %d octets", a.sent)
	}
	a.sent, b.sent, b.idle = 0, 0, false
	a.SetRate(200)
	run(&tree, at, time.Second/10, a, b)
	if a.sent < 2_498_000 || a.sent > 2_501_500 || a.sent+b.sent < 12_498_000 {
		t.Errorf("200 Mb/s of 1000: %d, the other %d octets", a.sent, b.sent)
	}
}

// Who is late makes up for it, up to Lateness; who was idle does not.
func TestLateness(t *testing.T) {
	var tree Tree
	tree.Port().SetRate(8) // an octet a microsecond
	s := &sender{Node: tree.Port().Child(true), octets: 1000}
	burst := func(at time.Duration) int64 {
		s.sent = 0
		tree.Begin(frame.Time(at))
		s.poll(&tree)
		return s.sent
	}
	for _, c := range []struct {
		at   time.Duration
		want int64
	}{{0, 1000}, {time.Millisecond, 1000}, {4 * time.Millisecond, 3000}, {time.Second, 5000}} {
		if got := burst(c.at); got != c.want {
			t.Errorf("at %v: %d octets, want %d", c.at, got, c.want)
		}
	}
	s.idle = true
	burst(2 * time.Second)
	burst(2*time.Second + 1)
	s.idle = false
	if got := burst(3 * time.Second); got != 1000 {
		t.Errorf("after a pause %d octets", got)
	}
}

// Without limits nothing is held back, and nothing is counted.
func TestUnlimited(t *testing.T) {
	var tree Tree
	n := tree.Port().Child(true)
	n.SetRate(10)
	n.SetRate(0)
	tree.Begin(1)
	if !n.Ready() || n.Counts() || tree.Next() != frame.Never || n.Cuts() {
		t.Errorf("%+v", tree)
	}
	if n := testing.AllocsPerRun(100, func() { tree.Begin(1); n.Ready(); n.Spend(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Who waits for its own rate earns its port no credit: afterwards one frame leaves.
func TestSlowNodeEarnsNoCredit(t *testing.T) {
	var tree Tree
	tree.Port().SetRate(80)
	slow, other := &sender{Node: tree.Port().Child(true), octets: 1000}, &sender{Node: tree.Port().Child(true), octets: 1000}
	slow.SetRate(1)
	for at := range 6 {
		tree.Begin(frame.Time(at) * frame.Time(time.Millisecond))
		slow.poll(&tree)
	}
	if other.poll(&tree); slow.sent != 1000 || other.sent != 1000 {
		t.Errorf("%d and %d octets", slow.sent, other.sent)
	}
}
