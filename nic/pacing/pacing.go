// Package pacing is the scheduler of a NIC: one tree of rate limiters and weights for
// what each port sends, and one for what it receives. The port is the root, a function
// is below it, and below the function are its traffic classes. A class of what is sent
// has two children: the Ethernet side, with a node for each vport and below it for each
// transmit queue, and the TCP engine of RDMA, with a node for each queue pair that has a
// rate.
//
// Senders are pulled. Who has a frame asks its node whether it is Ready, sends,
// and accounts for the frame with Spend; who is refused asks again in the next
// round. A limiter collects no credit while nothing waits: after a pause one
// frame leaves at once, the next when the line is free. A sender that was
// refused, and comes late because its thread woke late, makes up for up to
// Lateness. In virtual time nobody is late, and gaps are exact.
package pacing

import (
	"slices"
	"time"

	"tapir/wire/frame"
)

// Lateness is how much time senders that were late make up for at most.
const Lateness = 4 * time.Millisecond

// SuperframeSpeed is the speed in Mb/s from which super-frames leave a port that
// paces. At lower ones its senders cut them, so that no burst is longer than a
// true frame.
const SuperframeSpeed = 10_000

// workOctet is how long an octet takes at 1 kb/s, in nanoseconds.
const workOctet = 8_000_000

// weightUnit is the weight of a node that has none, and the scale of weights.
const weightUnit = 1 << 16

// Tree is the scheduler of a port. The zero value limits nothing, and then costs
// nothing.
type Tree struct {
	// Queued: the port queues what it is given, so that senders do not wait for the line.
	Queued  bool
	yielded bool // somebody was refused in favour of another

	root   Node
	now    frame.Time
	round  uint64
	limits int        // nodes with a rate
	paused frame.Time // until when nothing leaves; 0: it does
	began  frame.Time // when the pause began
	idle   time.Duration
	held   frame.Time // when the first refused frame may leave
	lpi    lpi
}

// Node is a limiter and a share of its parent.
type Node struct {
	tree   *Tree
	parent *Node
	// pulled: the node competes with its pulled siblings when it asks. The one with the
	// highest strict goes before all others; 0: it shares by weight.
	pulled bool
	strict uint8
	class  uint8 // 1 and its number; 0: it is no traffic class
	// Fair: the children share by weight even if nothing limits the tree.
	Fair     bool
	children []*Node // that are pulled

	rate  int64      // kb/s; 0: no limit
	at    frame.Time // when the next frame may leave
	rest  int64      // of the last division
	asked uint64     // the round in which the node was last refused

	weight  int64
	finish  uint64 // virtual time at which its last frame ends
	virtual uint64 // of the children
}

// Port is the root of the tree.
func (t *Tree) Port() *Node {
	t.root.tree = t
	return &t.root
}

// Paces tells whether the port has a rate, or is paused.
func (t *Tree) Paces() bool { return t.root.rate > 0 || t.paused > 0 }

// Begin begins a round of asking at a time.
func (t *Tree) Begin(now frame.Time) {
	if t.now = now; t.limits != 0 || t.paused != 0 {
		t.begin(now)
	}
}

func (t *Tree) begin(now frame.Time) {
	t.held, t.yielded = frame.Never, false
	t.round++
	if t.paused > 0 && t.paused <= now {
		t.resume(t.paused)
	}
	t.fallAsleep()
}

// Pause keeps everything from leaving until a time; one that has passed ends that.
func (t *Tree) Pause(until, now frame.Time) {
	switch {
	case until > now && t.paused == 0:
		t.paused, t.began = until, now
	case until > now:
		t.paused = until
	case t.paused > 0:
		t.resume(now)
	}
}

// resume ends a pause. The line was not free meanwhile.
func (t *Tree) resume(at frame.Time) {
	t.idle += at.Sub(t.began)
	t.root.at = max(t.root.at, at)
	t.paused = 0
}

// Paused is how long nothing was allowed to leave, but for a pause that lasts.
func (t *Tree) Paused() time.Duration { return t.idle }

// Next is when to begin the next round: for those that were refused in this one, or
// when the transmitter goes to sleep; frame.Never: for neither.
func (t *Tree) Next() frame.Time {
	switch {
	case t.limits == 0 && t.paused == 0:
		return frame.Never
	case t.yielded:
		return t.now
	}
	return min(t.held, t.sleepAt())
}

// Cuts tells whether who sends by the node has to cut super-frames.
func (n *Node) Cuts() bool {
	if n.tree.limits == 0 {
		return false
	}
	for m := n; m != nil; m = m.parent {
		if m.rate > 0 && m.rate < SuperframeSpeed*1000 {
			return true
		}
	}
	return false
}

// Child adds a node. One that is pulled takes turns with its pulled siblings, by
// weight; for the others somebody else decides whose turn it is, by Tag.
func (n *Node) Child(pulled bool) *Node {
	c := &Node{tree: n.tree, parent: n, pulled: pulled, weight: weightUnit}
	if pulled {
		n.children = append(n.children, c)
	}
	return c
}

