package dcqcn

import "tapir/wire/frame"

// Shared is a queue with a limiter that one queue pair and the Ethernet function share, frame
// by frame in turn.
type Shared struct {
	*Limiter
	Taken    bool // a queue pair has it; else nothing holds the Ethernet function back
	waits    bool // the queue pair was refused, and has not sent since
	ethernet bool // the last frame was the Ethernet function's
	refused  bool // the Ethernet function was, in this round
}

// Refused and Sent tell that the queue pair was refused by Holds, and that it has sent.
func (s *Shared) Refused() { s.waits = true }
func (s *Shared) Sent()    { s.waits, s.ethernet = false, false }

// EthernetRoom is how many of room frames the Ethernet function may send. It leaves the queue
// pair its turn, which is in the same round.
func (s *Shared) EthernetRoom(room int, now frame.Time) int {
	switch {
	case !s.Taken:
		return room
	case s.Holds(now):
		s.refused = true
		return 0
	case !s.paces:
		return room
	case s.waits && s.ethernet:
		s.refused, s.ethernet = true, false // once
		return 0
	}
	return min(1, room)
}

// EthernetSent accounts for a frame of the Ethernet function with its octets on the wire.
func (s *Shared) EthernetSent(octets int, now frame.Time) {
	if s.Taken {
		s.Spend(octets, now)
		s.ethernet = true
	}
}

// EthernetDue is when the Ethernet function has to be asked again, at the end of a round.
func (s *Shared) EthernetDue() (at frame.Time) {
	if at = frame.Never; s.refused && s.Taken {
		at = min(s.free, s.Next())
	}
	s.refused = false
	return at
}
