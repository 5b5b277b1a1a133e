package nic

import (
	"fmt"
	"slices"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/ip"
	"tapir/nic/nicdrop"
	"tapir/nic/port"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// engines is what a NIC of two engines has beside the first, which is Device's
// own: the second, and what decides between them. nil: there is one.
type engines struct {
	steering *cmt.Steering
	second   *Engine
	states   [cmt.Engines]EngineState
	// call runs a function on the second engine's thread and returns after it;
	// apart: that is not the NIC's.
	call  func(fn func())
	apart bool
	guard func(frame.Tracer) frame.Tracer

	sent      [cmt.Engines]uint64 // frames of each engine's vport, to the wire
	resent    uint64              // sent in a failed engine's stead
	unflushed bool                // the second engine has not been told of frames in its ring
}

// Second is the world of the second engine if it has a thread of its own.
type Second struct {
	Pool frame.Pool
	// Host are its queues of the host TAP, those with odd numbers.
	Host frame.Link
	// Call runs a function on its thread and returns after it.
	Call func(fn func())
	// Wake wakes the second engine's thread, WakeFirst the NIC's.
	Wake, WakeFirst func()
	// Guard returns a tracer that both threads may use at a time.
	Guard func(frame.Tracer) frame.Tracer
}

// newCoupled starts the second engine. Without a host function it has nothing to
// do, but it is there.
func (d *Device) newCoupled(s *Second) error {
	llh, err := d.cfg.llh()
	if err != nil {
		return err
	}
	c := &engines{steering: cmt.NewSteering(llh), call: func(fn func()) { fn() }}
	c.steering.SetHash(keyByChance(d.cfg.seed()), l2.DefaultHash)
	d.coupled = c
	if !d.host.Exists() {
		return d.setStates(&d.cfg)
	}
	e := &Engine{pool: d.pool, system: d.common.System, host: d.host.External(), in: new(cmt.Ring), out: new(cmt.Ring)}
	c.second = e
	if s != nil {
		c.call, c.apart, c.guard = nested(s.Call), true, s.Guard
		e.pool, e.host = s.Pool, s.Host
		e.in.Bells(s.Wake, s.WakeFirst)
		e.out.Bells(s.WakeFirst, s.Wake)
	}
	want, err := d.cfg.blocks(d.ownQueues() + d.Verbs.Limits().MaxCNQ)
	if err != nil {
		return err
	}
	settings := d.halves(&d.cfg)
	c.steering.SetHash(settings[1].Key, settings[1].Hashes)
	c.call(func() {
		if err = e.compose(&d.cfg, want, &slowpath{d: d, hwfn: 1}, settings[1]); err == nil {
			err = e.irq.setTimes(&d.cfg.Interrupts, 0)
		}
	})
	if err != nil {
		return err
	}
	return d.setStates(&d.cfg)
}

// nested is call, which also may be called by what it runs: the firmware executes
// ramrods on the thread that lets it work.
func nested(call func(fn func())) func(fn func()) {
	within := false
	return func(fn func()) {
		if within {
			fn()
			return
		}
		within = true
		call(fn)
		within = false
	}
}

// Second is the second engine, for the loop that drives it; nil: there is none,
// or the NIC drives it itself.
func (d *Device) Second() *Engine {
	if d.coupled == nil || !d.coupled.apart {
		return nil
	}
	return d.coupled.second
}

// firstHalf is the first engine's half of the netdev: all of it without a second.
func (d *Device) firstHalf(cfg *Config) qede.Settings {
	if cfg.Engines > 1 {
		return d.halves(cfg)[0]
	}
	return cfg.netdev()
}

// halves are the settings of each engine's half of the netdev.
func (d *Device) halves(cfg *Config) (list [cmt.Engines]qede.Settings) {
	s := cfg.netdev()
	table := s.FullTable()
	for e := range list {
		list[e] = cmt.Settings(s, table, e)
	}
	return list
}

// tapQueue is the queue of the host TAP that the first engine's queue has.
func (d *Device) tapQueue(q uint16) uint16 {
	if d.coupled == nil {
		return q
	}
	return uint16(cmt.Queue(0, int(q)))
}

// steer takes a frame of the operating system's from the wire if the second
// engine gets it, or nobody; false: it is the first's.
func (d *Device) steer(f *frame.Frame) bool {
	c := d.coupled
	engine, r := c.steering.Engine(f)
	switch {
	case r != frame.DropNone:
		d.host.Drop(port.Out{Frame: f}, r, d.now)
	case engine == 0:
		return false
	default:
		f.Queue = fromVport
		if c.unflushed = true; !c.second.in.Push(f) {
			f.Queue = 0
			d.host.Drop(port.Out{Frame: f}, nicdrop.EngineRing, d.now)
		}
	}
	return true
}

// flush ends a batch for the second engine.
func (c *engines) flush() {
	if c != nil && c.unflushed {
		c.unflushed = false
		c.second.in.Flush()
	}
}

// toSecondHost takes a frame of the operating system that came by a queue of the
// second engine, which the NIC drives.
func (d *Device) toSecondHost(f *frame.Frame) bool {
	c := d.coupled
	if c == nil || c.apart || cmt.Hwfn(int(f.Queue)) != 1 {
		return false
	}
	c.second.now = d.now
	c.second.fromHost(f)
	return true
}

// failoverTx has the second engine send a frame of the first, which has failed.
func (d *Device) failoverTx(f *frame.Frame) bool {
	c := d.coupled
	if c == nil || c.states[0] != EngineFailed {
		return false
	}
	switch {
	case c.states[1] == EngineFailed:
		d.wire.Drop(port.Out{Frame: f}, nicdrop.Engine, d.now)
	case !c.second.in.Push(f):
		d.wire.Drop(port.Out{Frame: f}, nicdrop.EngineRing, d.now)
	default:
		c.resent++
		c.unflushed = true
	}
	return true
}

// pollCoupled sends what the second engine has for the wire, and returns when it
// wants to be called again.
func (d *Device) pollCoupled() frame.Time {
	c, next := d.coupled, frame.Never
	if c == nil || c.second == nil {
		return next
	}
	c.flush()
	if !c.apart {
		next = c.second.Poll(d.now)
	}
	ring, taken := c.second.out, false
	for d.wire.Room() > 0 && d.wire.Waiting() == 0 {
		f, more := ring.Take(d.pool)
		if f == nil && !more {
			break
		}
		taken = true
		if f == nil {
			d.common.Drops.Count(drop.NoBuffer)
			continue
		}
		d.fromSecond(f)
	}
	ring.Taken()
	c.flush()
	if !c.apart {
		c.second.in.Reclaim()
		c.second.out.Reclaim()
		if taken && c.second.netdev.Waiting() > 0 {
			return d.now
		}
	}
	return next
}

// fromSecond takes a frame of the operating system that the second engine passes
// on: sent by its vport, or not because it has failed.
func (d *Device) fromSecond(f *frame.Frame) {
	c := d.coupled
	if d.IP.OwnsSent(f.Bytes()) {
		d.host.Refuse(f, nicdrop.Owned, d.now)
		return
	}
	if d.PTP.On() {
		d.PTP.Request(f, d.now)
	}
	if f.Queue != fromVport {
		if c.states[0] == EngineFailed {
			d.wire.Drop(port.Out{Frame: f}, nicdrop.Engine, d.now)
			return
		}
		c.resent++
		d.fromHost(f)
		return
	}
	f.Queue = 0
	c.sent[1]++
	d.wire.Send(port.Out{Frame: f}, d.now)
}

// rxDegraded gives a verdict on a frame of the wire while the first engine has
// failed: what is the offload engine's is nobody's, the rest may be the second's.
// False: it works.
func (d *Device) rxDegraded(p *ip.Packet) bool {
	if d.coupled == nil || d.coupled.states[0] != EngineFailed {
		return false
	}
	p.Verdict = ip.ToHost
	if d.function == nil || d.IP.OwnsReceived(p.Frame.Bytes()) {
		p.Verdict = p.Discard(nicdrop.Engine)
	}
	return true
}

// checkCoupled tells whether both engines can be as cfg says.
func (d *Device) checkCoupled(cfg *Config) error {
	if d.function == nil {
		return nil
	}
	for _, s := range d.halves(cfg) {
		if err := d.function.Check(s); err != nil {
			return fmt.Errorf("host function: %w", err)
		}
	}
	return nil
}

// setCoupled makes both engines as cfg says, which was checked: each command goes
// to both.
func (d *Device) setCoupled(cfg *Config) error {
	c := d.coupled
	llh, err := cfg.llh()
	if err != nil {
		return err
	}
	c.steering.LLH = llh
	if d.function == nil {
		return d.setStates(cfg)
	}
	settings := d.halves(cfg)
	c.steering.SetHash(settings[1].Key, settings[1].Hashes)
	if err = cfg.CMT.States[0].apply(d.function.Netdev, settings[0], d.core.open); err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	state := cfg.CMT.States[1]
	c.call(func() {
		c.second.failed = state == EngineFailed
		if err = state.apply(c.second.netdev, settings[1], d.core.open); err == nil {
			err = c.second.irq.setTimes(&cfg.Interrupts, c.second.now)
		}
	})
	if err != nil {
		return fmt.Errorf("host function, engine 1: %w", err)
	}
	return d.setStates(cfg)
}

// setStates notes which engines have failed, and tells the driver core of it, or
// that they are back.
func (d *Device) setStates(cfg *Config) error {
	c := d.coupled
	for e, state := range cfg.CMT.States {
		was := c.states[e]
		c.states[e] = state
		c.steering.SetFailed(e, state == EngineFailed)
		if state == was || d.core.dev == nil || d.core.dev.State() != ecore.Running {
			continue
		}
		switch {
		case state == EngineFailed:
			d.core.dev.Hwfns[e].HWError(ecore.HWAttn, fmt.Errorf("engine %d has failed", e))
		case was == EngineFailed && !slices.Contains(cfg.CMT.States[:], EngineFailed):
			if err := d.core.dev.Recovered(); err != nil {
				return err
			}
		}
	}
	return nil
}

// look runs fn where it may read the second engine; not at all without one.
func (c *engines) look(fn func(e *Engine)) {
	if c != nil && c.second != nil {
		c.call(func() { fn(c.second) })
	}
}

// setTracer has the second engine trace, too, and returns the tracer for the
// first.
func (c *engines) setTracer(t frame.Tracer) frame.Tracer {
	if c == nil || c.second == nil {
		return t
	}
	if t != nil && c.guard != nil {
		t = c.guard(t)
	}
	c.look(func(e *Engine) { e.tracer = t })
	return t
}
