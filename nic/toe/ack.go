package toe

import (
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// acknowledge handles the ACK field and window of an acceptable segment with
// n sequence numbers of its own (RFC 9293 section 3.10.7.4, fifth step).
func (c *Conn) acknowledge(h *tcp.Header, off int64, ack uint64, n int, now frame.Time) {
	wndMoved := c.updateWindow(h, off, ack)
	flight := c.nxt - c.una
	sackedBefore, fack := c.loss.sacked, c.rack.fack
	if c.sackOK && h.Opts.NSACK > 0 {
		c.takeSACK(h, ack, fack, now)
	}
	acked := ack - c.una
	switch {
	case acked > 0:
		c.advance(ack, fack, h, now)
	case flight > 0 && n == 0 && !wndMoved && (c.blind(h) || c.loss.sacked > sackedBefore):
		c.count.dupAcks++
		c.loss.dupAcks++
	}
	if c.reoAt = frame.Never; c.segs.n > 0 {
		c.detectLoss(acked, now)
	}
	c.afterAck(acked, flight, c.ecn.on && h.Flags.Has(tcp.ECE), now)
}

// updateWindow takes the segment's window unless it is older than the one
// known, and reports whether it changed.
func (c *Conn) updateWindow(h *tcp.Header, off int64, ack uint64) bool {
	if off < c.wl1 || (off == c.wl1 && ack < c.wl2) {
		return false
	}
	wnd := uint64(h.Window) << c.sndScale
	moved := wnd != c.wnd
	c.wnd, c.wl1, c.wl2 = wnd, off, ack
	c.maxWnd = max(c.maxWnd, wnd)
	return moved
}

// advance moves SND.UNA to ack and forgets the segments below. fack is the
// highest delivered before.
func (c *Conn) advance(ack, fack uint64, h *tcp.Header, now frame.Time) {
	segs, sample := c.advanceClean(ack, now)
	resent := frame.Time(0)
	for c.segs.n > 0 {
		s := c.segs.at(0)
		if s.end() > ack {
			c.trimFirst(s, ack)
			break
		}
		segs++
		if s.flags&segSacked == 0 {
			c.delivered(s, fack, now)
			sample = s.sent
		}
		if s.flags&segRetrans != 0 {
			resent = max(resent, s.sent)
		}
		c.unmark(s)
		c.segs.pop(c.e, 1)
	}
	if resent != 0 {
		sample = frame.Never // what a retransmission has let through waited for it
	}
	c.una = ack
	c.loss.dupAcks = max(0, c.loss.dupAcks-segs)
	if c.loss.sacked == 0 && c.loss.state == caOpen {
		c.loss.dupAcks = 0
	}
	if c.sampleRTT(sample, resent, h, now) {
		c.backoff = 0
	} else {
		c.backoff = min(c.backoff, keptBackoff)
	}
	c.probes, c.softErr = 0, 0
	c.progressAt = now
	c.rtoAt = frame.Never
	c.probeAcked()
	c.mtuAcked(now)
	if c.segs.n > 0 {
		c.startRTO(now)
	}
	if c.h != nil {
		off := ack
		if c.finSent {
			off = min(off, c.finOff)
		}
		c.h.Acked(c, off, now)
	}
}

// advanceClean forgets the segments that ack covers while everything in flight
// was sent once and in order: the last of them speaks for all. It returns their
// number and when that one was sent.
func (c *Conn) advanceClean(ack uint64, now frame.Time) (segs int, sample frame.Time) {
	if c.loss.sacked > 0 || c.loss.lost > 0 || c.loss.rexOut > 0 || c.rack.fack > c.una {
		return 0, frame.Never
	}
	for segs < c.segs.n && c.segs.at(segs).end() <= ack {
		segs++
	}
	if segs == 0 {
		return 0, frame.Never
	}
	last := c.segs.at(segs - 1)
	sample = last.sent
	c.delivered(last, c.una, now)
	c.segs.pop(c.e, segs)
	return segs, sample
}

// trimFirst cuts the acknowledged part off a segment that the peer (or a
// middlebox) acknowledged in part.
func (c *Conn) trimFirst(s *segment, ack uint64) {
	if ack <= s.off {
		return
	}
	d := ack - s.off
	switch {
	case s.flags&segSacked != 0:
		c.loss.sacked -= d
	case s.flags&segLost != 0:
		c.loss.lost -= d
	}
	s.off, s.n = ack, s.n-uint32(d)
}

// unmark takes a segment that leaves the ring out of the accounts.
func (c *Conn) unmark(s *segment) {
	switch {
	case s.flags&segSacked != 0:
		c.loss.sacked -= uint64(s.n)
		c.loss.sackedSegs--
	case s.flags&segLost != 0:
		c.loss.lost -= uint64(s.n)
	case s.flags&segRetrans != 0:
		c.loss.rexOut--
	}
}

// rttState is the estimator of RFC 6298 section 2.
type rttState struct {
	srtt, rttvar, rto, min time.Duration
	synAt                  frame.Time // when the SYN or SYN-ACK was sent first
}

// sampleRTT takes a round-trip sample from a segment sent once, else from
// the timestamp echoed (RFC 7323 section 4). If that is older than the
// retransmission at resent, the acknowledgement of the first sending was late
// or lost, nobody knows which: there is no sample, and it returns false, so
// that the timeout stays backed off (Karn's algorithm).
func (c *Conn) sampleRTT(sent, resent frame.Time, h *tcp.Header, now frame.Time) bool {
	switch {
	case sent != frame.Never:
		c.addRTT(now.Sub(sent))
	case c.tsOK && h.Opts.HasTS && h.Opts.TSEcr != 0:
		if int32(h.Opts.TSEcr-c.tsNow(resent)) < 0 {
			return false
		}
		if ms := int32(c.tsNow(now) - h.Opts.TSEcr); ms >= 0 && ms < maxSampleMS {
			c.addRTT(max(time.Duration(ms)*time.Millisecond, time.Millisecond/2))
		}
	}
	return true
}

// keptBackoff bounds the backoff that stays when there is progress.
const keptBackoff = 3

// maxSampleMS is the longest round trip that an echoed timestamp can claim.
const maxSampleMS = 120_000

func (c *Conn) addRTT(d time.Duration) {
	r := &c.rtt
	d = max(d, time.Microsecond)
	if r.srtt == 0 {
		r.srtt, r.rttvar, r.min = d, d/2, d
	} else {
		r.rttvar += ((r.srtt - d).Abs() - r.rttvar) / 4
		r.srtt += (d - r.srtt) / 8
		r.min = min(r.min, d)
	}
	// The floor stands for the peer's delayed acknowledgements, so it is
	// added to the round trip instead of hidden by a long one.
	r.rto = min(r.srtt+max(4*r.rttvar, c.e.cfg.MinRTO), c.e.cfg.MaxRTO)
}

// tsNow is the timestamp clock: one tick per millisecond from a secret start.
func (c *Conn) tsNow(now frame.Time) uint32 { return tsClock(now) + c.tsOff }

func tsClock(now frame.Time) uint32 { return uint32(now / 1e6) }
