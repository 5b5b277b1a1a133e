package toe

import (
	"time"

	"tapir/nic/toe/congestion"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// block is a range of stream offsets, [left, right).
type block struct{ left, right uint64 }

type caState uint8

const (
	caOpen     caState = iota
	caRecovery         // fast recovery
	caLoss             // after a retransmission timeout
)

// lossState is the scoreboard (RFC 6675 section 3) kept as running sums.
// Lost segments are not counted as in flight until they are sent again.
type lossState struct {
	state        caState
	recover      uint64 // state is open again when this is acknowledged
	sacked, lost uint64 // octets so marked
	sackedSegs   int
	mark         uint64     // every segment below has been judged
	next         uint64     // no lost segment begins below
	dupAcks      int        // duplicate acknowledgements in a row
	rexOut       int        // retransmitted segments in flight
	rexOldest    frame.Time // not later than the sending of any of them
	blind        bool       // in recovery because of duplicate acknowledgements without SACK
	force        bool       // the next retransmission need not wait for cwnd
	seen         [4]block   // SACK blocks of the acknowledgement before
}

// pipe is the number of octets believed to be in flight (RFC 6675 SetPipe).
// Without SACK every duplicate acknowledgement stands for one segment.
func (c *Conn) pipe() uint64 {
	p := c.nxt - c.una - c.loss.sacked - c.loss.lost
	if !c.sackOK {
		p -= min(p, uint64(c.loss.dupAcks)*uint64(c.mss))
	}
	return p
}

// takeSACK marks the segments that the blocks cover wholly. Parts of a block
// that the acknowledgement before held need no second look.
func (c *Conn) takeSACK(h *tcp.Header, ack, fack uint64, now frame.Time) {
	var now4 [4]block
	for i, sb := range h.Opts.SACK[:h.Opts.NSACK] {
		l, r := c.sndOffset(sb.Left), c.sndOffset(sb.Right)
		if l < int64(ack) || r <= l || r > int64(c.nxt) {
			if i == 0 && r > 0 && r > l && r <= int64(ack) {
				c.duplicate(uint64(r-l), uint64(r))
			}
			continue
		}
		if i == 0 && h.Opts.NSACK > 1 && within(sb, h.Opts.SACK[1]) {
			c.duplicate(uint64(r-l), uint64(r))
		}
		b := block{uint64(l), uint64(r)}
		now4[i] = b
		for _, s := range c.loss.seen {
			if s.right > s.left && b.left <= s.left && s.right <= b.right {
				c.markSacked(block{b.left, s.left}, fack, now)
				b.left = s.right
			}
		}
		c.markSacked(b, fack, now)
	}
	c.loss.seen = now4
}

func (c *Conn) markSacked(b block, fack uint64, now frame.Time) {
	if b.right <= b.left {
		return
	}
	for i := c.segs.search(b.left); i < c.segs.n; i++ {
		s := c.segs.at(i)
		if s.end() > b.right {
			return
		}
		if s.off < b.left || s.flags&segSacked != 0 {
			continue
		}
		c.delivered(s, fack, now)
		switch {
		case s.flags&segLost != 0:
			c.loss.lost -= uint64(s.n)
			s.flags &^= segLost
		case s.flags&segRetrans != 0:
			c.loss.rexOut--
		}
		s.flags |= segSacked
		c.loss.sacked += uint64(s.n)
		c.loss.sackedSegs++
	}
}

// setLost marks a segment in flight as lost, and reports whether congestion
// may be the reason.
func (c *Conn) setLost(s *segment) bool {
	if s.flags&segRetrans != 0 {
		c.loss.rexOut--
	}
	s.flags |= segLost
	c.loss.lost += uint64(s.n)
	c.loss.next = min(c.loss.next, s.off)
	return !c.search.Lost(s.end())
}

// detectLoss judges what is in flight after an acknowledgement of acked
// octets, and enters recovery when something is missing.
func (c *Conn) detectLoss(acked uint64, now frame.Time) {
	found := false
	if c.sackOK {
		found = c.detectByTime(now)
		if !found && c.loss.sacked == 0 && (c.loss.state == caOpen || c.loss.blind) {
			found = c.loseByDupAcks(acked)
			c.loss.blind = c.loss.blind || found
		}
	} else {
		found = c.loseByDupAcks(acked)
	}
	if found && c.loss.state == caOpen {
		c.enterRecovery()
	}
}

// blind tells whether an acknowledgement can only be counted: without SACK, or
// from a peer that agreed to SACK but reports nothing, as gVisor does once it
// has closed.
func (c *Conn) blind(h *tcp.Header) bool {
	return !c.sackOK || h.Opts.NSACK == 0 && c.loss.sacked == 0
}

// loseByDupAcks is fast retransmit without SACK (RFC 6582): the third
// duplicate acknowledgement, and then every partial one, tells of one loss.
func (c *Conn) loseByDupAcks(acked uint64) bool {
	first := c.segs.at(0)
	if first.flags&segLost != 0 {
		return false
	}
	switch c.loss.state {
	case caOpen:
		if c.loss.dupAcks < dupThresh || c.una < c.loss.recover {
			return false
		}
	case caRecovery:
		if acked == 0 || c.una >= c.loss.recover {
			return false
		}
		c.loss.force = true // whatever the window (RFC 6582 section 3.2 step 5)
	default:
		return false
	}
	return c.setLost(first)
}

// enterRecovery reduces the window (RFC 5681 section 3.2, RFC 6675 section 5).
// One acknowledgement of a batch leaves but a part of it in flight; what was in
// flight before is the window, if that was used up (RFC 9438 section 4.6).
func (c *Conn) enterRecovery() {
	cc := &c.cc
	flight := c.nxt - c.una
	if cc.Blocked {
		flight = max(flight, cc.Cwnd)
	}
	c.loss.state, c.loss.recover = caRecovery, c.nxt
	c.undo = undoState{cwnd: cc.Cwnd, ssthresh: cc.Ssthresh, armed: true}
	c.reduce(flight)
	cc.Cwnd = cc.Ssthresh
	c.loss.force = true
	c.count.recoveries++
	c.e.stats.FastRecoveries++
}

// reduce sets ssthresh after a loss or mark of congestion with flight octets
// in flight.
func (c *Conn) reduce(flight uint64) {
	c.cc.Reduce(c.par.Congestion, flight, c.mss)
	c.ecn.reduced(c.nxt)
}

// afterAck ends recovery and grows the window. flight is what was in flight
// before the acknowledgement of acked octets; marked says that the peer told
// of congestion.
func (c *Conn) afterAck(acked, flight uint64, marked bool, now frame.Time) {
	cc := &c.cc
	if c.loss.state != caOpen && c.una >= c.loss.recover {
		if c.loss.state == caRecovery {
			cc.Cwnd = min(cc.Ssthresh, c.afterRecovery())
		}
		c.loss.state = caOpen
		c.loss.dupAcks, c.loss.blind = 0, false
		c.rack.recovered()
		return // most of what this acknowledges had arrived before
	}
	if acked > 0 && c.loss.state != caRecovery && !marked {
		c.cc.Grow(c.par.Congestion, acked, flight, c.mss, c.e.cfg.SndWnd, now, c.rtt.srtt)
	}
}

// afterRecovery is the window with which no burst follows a recovery: without
// SACK that of RFC 6582 section 3.2 step 3, else room for an initial window.
func (c *Conn) afterRecovery() uint64 {
	mss := uint64(c.mss)
	if !c.sackOK {
		return max(c.pipe(), mss) + mss
	}
	return c.pipe() + congestion.Initial(c.mss)
}

// onRTO handles the retransmission timer (RFC 6298 section 5).
func (c *Conn) onRTO(now frame.Time) {
	switch {
	case c.overdue(now):
		c.finish(c.timeoutKind(), now)
	case c.state == StateSynSent || c.state == StateSynReceived:
		c.synTimeout(now)
	case c.segs.n == 0:
		c.probeTimeout(now)
	case c.probe.armed:
		c.sendProbe(now)
	default:
		c.dataTimeout(now)
	}
}

func (c *Conn) synTimeout(now frame.Time) {
	if c.spent(c.e.cfg.SynRetries) {
		c.finish(c.timeoutKind(), now)
		return
	}
	c.timedOut(now)
	c.wantSyn = true
}

// probeTimeout asks for the window when nothing is in flight, or sends what
// silly-window avoidance has held back.
func (c *Conn) probeTimeout(now frame.Time) {
	if c.par.UserTimeout == 0 && c.probes > c.e.cfg.Retries {
		c.finish(c.timeoutKind(), now)
		return
	}
	if c.una+c.wnd > c.nxt {
		c.override = true
	} else {
		c.wantProbe = true
		c.probes++
	}
	c.backoff++
	c.Kick()
}

func (c *Conn) dataTimeout(now frame.Time) {
	// A peer that closes its window but answers is alive (RFC 1122 section
	// 4.2.2.17).
	alive := c.wnd == 0 && now.Sub(c.lastIn) < 2*c.e.cfg.MaxRTO
	limit := c.e.cfg.Retries
	if c.segs.at(0).flags&segFin != 0 {
		limit = c.par.FinRetries
	}
	if c.spent(limit) && !alive {
		c.finish(c.timeoutKind(), now)
		return
	}
	cc := &c.cc
	if c.backoff == 0 {
		c.reduce(c.nxt - c.una)
		cc.TimedOut()
	}
	c.loss.state, c.loss.recover = caLoss, c.nxt
	cc.Cwnd = uint64(c.mss)
	c.probe, c.undo = tailProbe{}, undoState{}
	c.loseAll()
	c.suspectBlackHole(now)
	c.count.timeouts++
	c.timedOut(now)
}

// loseAll marks everything that was not SACKed as lost. A SACKed first
// segment means that the peer has thrown SACKed data away (RFC 2018 section
// 8): then nothing it said counts.
func (c *Conn) loseAll() {
	l := &c.loss
	reneged := c.segs.at(0).flags&segSacked != 0
	for i := range c.segs.n {
		s := c.segs.at(i)
		if reneged && s.flags&segSacked != 0 {
			l.sacked -= uint64(s.n)
			l.sackedSegs--
			s.flags = s.flags&^segSacked | segRetrans
			l.rexOut++
		}
		if s.flags&(segSacked|segLost) == 0 {
			c.setLost(s)
		}
	}
	if reneged {
		l.seen = [4]block{}
	}
	l.mark, l.next = c.nxt, c.una
	l.dupAcks, l.blind = 0, false
	l.force = true
}

// timedOut backs off and restarts the timer.
func (c *Conn) timedOut(now frame.Time) {
	c.backoff++
	c.e.stats.Timeouts++
	c.arm(now, c.rto())
	c.Kick()
}

// arm starts the retransmission timer. It fires no later than the user
// timeout ends.
func (c *Conn) arm(now frame.Time, d time.Duration) {
	c.rtoAt = now.Add(d)
	if ut := c.par.UserTimeout; ut > 0 {
		c.rtoAt = min(c.rtoAt, max(c.progressAt.Add(ut), now))
	}
}

// overdue reports whether the user timeout has passed without progress.
func (c *Conn) overdue(now frame.Time) bool {
	ut := c.par.UserTimeout
	return ut > 0 && now.Sub(c.progressAt) >= ut
}

// spent reports whether limit timeouts in a row are enough to give up.
func (c *Conn) spent(limit int) bool {
	return c.par.UserTimeout == 0 && c.backoff >= limit
}

// timeoutKind is what ICMP reported meanwhile, else Timeout.
func (c *Conn) timeoutKind() Kind {
	if c.softErr != 0 {
		return c.softErr
	}
	return Timeout
}
