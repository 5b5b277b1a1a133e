// Package al is the access layer: it knows the RDMA devices of a world by
// GUID, tells clients when one comes or goes, hands out contexts, and
// translates what a device reports into the events of the user ABI.
//
// A vendor registers its device with RegisterCI; the layer opens and queries
// it, takes its asynchronous events, and calls Add of every client. A device
// that leaves (Deregister, Fail) is taken from its clients in the reverse
// order, one after the other: Remove is called, and the next client's turn
// comes when the last context of that one is closed. Deregister cannot fail;
// it is done when nothing refers to the device any more.
//
// The layer is a state machine without goroutines or locks. What belongs to a
// device happens on that device's thread (CI.Do); what belongs to all happens
// inside the guard given to New. In virtual time both are the one thread
// there is. lab/node has the blocking form for real NICs.
package al

import (
	"errors"
	"fmt"
	"slices"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// Errors of this layer, beside those of verbs; test with errors.Is.
var (
	ErrExists   = errors.New("a device with this GUID is registered")
	ErrNoDevice = errors.New("no such device")
	ErrLeaving  = errors.New("device is being removed")
)

// CI is the channel interface: what a vendor registers of a device.
type CI struct {
	Verbs *verbs.Device // its Identity has GUID and name
	CM    *cm.Manager   // may be nil
	// Counters are those of the port; nil: nothing is counted.
	Counters func() ib.PortCounters
	// Do runs fn on the device's thread, at once or later, in the order of
	// the calls, and never from within a callback of the device. nil stands
	// for a world with one thread.
	Do func(fn func(now frame.Time))
	// Now is the time on the device's thread; nil stands for a world without.
	Now func() frame.Time
	// Schedule runs fn on the device's thread at a time, unless cancel is
	// called before; it may be nil.
	Schedule func(at frame.Time, fn func(now frame.Time)) (cancel func())
}

// Client wants to know of every device. Both methods are called on the
// device's thread, outside of callbacks: objects may be made and destroyed.
type Client interface {
	// Add tells of a device that can be used from now on.
	Add(d *Device, now frame.Time)
	// Remove tells that d leaves: the client closes the contexts that it
	// opened through d, now or later. Afterwards d must not be used.
	Remove(d *Device, now frame.Time)
}

// Layer is the registry of one world.
type Layer struct {
	guard   func(func())
	cas     []*CA // by registration
	clients []*registration
}

// ID names a kind of device, as the IDs of a PCI function do: DeviceAttr has a
// device's own.
type ID struct{ VendorID, PartID uint32 }

// registration is one RegisterClient.
type registration struct {
	client Client
	ids    []ID // of the devices that it hears of; none: all
}

// wants tells whether the client is to hear of a device.
func (r *registration) wants(a *verbs.DeviceAttr) bool {
	return len(r.ids) == 0 || slices.Contains(r.ids, ID{a.VendorID, a.VendorPartID})
}

// New returns an empty layer. guard runs its argument alone, as a mutex does;
// nil stands for a world with one thread. Nothing waits inside of it.
func New(guard func(func())) *Layer {
	if guard == nil {
		guard = func(fn func()) { fn() }
	}
	return &Layer{guard: guard}
}

// RegisterCI adds a device, whose Identity must have a GUID that no other one
// has: the layer opens and queries it, takes its events, then calls Add of
// every client in the order of their registration.
func (l *Layer) RegisterCI(ci CI) (*CA, error) {
	ca := &CA{ci: ci, layer: l, guid: ci.Verbs.Identity().GUID, name: ci.Verbs.Identity().Name}
	if ca.guid.IsZero() {
		return nil, fmt.Errorf("register device %q: a GUID is needed: %w", ca.name, verbs.ErrInvalid)
	}
	var err error
	l.guard(func() {
		if l.find(ca.guid) != nil {
			err = fmt.Errorf("register device %v: %w", ca.guid, ErrExists)
			return
		}
		l.cas = append(l.cas, ca)
		clients := slices.Clone(l.clients)
		ca.do(func(now frame.Time) {
			ca.load()
			for _, r := range clients {
				ca.lower(verbs.AsyncEvent{Type: verbs.EventAttach}, r, now)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return ca, nil
}

// Deregister takes the device out. done is called on the device's thread when
// every client has let go of it and every context is closed; it is called in
// any case, and only once, however often Deregister is.
func (ca *CA) Deregister(done func(now frame.Time)) {
	l := ca.layer
	l.guard(func() {
		if i := slices.Index(l.cas, ca); i >= 0 {
			l.cas = slices.Delete(l.cas, i, i+1)
		}
		ca.do(func(now frame.Time) { ca.unload(done, now) })
	})
}

// RegisterClient calls c.Add for every device that is present, and from now on
// for every one that comes; with ids, only for those that have one of these, as
// a bus tells a driver of the hardware it is for. unregister calls c.Remove for
// those present; done, which may be nil, is called when c has let go of all.
func (l *Layer) RegisterClient(c Client, ids ...ID) (unregister func(done func())) {
	r := &registration{c, ids}
	l.guard(func() {
		l.clients = append(l.clients, r)
		for _, ca := range slices.Clone(l.cas) {
			ca.do(func(now frame.Time) { ca.lower(verbs.AsyncEvent{Type: verbs.EventAttach}, r, now) })
		}
	})
	return func(done func()) { l.unregister(r, done) }
}

func (l *Layer) unregister(r *registration, done func()) {
	left := 1 // so that done waits for the end of this function
	drop := func() {
		last := false
		l.guard(func() { left--; last = left == 0 })
		if last && done != nil {
			done()
		}
	}
	l.guard(func() {
		if i := slices.Index(l.clients, r); i >= 0 {
			l.clients = slices.Delete(l.clients, i, i+1)
		}
		left += len(l.cas)
		for _, ca := range slices.Clone(l.cas) {
			ca.do(func(now frame.Time) { ca.detach(r, func(frame.Time) { drop() }, now) })
		}
	})
	drop()
}

// Devices returns the registered devices in the order of their registration.
func (l *Layer) Devices() (list []*CA) {
	l.guard(func() { list = slices.Clone(l.cas) })
	return list
}

// Find returns the device with that GUID, or ErrNoDevice.
func (l *Layer) Find(g verbs.GUID) (ca *CA, err error) {
	l.guard(func() { ca = l.find(g) })
	if ca == nil {
		return nil, fmt.Errorf("device %v: %w", g, ErrNoDevice)
	}
	return ca, nil
}

func (l *Layer) find(g verbs.GUID) *CA {
	for _, ca := range l.cas {
		if ca.guid == g {
			return ca
		}
	}
	return nil
}

// FindName returns the first device with that name, or ErrNoDevice.
func (l *Layer) FindName(name string) (*CA, error) {
	for _, ca := range l.Devices() {
		if ca.name == name {
			return ca, nil
		}
	}
	return nil, fmt.Errorf("device %q: %w", name, ErrNoDevice)
}

// OpenCA opens a device by GUID, on its thread. h, which may be nil, is told
// the device's events, DEVICE_FATAL before it goes among them; value is handed
// back as Context.Value.
func (l *Layer) OpenCA(g verbs.GUID, h EventHandler, value any) (*Context, error) {
	ca, err := l.Find(g)
	if err != nil {
		return nil, err
	}
	return ca.Open(h, value)
}

// OpenName is OpenCA by name.
func (l *Layer) OpenName(name string, h EventHandler, value any) (*Context, error) {
	ca, err := l.FindName(name)
	if err != nil {
		return nil, err
	}
	return ca.Open(h, value)
}
