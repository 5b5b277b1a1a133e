package ptp

import (
	"math"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/wire/frame"
)

// discipline turns what a slave port measures into corrections of the clock.
type discipline struct {
	cfg     Servo
	servo   servo.Servo
	state   servo.State
	filter  servo.Filter // of the end-to-end path delay
	lucky   *servo.Lucky
	freq    float64 // correction in force, ppb
	hold    float64 // the mean of late while the offset was small: for holdover
	settled int     // samples in it, at most holdSamples

	delay   msg.TimeInterval // mean path delay
	delayOK bool

	// The last Sync, and how fast the master runs against the clock while that
	// is not steered to it.
	have    bool
	t1, t2  frame.Stamp
	corr    msg.TimeInterval
	ratio   float64
	ratioOK bool
	held    exchange // a delay exchange that waits for the ratio

	checked bool // lastRx and lastNow are valid
	lastRx  frame.Stamp
	lastNow frame.Time
}

// exchange is all that an end-to-end delay is computed of.
type exchange struct {
	valid          bool
	t1, t2, t3, t4 frame.Stamp
	corr           msg.TimeInterval // of Sync, Follow_Up and Delay_Resp
}

func (d *discipline) init(cfg Servo, maxAdj int64) (err error) {
	d.cfg = cfg
	if most := float64(maxAdj); maxAdj > 0 && (cfg.MaxFrequency == 0 || cfg.MaxFrequency > most) {
		cfg.MaxFrequency = most
	}
	if d.servo, err = servo.New(cfg.Config); err != nil {
		return err
	}
	if d.filter, err = d.newFilter(); err != nil {
		return err
	}
	if cfg.Lucky != 0 && cfg.Lucky != 1 {
		d.lucky, err = servo.NewLucky(cfg.Lucky)
	}
	d.freq = -cfg.Frequency
	d.hold = d.freq
	return err
}

func (d *discipline) newFilter() (servo.Filter, error) {
	return servo.NewFilter(d.cfg.DelayFilter, d.cfg.DelayFilterLength)
}

func (d *discipline) setInterval(log int8) {
	iv := float64(period(log)) / float64(time.Second)
	if d.lucky != nil {
		iv *= float64(d.cfg.Lucky)
	}
	d.servo.SetInterval(iv)
}

// forget drops what was measured, as for a new master; the frequency stays.
func (d *discipline) forget() {
	d.stepped()
	d.delayOK = false
	d.filter.Reset()
}

// restart lets the servo begin with the frequency that is in force.
func (d *discipline) restart() {
	d.servo.SetFrequency(-d.freq)
	d.servo.Reset()
}

// stepped drops what a step of the clock makes useless.
func (d *discipline) stepped() {
	d.have, d.ratioOK, d.held.valid, d.checked = false, false, false, false
	if d.lucky != nil {
		d.lucky.Reset()
	}
}

// maxSpan is the longest time between stamps of one exchange, in ns.
const maxSpan = 1 << 46

// span is a-b as a TimeInterval, false if it is too long for one.
func span(a, b frame.Stamp) (msg.TimeInterval, bool) {
	d := a - b
	if (a >= b) != (d >= 0) || d >= maxSpan || d <= -maxSpan {
		return 0, false
	}
	return msg.TimeInterval(d) << 16, true
}

// maxRatio is how much faster or slower than the clock a master may seem to
// run: a tenth, and as much again for the jitter of its Syncs.
const maxRatio = 0.25

// sync takes the times of a Sync, to be used by the delay exchanges after it.
func (d *discipline) sync(t1, t2 frame.Stamp, corr msg.TimeInterval) {
	if d.have && d.state == servo.Unlocked {
		master, ok1 := span(t1, d.t1)
		local, ok2 := span(t2, d.t2)
		r := float64(master+corr-d.corr) / float64(local)
		if d.ratioOK = ok1 && ok2 && local > 0 && math.Abs(r-1) < maxRatio; d.ratioOK {
			d.ratio = r
		}
	}
	if d.state != servo.Unlocked {
		d.ratio, d.ratioOK = 1, true
	}
	d.have, d.t1, d.t2, d.corr = true, t1, t2, corr
	if d.ratioOK && d.held.valid {
		d.held.valid = false
		d.pathDelay(&d.held)
	}
}

// delayMeasured takes an end-to-end exchange: t3 and t4 of the Delay_Req and
// the correction of its answer. The delay is computed with the last Sync.
func (d *discipline) delayMeasured(t3, t4 frame.Stamp, corr msg.TimeInterval) Drop {
	if !d.have {
		return DropNone
	}
	e := exchange{true, d.t1, d.t2, t3, t4, d.corr.Add(corr)}
	if !d.ratioOK {
		d.held = e
		return DropNone
	}
	return d.pathDelay(&e)
}

// pathDelay is ((t4-t1) - (t3-t2) - corrections) / 2, with t3-t2 in the
// master's time.
func (d *discipline) pathDelay(e *exchange) Drop {
	master, ok1 := span(e.t4, e.t1)
	local, ok2 := span(e.t3, e.t2)
	if !ok1 || !ok2 {
		return DropRange
	}
	local = local.Add(msg.TimeInterval(math.Floor(float64(float64(local) * (d.ratio - 1)))))
	sum := master.Add(-local).Add(-e.corr)
	if sum >= maxDelay || sum <= -maxDelay {
		return DropRange
	}
	d.delay, d.delayOK = msg.TimeInterval(d.filter.Sample(int64(sum/2))), true
	return DropNone
}

