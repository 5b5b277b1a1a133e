package toe

import "tapir/wire/frame"

// schedule makes sure that c is looked at by its deadline.
func (c *Conn) schedule() {
	if !c.gone {
		c.e.timers.SetBy(&c.place.Deadline, min(c.rtoAt, c.snd.ReorderAt, c.rcv.At, c.stateAt))
	}
}

// fire runs the timers that are due.
func (e *Engine) fire(now frame.Time) {
	e.waits.Expire(now)
	for c, ok := e.timers.Pop(now); ok; c, ok = e.timers.Pop(now) {
		c.onTimer(now)
		c.schedule()
	}
}

// onTimer handles every timer of c that is due.
func (c *Conn) onTimer(now frame.Time) {
	if c.rcv.At <= now {
		c.rcv.Elapsed()
		c.Kick()
	}
	if c.snd.ReorderAt <= now {
		c.snd.ReorderAt = frame.Never
		c.onReorder(now)
	}
	if c.rtoAt <= now {
		c.rtoAt = frame.Never
		c.onRTO(now)
	}
	if !c.gone && c.stateAt <= now {
		c.stateAt = frame.Never
		c.onStateTimer(now)
	}
}

// onStateTimer ends a deserted FIN-WAIT-2, and probes an idle peer.
func (c *Conn) onStateTimer(now frame.Time) {
	due := c.lastIn.Add(c.par.FinTimeout)
	switch {
	case !c.deaf || c.state != StateFinWait2:
		c.keepAlive(now)
	case now < due:
		c.stateAt = due
	default:
		c.why = ErrFinWait2
		c.finish(Timeout, now)
	}
}

// keepAlive sends a probe once the peer has been silent for long enough
// (RFC 9293 section 3.8.4).
func (c *Conn) keepAlive(now frame.Time) {
	idle := c.par.KeepAlive
	if idle <= 0 {
		return
	}
	if c.snd.Segs() > 0 { // the retransmission timer watches the peer
		c.stateAt = now.Add(idle)
		return
	}
	if due := c.lastIn.Add(idle); now < due {
		c.probes, c.stateAt = 0, due
		return
	}
	if c.probes >= c.par.KeepAliveProbes {
		c.e.stats.KeepAliveEnds++
		c.why = ErrKeepAlive
		c.finish(Timeout, now)
		return
	}
	c.probes++
	c.e.stats.KeepAliveProbes++
	c.wantProbe = true
	c.stateAt = now.Add(max(c.par.KeepAliveInterval, c.e.cfg.MinRTO))
	c.Kick()
}
