package toe

import (
	"time"

	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

const (
	// pollFrames bounds the frames of one Poll, so that a Poll ends soon
	// even if the link takes everything.
	pollFrames = 256
	// turnOctets and turnFrames are what one connection sends before the
	// next one has its turn.
	turnOctets = 256 << 10
	turnFrames = 16
	// starvedRetry is how long to wait for the pool to have frames again.
	starvedRetry = time.Millisecond
)

// Poll runs the timers that are due and sends, connection by connection, as
// much as Output.Room, the windows and a bound per call allow. It returns the
// next deadline: now if there is more to send at once, frame.Never if only a
// segment or a Handler can cause work. After Room was used up, Poll again as
// soon as there is room.
func (e *Engine) Poll(now frame.Time) frame.Time {
	e.starved = false
	e.fire(now)
	e.sendAnswers()
	for budget := pollFrames; !e.ready.Empty() && !e.starved; {
		if e.out.Room() <= 0 {
			return min(e.timers.Next(), e.waits.Deadline())
		}
		if budget <= 0 {
			return now
		}
		c := e.ready.Pop()
		before := e.stats.FramesOut
		if !c.gone && c.output(now) {
			c.Kick()
		}
		c.schedule()
		budget -= 1 + int(e.stats.FramesOut-before)
	}
	next := min(e.timers.Next(), e.waits.Deadline())
	if e.starved {
		next = min(next, now.Add(starvedRetry))
	} else if e.answers.Len() > 0 && e.out.Room() > 0 {
		next = now
	}
	return next
}

// turn is what a connection may still send before the next one's turn.
type turn struct{ frames, octets int }

// output sends what is due and reports whether there is more to send.
func (c *Conn) output(now frame.Time) (more bool) {
	if c.wantAbort {
		return c.sendAbort(now)
	}
	t := turn{turnFrames, turnOctets}
	switch c.state {
	case StateSynSent:
		if c.wantClose {
			c.finish(Aborted, now)
			return false
		}
		return c.outputSyn(now)
	case StateSynReceived:
		return c.outputSyn(now)
	default:
		more = c.sendLost(&t, now) || c.sendNew(&t, now)
	}
	return c.sendAck(&t, now) || more
}

// stuck reports whether nothing can be sent in this turn.
func (c *Conn) stuck(t *turn) bool {
	return t.frames <= 0 || t.octets <= 0 || c.e.starved || c.e.out.Room() <= 0
}

func (c *Conn) sendAbort(now frame.Time) (more bool) {
	if c.state != StateSynSent {
		if c.e.out.Room() <= 0 || !c.transmit(c.snd.Seq(c.snd.Nxt()), tcp.RST|tcp.ACK, 0, 0, 0, now) {
			return true
		}
		c.e.stats.ResetsOut++
	}
	c.finish(Aborted, now)
	return false
}

// outputSyn sends a SYN or SYN-ACK, and the ACKs of a simultaneous open.
func (c *Conn) outputSyn(now frame.Time) (more bool) {
	flags := tcp.SYN
	if c.state == StateSynReceived {
		flags |= tcp.ACK
	}
	if c.wantSyn {
		flags = c.ecn.Syn(c.par.ECN, flags, c.backoff > 0)
		if c.e.out.Room() <= 0 || !c.transmit(c.snd.Seq(0)-1, flags, 0, 0, 0, now) {
			return true
		}
		c.wantSyn = false
		if c.synAt == 0 {
			c.synAt = now
		}
		return c.rcv.Due
	}
	if c.rcv.Due && c.state == StateSynReceived {
		return !c.transmit(c.snd.Seq(0), tcp.ACK, 0, 0, 0, now)
	}
	return false
}

// sendLost retransmits what is marked lost, segment by segment as it was sent
// first, while the congestion window allows.
func (c *Conn) sendLost(t *turn, now frame.Time) (more bool) {
	for c.snd.Lost > 0 {
		i := c.snd.NextLost()
		first := c.snd.Seg(i)
		if int(first.N) > c.mss && first.Flags&recovery.Fin == 0 { // an MTU probe
			c.snd.Recut(c.mss, c.h)
			continue
		}
		if !c.snd.MayResend(i, c.mss, c.cc.Cwnd) {
			return false
		}
		if c.stuck(t) || !c.resend(i, t, now) {
			return true
		}
	}
	return false
}

// resend sends the lost segment i again, in super-frames together with equal
// ones behind it.
func (c *Conn) resend(i int, t *turn, now frame.Time) bool {
	first := c.snd.Seg(i)
	count, octets := c.snd.LostRun(i, c.e.maxSegs, c.maxOctets(), c.mss, c.cc.Cwnd)
	flags := tcp.ACK
	if first.Flags&recovery.Fin != 0 {
		flags |= tcp.FIN
	}
	if c.snd.Seg(i+count-1).Flags&recovery.Push != 0 {
		flags |= tcp.PSH
	}
	if c.e.notes != nil && c.e.notes.On {
		c.e.notes.Addf("TCP retransmission of %d segments", count)
	}
	gso := 0
	if count > 1 {
		gso = int(first.N)
	}
	if !c.transmit(c.snd.Seq(first.Off), flags, first.Off, octets, gso, now) {
		return false
	}
	if i == 0 || c.rtoAt == frame.Never {
		c.startRTO(now)
	}
	c.snd.Retransmitted(i, count, now)
	c.count.retransmits += uint64(count)
	c.e.stats.Retransmits += uint64(count)
	t.frames--
	t.octets -= octets
	return true
}

// maxOctets is the payload that one frame can hold.
func (c *Conn) maxOctets() int { return maxPacket - c.headerLen() - tsLen }

// sendNew sends new segments and, when the Source is drained, the FIN.
func (c *Conn) sendNew(t *turn, now frame.Time) (more bool) {
	idle := c.snd.Segs() == 0
	more = c.sendFresh(t, now)
	if idle && c.snd.Segs() > 1 {
		c.startRTO(now) // what is in flight as a whole decides
	}
	return more
}

func (c *Conn) sendFresh(t *turn, now frame.Time) (more bool) {
	if c.finSent || (c.state != StateEstablished && c.state != StateCloseWait) {
		return false
	}
	if c.snd.Segs() == 0 && now.Sub(c.lastOut) > c.snd.RTT.RTO {
		c.cc.Restart(c.mss)
	}
	c.cc.Blocked = false
	n := c.firstLen(now)
	for n > 0 {
		if c.nagle(n) || !c.fits(0, n, now) {
			return false
		}
		if c.stuck(t) {
			return true
		}
		var ok bool
		if n, ok = c.sendBurst(n, t, now); !ok {
			return true
		}
	}
	if !c.wantClose {
		return false
	}
	if c.stuck(t) {
		return true
	}
	return !c.sendFin(now)
}

// segLimit is the longest segment for this peer.
func (c *Conn) segLimit() int {
	if half := int(min(c.maxWnd/2, 1<<20)); half < c.mss {
		return max(half, 1) // RFC 9293 section 3.8.6.2.1: a receiver with a small buffer
	}
	return c.mss
}

// nextLen asks the Source for the segment at off.
func (c *Conn) nextLen(off uint64) int {
	limit := c.segLimit()
	if c.override {
		limit = min(limit, int(max(1, int64(c.snd.Una()+c.wnd)-int64(c.snd.Nxt()))))
	}
	return max(0, min(c.h.Next(off, limit), limit))
}

// nagle reports whether a segment of n octets waits until everything before
// it is acknowledged.
func (c *Conn) nagle(n int) bool { return c.par.Nagle && n < c.mss && c.snd.Segs() > 0 }

// fits reports whether n more octets behind the queued ones fit the windows,
// and notes which window it is that blocks.
func (c *Conn) fits(queued, n int, now frame.Time) bool {
	end := c.snd.Nxt() + uint64(queued+n)
	idle := c.snd.Segs() == 0 && queued == 0
	switch {
	case end > c.snd.Una()+c.wnd:
		if idle && c.rtoAt == frame.Never {
			if c.backoff == 0 {
				c.progressAt = now
			}
			c.arm(now, c.rto()) // persist: RFC 9293 section 3.8.6.1
		}
		return false
	case (end-c.snd.Una() > uint64(c.e.cfg.SndWnd) || c.snd.Segs() >= c.e.cfg.SndWnd/minSegment) && !idle:
		return false
	case c.pipe()+uint64(queued+n) > c.cc.Cwnd && !idle:
		c.cc.Blocked = true
		return false
	}
	return true
}

// sendBurst sends the segment of n octets at SND.NXT, in super-frames
// together with equal ones behind it. It returns the length of the segment
// after them, and false if the pool is exhausted.
func (c *Conn) sendBurst(n int, t *turn, now frame.Time) (next int, ok bool) {
	size, octets, count, last := n, n, 1, n
	if more := c.run(n); more > 0 {
		octets, count = octets+more*size, count+more
	}
	for {
		next = c.nextLen(c.snd.Nxt() + uint64(octets))
		if count >= c.e.maxSegs || c.ecn.MustTell() || size > c.mss || c.par.Nagle && next < c.mss || next == 0 || next > size || last < size ||
			octets+next > c.maxOctets() || !c.fits(octets, next, now) {
			break
		}
		octets, count, last = octets+next, count+1, next
	}
	flags, gso := tcp.ACK, 0
	if next == 0 {
		flags |= tcp.PSH
	}
	if count > 1 {
		gso = size
	}
	off, idle := c.snd.Nxt(), c.snd.Segs() == 0
	if !c.transmit(c.snd.Seq(off), flags, off, octets, gso, now) {
		return 0, false
	}
	c.snd.Sent(size, count, last, next == 0, now)
	c.rcv.Replied(now)
	if n > c.mss {
		c.snd.Search.Sent(c.snd.Nxt(), c.mtu+n-c.mss)
	}
	c.sentNew(idle, now)
	t.frames--
	t.octets -= octets
	return next, true
}

// run is how many segments of n octets the Source has behind the one of n
// octets at SND.NXT, as far as they fit one frame and the windows.
func (c *Conn) run(n int) int {
	r, ok := c.h.(Runner)
	if !ok || n > c.mss || c.override || c.ecn.MustTell() || c.par.Nagle && n < c.mss {
		return 0
	}
	limit := c.segLimit()
	room := min(c.maxOctets()-n, c.windowRoom(n))
	if most := min(c.e.maxSegs-1, room/n); most > 0 {
		return r.Run(c.snd.Nxt()+uint64(n), n, limit, most)
	}
	return 0
}

// windowRoom is how many octets behind the queued ones fit the windows.
func (c *Conn) windowRoom(queued int) int {
	used := int64(c.snd.InFlight()) + int64(queued)
	return int(min(int64(c.wnd)-used, int64(c.e.cfg.SndWnd)-used, int64(c.cc.Cwnd)-int64(c.pipe())-int64(queued)))
}

// sentNew starts the retransmission timer. If nothing was in flight before
// (idle) it takes the place of the persist timer.
func (c *Conn) sentNew(idle bool, now frame.Time) {
	c.override = false
	if idle {
		c.backoff, c.progressAt = 0, now
	}
	if idle || c.rtoAt == frame.Never {
		c.startRTO(now)
	}
}

// sendFin sends the FIN, which is a segment of its own.
func (c *Conn) sendFin(now frame.Time) bool {
	if !c.transmit(c.snd.Seq(c.snd.Nxt()), tcp.FIN|tcp.ACK, 0, 0, 0, now) {
		return false
	}
	idle := c.snd.Segs() == 0
	c.finSent, c.finOff = true, c.snd.Nxt()
	c.snd.SentFin(now)
	c.sentNew(idle, now)
	c.state = StateFinWait1
	if c.rcv.FinTaken() {
		c.state = StateLastAck
	}
	return true
}

// sendAck sends the acknowledgements that no data has carried, and probes.
func (c *Conn) sendAck(t *turn, now frame.Time) (more bool) {
	if c.wantProbe {
		if c.e.out.Room() <= 0 || !c.transmit(c.snd.Seq(c.snd.Una())-1, tcp.ACK, 0, 0, 0, now) {
			return true
		}
		c.wantProbe = false
	}
	if !c.rcv.Due {
		c.rcv.Answered()
		return false
	}
	// Without SACK the peer counts duplicates, so each arrival gets its own;
	// with SACK, as many as it takes to report every range once.
	n := min(c.rcv.Count(), turnFrames)
	for i := 0; i == 0 || (!c.snd.SACK && i < n) || (c.snd.SACK && c.rcv.Held.Owed()); i++ {
		if c.e.out.Room() <= 0 || !c.transmit(c.snd.Seq(c.snd.Nxt()), tcp.ACK, 0, 0, 0, now) {
			return true
		}
	}
	c.rcv.Answered()
	return false
}
