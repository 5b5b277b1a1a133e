package umode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"tapir/nic/al"
	"tapir/nic/uapi/abi"
	"tapir/nic/umode/eventfile"
	"tapir/nic/verbs"
)

// Options are choices of Open; the zero value is good.
type Options struct {
	// Triggers is the vendor's library; nil stands for the one built in.
	Triggers *Triggers
	// NoLibrary does without one: posting and polling go through the proxy.
	NoLibrary bool
	// Trace, if set, is told of each step of each verb but those that a
	// bypass does.
	Trace func(v Verb, s Step)
	// Dir is where the NICs have their sockets; empty: where this user's are.
	Dir string
}

// Context is an open NIC.
type Context struct {
	session  *session
	dev      *file
	async    *eventfile.File
	vectors  int
	options  Options
	triggers *Triggers

	mu      sync.Mutex
	objects map[uint64]any // *CQ, *QP, *SRQ by the handle that events bring
	qps     map[uint32]*QP // by number
	handles uint64
	blocks  []*block
	cm      *manager
}

// newContext opens the device behind conn (taken), a sequenced packet socket
// whose other end a proxy.Session serves.
func newContext(conn *net.UnixConn, device string, options Options) (c *Context, err error) {
	c = &Context{session: newSession(conn), options: options, triggers: options.Triggers, objects: map[uint64]any{},
		qps: map[uint32]*QP{}}
	switch {
	case options.NoLibrary:
		c.triggers = withoutLibrary()
	case c.triggers == nil:
		c.triggers = ringLibrary()
	}
	if c.dev, err = c.session.open(device); err == nil {
		call := &Call{Verb: OpenCA, Object: c}
		err = c.run(call, func() error { return c.open(call) }, nil)
	}
	if err != nil {
		_ = c.session.close()
		return nil, err
	}
	return c, nil
}

func (c *Context) open(call *Call) error {
	b, err := c.execute(call, fields(response), 0)
	if err != nil {
		return err
	}
	c.vectors = int(native.Uint32(b[4:]))
	c.async, err = c.session.takeEvents(native.Uint32(b), "asynchronous events", false)
	return err
}

// File is the NIC's file of this context, which a library maps.
func (c *Context) File() *os.File { return c.dev.os }

// Close ends the use of the NIC: the proxy destroys what is left, connected
// queue pairs first, and all memory of Alloc is gone.
func (c *Context) Close() error {
	call := &Call{Verb: CloseCA, Object: c}
	return c.run(call, func() error {
		if c.cm != nil {
			c.cm.close()
		}
		var errs []error
		if err := c.dev.close(); !errors.Is(err, verbs.ErrRemoved) { // else the NIC has ended before
			errs = append(errs, err)
		}
		errs = append(errs, c.async.Close(), c.session.close())
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, b := range c.blocks {
			errs = append(errs, unix.Munmap(b.mem))
		}
		c.blocks = nil
		return errors.Join(errs...)
	}, nil)
}

// enter gives an object the handle that its events bring.
func (c *Context) enter(object any) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handles++
	c.objects[c.handles] = object
	return c.handles
}

func (c *Context) leave(handle uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, handle)
}

// Event is an asynchronous event of the NIC; of QP, CQ, SRQ and Port the one
// that it is about is set.
type Event struct {
	Type al.EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	Port uint8
}

// AsyncEvent waits for the next asynchronous event. ctx bounds the wait; its
// error is returned, or ErrRemoved if the NIC ends.
func (c *Context) AsyncEvent(ctx context.Context) (Event, error) {
	var b [16]byte
	for {
		if err := c.async.Read(ctx, b[:]); err != nil {
			return Event{}, fmt.Errorf("asynchronous event: %w", err)
		}
		element, ev := native.Uint64(b[:]), Event{Type: al.EventType(native.Uint32(b[8:]))}
		c.mu.Lock()
		object := c.objects[element]
		c.mu.Unlock()
		switch ev.Type {
		case al.CQErr:
			ev.CQ, _ = object.(*CQ)
		case al.SRQErr, al.SRQLimitReached:
			ev.SRQ, _ = object.(*SRQ)
		case al.QPFatal, al.QPReqErr, al.QPAccessErr, al.CommEst, al.SQDrained, al.PathMig, al.PathMigErr,
			al.QPLastWQEReached:
			ev.QP, _ = object.(*QP)
		default:
			ev.Port = uint8(element)
			return ev, nil
		}
		if object != nil { // else it has been destroyed meanwhile
			return ev, nil
		}
	}
}

// Query returns the NIC's attributes, as far as the command carries them.
func (c *Context) Query() (verbs.DeviceAttr, error) {
	a, err := query[abi.DeviceAttr](c, QueryCA, c, fields(response))
	if err != nil {
		return verbs.DeviceAttr{}, err
	}
	return verbs.DeviceAttr{
		Identity: verbs.Identity{GUID: a.NodeGUID, VendorID: a.VendorID, VendorPartID: a.VendorPartID,
			HWVersion: a.HWVersion},
		Limits: verbs.Limits{
			MaxQP: int(a.MaxQP), MaxQPWR: int(a.MaxQPWR), MaxSGE: int(a.MaxSGE), MaxSGERead: int(a.MaxSGERead),
			MaxCQ: int(a.MaxCQ), MaxCQE: int(a.MaxCQE), MaxMR: int(a.MaxMR), MaxPD: int(a.MaxPD),
			MaxIRD: int(a.MaxIRD), MaxORD: int(a.MaxORD), MaxMW: int(a.MaxMW), MaxSRQ: int(a.MaxSRQ),
			MaxSRQWR: int(a.MaxSRQWR),
		},
		SystemImageGUID: a.SystemImageGUID, MaxMRSize: a.MaxMRSize, PageSizes: a.PageSizes,
		MaxDeviceIRD: int(a.MaxDeviceIRD), MaxRDD: int(a.MaxRDD), MaxMcastGroups: int(a.MaxMcastGroups),
		MaxAH: int(a.MaxAH), MaxPKeys: int(a.MaxPKeys), AckDelay: a.AckDelay, Ports: int(a.Ports), CNQs: c.vectors,
	}, nil
}

// QueryPort returns the attributes of port n, from 1, as far as the command
// carries them.
func (c *Context) QueryPort(n uint8) (verbs.PortAttr, error) {
	a, err := query[abi.PortAttr](c, QueryPort, c, fields(response, n, make([]byte, 7)))
	return verbs.PortAttr{
		State: verbs.PortState(a.State), Phys: verbs.PhysState(a.Phys), MTU: mtuOctets(a.MTU), MaxMsg: a.MaxMsg,
		LID: a.LID, SMLID: a.SMLID, LMC: a.LMC, GIDTable: int(a.GIDTable), PKeyTable: int(a.PKeyTable),
		BadPKeys: a.BadPKeys,
	}, err
}

// mtuOctets turns ibv_mtu, 1 for 256 octets and so on, into octets.
func mtuOctets(n uint8) int {
	if n == 0 || n > 5 {
		return 0
	}
	return 128 << n
}
