package toe

import (
	"time"

	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
)

// startRTO starts the timer for what is in flight: that of a tail loss probe
// first if one may help (RFC 8985 section 7), else the retransmission timeout.
func (c *Conn) startRTO(now frame.Time) {
	d := c.rto()
	c.tailProbe = false
	if c.backoff == 0 && c.snd.MayProbe() {
		if pto := max(2*c.snd.RTT.Smoothed, c.e.cfg.TailProbe); pto < d {
			d, c.tailProbe = pto, true
		}
	}
	c.arm(now, d)
}

func (c *Conn) sendProbe(now frame.Time) {
	c.tailProbe = false
	c.arm(now, c.rto())
	if c.snd.Probe() {
		c.e.stats.TailProbes++
		c.Kick()
	}
}

// onReorder looks again when the reordering window has passed.
func (c *Conn) onReorder(now frame.Time) {
	if c.snd.Segs() == 0 {
		return
	}
	if c.snd.Overdue(now) && c.snd.Phase == recovery.Open {
		c.enterRecovery()
	}
	c.Kick()
}

// onRTO handles the retransmission timer (RFC 6298 section 5).
func (c *Conn) onRTO(now frame.Time) {
	switch {
	case c.overdue(now):
		c.finish(c.timeoutKind(), now)
	case c.state == StateSynSent || c.state == StateSynReceived:
		c.synTimeout(now)
	case c.snd.Segs() == 0:
		c.probeTimeout(now)
	case c.tailProbe:
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
	if c.snd.Una()+c.wnd > c.snd.Nxt() {
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
	if c.snd.Seg(0).Flags&recovery.Fin != 0 {
		limit = c.par.FinRetries
	}
	if c.spent(limit) && !alive {
		c.finish(c.timeoutKind(), now)
		return
	}
	if c.backoff == 0 {
		c.lower(c.snd.InFlight())
		c.cc.TimedOut()
	}
	c.cc.Cwnd = uint64(c.mss)
	c.tailProbe = false
	c.snd.TimedOut()
	c.suspectBlackHole(now)
	c.count.timeouts++
	c.timedOut(now)
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
