package verbs

import (
	"fmt"

	"tapir/wire/frame"
)

// Context is a device that someone has opened: it owns protection domains and
// completion queues, and through these everything else, and has a doorbell
// page (DPI) of its own.
type Context struct {
	object

	// Value is the owner's; nothing here looks at it.
	Value any
	// Private belongs to the layer above.
	Private any
}

// Open makes a context. ErrLimit means that all doorbell pages are taken,
// ErrRemoved that the device is gone, ErrNotStarted that it does no RDMA.
func (d *Device) Open(value any) (*Context, error) {
	o, err := d.add(kindContext, nil)
	if err != nil {
		return nil, fmt.Errorf("open device: %w", err)
	}
	c := &Context{object: o, Value: value}
	d.contexts.Add(c.num, c)
	return c, nil
}

// Contexts returns the open contexts in order of creation, borrowed.
func (d *Device) Contexts() []*Context { return d.contexts.All() }

// Device returns the device.
func (c *Context) Device() *Device { return c.dev }

// DPI is the number of the context's doorbell page within its device, from 1.
func (c *Context) DPI() uint32 { return c.num }

// AllocPD makes a protection domain of this context.
func (c *Context) AllocPD() (*PD, error) {
	return c.dev.allocPD(c)
}

// CreateCQ makes a completion queue of this context; vector, from 0, chooses
// the completion notification queue (CNQ) that counts its notifications.
func (c *Context) CreateCQ(entries, vector int, handler func(*CQ, frame.Time)) (*CQ, error) {
	return c.dev.createCQ(&c.object, c, entries, vector, handler)
}

// CreateCQ makes a completion queue that belongs to the domain, as the HCA
// driver kit has it (section 2.2): the domain stays while the queue is there.
// Queue pairs of any domain of the same context can use it.
func (p *PD) CreateCQ(entries, vector int, handler func(*CQ, frame.Time)) (*CQ, error) {
	return p.dev.createCQ(&p.object, p.ctx, entries, vector, handler)
}

// base is the object; c may be nil.
func (c *Context) base() *object {
	if c == nil {
		return nil
	}
	return &c.object
}

// Close ends the context: ErrBusy while a PD or CQ of it exists.
func (c *Context) Close() error {
	if err := c.mayDestroy(); err != nil {
		return err
	}
	c.gone()
	c.dev.contexts.Remove(c.num)
	return nil
}

// Query returns the device's attributes.
func (c *Context) Query() DeviceAttr { return c.dev.Attr() }

// QueryPort returns the attributes of port n; there is port 1 only.
func (c *Context) QueryPort(n uint8) (PortAttr, error) {
	if err := checkPort(n); err != nil {
		return PortAttr{}, err
	}
	return c.dev.PortAttr(), nil
}

// ModifyPort changes what mod names of port n and raises the events that
// follow.
func (c *Context) ModifyPort(n uint8, mod PortMod) error {
	if err := checkPort(n); err != nil {
		return err
	}
	return c.dev.ModifyPort(mod)
}

// GID returns entry i, from 0, of the GID table of port n.
func (c *Context) GID(n uint8, i int) (GID, error) {
	gids := c.dev.GIDs()
	if err := checkPort(n); err != nil {
		return GID{}, err
	}
	if i < 0 || i >= MaxGIDs {
		return GID{}, fmt.Errorf("GID %d of port %d, the table has %d entries: %w", i, n, MaxGIDs, ErrInvalid)
	}
	if i >= len(gids) {
		return GID{}, nil // an empty entry
	}
	return gids[i], nil
}

// PKey returns entry i, from 0, of the partition key table of port n.
func (c *Context) PKey(n uint8, i int) (uint16, error) {
	if err := checkPort(n); err != nil {
		return 0, err
	}
	if i < 0 || i >= len(c.dev.Port.pkeys) {
		return 0, fmt.Errorf("PKey %d of port %d, the table has %d entries: %w", i, n, len(c.dev.Port.pkeys),
			ErrInvalid)
	}
	return c.dev.Port.pkeys[i], nil
}
