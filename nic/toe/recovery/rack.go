package recovery

import (
	"time"

	"tapir/wire/frame"
)

// rackState is the time-based loss detection of RFC 8985: a segment is lost
// when one that was sent later has arrived, and has had time to overtake it.
type rackState struct {
	sent      frame.Time    // sending time of the newest segment delivered
	end       uint64        // its end: decides between segments of one batch
	rtt       time.Duration // its round trip
	fack      uint64        // end of the highest segment delivered
	reordered bool          // the path has been seen to reorder
	mult      int           // of the reordering window, in quarters of the least round trip
	persist   int           // recoveries until mult is 1 again
	round     uint64        // one step of mult per round trip: none before this is acknowledged
}

// rackPersist is how many recoveries a widened window lasts.
const rackPersist = 16

// later reports whether the newest segment delivered was sent after s.
func (r *rackState) later(s *Segment) bool {
	return r.sent > s.sent || r.sent == s.sent && r.end > s.End()
}

// delivered notes that s has arrived (section 6.2 steps 1 to 3). before is
// fack before the acknowledgement in hand.
func (b *Scoreboard) delivered(s *Segment, before uint64, now frame.Time) {
	r := &b.rack
	again := s.Flags&Resent != 0
	if s.End() > r.fack {
		r.fack = s.End()
	} else if s.End() < before && !again {
		r.reordered = true
	}
	rtt := now.Sub(s.sent)
	if again && rtt < b.RTT.Min {
		return // answered for its first sending
	}
	if s.sent > r.sent || s.sent == r.sent && s.End() > r.end {
		r.sent, r.end, r.rtt = s.sent, s.End(), rtt
	}
}

// duplicate handles a D-SACK (RFC 2883) of the n octets before end: a tail
// probe was not needed, or the reordering window was too small (section 6.2
// step 4). It reports whether a recovery was needless.
func (b *Scoreboard) duplicate(n, end uint64) (undone bool) {
	if r := &b.rack; end == b.probe.end {
		b.probe.spurious = true
	} else if b.una >= r.round {
		r.round = b.nxt
		r.mult++
		r.persist = rackPersist
	}
	return b.undoRecovery(n, end)
}

// undoState remembers what a recovery has retransmitted until it is known
// whether anything was lost.
type undoState struct {
	octets uint64 // retransmitted since and not reported as duplicates
	lost   block  // the range that was retransmitted
	armed  bool
}

// resent notes the retransmission of n octets at off.
func (u *undoState) resent(off, n uint64) {
	if u.octets == 0 {
		u.lost = block{off, off + n}
	}
	u.octets += n
	u.lost = block{min(u.lost.left, off), max(u.lost.right, off+n)}
}

// undoRecovery ends a recovery as needless once everything that it has
// retransmitted was reported as duplicate (RFC 9438 section 4.9.2): the n
// octets before end are. Then the path has reordered.
func (b *Scoreboard) undoRecovery(n, end uint64) bool {
	u := &b.undo
	if !u.armed || u.octets == 0 || end > u.lost.right || end-n < u.lost.left {
		return false // the network may repeat segments, too
	}
	if u.octets -= min(n, u.octets); u.octets > 0 || b.Lost > 0 {
		return false
	}
	b.Phase = Open
	b.undo, b.rack.reordered = undoState{}, true
	return true
}

// recovered ends a recovery, and in time the widening.
func (r *rackState) recovered() {
	if r.persist--; r.persist <= 0 {
		r.mult, r.persist = 0, 0
	}
}

// reorderWindow is how much longer than a round trip a segment may take.
func (b *Scoreboard) reorderWindow() time.Duration {
	r := &b.rack
	if !r.reordered && (b.Phase != Open || b.SackedSegs >= dupThresh) {
		return 0
	}
	return min(time.Duration(r.mult+1)*b.RTT.Min/4, b.RTT.Smoothed)
}

// Overdue marks what is overdue as lost, and sets ReorderAt for what may still
// come (section 6.2 step 5). It reports whether congestion has lost something.
func (b *Scoreboard) Overdue(now frame.Time) (found bool) {
	b.ReorderAt = frame.Never
	if b.rack.sent == 0 {
		return false
	}
	allowed := b.rack.rtt + b.reorderWindow()
	found = b.overtaken(allowed, now)
	return b.overtakenAgain(allowed, now) || found
}

// overtaken judges what was sent once. It is in order of sending, so that all
// below mark has been judged.
func (b *Scoreboard) overtaken(allowed time.Duration, now frame.Time) (found bool) {
	for i := b.segs.search(max(b.mark, b.una)); i < b.segs.n; i++ {
		s := b.segs.at(i)
		if s.Flags&(Sacked|Lost|Resent) == 0 {
			if !b.rack.later(s) {
				break
			}
			if due := s.sent.Add(allowed); due > now {
				b.ReorderAt = min(b.ReorderAt, due)
				break
			}
			found = b.setLost(s) || found
		}
		b.mark = s.End()
	}
	return found
}

// overtakenAgain judges retransmissions. rexOldest is not later than any of
// them.
func (b *Scoreboard) overtakenAgain(allowed time.Duration, now frame.Time) (found bool) {
	if b.ResentSegs == 0 || b.rexOldest > b.rack.sent {
		return false
	}
	if due := b.rexOldest.Add(allowed); due > now {
		b.ReorderAt = min(b.ReorderAt, due)
		return false
	}
	oldest := frame.Never
	for i, left := 0, b.ResentSegs; i < b.segs.n && left > 0; i++ {
		s := b.segs.at(i)
		if s.Flags&(Resent|Lost|Sacked) != Resent {
			continue
		}
		left--
		due := s.sent.Add(allowed)
		switch {
		case !b.rack.later(s):
			oldest = min(oldest, s.sent)
		case due > now:
			oldest, b.ReorderAt = min(oldest, s.sent), min(b.ReorderAt, due)
		default:
			found = b.setLost(s) || found
		}
	}
	b.rexOldest = oldest
	return found
}
