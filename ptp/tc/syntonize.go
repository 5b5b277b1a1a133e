package tc

import (
	"time"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// silence is how long the source that is followed may say nothing before
// another one is.
const silence = 3 * time.Second

// syntonizer follows the rate of the clock whose Syncs pass.
type syntonizer struct {
	source msg.PortIdentity
	heard  frame.Time
	rate   rate
	// The Sync that waits for its Follow_Up.
	seq        uint16
	at         frame.Stamp
	correction msg.TimeInterval
	waiting    bool
}

// sync takes in a Sync of the followed domain.
func (s *syntonizer) sync(c *Clock, m *msg.Message, at frame.Stamp, now frame.Time) {
	if !c.cfg.Syntonize || m.Domain != c.cfg.Domain || m.SdoID != c.cfg.SdoID {
		return
	}
	if m.Source != s.source {
		if s.heard != 0 && now.Sub(s.heard) < silence {
			return // one at a time
		}
		*s = syntonizer{source: m.Source}
	}
	s.heard = now
	if m.Flags.Has(msg.FlagTwoStep) {
		s.seq, s.at, s.correction, s.waiting = m.Sequence, at, m.Correction, true
		return
	}
	s.observe(m.Timestamp, m.Correction, at)
}

// followUp takes in the precise time of the Sync before.
func (s *syntonizer) followUp(c *Clock, m *msg.Message) {
	if s.waiting && m.Source == s.source && m.Sequence == s.seq && m.Domain == c.cfg.Domain && m.SdoID == c.cfg.SdoID {
		s.waiting = false
		s.observe(m.Timestamp, s.correction.Add(m.Correction), s.at)
	}
}

func (s *syntonizer) observe(origin msg.Timestamp, correction msg.TimeInterval, at frame.Stamp) {
	if remote, ok := origin.Stamp(); ok {
		s.rate.observe(remote+frame.Stamp(correction.Duration()), at)
	}
}

// RateOffset is how much faster than the own clock the followed one runs, in
// ppb; false while that is not known.
func (c *Clock) RateOffset() (ppb int64, ok bool) { return c.follow.rate.ppb(), c.follow.rate.valid }
