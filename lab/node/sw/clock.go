package sw

import (
	"tapir/lab/conf/swconf"
	"tapir/ptp"
	"tapir/ptp/mgmt"
	"tapir/ptp/msg"
	"tapir/ptp/tc"
	"tapir/wire/frame"
)

// tag is what a transparent clock has found out about a frame.
type tag = tc.Tag

// newClock makes what cfg's mode asks for, nil for a plain switch.
func newClock(s *Switch) (timekeeper, error) {
	switch s.cfg.Mode {
	case swconf.E2ETransparent, swconf.P2PTransparent:
		return newTransparent(s)
	case swconf.Boundary:
		return newBoundary(s)
	}
	return nil, nil
}

// transparent is a transparent clock in a switch.
type transparent struct {
	s  *Switch
	tc *tc.Clock
}

func newTransparent(s *Switch) (*transparent, error) {
	cfg := tc.DefaultConfig(s.cfg.Identity(), make([]tc.PortConfig, len(s.cfg.Ports)))
	for i := range cfg.Ports {
		cfg.Ports[i] = tc.PortConfig{Carriage: s.cfg.Carriage(i),
			DelayAsymmetry: msg.IntervalOf(s.cfg.Ports[i].Asymmetry)}
	}
	cfg.PeerDelay, cfg.OneStep, cfg.Syntonize = s.cfg.Mode == swconf.P2PTransparent, s.cfg.OneStep, s.cfg.Syntonize
	cfg.Domain, cfg.LogPdelayInterval = s.cfg.Domain, s.cfg.PdelayInterval
	t := &transparent{s: s}
	var err error
	t.tc, err = tc.New(cfg, tc.Env{Pool: s.env.Pool, Clock: s.env.Clock, Lower: t})
	return t, err
}

// Send is for the clock.
func (t *transparent) Send(port int, f *frame.Frame) { t.s.transmit(port, f) }

func (t *transparent) receive(port int, f *frame.Frame, now frame.Time) (tag, frame.DropReason, bool) {
	at, stamped := frame.Stamp(0), f.Seen != frame.Never
	if stamped {
		at = t.s.env.Clock.At(f.Seen)
	}
	g, verdict := t.tc.Receive(port, f.Bytes(), at, stamped, now)
	switch verdict {
	case tc.Consumed:
		return tag{}, frame.DropNone, false
	case tc.Discard:
		return tag{}, DropClock, false
	}
	return g, frame.DropNone, true
}

func (t *transparent) depart(port int, f *frame.Frame, g tag, now frame.Time) {
	t.tc.Depart(port, f, g, now)
}

func (t *transparent) sent(id uint64, at frame.Time) bool {
	if at == frame.Never {
		return t.tc.TxStamp(id, 0, false)
	}
	return t.tc.TxStamp(id, t.s.env.Clock.At(at), true)
}

func (t *transparent) poll(now frame.Time) frame.Time { return t.tc.Poll(now) }

func (t *transparent) close() { t.tc.Close() }

// ClockCounts counts what a switch's clock did.
type ClockCounts struct {
	tc.Counts
	Boundary BoundaryDrops
}

// ClockCounts are the counters of the clock, none in a plain switch.
func (s *Switch) ClockCounts() (c ClockCounts) {
	switch t := s.clock.(type) {
	case *transparent:
		c.Counts = t.tc.Counts()
	case *boundary:
		c.Boundary = t.drops
	}
	return c
}

// Instance is that of a boundary clock, nil in other modes.
func (s *Switch) Instance() *ptp.Instance {
	if b, ok := s.clock.(*boundary); ok {
		return b.instance
	}
	return nil
}

// Management is what the management server of a boundary clock has counted.
func (s *Switch) Management() mgmt.Stats {
	if b, ok := s.clock.(*boundary); ok {
		return b.mgmt.Stats()
	}
	return mgmt.Stats{}
}

// Transparent is the transparent clock, nil in other modes.
func (s *Switch) Transparent() *tc.Clock {
	if t, ok := s.clock.(*transparent); ok {
		return t.tc
	}
	return nil
}
