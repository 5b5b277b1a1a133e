package ptp

import (
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/ptp/pairing"
	"tapir/ptp/servo"
	"tapir/wire/frame"
)

// newMaster prepares the port to follow another master: what was measured of
// the last one is forgotten, the frequency stays.
func (p *port) newMaster(now frame.Time) {
	p.sync, p.requests = pairing.Syncs{}, pairing.Requests{}
	p.keepFrequency(now)
	p.discipline.SetInterval(pace.Period(p.logSync))
	if p.state == msg.StateSlave {
		p.setState(msg.StateUncalibrated, "new master", now)
	}
}

// lostParent begins holdover: the clock runs on with the frequency it has and
// says so.
func (p *port) lostParent(now frame.Time) {
	i := p.Instance
	locked := i.discipline.State() >= servo.Locked
	i.slavePort = nil
	i.keepFrequency(now)
	if i.cfg.HoldoverTime <= 0 || !locked {
		return
	}
	i.quality, i.own = i.cfg.HoldoverQuality, i.properties
	i.holdoverUntil = now.Add(i.cfg.HoldoverTime)
}

// runHoldover ends holdover when its time is over.
func (i *Instance) runHoldover(now frame.Time) {
	if i.holdoverUntil != 0 && i.holdoverUntil <= now {
		i.endHoldover()
		i.decide = true
	}
}

func (i *Instance) endHoldover() {
	if i.holdoverUntil == 0 {
		return
	}
	i.holdoverUntil = 0
	i.quality, i.own = i.cfg.Quality, i.cfg.Time
}

// leapAt is when a pending leap second of our own takes effect, on our clock:
// at the end of the UTC day in which it was announced.
func (i *Instance) leapAt() (at frame.Stamp, step int16, ok bool) {
	switch {
	case i.slavePort != nil || !i.own.PTPTimescale:
		return 0, 0, false
	case !i.own.Leaps():
		return 0, 0, false
	}
	if i.leapDay == 0 {
		i.leapDay = i.own.Day(i.clock.At(i.now))
	}
	at, step = i.own.LeapEnd(i.leapDay)
	return at, step, true
}

// runLeap changes the UTC offset at the leap second.
func (i *Instance) runLeap(now frame.Time) {
	at, step, ok := i.leapAt()
	if !ok {
		i.leapDay = 0
		return
	}
	if i.clock.At(now) < at {
		return
	}
	i.own.UTCOffset += step
	i.own.Leap59, i.own.Leap61, i.leapDay = false, false, 0
	i.becomeGrandmaster()
}

// nextClockEvent is when the clock has to be looked at again.
func (i *Instance) nextClockEvent(now frame.Time) frame.Time {
	next := frame.Never
	if i.holdoverUntil != 0 {
		next = i.holdoverUntil
	}
	if at, _, ok := i.leapAt(); ok {
		next = min(next, now.Add(max(time.Duration(at-i.clock.At(now)), 1)))
	}
	return next
}
