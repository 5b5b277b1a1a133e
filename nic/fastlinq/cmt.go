package fastlinq

import (
	"fmt"
	"slices"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/hardware"
	"tapir/nic/msglog"
	"tapir/nic/nicdrop"
	"tapir/nic/pacing"
	"tapir/nic/view"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// engines is what a NIC of two engines has beside the first, which is Device's
// own: the second, and what decides between them. nil: there is one.
type engines struct {
	steering *cmt.Steering
	second   *SecondEngine
	states   [cmt.Engines]settings.EngineState
	// call runs a function on the second engine's thread and returns after it;
	// apart: that is not the NIC's.
	call  func(fn func())
	apart bool
	guard func(frame.Tracer) frame.Tracer

	// pacing is the second engine's place in the transmit scheduler, next to the
	// vports of the first.
	pacing *pacing.Node
	logs   bool // the second engine tells of frames that it drops

	sent      [cmt.Engines]uint64 // frames of each engine's vport, to the wire
	resent    uint64              // sent in a failed engine's stead
	unflushed bool                // the second engine has not been told of frames in its ring
}

// newSecond starts the second engine. Without a host function it has nothing to
// do, but it is there.
func (d *Device) newSecond(host frame.Link, s *hardware.Second) error {
	llh, err := d.cfg.LLH()
	if err != nil {
		return err
	}
	c := &engines{steering: cmt.NewSteering(llh), call: func(fn func()) { fn() }}
	c.steering.SetHash(settings.KeyByChance(d.cfg.RSSKey), l2.DefaultHash)
	d.cmt = c
	if !d.host {
		return d.setStates(&d.cfg)
	}
	c.pacing = d.both.Child(true)
	e := &SecondEngine{pool: d.pool, system: d.system, host: host, in: new(cmt.Ring), out: new(cmt.Ring)}
	c.second = e
	if s != nil {
		c.call, c.apart, c.guard = nested(s.Call), true, s.Guard
		e.pool, e.host = s.Pool, s.Host
		e.in.Bells(s.Wake, s.WakeFirst)
		e.out.Bells(s.WakeFirst, s.Wake)
	}
	want, err := d.cfg.Blocks(d.adapter.blocks(d, d.ownQueues()+d.verbs.Limits().MaxCNQ))
	if err != nil {
		return err
	}
	halves := d.halves(&d.cfg)
	c.steering.SetHash(halves[1].Key, halves[1].Hashes)
	c.call(func() {
		if err = e.compose(&d.cfg, want, &slowpath{d: d, hwfn: 1}, halves[1]); err == nil {
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

// steer takes a frame of the operating system's from the wire if the second
// engine gets it, or nobody; false: it is the first's.
func (d *Device) steer(f *frame.Frame) bool {
	c := d.cmt
	engine, r := c.steering.Engine(f)
	switch {
	case r != frame.DropNone:
		d.nic.Drop(frame.Host, f, r)
	case engine == 0:
		return false
	default:
		f.Queue = fromVport
		if c.unflushed = true; !c.second.in.Push(f) {
			f.Queue = 0
			d.nic.Drop(frame.Host, f, nicdrop.EngineRing)
		}
	}
	return true
}

// fill is how full the ring to the second engine is, in parts of pacing.Full.
func (c *engines) fill() int {
	if c == nil || c.second == nil {
		return 0
	}
	return c.second.in.Len() * pacing.Full / cmt.RingFrames
}

// flush ends a batch for the second engine.
func (c *engines) flush() {
	if c != nil && c.unflushed {
		c.unflushed = false
		c.second.in.Flush()
	}
}

// failoverTx has the second engine send a frame of the first, which has failed.
func (d *Device) failoverTx(f *frame.Frame) bool {
	c := d.cmt
	if c == nil || c.states[0] != settings.EngineFailed {
		return false
	}
	switch {
	case c.states[1] == settings.EngineFailed:
		d.nic.Drop(frame.Wire, f, nicdrop.Engine)
	case !c.second.in.Push(f):
		d.nic.Drop(frame.Wire, f, nicdrop.EngineRing)
	default:
		c.resent++
		c.unflushed = true
	}
	return true
}

// pollSecond sends what the second engine has for the wire, and returns when it
// wants to be called again.
func (d *Device) pollSecond(now frame.Time) frame.Time {
	c, next := d.cmt, frame.Never
	if c == nil || c.second == nil {
		return next
	}
	if on := d.log.On(msglog.Drop); on != c.logs {
		c.logs = on
		c.second.logs.Store(on)
	}
	c.flush()
	if !c.apart {
		next = c.second.Poll(now)
	}
	ring, taken := c.second.out, false
	for ring.Len() > 0 && d.nic.WireRoom() > 0 && c.pacing.Ready() {
		f, more := ring.Take(d.pool)
		if f == nil && !more {
			break
		}
		taken = true
		if f == nil {
			d.drops.Count(drop.NoBuffer)
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
			return now
		}
	}
	return next
}

// fromSecond takes a frame of the operating system that the second engine passes
// on: sent by its vport, or not because it has failed.
func (d *Device) fromSecond(f *frame.Frame) {
	c := d.cmt
	if port, r := dropped(f); r != frame.DropNone {
		d.log.Dropped(port, frame.Outbound, f.Bytes(), r)
		f.Release()
		return
	}
	if !d.nic.Admit(f) {
		return
	}
	if f.Queue != fromVport {
		if c.states[0] == settings.EngineFailed {
			d.nic.Drop(frame.Wire, f, nicdrop.Engine)
			return
		}
		c.resent++
		hostFunction{d}.FromHost(f)
		return
	}
	f.Queue = 0
	c.sent[1]++
	if c.pacing.Counts() {
		all, _ := pacing.Octets(f, 0)
		c.pacing.Spend(all)
	}
	d.nic.ToWire(f)
}

// setEngines makes both engines as cfg says, which was checked: each command goes
// to both.
func (d *Device) setEngines(cfg *settings.NIC) error {
	c := d.cmt
	llh, err := cfg.LLH()
	if err != nil {
		return err
	}
	c.steering.LLH = llh
	if d.function == nil {
		return d.setStates(cfg)
	}
	halves := d.halves(cfg)
	c.steering.SetHash(halves[1].Key, halves[1].Hashes)
	if err = applyState(cfg.CMT.States[0], d.function, halves[0], d.core.open); err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	state := cfg.CMT.States[1]
	c.call(func() {
		c.second.failed = state == settings.EngineFailed
		if err = applyState(state, c.second.netdev, halves[1], d.core.open); err == nil {
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
func (d *Device) setStates(cfg *settings.NIC) error {
	c := d.cmt
	for e, state := range cfg.CMT.States {
		was := c.states[e]
		c.states[e] = state
		c.steering.SetFailed(e, state == settings.EngineFailed)
		if e == 0 && state != was {
			d.nic.Failed(state == settings.EngineFailed)
		}
		if state == was || d.core.dev == nil || d.core.dev.State() != ecore.Running {
			continue
		}
		switch {
		case state == settings.EngineFailed:
			d.core.dev.Hwfns[e].HWError(ecore.HWAttn, fmt.Errorf("engine %d has failed", e))
		case was == settings.EngineFailed && !slices.Contains(cfg.CMT.States[:], settings.EngineFailed):
			if err := d.core.dev.Recovered(); err != nil {
				return err
			}
		}
	}
	return nil
}

// withSecond runs fn where it may read the second engine; not at all without one.
func (c *engines) withSecond(fn func(e *SecondEngine)) {
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
	c.withSecond(func(e *SecondEngine) { e.tracer = t })
	return t
}

// HostTraffic implements hardware.View: what the second engine has counted.
func (d display) HostTraffic() (n [4]uint64) {
	d.cmt.withSecond(func(e *SecondEngine) { n = [...]uint64{e.rxFrames, e.rxBytes, e.txFrames, e.txBytes} })
	return n
}

// Drops implements hardware.View.
func (d display) Drops() (sum frame.Drops) {
	sum = d.drops
	d.cmt.withSecond(func(e *SecondEngine) {
		add := func(more frame.Drops) {
			for r, n := range more {
				sum[r] += n
			}
		}
		add(e.drops)
		if l, ok := e.host.(interface{ Drops() frame.Drops }); ok && d.cmt.apart {
			add(l.Drops())
		}
	})
	return sum
}

// waiting is the number of frames on their way through the second engine.
func (c *engines) waiting() (n int) {
	c.withSecond(func(e *SecondEngine) { n = e.netdev.Waiting() + e.in.Len() + e.out.Len() })
	return n
}

// Counters implements hardware.View: those of two engines: frames of the operating system from the wire
// and to it by each, and what passed between them.
func (d display) Counters() (list []view.Counter) {
	c := d.cmt
	if c == nil {
		return d.partCounters()
	}
	s := c.steering.Stats()
	list = []view.Counter{
		view.Count("engine0_rx_packets", s.Frames[0]), view.Count("engine1_rx_packets", s.Frames[1]),
		view.Count("engine0_tx_packets", c.sent[0]), view.Count("engine1_tx_packets", c.sent[1]),
		view.Count("engine_pinned", s.Pinned), view.Count("engine_resteered", s.Resteered),
		view.Count("engine_resent", c.resent),
	}
	if c.second != nil {
		list = append(list, view.Count("engine_ring_batches", c.second.in.Stats().Batches))
	}
	return append(list, d.partCounters()...)
}

// SecondEngine is the second engine, nil if there is one.
func (d *Device) SecondEngine() *SecondEngine {
	if d.cmt == nil {
		return nil
	}
	return d.cmt.second
}

// Second is the second engine for the loop that drives it; nil: there is none, or
// the NIC drives it itself.
func (d *Device) Second() *SecondEngine {
	if d.cmt == nil || !d.cmt.apart {
		return nil
	}
	return d.cmt.second
}
