package toe

import "tapir/wire/frame"

// tailProbe is the state of a tail loss probe (RFC 8985 section 7): when
// acknowledgements stop although the peer should have answered, the last
// segment is sent again, so that its SACK tells what is missing.
type tailProbe struct {
	armed    bool   // the running timer is the probe's, not the RTO's
	end      uint64 // end of the probe in flight; 0: none
	spurious bool   // a D-SACK told that the peer had the segment before
}

// startRTO starts the timer for what is in flight: the probe's first if a
// probe may help, else the retransmission timeout. A single segment is left
// to the timeout, because its acknowledgement may be delayed for as long. In
// fast recovery, too, a probe may go out: where one acknowledgement answers a
// whole window, nothing else would make up for its loss.
func (c *Conn) startRTO(now frame.Time) {
	d := c.rto()
	c.probe.armed = false
	if c.sackOK && c.loss.state != caLoss && c.backoff == 0 && c.probe.end == 0 && c.rtt.srtt > 0 && c.segs.n > 1 {
		if pto := max(2*c.rtt.srtt, c.e.cfg.TailProbe); pto < d {
			d, c.probe.armed = pto, true
		}
	}
	c.arm(now, d)
}

// sendProbe makes the last segment that the peer has not reported due again.
func (c *Conn) sendProbe(now frame.Time) {
	c.probe.armed = false
	c.arm(now, c.rto())
	for i := c.segs.n - 1; i >= 0; i-- {
		s := c.segs.at(i)
		if s.flags&(segSacked|segLost) != 0 {
			continue
		}
		c.setLost(s)
		c.loss.force = true
		c.probe = tailProbe{end: s.end()}
		c.e.stats.TailProbes++
		c.Kick()
		return
	}
}

// probeAcked ends the probe once SND.UNA has passed it. If it repaired a loss
// that nothing else has shown, the window is reduced (RFC 8985 section 7.4).
func (c *Conn) probeAcked() {
	if c.probe.end == 0 || c.una < c.probe.end {
		return
	}
	if c.loss.state == caOpen && !c.probe.spurious {
		c.reduce(c.cc.Cwnd)
		c.cc.Cwnd = c.cc.Ssthresh
	}
	c.probe = tailProbe{armed: c.probe.armed}
}
