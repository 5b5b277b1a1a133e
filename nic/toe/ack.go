package toe

import (
	"time"

	"tapir/nic/toe/congestion"
	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// acknowledge handles the ACK field and window of an acceptable segment with
// n sequence numbers of its own (RFC 9293 section 3.10.7.4, fifth step).
func (c *Conn) acknowledge(h *tcp.Header, off int64, ack uint64, n int, now frame.Time) {
	wndMoved := c.updateWindow(h, off, ack)
	flight := c.snd.InFlight()
	if flight == 0 && h.Opts.NSACK == 0 {
		return // the window is all it can tell
	}
	news := c.snd.Acknowledge(h, ack, n == 0 && !wndMoved, now)
	if news.Undone {
		c.cc.Undo()
		c.e.stats.Undone++
	}
	if news.Acked > 0 {
		c.advanced(&news, h, now)
	} else if news.Duplicate {
		c.count.dupAcks++
	}
	if c.snd.FindLoss(news.Acked, now) && c.snd.Phase == recovery.Open {
		c.enterRecovery()
	}
	c.afterAck(news.Acked, flight, c.ecn.On && h.Flags.Has(tcp.ECE), now)
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

// advanced handles the progress of SND.UNA that news tells of.
func (c *Conn) advanced(news *recovery.News, h *tcp.Header, now frame.Time) {
	if c.sampleRTT(news.Sent, news.Resent, h, now) {
		c.backoff = 0
	} else {
		c.backoff = min(c.backoff, keptBackoff)
	}
	c.probes, c.softErr = 0, 0
	c.progressAt = now
	c.rtoAt = frame.Never
	if news.Repaired {
		c.lower(c.cc.Cwnd)
	}
	c.mtuAcked(now)
	if c.snd.Segs() > 0 {
		c.startRTO(now)
	}
	if c.h != nil {
		off := c.snd.Una()
		if c.finSent {
			off = min(off, c.finOff)
		}
		c.h.Acked(c, off, now)
	}
}

// keptBackoff bounds the backoff that stays when there is progress.
const keptBackoff = 3

// sampleRTT takes a round-trip sample from a segment sent once, else from
// the timestamp echoed (RFC 7323 section 4). If that is older than the
// retransmission at resent, the acknowledgement of the first sending was late
// or lost, nobody knows which: there is no sample, and it returns false, so
// that the timeout stays backed off (Karn's algorithm).
func (c *Conn) sampleRTT(sent, resent frame.Time, h *tcp.Header, now frame.Time) bool {
	switch {
	case sent != frame.Never:
		c.addRTT(now.Sub(sent))
	case c.rcv.TS.On && h.Opts.HasTS && h.Opts.TSEcr != 0:
		if int32(h.Opts.TSEcr-c.tsNow(resent)) < 0 {
			return false
		}
		if ms := int32(c.tsNow(now) - h.Opts.TSEcr); ms >= 0 && ms < maxSampleMS {
			c.addRTT(max(time.Duration(ms)*time.Millisecond, time.Millisecond/2))
		}
	}
	return true
}

// maxSampleMS is the longest round trip that an echoed timestamp can claim.
const maxSampleMS = 120_000

func (c *Conn) addRTT(d time.Duration) { c.snd.RTT.Add(d, c.e.cfg.MinRTO, c.e.cfg.MaxRTO) }

// tsNow is the timestamp clock: one tick per millisecond from a secret start.
func (c *Conn) tsNow(now frame.Time) uint32 { return tsClock(now) + c.tsOff }

func tsClock(now frame.Time) uint32 { return uint32(now / 1e6) }

// enterRecovery reduces the window (RFC 5681 section 3.2, RFC 6675 section 5).
// One acknowledgement of a batch leaves but a part of it in flight; what was in
// flight before is the window, if that was used up (RFC 9438 section 4.6).
func (c *Conn) enterRecovery() {
	flight := c.snd.InFlight()
	if c.cc.Blocked {
		flight = max(flight, c.cc.Cwnd)
	}
	c.snd.Enter()
	c.cc.Remember()
	c.lower(flight)
	c.count.recoveries++
	c.e.stats.FastRecoveries++
}

// lower reduces the window after a loss or mark of congestion with flight
// octets in flight.
func (c *Conn) lower(flight uint64) {
	c.cc.Reduce(c.par.Congestion, flight, c.mss)
	c.cc.Cwnd = c.cc.Ssthresh
	c.ecn.Reduced(c.snd.Nxt())
}

// afterAck ends recovery and grows the window. flight is what was in flight
// before the acknowledgement of acked octets; marked says that the peer told
// of congestion.
func (c *Conn) afterAck(acked, flight uint64, marked bool, now frame.Time) {
	if c.snd.Repaired() {
		if c.snd.Phase == recovery.Fast {
			c.cc.Cwnd = min(c.cc.Ssthresh, c.afterRecovery())
		}
		c.snd.Leave()
		return // most of what this acknowledges had arrived before
	}
	if acked > 0 && c.snd.Phase != recovery.Fast && !marked {
		c.cc.Grow(c.par.Congestion, acked, flight, c.mss, c.e.cfg.SndWnd, now, c.snd.RTT.Smoothed)
	}
}

// afterRecovery is the window with which no burst follows a recovery: without
// SACK that of RFC 6582 section 3.2 step 3, else room for an initial window.
func (c *Conn) afterRecovery() uint64 {
	mss := uint64(c.mss)
	if !c.snd.SACK {
		return max(c.pipe(), mss) + mss
	}
	return c.pipe() + congestion.Initial(c.mss)
}

// pipe is the number of octets believed to be in flight.
func (c *Conn) pipe() uint64 { return c.snd.Pipe(c.mss) }