// Parent is the node above.
func (n *Node) Parent() *Node { return n.parent }

// Move puts a node that is not pulled below another of the same tree.
func (n *Node) Move(parent *Node) { n.parent = parent }

// SetRate limits what leaves by the node to a rate in Mb/s; 0 ends that.
func (n *Node) SetRate(mbps int) { n.SetKbps(int64(mbps) * 1000) }

// SetKbps is SetRate in kb/s.
func (n *Node) SetKbps(kbps int64) {
	if kbps == n.rate {
		return
	}
	if n.tree.limits += one(kbps > 0) - one(n.rate > 0); n.tree.limits == 0 {
		n.tree.round += 2 // whoever was refused waits no more
	}
	n.rate, n.at, n.rest = kbps, n.tree.now, 0
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Remove ends the node's limit and its part, as the node is not used any more.
func (n *Node) Remove() {
	n.SetRate(0)
	n.parent.children = slices.DeleteFunc(n.parent.children, func(c *Node) bool { return c == n })
}

// Rate is the limit in Mb/s; 0: none.
func (n *Node) Rate() int { return int(n.rate / 1000) }

// SetWeight sets the node's part of its parent, next to the parts of the others.
func (n *Node) SetWeight(parts int64) {
	if w := max(1, parts) * weightUnit; w != n.weight {
		n.weight, n.finish = w, 0 // what it was ahead counts by its old part
	}
}

// Tag orders siblings: the one with the least sends first. Chosen notes that the
// node is the one.
func (n *Node) Tag() uint64 { return max(n.finish, n.parent.virtual) }

// Chosen moves the virtual time of the parent on.
func (n *Node) Chosen() { n.parent.virtual = n.Tag() }

// Ready tells whether a frame may leave by the node now.
func (n *Node) Ready() bool { return n.tree.limits == 0 && n.tree.paused == 0 || n.ready() }

func (n *Node) ready() bool {
	t := n.tree
	t.wakeUp()
	until := t.paused
	for m := n; m != nil; m = m.parent {
		if m.rate > 0 && m.at > t.now && (m.parent != nil || !t.Queued) {
			until = max(until, m.at)
		}
	}
	if until > 0 {
		t.held = min(t.held, until)
		n.refuse()
		return false
	}
	for m := n; m != nil; m = m.parent {
		if m.pulled && m.yields() {
			t.yielded = true
			n.refuse()
			return false
		}
	}
	return true
}

// yields tells whether a sibling that waits comes first.
func (n *Node) yields() bool {
	for _, s := range n.parent.children {
		if s != n && s.waits() && s.before(n) && s.free() {
			return true
		}
	}
	return false
}

// before tells whether the node's turn comes before that of a sibling.
func (n *Node) before(s *Node) bool {
	if n.strict != s.strict {
		return n.strict > s.strict
	}
	return n.Tag() < s.Tag()
}

// waits tells whether the node was refused in the last round or this one.
func (n *Node) waits() bool { return n.asked > 0 && n.asked+1 >= n.tree.round }

// free tells whether the node's own rate lets a frame pass.
func (n *Node) free() bool { return n.rate == 0 || n.at <= n.tree.now }

// refuse notes who waits: not those above a node whose own rate holds the frame back.
func (n *Node) refuse() {
	for m := n; m != nil; m = m.parent {
		m.asked = n.tree.round
		if !m.free() {
			return
		}
	}
}

// Departs tells whether a frame of which the first octets have gone before may
// leave the port now: a super-frame leaves when the turn of its last segment has
// come. Else the frame waits; the node is taken from now on.
func (n *Node) Departs(first int64) bool {
	n.tree.wakeUp()
	at := n.tree.paused
	if at == 0 && n.rate > 0 {
		n.at = n.start()
		at = n.at.Add(time.Duration(first * workOctet / n.rate))
	}
	if at <= n.tree.now {
		return true
	}
	n.tree.held = min(n.tree.held, at)
	n.asked = n.tree.round
	return false
}

// start is when a frame begins to leave the node.
func (n *Node) start() frame.Time {
	if n.waits() {
		return max(n.at, n.tree.now.Add(-Lateness))
	}
	return max(n.at, n.tree.now)
}

// Counts tells whether Spend has an effect.
func (n *Node) Counts() bool { return n.tree.limits != 0 || n.parent.Fair }

// Spend accounts for octets that leave by the node, up to the child of the root; it
// is of use if Counts says so for the node or one above. The port accounts for what
// passes it by SpendHere.
func (n *Node) Spend(octets int64) {
	for m := n; m.parent != nil; m = m.parent {
		m.SpendHere(octets)
		tag := m.Tag()
		if m.pulled && m.strict == 0 {
			m.parent.virtual = tag
		}
		m.finish = tag + uint64(octets)*weightUnit*weightUnit/uint64(m.weight)
	}
}

// SpendHere accounts for octets in the node alone.
func (n *Node) SpendHere(octets int64) {
	if n.rate == 0 {
		return
	}
	work := octets*workOctet + n.rest
	n.at = n.start().Add(time.Duration(work / n.rate))
	n.rest = work % n.rate
}
