package al

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// device makes a device without transport, the n-th of its world.
func device(n byte) *verbs.Device {
	d := verbs.NewDevice(verbs.Limits{}, rand.NewPCG(0, uint64(n)))
	d.SetIdentity(verbs.Identity{
		Name: fmt.Sprint("nic", n), GUID: verbs.GUIDFromMAC(ether.Addr{2, 0, 0, 0, 0, n}), VendorPartID: 0x99,
	})
	return d
}

func register(t *testing.T, l *Layer, n byte) *CA {
	t.Helper()
	ca, err := l.RegisterCI(CI{Verbs: device(n)})
	ok(t, err)
	return ca
}

// dropIfLeft runs what is queued in a device.
func dropIfLeft(ca *CA) {
	for ca.Verbs().Dispatch(7) {
	}
}

// client writes down what it is told, with its name, into a log that several
// share; it opens a context of each device, and closes it on removal if prompt.
type client struct {
	t      *testing.T
	name   string
	log    *[]string
	prompt bool
	open   map[string]*Context
	last   *Device
}

func (c *client) Add(d *Device, _ frame.Time) {
	*c.log = append(*c.log, c.name+" add "+d.Name())
	ctx, err := d.Open(c, c.name)
	ok(c.t, err)
	c.open[d.Name()] = ctx
	c.last = d
}

func (c *client) Remove(d *Device, _ frame.Time) {
	*c.log = append(*c.log, c.name+" remove "+d.Name())
	if _, err := d.Open(nil, nil); !errors.Is(err, ErrLeaving) {
		c.t.Errorf("open while leaving: %v", err)
	}
	if c.prompt {
		ok(c.t, c.open[d.Name()].Close())
	}
}

func (c *client) AsyncEvent(ev Event, _ frame.Time) {
	if ev.Context.Value != c.name {
		c.t.Errorf("%v with the context of %v", ev.Type, ev.Context.Value)
	}
	*c.log = append(*c.log, fmt.Sprint(c.name, " ", ev.Type))
}

func newClient(t *testing.T, name string, log *[]string, prompt bool) *client {
	return &client{t: t, name: name, log: log, prompt: prompt, open: map[string]*Context{}}
}

func expect(t *testing.T, what string, log *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*log, want) {
		t.Errorf("%s:\ngot  %s\nwant %s", what, strings.Join(*log, "; "), strings.Join(want, "; "))
	}
	*log = nil
}

func TestOpenByGUIDAndName(t *testing.T) {
	l := New(nil)
	a, b := register(t, l, 1), register(t, l, 2)
	if got := l.Devices(); !slices.Equal(got, []*CA{a, b}) {
		t.Errorf("devices %v", got)
	}
	if a.Attr().VendorPartID != 0x99 || a.Attr().Ports != 1 {
		t.Errorf("the layer did not query the device: %+v", a.Attr())
	}
	value := new(int)
	c1, err := l.OpenCA(b.GUID(), nil, value)
	ok(t, err)
	c2, err := l.OpenName("nic1", nil, nil)
	ok(t, err)
	if c1.CA() != b || c1.Value != value || c2.CA() != a {
		t.Error("wrong device or value")
	}
	if _, err := l.OpenCA(verbs.GUID{1}, nil, nil); !errors.Is(err, ErrNoDevice) {
		t.Error(err)
	}
	if _, err := l.OpenName("nic9", nil, nil); !errors.Is(err, ErrNoDevice) {
		t.Error(err)
	}
	if _, err := l.RegisterCI(CI{Verbs: device(1)}); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if _, err := l.RegisterCI(CI{Verbs: verbs.NewDevice(verbs.Limits{}, rand.NewPCG(0, 1))}); !errors.Is(err, verbs.ErrInvalid) {
		t.Error(err)
	}
}

func TestClientsHearOfEveryDevice(t *testing.T) {
	l := New(nil)
	var log []string
	register(t, l, 1)
	kv := newClient(t, "kv", &log, true)
	unregister := l.RegisterClient(kv)
	expect(t, "present at once", &log, "kv add nic1")
	l.RegisterClient(newClient(t, "other hardware", &log, true), ID{verbs.VendorID, 0x98}, ID{1, 0x99})
	ca := register(t, l, 2)
	fs := newClient(t, "fs", &log, true)
	l.RegisterClient(fs, ID{1, 0x99}, ID{verbs.VendorID, 0x99})
	expect(t, "hot add", &log, "kv add nic2", "fs add nic1", "fs add nic2")
	register(t, l, 3)
	expect(t, "in order of registration", &log, "kv add nic3", "fs add nic3")
	gone := 0
	ca.Deregister(func(frame.Time) { gone++ })
	expect(t, "the last client first", &log, "fs remove nic2", "kv remove nic2")
	unregistered := 0
	unregister(func() { unregistered++ })
	expect(t, "unregister", &log, "kv remove nic1", "kv remove nic3")
	register(t, l, 4)
	expect(t, "after it", &log, "fs add nic4")
	if gone != 1 || unregistered != 1 {
		t.Errorf("done %d and %d times", gone, unregistered)
	}
}

