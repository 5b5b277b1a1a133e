package al

import (
	"fmt"
	"slices"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// CA is a registered device. GUID, Name and Do may be used from any thread,
// the rest on the device's own.
type CA struct {
	ci    CI
	layer *Layer
	guid  verbs.GUID
	name  string
	attr  verbs.DeviceAttr

	devices  []*Device // by attachment
	contexts []*Context
	leaving  bool
	gone     []func(now frame.Time) // of Deregister
	removed  bool
	sma      sma
	consumed [verbs.NumEventTypes]uint64
}

// GUID names the device for good.
func (ca *CA) GUID() verbs.GUID { return ca.guid }

// Name is the device's name.
func (ca *CA) Name() string { return ca.name }

// Do runs fn on the device's thread.
func (ca *CA) Do(fn func(now frame.Time)) { ca.do(fn) }

// Attr is what the layer learned of the device when it was registered.
func (ca *CA) Attr() verbs.DeviceAttr { return ca.attr }

// Layer is where the device is registered.
func (ca *CA) Layer() *Layer { return ca.layer }

// Verbs is the device itself.
func (ca *CA) Verbs() *verbs.Device { return ca.ci.Verbs }

// Contexts returns the open contexts in order of opening, borrowed.
func (ca *CA) Contexts() []*Context { return ca.contexts }

// Consumed is how many events of type t ended here: those that no one above
// wants to know of.
func (ca *CA) Consumed(t verbs.EventType) uint64 { return ca.consumed[t] }

// do runs fn on the device's thread. With one thread that is at once, but
// behind the handlers if one of them is running.
func (ca *CA) do(fn func(now frame.Time)) {
	switch {
	case ca.ci.Do != nil:
		ca.ci.Do(fn)
	case ca.ci.Verbs.InCallback():
		ca.ci.Verbs.Defer(fn)
	default:
		fn(ca.Now())
	}
}

// Now is the time on the device's thread.
func (ca *CA) Now() frame.Time {
	if ca.ci.Now == nil {
		return 0
	}
	return ca.ci.Now()
}

// load is what the access layer does with a new device before its clients
// hear of it: open, query, take its events.
func (ca *CA) load() {
	ca.attr = ca.ci.Verbs.Attr()
	ca.ci.Verbs.OnAsync(func(ev verbs.AsyncEvent, now frame.Time) { ca.lower(ev, nil, now) })
}

// Device is a registered device as one client sees it.
type Device struct {
	ca      *CA
	reg     *registration
	refs    int // contexts
	leaving bool
	done    []func(now frame.Time)

	// Value is the client's own.
	Value any
}

// CA is the device itself, which its other clients have too.
func (d *Device) CA() *CA { return d.ca }

// GUID names the device for good.
func (d *Device) GUID() verbs.GUID { return d.ca.guid }

// Name is the device's name.
func (d *Device) Name() string { return d.ca.name }

// Attr is what the layer learned of the device when it was registered.
func (d *Device) Attr() verbs.DeviceAttr { return d.ca.attr }

// Do runs fn on the device's thread.
func (d *Device) Do(fn func(now frame.Time)) { d.ca.do(fn) }

// Schedule runs fn on the device's thread at a time, as far as its vendor
// offers that, until the device leaves. Call it on the device's thread.
func (d *Device) Schedule(at frame.Time, fn func(now frame.Time)) (cancel func()) {
	if d.ca.ci.Schedule == nil {
		return func() {}
	}
	return d.ca.ci.Schedule(at, func(now frame.Time) {
		if !d.leaving {
			fn(now)
		}
	})
}

// CM is the device's connection manager, nil if it has none.
func (d *Device) CM() *cm.Manager { return d.ca.ci.CM }

// Open makes a context of the client, a reference that keeps the device.
func (d *Device) Open(h EventHandler, value any) (*Context, error) {
	if d.leaving {
		return nil, fmt.Errorf("open %s: %w", d.ca.name, ErrLeaving)
	}
	return d.ca.open(d, h, value)
}

// Open makes a context that belongs to no client. Its handler is told
// DEVICE_FATAL when the device leaves; it must then be closed.
func (ca *CA) Open(h EventHandler, value any) (*Context, error) {
	if ca.leaving {
		return nil, fmt.Errorf("open %s: %w", ca.name, ErrLeaving)
	}
	return ca.open(nil, h, value)
}

func (ca *CA) open(d *Device, h EventHandler, value any) (*Context, error) {
	v, err := ca.ci.Verbs.Open(value)
	if err != nil {
		return nil, err
	}
	c := &Context{Context: v, ca: ca, dev: d, handler: h}
	v.Private = c
	ca.contexts = append(ca.contexts, c)
	if d != nil {
		d.refs++
	}
	return c, nil
}

// attach begins a client's use of the device, unless it has begun already.
func (ca *CA) attach(r *registration, now frame.Time) {
	if ca.leaving || ca.device(r) != nil || !r.wants(&ca.attr) {
		return
	}
	d := &Device{ca: ca, reg: r}
	ca.devices = append(ca.devices, d)
	r.client.Add(d, now)
}

func (ca *CA) device(r *registration) *Device {
	for _, d := range ca.devices {
		if d.reg == r {
			return d
		}
	}
	return nil
}

// detach ends a client's use; done follows when its last context is closed.
func (ca *CA) detach(r *registration, done func(now frame.Time), now frame.Time) {
	d := ca.device(r)
	if d == nil {
		done(now)
		return
	}
	d.done = append(d.done, done)
	ca.lower(verbs.AsyncEvent{Type: verbs.EventDetach}, r, now)
	d.dropIfLeft(now)
}

// tell calls the client's Remove, once.
func (d *Device) tell(now frame.Time) {
	if !d.leaving {
		d.leaving = true
		d.reg.client.Remove(d, now)
	}
}

// dropIfLeft drops the device from the list when its client has let go of it.
func (d *Device) dropIfLeft(now frame.Time) {
	i := slices.Index(d.ca.devices, d)
	if !d.leaving || d.refs > 0 || i < 0 {
		return
	}
	d.ca.devices = slices.Delete(d.ca.devices, i, i+1)
	for _, done := range d.done {
		done(now)
	}
}

// unload takes the device from its clients, the last one first.
func (ca *CA) unload(done func(now frame.Time), now frame.Time) {
	if done != nil {
		ca.gone = append(ca.gone, done)
	}
	if !ca.leaving {
		ca.leaving = true
		if !ca.ci.Verbs.Removed() { // else they have been told
			for _, c := range slices.Clone(ca.contexts) {
				if c.dev == nil {
					c.deliver(Event{Type: DeviceFatal, Context: c, Err: ErrLeaving}, now)
				}
			}
		}
		ca.next(now)
		return
	}
	ca.finish(now)
}

// next detaches the last client that is left.
func (ca *CA) next(now frame.Time) {
	if n := len(ca.devices); n > 0 {
		ca.detach(ca.devices[n-1].reg, ca.next, now)
		return
	}
	ca.finish(now)
}

// finish completes Deregister when nothing refers to the device.
func (ca *CA) finish(now frame.Time) {
	if !ca.leaving || len(ca.devices)+len(ca.contexts) > 0 {
		return
	}
	if !ca.removed {
		ca.removed = true
		ca.ci.Verbs.OnAsync(nil)
	}
	gone := ca.gone
	ca.gone = nil
	for _, done := range gone {
		done(now)
	}
}

// Fail is a hot removal: the device is gone. DEVICE_FATAL is sent, the queue
// pairs are flushed and connections end with DeviceRemoved, then clients are
// told as by Deregister.
func (ca *CA) Fail(why error, done func(now frame.Time)) {
	ca.do(func(now frame.Time) {
		ca.ci.Verbs.Fail(why)
		if ca.ci.CM != nil {
			ca.ci.CM.Remove(now)
		}
		ca.ci.Verbs.Defer(func(frame.Time) { ca.Deregister(done) })
	})
}

// Reclaim closes every context with all that was made through it, for owners
// that do not do so themselves. It must not be called from within a callback.
func (ca *CA) Reclaim(now frame.Time) error {
	for _, c := range slices.Clone(ca.contexts) {
		if err := c.Reclaim(now); err != nil {
			return err
		}
	}
	return nil
}

// Context is an open device. Its verbs make objects; Close and its kin here
// stand before those of verbs.Context, so that the layer learns of them.
type Context struct {
	*verbs.Context
	ca      *CA
	dev     *Device // nil: opened by OpenCA
	handler EventHandler
}

// CA is the device.
func (c *Context) CA() *CA { return c.ca }

// Client is the device as the client has it that opened the context; nil: none
// did.
func (c *Context) Client() *Device { return c.dev }

// Close ends the context; ErrBusy while it has objects.
func (c *Context) Close() error {
	if err := c.Context.Close(); err != nil {
		return err
	}
	c.closed(c.ca.Now())
	return nil
}

// CloseAsync is Close, from anywhere; done, which may be nil, is told its
// outcome.
func (c *Context) CloseAsync(done func(error)) {
	c.ca.ci.Verbs.Defer(func(frame.Time) {
		err := c.Close()
		if done != nil {
			done(err)
		}
	})
}

// Reclaim destroys everything of the context and closes it: the one place to
// clean up after an owner that ended without doing so.
func (c *Context) Reclaim(now frame.Time) error {
	if err := c.Device().Reclaim(c.Context); err != nil {
		return err
	}
	c.closed(now)
	return nil
}

// closed drops the reference.
func (c *Context) closed(now frame.Time) {
	i := slices.Index(c.ca.contexts, c)
	if i < 0 {
		return
	}
	c.ca.contexts = slices.Delete(c.ca.contexts, i, i+1)
	if c.dev != nil {
		c.dev.refs--
		c.dev.dropIfLeft(now)
	}
	c.ca.finish(now)
}
