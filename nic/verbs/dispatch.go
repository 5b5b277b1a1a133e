package verbs

import "tapir/wire/frame"

// Runner is a queued handler.
type Runner interface{ Run(now frame.Time) }

// dispatcher queues the handlers of a device.
type dispatcher struct {
	pending, running []queued
	deferred         []func(frame.Time)
	callbacks        int // handlers under way
}

// queued is a handler, or a completion queue whose handler is to be called: a
// notification allocates nothing, and costs one call.
type queued struct {
	run Runner
	cq  *CQ
}

// Enqueue queues r to be run, as a callback, by the next Dispatch.
func (d *dispatcher) Enqueue(r Runner) { d.pending = append(d.pending, queued{run: r}) }

// Defer queues fn to be run by the next Dispatch (or the current one, when
// called from a handler) behind the handlers and outside of any callback, so
// that it may destroy objects.
func (d *dispatcher) Defer(fn func(now frame.Time)) { d.deferred = append(d.deferred, fn) }

// InCallback tells whether a handler is running.
func (d *dispatcher) InCallback() bool { return d.callbacks > 0 }

// Pending tells whether Dispatch has something to run.
func (d *dispatcher) Pending() bool { return len(d.pending)+len(d.deferred) > 0 }

// Dispatch runs the handlers queued so far, in order, then the deferred
// functions. What these queue in turn waits for the next call. It reports
// whether anything ran.
func (d *dispatcher) Dispatch(now frame.Time) bool {
	if d.callbacks > 0 || !d.Pending() {
		return false
	}
	d.pending, d.running = d.running[:0], d.pending
	d.callbacks++
	for i, q := range d.running {
		d.running[i] = queued{}
		c := q.cq
		if c == nil {
			q.run.Run(now)
			continue
		}
		c.queued = false
		switch {
		case c.dead:
		case c.channel != nil:
			c.channel.notified(c, now)
		case c.handler != nil:
			c.handler(c, now)
		}
	}
	d.callbacks--
	deferred := d.deferred
	d.deferred = nil
	for _, fn := range deferred {
		fn(now)
	}
	return true
}
