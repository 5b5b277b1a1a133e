package toe

import (
	"time"

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
	e.ready.Unpark()
	e.fire(now)
	e.sendAnswers(now)
	for budget := pollFrames; !e.ready.Empty() && !e.starved; {
		if e.out.Room() <= 0 {
			return min(e.timers.Next(), e.waits.Deadline())
		}
		if budget <= 0 {
			return now
		}
		c := e.ready.Pop()
		before := e.stats.FramesOut
		if e.paced = false; !c.gone && c.output(now) {
			if e.paced {
				e.ready.Park(&c.place) // others send meanwhile
			} else {
				c.Kick()
			}
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
		flags = c.ecn.Syn(c.par.ecn(), flags, c.backoff > 0)
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

// sendAck sends the acknowledgements that no data has carried, and probes.
func (c *Conn) sendAck(t *turn, now frame.Time) (more bool) {
	if c.wantProbe {
		if c.probes > 0 && c.e.notes != nil && c.e.notes.On {
			c.e.notes.Addf("TCP keep-alive probe %d of %d", c.probes, c.par.KeepAliveProbes)
		}
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