// Deregister waits for each client in turn, then for contexts of no client.
func TestDeregisterWaitsForReferences(t *testing.T) {
	l := New(nil)
	var log []string
	ca := register(t, l, 1)
	a, b := newClient(t, "a", &log, false), newClient(t, "b", &log, false)
	l.RegisterClient(a)
	l.RegisterClient(b)
	direct, err := l.OpenCA(ca.GUID(), EventFunc(func(ev Event, _ frame.Time) { log = append(log, "direct "+ev.Type.String()) }), nil)
	ok(t, err)
	pd, err := b.open["nic1"].AllocPD()
	ok(t, err)
	log = nil

	gone := 0
	ca.Deregister(func(frame.Time) { gone++ })
	expect(t, "begin", &log, "direct DEVICE_FATAL", "b remove nic1")
	if _, err := l.Find(ca.GUID()); !errors.Is(err, ErrNoDevice) {
		t.Errorf("still listed: %v", err)
	}
	if _, err := ca.Open(nil, nil); !errors.Is(err, ErrLeaving) {
		t.Errorf("open while leaving: %v", err)
	}
	if err := b.open["nic1"].Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("close with a PD: %v", err)
	}
	ok(t, pd.Dealloc(), b.open["nic1"].Close())
	expect(t, "b has let go", &log, "a remove nic1")
	closed := errors.New("not yet")
	a.open["nic1"].CloseAsync(func(err error) { closed = err })
	dropIfLeft(ca)
	if closed != nil || gone != 0 {
		t.Errorf("asynchronous close: %v, done %d", closed, gone)
	}
	ca.Deregister(func(frame.Time) { gone++ })
	ok(t, direct.Close())
	expect(t, "end", &log)
	if gone != 2 {
		t.Errorf("two calls, %d answers", gone)
	}
	ca.Deregister(func(frame.Time) { gone++ })
	if gone != 3 || len(ca.Verbs().Objects()) != 0 {
		t.Errorf("a late call: %d answers; left %v", gone, ca.Verbs().Objects())
	}
}

// unregister waits for its own client only.
func TestUnregisterWaits(t *testing.T) {
	l := New(nil)
	var log []string
	ca := register(t, l, 1)
	a, b := newClient(t, "a", &log, false), newClient(t, "b", &log, false)
	leave := l.RegisterClient(a)
	l.RegisterClient(b)
	done := false
	leave(func() { done = true })
	if done {
		t.Error("done with an open context")
	}
	ok(t, a.open["nic1"].Close())
	if !done || len(ca.Contexts()) != 1 {
		t.Error("b's context does not concern a")
	}
	leave(nil)
}

// A device that fails tells its contexts, flushes, and then leaves.
func TestFail(t *testing.T) {
	l := New(nil)
	var log []string
	ca := register(t, l, 1)
	c := newClient(t, "kv", &log, true)
	l.RegisterClient(c)
	gone := false
	ca.Fail(errors.New("unplugged"), func(frame.Time) { gone = true })
	if gone {
		t.Error("gone before the handlers ran")
	}
	dropIfLeft(ca)
	expect(t, "hot removal", &log, "kv add nic1", "kv DEVICE_FATAL", "kv PORT_ERR", "kv remove nic1")
	if !gone || len(ca.Contexts()) != 0 {
		t.Error("not gone")
	}
	ok(t, func() error { _, err := l.RegisterCI(CI{Verbs: device(1)}); return err }())
	expect(t, "it comes back", &log, "kv add nic1")
}

// A client that keeps its context is cleaned up after.
func TestReclaim(t *testing.T) {
	l := New(nil)
	var log []string
	ca := register(t, l, 1)
	c := newClient(t, "kv", &log, false)
	l.RegisterClient(c)
	_, err := c.open["nic1"].AllocPD()
	ok(t, err)
	gone := false
	ca.Deregister(func(frame.Time) { gone = true })
	ok(t, ca.Reclaim(0))
	if !gone || len(ca.Verbs().Objects()) != 0 {
		t.Errorf("gone %v, left %v", gone, ca.Verbs().Objects())
	}
}

// Inside a handler Deregister only begins behind the handlers, so that Remove
// may destroy objects.
func TestDeregisterFromHandler(t *testing.T) {
	l := New(nil)
	var log []string
	ca := register(t, l, 1)
	l.RegisterClient(newClient(t, "kv", &log, true))
	gone := false
	ctx, err := ca.Open(EventFunc(func(ev Event, _ frame.Time) {
		if ev.Type == PortErr {
			ca.Deregister(func(frame.Time) { gone = true })
			if err := ev.Context.Close(); !errors.Is(err, verbs.ErrInCallback) {
				t.Errorf("close in a handler: %v", err)
			}
			ev.Context.CloseAsync(nil)
		}
	}), nil)
	ok(t, err)
	ca.Verbs().SetCarrier(false)
	dropIfLeft(ca)
	if !gone || ctx.Close() == nil {
		t.Error("not gone")
	}
}

// With a guard and devices that answer later, as in a process with a thread
// per NIC, nothing is lost or doubled.
func TestDeferredThreads(t *testing.T) {
	depth := 0
	l := New(func(fn func()) {
		if depth++; depth > 1 {
			t.Error("guard entered twice")
		}
		fn()
		depth--
	})
	var mail []func(frame.Time)
	run := func() {
		for len(mail) > 0 {
			fn := mail[0]
			mail = mail[1:]
			fn(1)
		}
	}
	ci := CI{Verbs: device(1), Do: func(fn func(frame.Time)) { mail = append(mail, fn) }}
	var log []string
	ca, err := l.RegisterCI(ci)
	ok(t, err)
	leave := l.RegisterClient(newClient(t, "a", &log, true))
	leave(nil)
	l.RegisterClient(newClient(t, "b", &log, true))
	gone := 0
	ca.Deregister(func(frame.Time) { gone++ })
	expect(t, "nothing yet", &log)
	run()
	expect(t, "in order", &log, "a add nic1", "a remove nic1", "b add nic1", "b remove nic1")
	if gone != 1 {
		t.Errorf("gone %d times", gone)
	}
}
