package link

import (
	"slices"
	"time"

	rules "tapir/lab/host/fault"
	"tapir/wire/frame"
)

// VirtualConfig describes a Virtual.
type VirtualConfig struct {
	// ToB is what happens to frames from end 0, ToA to those from end 1.
	ToB, ToA Impairment
	Seed     uint64
	Pool     frame.Pool   // lends what is on the way
	Clock    frame.Clock  // the system's, for the tracer
	Tracer   frame.Tracer // as that of a Cable, the ends being 0 and 1; nil: nobody
	// Rules strike exact things before chance does; nil: none. Struck, which
	// may be nil, is told of each strike.
	Rules  *rules.Engine
	Struck func(rules.Strike)
}

// Virtual is a Cable in virtual time: the same decisions for the same frames
// and seed, without queues, threads and a clock of its own.
type Virtual struct {
	bad Impaired
	now frame.Time
}

// NewVirtual returns a cable.
func NewVirtual(cfg VirtualConfig) *Virtual {
	v := &Virtual{}
	v.bad.in, v.bad.out = newLane(cfg.ToB, cfg.Seed, 0), newLane(cfg.ToA, cfg.Seed, 1)
	v.bad.out.enters = 1
	v.bad.in.pool, v.bad.out.pool = cfg.Pool, cfg.Pool
	v.bad.tracer, v.bad.rules, v.bad.struck = cfg.Tracer, cfg.Rules, cfg.Struck
	v.bad.system = func() frame.Stamp { return cfg.Clock.At(v.now) }
	return v
}

// lane is the direction from the end of that number.
func (v *Virtual) lane(from int) *lane {
	if from == 0 {
		return &v.bad.in
	}
	return &v.bad.out
}

// Set changes what happens to frames from now on.
func (v *Virtual) Set(toB, toA Impairment) { v.bad.Set(toB, toA) }

// Faults counts what the cable has done so far in both directions.
func (v *Virtual) Faults() (toB, toA FaultCount) { return v.bad.Faults() }

// Enter puts f, borrowed, into the cable at an end. A frame that is longer than
// any cable carries is lost.
func (v *Virtual) Enter(from int, f *frame.Frame, now frame.Time) {
	v.now = now
	l := v.lane(from)
	if v.bad.enter(l, f, time.Duration(now)) != nil {
		l.count.Refused++
	}
}

// Due returns the next frame that has come through from an end, nil if there
// is none.
func (v *Virtual) Due(from int, now frame.Time) *frame.Frame {
	v.now = now
	f := v.lane(from).due(time.Duration(now))
	if f != nil {
		v.bad.arrives(v.lane(from), f)
	}
	return f
}

// Next is when a frame from an end gets due, frame.Never if none is on the way.
func (v *Virtual) Next(from int) frame.Time { return frame.Time(v.lane(from).next()) }

// Busy is when the last frame from an end will have been sent at the rate of
// that direction; in the past if the line is free.
func (v *Virtual) Busy(from int) frame.Time { return frame.Time(v.lane(from).busy) }

// Close releases what is on the way.
func (v *Virtual) Close() {
	for from := range 2 {
		l := v.lane(from)
		for _, t := range slices.Concat(l.queue[l.head:], l.held, l.late) {
			t.f.Release()
		}
		l.queue, l.head, l.held, l.late = nil, 0, nil, nil
	}
}
