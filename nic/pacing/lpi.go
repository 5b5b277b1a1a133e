package pacing

import (
	"time"

	"tapir/wire/frame"
)

// lpi is the low power idle of a port's transmitter (energy-efficient Ethernet, IEEE
// 802.3 clause 78).
type lpi struct {
	timer, wake time.Duration // timer 0: it never sleeps
	asleep      bool
	entries     uint64
}

// SetLPI has the transmitter of the node's port sleep when the line was free for a
// time, and wake up for so long before the first frame after that; 0 ends it. The
// port must have a rate.
func (n *Node) SetLPI(timer, wake time.Duration) {
	t := n.tree
	if timer == t.lpi.timer && wake == t.lpi.wake {
		return
	}
	t.lpi.timer, t.lpi.wake, t.lpi.asleep = timer, wake, false
	t.root.at = max(t.root.at, t.now)
}

// LPIEntries is how often the transmitter has gone to sleep.
func (t *Tree) LPIEntries() uint64 { return t.lpi.entries }

// sleepAt is when the transmitter goes to sleep if nothing is sent; frame.Never: it
// does not, or sleeps.
func (t *Tree) sleepAt() frame.Time {
	if t.lpi.timer == 0 || t.lpi.asleep || t.root.rate == 0 {
		return frame.Never
	}
	return t.root.at.Add(t.lpi.timer)
}

// fallAsleep puts the transmitter to sleep if it is time.
func (t *Tree) fallAsleep() {
	if t.sleepAt() <= t.now {
		t.lpi.asleep = true
		t.lpi.entries++
	}
}

// wakeUp has the transmitter wake up, as somebody wants to send.
func (t *Tree) wakeUp() {
	if t.lpi.asleep {
		t.lpi.asleep = false
		t.root.at = t.now.Add(t.lpi.wake)
	}
}