// maxDelay is the longest delay that filters take: 4 s.
const maxDelay = 1 << 48

// measure computes the offset of a Sync that left at t1 and came at t2, and
// steers the clock.
func (p *port) measure(seq uint16, t1, t2 frame.Stamp, corr msg.TimeInterval, now frame.Time) Drop {
	i, d := p.Instance, &p.discipline
	raw := t2 - t1
	if (t2 >= t1) != (raw >= 0) {
		return DropRange
	}
	if d.lucky != nil {
		best, at, ok := d.lucky.Sample(int64(raw)-int64(corr>>16), t2)
		if !ok {
			return DropNone
		}
		raw, t1, t2, corr = frame.Stamp(best), at-frame.Stamp(best), at, 0
	}
	d.sync(t1, t2, corr)
	delay, ok := p.pathDelay()
	if !ok {
		return DropNone
	}
	offset := offsetOf(int64(raw), corr.Add(delay))
	i.current.OffsetFromMaster, i.current.MeanDelay = offset.interval, delay
	i.lastOffset = offset.ns
	state, err := i.steer(offset, t2, now)
	if err != nil {
		p.fault("clock: "+err.Error(), now)
		return DropNone
	}
	p.synchronized(state, now)
	s := Sample{
		Port: p.index, Now: now, Sequence: seq, Offset: time.Duration(offset.ns), Delay: delay,
		Freq: d.freq, Servo: state, Origin: t1 + frame.Stamp(corr.Duration()), Ingress: t2,
	}
	for _, o := range i.observers {
		o.Measured(s)
	}
	return DropNone
}

// offset is an offset from the master, as an integer for steps, and exactly as
// far as a number can for the servo.
type offset struct {
	ns       int64
	exact    float64
	interval msg.TimeInterval
}

// offsetOf is raw ns less the time sub.
func offsetOf(raw int64, sub msg.TimeInterval) offset {
	if raw < maxSpan && raw > -maxSpan {
		v := (msg.TimeInterval(raw) << 16).Add(-sub)
		return offset{int64(v >> 16), float64(v) / 65536, v}
	}
	ns := raw - int64(sub>>16)
	return offset{ns, float64(ns), msg.IntervalOf(time.Duration(ns))}
}

// pathDelay is the delay that is subtracted from what a Sync took.
func (p *port) pathDelay() (msg.TimeInterval, bool) {
	switch p.cfg.DelayMechanism {
	case msg.DelayE2E:
		return p.discipline.delay, p.discipline.delayOK
	case msg.DelayP2P:
		return p.linkMean, p.linkOK
	}
	return 0, true
}

// sane compares the clock with engine time: one that ran away, or was stepped
// by somebody else, has its servo started anew.
func (d *discipline) sane(rx frame.Stamp, now frame.Time) bool {
	const least = 100 * time.Millisecond
	if d.cfg.SanityFreqLimit <= 0 {
		return true
	}
	was, rx0, now0 := d.checked, d.lastRx, d.lastNow
	if was && now.Sub(now0) < least {
		return true
	}
	d.checked, d.lastRx, d.lastNow = true, rx, now
	if !was {
		return true
	}
	off := float64(rx-rx0)/float64(now.Sub(now0)) - 1
	return math.Abs(float64(off*1e9)-d.freq) <= d.cfg.SanityFreqLimit
}

// steer gives an offset to the servo and does what that asks for.
func (i *Instance) steer(o offset, at frame.Stamp, now frame.Time) (servo.State, error) {
	d := &i.discipline
	if i.cfg.FreeRunning {
		d.state = servo.Unlocked
		return servo.Locked, nil
	}
	ppb, state := d.servo.Sample(o.exact, at, 1)
	d.state = state
	if state == servo.Unlocked {
		return state, nil
	}
	if err := i.setFrequency(-ppb, now); err != nil {
		return state, err
	}
	d.settle(o.exact)
	if state == servo.Jump {
		if err := i.clock.AdjTime(now, time.Duration(-o.ns)); err != nil {
			return state, err
		}
		i.ClockStepped()
	}
	return state, nil
}

func (i *Instance) setFrequency(ppb float64, now frame.Time) error {
	i.discipline.freq = ppb
	return i.clock.AdjFine(now, int64(math.Floor(float64(ppb*65.536)+0.5)))
}

const (
	// holdSamples is how many corrections the mean for holdover has.
	holdSamples = 16
	// holdOffset is the offset in ns up to which a clock has settled.
	holdOffset = 20_000
)

// settle keeps the mean correction while the clock follows closely.
func (d *discipline) settle(offset float64) {
	if d.state < servo.Locked || math.Abs(offset) > holdOffset {
		d.settled = 0
		return
	}
	d.settled = min(d.settled+1, holdSamples)
	d.hold += float64((d.freq - d.hold) / float64(d.settled))
}

// ClockStepped tells that the clock was stepped: measurements under way are
// useless, and stamps taken before it are not mixed with those after it.
func (i *Instance) ClockStepped() {
	i.discipline.stepped()
	i.gm.timeBase++
	for _, p := range i.ports {
		p.sync = syncMatch{done: p.sync.done, lastSeq: p.sync.lastSeq}
		p.e2e = delayExchanges{}
		p.link.Reset()
		p.forgetPending()
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
	p.discipline.restart()
	p.discipline.forget()
	p.discipline.state = servo.Unlocked
	if p.state == msg.StateSlave {
		p.setState(msg.StateUncalibrated, why, now)
	}
}
