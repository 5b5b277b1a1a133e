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
func (s *sender) acknowledge(h *tcp.Header, off int64, ack uint64, n int, now frame.Time) {
	wndMoved := s.updateWindow(h, off, ack)
	flight := s.snd.InFlight()
	if flight == 0 && h.Opts.NSACK == 0 {
		return // the window is all it can tell
	}
	news := s.snd.Acknowledge(h, ack, n == 0 && !wndMoved, now)
	if news.Undone {
		s.cc.Undo()
		s.c.e.stats.Undone++
	}
	if news.Acked > 0 {
		s.advanced(&news, h, now)
	} else if news.Duplicate {
		s.c.count.dupAcks++
	}
	if s.snd.FindLoss(news.Acked, now) && s.snd.Phase == recovery.Open {
		s.enterRecovery()
	}
	s.afterAck(news.Acked, flight, s.ecn.On && h.Flags.Has(tcp.ECE), now)
}

// updateWindow takes the segment's window unless it is older than the one
// known, and reports whether it changed.
func (s *sender) updateWindow(h *tcp.Header, off int64, ack uint64) bool {
	if off < s.wl1 || (off == s.wl1 && ack < s.wl2) {
		return false
	}
	wnd := uint64(h.Window) << s.sndScale
	moved := wnd != s.wnd
	s.wnd, s.wl1, s.wl2 = wnd, off, ack
	s.maxWnd = max(s.maxWnd, wnd)
	return moved
}

// advanced handles the progress of SND.UNA that news tells of.
func (s *sender) advanced(news *recovery.News, h *tcp.Header, now frame.Time) {
	if s.sampleRTT(news.Sent, news.Resent, h, now) {
		s.backoff = 0
	} else {
		s.backoff = min(s.backoff, keptBackoff)
	}
	s.c.probes, s.c.softErr = 0, 0
	s.progressAt = now
	s.rtoAt = frame.Never
	if news.Repaired {
		s.lower(s.cc.Cwnd)
	}
	s.mtuAcked(now)
	s.holeAcked(now)
	if s.snd.Segs() > 0 {
		s.startRTO(now)
	}
	if s.c.h != nil {
		off := s.snd.Una()
		if s.finSent {
			off = min(off, s.finOff)
		}
		s.c.h.Acked(s.c, off, now)
	}
}

// keptBackoff bounds the backoff that stays when there is progress.
const keptBackoff = 3

// sampleRTT takes a round-trip sample from a segment sent once, else from
// the timestamp echoed (RFC 7323 section 4). If that is older than the
// retransmission at resent, the acknowledgement of the first sending was late
// or lost, nobody knows which: there is no sample, and it returns false, so
// that the timeout stays backed off (Karn's algorithm).
func (s *sender) sampleRTT(sent, resent frame.Time, h *tcp.Header, now frame.Time) bool {
	switch {
	case sent != frame.Never:
		s.addRTT(now.Sub(sent))
	case s.c.rcv.TS.On && h.Opts.HasTS && h.Opts.TSEcr != 0:
		if int32(h.Opts.TSEcr-s.c.tsNow(resent)) < 0 {
			return false
		}
		if ms := int32(s.c.tsNow(now) - h.Opts.TSEcr); ms >= 0 && ms < maxSampleMS {
			s.addRTT(max(time.Duration(ms)*time.Millisecond, time.Millisecond/2))
		}
	}
	return true
}

// maxSampleMS is the longest round trip that an echoed timestamp can claim.
const maxSampleMS = 120_000

func (s *sender) addRTT(d time.Duration) { s.snd.RTT.Add(d, s.c.e.cfg.MinRTO, s.c.e.cfg.MaxRTO) }

// tsNow is the timestamp clock: one tick per millisecond from a secret start.
func (c *Conn) tsNow(now frame.Time) uint32 { return tsClock(now) + c.tsOff }

func tsClock(now frame.Time) uint32 { return uint32(now / 1e6) }

// enterRecovery reduces the window (RFC 5681 section 3.2, RFC 6675 section 5).
// One acknowledgement of a batch leaves but a part of it in flight; what was in
// flight before is the window, if that was used up (RFC 9438 section 4.6).
func (s *sender) enterRecovery() {
	flight := s.snd.InFlight()
	if s.cc.Blocked {
		flight = max(flight, s.cc.Cwnd)
	}
	s.snd.Enter()
	s.cc.Remember()
	s.lower(flight)
	s.c.count.recoveries++
	s.c.e.stats.FastRecoveries++
}

// lower reduces the window after a loss with flight octets in flight.
func (s *sender) lower(flight uint64) {
	s.cc.Reduce(s.c.par.Congestion, flight, s.mss)
	s.ecn.Reduced(s.snd.Nxt())
}

// react reduces the window after a mark of congestion.
func (s *sender) react() {
	s.cc.React(s.c.par.Congestion, s.snd.InFlight(), s.mss)
	s.ecn.Reduced(s.snd.Nxt())
	s.c.e.stats.ECNReductions++
}

// afterAck ends recovery and grows the window. flight is what was in flight
// before the acknowledgement of acked octets; marked says that the peer told
// of congestion.
func (s *sender) afterAck(acked, flight uint64, marked bool, now frame.Time) {
	if s.snd.Repaired() {
		if s.snd.Phase == recovery.Fast {
			s.cc.Cwnd = min(s.cc.Ssthresh, s.afterRecovery())
		}
		s.snd.Leave()
		return // most of what this acknowledges had arrived before
	}
	if acked > 0 && s.snd.Phase != recovery.Fast && !marked {
		s.cc.Grow(s.c.par.Congestion, acked, flight, s.mss, s.c.e.cfg.SndWnd, now, s.snd.RTT.Smoothed)
	}
}

// afterRecovery is the window with which no burst follows a recovery: without
// SACK that of RFC 6582 section 3.2 step 3, else room for an initial window.
func (s *sender) afterRecovery() uint64 {
	mss := uint64(s.mss)
	if !s.snd.SACK {
		return max(s.pipe(), mss) + mss
	}
	return s.pipe() + congestion.Initial(s.mss)
}

// pipe is the number of octets believed to be in flight.
func (s *sender) pipe() uint64 { return s.snd.Pipe(s.mss) }
