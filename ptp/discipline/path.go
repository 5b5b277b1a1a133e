package discipline

import (
	"math"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/wire/frame"
)

// MaxDelay is the longest delay that filters take: 4 s.
const MaxDelay msg.TimeInterval = 1 << 48

// path measures the end-to-end path delay (IEEE 1588-2019 section 11.3).
type path struct {
	filter  servo.Filter
	delay   msg.TimeInterval
	delayOK bool

	// The last Sync, and how fast the master runs against the clock while that
	// is not steered to it.
	have    bool
	last    Sync
	ratio   float64
	ratioOK bool
	held    exchange // one that waits for the ratio
}

// exchange is all that a delay is computed of.
type exchange struct {
	valid  bool
	sync   Sync
	t3, t4 frame.Stamp
	corr   msg.TimeInterval // of the Delay_Resp
}

func (p *path) stepped() { p.have, p.ratioOK, p.held.valid = false, false, false }

// LastIngress is when the last Sync came.
func (p *path) LastIngress() frame.Stamp { return p.last.Ingress }

// MeanDelay is the filtered mean path delay, false if it is not known.
func (p *path) MeanDelay() (msg.TimeInterval, bool) { return p.delay, p.delayOK }

// maxRatio is how much faster or slower than the clock a master may seem to
// run: a tenth, and as much again for the jitter of its Syncs.
const maxRatio = 0.25

// sync takes the times of a Sync, to be used by the delay exchanges after it.
func (p *path) sync(s Sync, unlocked bool) {
	if !unlocked {
		p.ratio, p.ratioOK = 1, true
	} else if p.have {
		master, ok1 := msg.Between(s.Origin, p.last.Origin)
		local, ok2 := msg.Between(s.Ingress, p.last.Ingress)
		r := float64(master+s.Correction-p.last.Correction) / float64(local)
		if p.ratioOK = ok1 && ok2 && local > 0 && math.Abs(r-1) < maxRatio; p.ratioOK {
			p.ratio = r
		}
	}
	p.have, p.last = true, s
	if p.ratioOK && p.held.valid {
		p.held.valid = false
		p.compute(&p.held)
	}
}

// Delay takes an end-to-end exchange: t3 and t4 of the Delay_Req and the
// correction of its answer. The delay is computed with the last Sync; false if
// it cannot be.
func (p *path) Delay(t3, t4 frame.Stamp, corr msg.TimeInterval) bool {
	if !p.have {
		return true // of no use, but no fault either
	}
	e := exchange{true, p.last, t3, t4, corr}
	if !p.ratioOK {
		p.held = e
		return true
	}
	return p.compute(&e)
}

// compute is ((t4-t1) - (t3-t2) - corrections) / 2, with t3-t2 in the master's
// time.
func (p *path) compute(e *exchange) bool {
	master, ok1 := msg.Between(e.t4, e.sync.Origin)
	local, ok2 := msg.Between(e.t3, e.sync.Ingress)
	if !ok1 || !ok2 {
		return false
	}
	local = local.Add(msg.TimeInterval(math.Floor(float64(float64(local) * (p.ratio - 1)))))
	sum := master.Add(-local).Add(-e.corr).Add(-e.sync.Correction)
	if sum >= MaxDelay || sum <= -MaxDelay {
		return false
	}
	p.delay, p.delayOK = msg.TimeInterval(p.filter.Sample(int64(sum/2))), true
	return true
}

// Offset is an offset from the master, as an integer for steps, and exactly as
// far as a number can for the servo.
type Offset struct {
	NS       int64
	Exact    float64
	Interval msg.TimeInterval
}

// Offset is the offset that s shows over a path with the delay given; false if
// it cannot be told.
func (s *Sync) Offset(delay msg.TimeInterval) (Offset, bool) {
	raw, sub := int64(s.Ingress-s.Origin), s.Correction.Add(delay)
	if (s.Ingress >= s.Origin) != (raw >= 0) {
		return Offset{}, false
	}
	if v, ok := msg.Between(s.Ingress, s.Origin); ok {
		v = v.Add(-sub)
		return Offset{int64(v >> 16), float64(v) / 65536, v}, true
	}
	ns := raw - int64(sub>>16)
	return Offset{ns, float64(ns), msg.IntervalOf(time.Duration(ns))}, true
}
