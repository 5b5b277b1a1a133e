package schedule

import "tapir/nic/pacing"

// Scheduler is what paces connections: the node of a connection is its own if it has a
// rate, else that of its class.
type Scheduler struct {
	// Node is that of all connections. Who tells of the port's room asks it, too, unless
	// there are Classes.
	Node *pacing.Node
	// Classes are the nodes by priority, the upper three bits of the type of service;
	// nil: all connections have Node.
	Classes *[pacing.NumClasses]*pacing.Node
	Header  int // octets of a frame in front of its IP packet
}

// Class is the node of the class of connections with a type of service.
func (s *Scheduler) Class(tos uint8) *pacing.Node {
	if s.Classes != nil {
		return s.Classes[tos>>5]
	}
	return s.Node
}

// SetRate gives a connection a rate in kb/s, 0: none. own is its node, nil: it has none;
// its next one is returned.
func (s *Scheduler) SetRate(own *pacing.Node, tos uint8, kbps uint32) *pacing.Node {
	switch {
	case kbps == 0 && own != nil:
		own.Remove()
		return nil
	case kbps > 0:
		if own == nil {
			own = s.Class(tos).Child(false)
		}
		own.SetKbps(int64(kbps))
	}
	return own
}

// Holds tells whether data has to wait for the connection's rate or class.
func (s *Scheduler) Holds(own *pacing.Node, tos uint8) bool {
	switch {
	case own != nil:
		return !own.Ready()
	case s.Classes != nil:
		return !s.Class(tos).Ready()
	}
	return false
}

// Move puts a connection's own node, if it has one, where its class is.
func (s *Scheduler) Move(own *pacing.Node, tos uint8) {
	if own != nil {
		own.Move(s.Class(tos))
	}
}

// Segments is how many segments a frame holds at most, of n: one if the connection's
// rate or class is low.
func (s *Scheduler) Segments(own *pacing.Node, tos uint8, n int) int {
	if (own != nil || s.Classes != nil) && s.Accounts(own, tos, true).Cuts() {
		return 1
	}
	return n
}

// Accounts is the node that accounts for a segment. Those without data do not wait, and
// do not count for the connection's own rate.
func (s *Scheduler) Accounts(own *pacing.Node, tos uint8, data bool) *pacing.Node {
	if own != nil && data {
		return own
	}
	return s.Class(tos)
}
