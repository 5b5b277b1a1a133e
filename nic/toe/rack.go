package toe

import (
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
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
func (r *rackState) later(s *segment) bool {
	return r.sent > s.sent || r.sent == s.sent && r.end > s.end()
}

// delivered notes that s has arrived (section 6.2 steps 1 to 3). before is
// fack before the acknowledgement in hand.
func (c *Conn) delivered(s *segment, before uint64, now frame.Time) {
	r := &c.rack
	again := s.flags&segRetrans != 0
	if s.end() > r.fack {
		r.fack = s.end()
	} else if s.end() < before && !again {
		r.reordered = true
	}
	rtt := now.Sub(s.sent)
	if again && rtt < c.rtt.min {
		return // answered for its first sending
	}
	if s.sent > r.sent || s.sent == r.sent && s.end() > r.end {
		r.sent, r.end, r.rtt = s.sent, s.end(), rtt
	}
}

// within reports whether SACK block a lies in b.
func within(a, b tcp.SACKBlock) bool {
	return b.Left.LessEq(a.Left) && a.Right.LessEq(b.Right)
}

// duplicate handles a D-SACK (RFC 2883) of the n octets before end: a tail
// probe was not needed, or the reordering window was too small (section 6.2
// step 4).
func (c *Conn) duplicate(n, end uint64) {
	if r := &c.rack; end == c.probe.end {
		c.probe.spurious = true
	} else if c.una >= r.round {
		r.round = c.nxt
		r.mult++
		r.persist = rackPersist
	}
	c.undoRecovery(n, end)
}

// undoState remembers the window before a recovery until it is known whether
// anything was lost.
type undoState struct {
	cwnd, ssthresh uint64
	octets         uint64 // retransmitted since and not reported as duplicates
	lost           block  // the range that was retransmitted
	armed          bool
}

// resent notes the retransmission of n octets at off.
func (u *undoState) resent(off, n uint64) {
	if u.octets == 0 {
		u.lost = block{off, off + n}
	}
	u.octets += n
	u.lost = block{min(u.lost.left, off), max(u.lost.right, off+n)}
}

// undoRecovery restores the window once everything that the recovery has
// retransmitted was reported as duplicate (RFC 9438 section 4.9.2): the n
// octets before end are. Then the path has reordered.
func (c *Conn) undoRecovery(n, end uint64) {
	u := &c.undo
	if !u.armed || u.octets == 0 || end > u.lost.right || end-n < u.lost.left {
		return // the network may repeat segments, too
	}
	if u.octets -= min(n, u.octets); u.octets > 0 || c.loss.lost > 0 {
		return
	}
	c.cc.Restore(u.cwnd, u.ssthresh)
	c.loss.state = caOpen
	c.undo, c.rack.reordered = undoState{}, true
	c.e.stats.Undone++
}

// recovered ends a recovery, and in time the widening.
func (r *rackState) recovered() {
	if r.persist--; r.persist <= 0 {
		r.mult, r.persist = 0, 0
	}
}

// reorderWindow is how much longer than a round trip a segment may take.
func (c *Conn) reorderWindow() time.Duration {
	r := &c.rack
	if !r.reordered && (c.loss.state != caOpen || c.loss.sackedSegs >= dupThresh) {
		return 0
	}
	return min(time.Duration(r.mult+1)*c.rtt.min/4, c.rtt.srtt)
}

// detectByTime marks what is overdue as lost, and starts the reordering timer
// for what may still come (section 6.2 step 5).
func (c *Conn) detectByTime(now frame.Time) (found bool) {
	c.reoAt = frame.Never
	if c.rack.sent == 0 {
		return false
	}
	allowed := c.rack.rtt + c.reorderWindow()
	found = c.overtaken(allowed, now)
	return c.overtakenAgain(allowed, now) || found
}

// overtaken judges what was sent once. It is in order of sending, so that all
// below loss.mark has been judged.
func (c *Conn) overtaken(allowed time.Duration, now frame.Time) (found bool) {
	l := &c.loss
	for i := c.segs.search(max(l.mark, c.una)); i < c.segs.n; i++ {
		s := c.segs.at(i)
		if s.flags&(segSacked|segLost|segRetrans) == 0 {
			if !c.rack.later(s) {
				break
			}
			if due := s.sent.Add(allowed); due > now {
				c.reoAt = min(c.reoAt, due)
				break
			}
			found = c.setLost(s) || found
		}
		l.mark = s.end()
	}
	return found
}

// overtakenAgain judges retransmissions. rexOldest is not later than any of
// them.
func (c *Conn) overtakenAgain(allowed time.Duration, now frame.Time) (found bool) {
	l := &c.loss
	if l.rexOut == 0 || l.rexOldest > c.rack.sent {
		return false
	}
	if due := l.rexOldest.Add(allowed); due > now {
		c.reoAt = min(c.reoAt, due)
		return false
	}
	oldest := frame.Never
	for i, left := 0, l.rexOut; i < c.segs.n && left > 0; i++ {
		s := c.segs.at(i)
		if s.flags&(segRetrans|segLost|segSacked) != segRetrans {
			continue
		}
		left--
		due := s.sent.Add(allowed)
		switch {
		case !c.rack.later(s):
			oldest = min(oldest, s.sent)
		case due > now:
			oldest, c.reoAt = min(oldest, s.sent), min(c.reoAt, due)
		default:
			found = c.setLost(s) || found
		}
	}
	l.rexOldest = oldest
	return found
}

// onReorder looks again when the reordering window has passed.
func (c *Conn) onReorder(now frame.Time) {
	if c.segs.n == 0 {
		return
	}
	if c.detectByTime(now) && c.loss.state == caOpen {
		c.enterRecovery()
	}
	c.Kick()
}
