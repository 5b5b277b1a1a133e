package ptp

import (
	"math"
	"time"

	"tapir/ptp/discipline"
	"tapir/ptp/msg"
	"tapir/ptp/pairing"
	"tapir/ptp/servo"
	"tapir/wire/frame"
)

// measure computes the offset of a Sync and steers the clock.
func (p *port) measure(seq uint16, s discipline.Sync, now frame.Time) Drop {
	i := p.Instance
	if _, ok := s.Offset(0); !ok {
		return DropRange
	}
	s, ok := i.discipline.Sync(s)
	delay, known := p.pathDelay()
	if !ok || !known {
		return DropNone
	}
	offset, _ := s.Offset(delay)
	i.current.OffsetFromMaster, i.current.MeanDelay = offset.Interval, delay
	i.lastOffset = offset.NS
	state, err := i.steer(offset, s.Ingress, now)
	if err != nil {
		p.fault("clock: "+err.Error(), now)
		return DropNone
	}
	p.synchronized(state, now)
	sample := Sample{
		Port: p.index, Now: now, Sequence: seq, Offset: time.Duration(offset.NS), Delay: delay,
		Freq: i.discipline.Frequency(), Servo: state, Origin: s.Origin + frame.Stamp(s.Correction.Duration()),
		Ingress: s.Ingress,
	}
	for _, o := range i.observers {
		o.Measured(sample)
	}
	return DropNone
}

// pathDelay is the delay that is subtracted from what a Sync took.
func (p *port) pathDelay() (msg.TimeInterval, bool) {
	switch p.cfg.DelayMechanism {
	case msg.DelayE2E:
		return p.discipline.MeanDelay()
	case msg.DelayP2P:
		return p.linkMean, p.linkOK
	}
	return 0, true
}

// steer gives an offset to the servo and does what that asks for.
func (i *Instance) steer(o discipline.Offset, at frame.Stamp, now frame.Time) (servo.State, error) {
	if i.cfg.FreeRunning {
		i.discipline.Free()
		return servo.Locked, nil
	}
	ppb, state := i.discipline.Sample(o, at)
	if state == servo.Unlocked {
		return state, nil
	}
	if err := i.setFrequency(ppb, now); err != nil {
		return state, err
	}
	if state == servo.Jump {
		if err := i.clock.AdjTime(now, time.Duration(-o.NS)); err != nil {
			return state, err
		}
		i.ClockStepped()
	}
	return state, nil
}

func (i *Instance) setFrequency(ppb float64, now frame.Time) error {
	return i.clock.AdjFine(now, int64(math.Floor(float64(ppb*65.536)+0.5)))
}

// keepFrequency ends steering by a master; the clock runs on as it did while
// it followed closely.
func (i *Instance) keepFrequency(now frame.Time) {
	was := i.discipline.Frequency()
	if ppb := i.discipline.Release(); ppb != was && !i.cfg.FreeRunning {
		_ = i.setFrequency(ppb, now) // it was in force before
	}
}

// ClockStepped tells that the clock was stepped: measurements under way are
// useless, and stamps taken before it are not mixed with those after it.
func (i *Instance) ClockStepped() {
	i.discipline.Stepped()
	i.gm.timeBase++
	for _, p := range i.ports {
		p.sync.Drop()
		p.requests = pairing.Requests{}
		p.link.Reset()
		p.stamps.GiveUp()
		p.head, p.n = 0, 0
	}
}

// synchronized moves the port between UNCALIBRATED and SLAVE.
func (p *port) synchronized(s servo.State, now frame.Time) {
	switch {
	case s >= servo.Locked && p.state == msg.StateUncalibrated:
		p.setState(msg.StateSlave, "servo locked", now)
	case s < servo.Locked && p.state == msg.StateSlave:
		p.setState(msg.StateUncalibrated, "servo unlocked", now)
	}
}

// synchronizationFault starts the servo anew.
func (p *port) synchronizationFault(why string, now frame.Time) {
	p.discipline.Forget()
	if p.state == msg.StateSlave {
		p.setState(msg.StateUncalibrated, why, now)
	}
}
