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
	f, err := c.session.take(native.Uint32(b), "asynchronous events")
	if err == nil {
		c.async, err = eventfile.New(f, false)
	}
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
func (c *Context) Query() (a verbs.DeviceAttr, err error) {
	err = c.do(QueryCA, c, fields(response), func(b []byte) {
		copy(a.GUID[:], b[8:])
		copy(a.SystemImageGUID[:], b[16:])
		a.MaxMRSize, a.PageSizes = native.Uint64(b[24:]), native.Uint64(b[32:])
		a.VendorID, a.VendorPartID, a.HWVersion = native.Uint32(b[40:]), native.Uint32(b[44:]), native.Uint32(b[48:])
		for off, v := range map[int]*int{
			52: &a.MaxQP, 56: &a.MaxQPWR, 64: &a.MaxSGE, 68: &a.MaxSGERead, 72: &a.MaxCQ, 76: &a.MaxCQE, 80: &a.MaxMR,
			84: &a.MaxPD, 88: &a.MaxIRD, 96: &a.MaxDeviceIRD, 100: &a.MaxORD, 116: &a.MaxRDD, 120: &a.MaxMW,
			132: &a.MaxMcastGroups, 144: &a.MaxAH, 156: &a.MaxSRQ, 160: &a.MaxSRQWR,
		} {
			*v = int(native.Uint32(b[off:]))
		}
		a.MaxPKeys, a.AckDelay, a.Ports = int(native.Uint16(b[168:])), b[170], int(b[171])
		a.CNQs = c.vectors
	})
	return a, err
}

// QueryPort returns the attributes of port n, from 1, as far as the command
// carries them.
func (c *Context) QueryPort(n uint8) (a verbs.PortAttr, err error) {
	err = c.do(QueryPort, c, fields(response, n, make([]byte, 7)), func(b []byte) {
		a = verbs.PortAttr{
			State: verbs.PortState(b[26]), Phys: verbs.PhysState(b[36]), MTU: mtuOctets(b[28]),
			MaxMsg: native.Uint32(b[4:]),
			LID:    native.Uint16(b[22:]), SMLID: native.Uint16(b[24:]), LMC: b[29],
			GIDTable: int(native.Uint32(b[16:])), PKeyTable: int(native.Uint16(b[20:])), BadPKeys: native.Uint32(b[8:]),
		}
	})
	return a, err
}

// mtuOctets turns ibv_mtu, 1 for 256 octets and so on, into octets.
func mtuOctets(n uint8) int {
	if n == 0 || n > 5 {
		return 0
	}
	return 128 << n
}
