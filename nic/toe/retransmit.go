package toe

import (
	"time"

	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
)

// startRTO starts the timer for what is in flight: that of a tail loss probe
// first if one may help (RFC 8985 section 7), else the retransmission timeout.
func (s *sender) startRTO(now frame.Time) {
	d := s.rto()
	s.tailProbe = false
	if s.backoff == 0 && s.snd.MayProbe() {
		if pto := max(2*s.snd.RTT.Smoothed, s.c.e.cfg.TailProbe); pto < d {
			d, s.tailProbe = pto, true
		}
	}
	s.arm(now, d)
}

func (s *sender) sendProbe(now frame.Time) {
	s.tailProbe = false
	s.arm(now, s.rto())
	if s.snd.Probe() {
		s.c.e.stats.TailProbes++
		s.c.Kick()
	}
}

// onReorder looks again when the reordering window has passed.
func (s *sender) onReorder(now frame.Time) {
	if s.snd.Segs() == 0 {
		return
	}
	if s.snd.Overdue(now) && s.snd.Phase == recovery.Open {
		s.enterRecovery()
	}
	s.c.Kick()
}

// onRTO handles the retransmission timer (RFC 6298 section 5).
func (s *sender) onRTO(now frame.Time) {
	switch {
	case s.overdue(now):
		s.c.finish(s.timeoutKind(), now)
	case s.c.state == StateSynSent || s.c.state == StateSynReceived:
		s.synTimeout(now)
	case s.snd.Segs() == 0:
		s.probeTimeout(now)
	case s.tailProbe:
		s.sendProbe(now)
	default:
		s.dataTimeout(now)
	}
}

func (s *sender) synTimeout(now frame.Time) {
	if s.spent(s.c.e.cfg.SynRetries) {
		s.c.finish(s.timeoutKind(), now)
		return
	}
	s.timedOut(now)
	s.c.wantSyn = true
}

// probeTimeout asks for the window when nothing is in flight, or sends what
// silly-window avoidance has held back.
func (s *sender) probeTimeout(now frame.Time) {
	if s.c.par.UserTimeout == 0 && s.c.probes > s.c.e.cfg.Retries {
		s.c.finish(s.timeoutKind(), now)
		return
	}
	if s.snd.Una()+s.wnd > s.snd.Nxt() {
		s.override = true
	} else {
		s.c.wantProbe = true
		s.c.probes++
	}
	s.backoff++
	s.c.Kick()
}

func (s *sender) dataTimeout(now frame.Time) {
	// A peer that closes its window but answers is alive (RFC 1122 section
	// 4.2.2.17).
	alive := s.wnd == 0 && now.Sub(s.c.lastIn) < 2*s.c.e.cfg.MaxRTO
	limit := s.c.e.cfg.Retries
	if s.snd.Seg(0).Flags&recovery.Fin != 0 {
		limit = s.c.par.FinRetries
	}
	if s.spent(limit) && !alive {
		s.c.finish(s.timeoutKind(), now)
		return
	}
	if s.backoff == 0 {
		s.lower(s.snd.InFlight())
		s.cc.TimedOut()
	}
	s.cc.Cwnd = uint64(s.mss)
	s.tailProbe = false
	s.snd.TimedOut()
	s.suspectBlackHole(now)
	s.c.count.timeouts++
	s.timedOut(now)
}

// timedOut backs off and restarts the timer.
func (s *sender) timedOut(now frame.Time) {
	s.backoff++
	s.c.e.stats.Timeouts++
	s.arm(now, s.rto())
	s.c.Kick()
}

// arm starts the retransmission timer. It fires no later than the user
// timeout ends.
func (s *sender) arm(now frame.Time, d time.Duration) {
	s.rtoAt = now.Add(d)
	if ut := s.c.par.UserTimeout; ut > 0 {
		s.rtoAt = min(s.rtoAt, max(s.progressAt.Add(ut), now))
	}
}

// overdue reports whether the user timeout has passed without progress.
func (s *sender) overdue(now frame.Time) bool {
	ut := s.c.par.UserTimeout
	return ut > 0 && now.Sub(s.progressAt) >= ut
}

// spent reports whether limit timeouts in a row are enough to give up.
func (s *sender) spent(limit int) bool {
	return s.c.par.UserTimeout == 0 && s.backoff >= limit
}

// timeoutKind is what ICMP reported meanwhile, else Timeout.
func (s *sender) timeoutKind() Kind {
	if s.c.softErr != 0 {
		return s.c.softErr
	}
	if s.c.why = ErrRetries; s.c.par.UserTimeout > 0 {
		s.c.why = ErrUserTimeout
	}
	return Timeout
}
