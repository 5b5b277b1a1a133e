package nvme

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tapir/nic/al"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

// ErrLost says that the association with a controller has ended.
var ErrLost = errors.New("nvme: the connection to the controller has ended")

// HostConfig says which subsystem a host is to use, and how.
type HostConfig struct {
	Device    *al.Device
	Context   *al.Context // of Device; what the host makes belongs to it
	Remote    netip.AddrPort
	NQN       string // of the subsystem
	Name      string // of the host: its NQN
	ID        [16]byte
	Depth     int           // commands outstanding
	KeepAlive time.Duration // 0: none
	// Ready is told that commands can be submitted.
	Ready func(now frame.Time)
	// Lost is told why the association ended or did not begin, once and last; nil after Close.
	Lost func(err error, now frame.Time)
}

// Host is an association with a controller: its admin queue and, unless the subsystem is that of
// discovery, one for I/O.
type Host struct {
	cfg     HostConfig
	pd      *verbs.PD
	admin   *hostQueue
	io      *hostQueue // nil with discovery
	cntlid  uint16
	info    wire.ControllerInfo
	err     error
	ended   bool
	told    bool
	closing bool
	probes  int
	alive   frame.Time // the last answer to a keep-alive
}

// Request is a command of a host. Data is read or written by it until Done is called, and the
// request must not be changed before.
type Request struct {
	Cmd   wire.Command // operation, namespace and double words; the rest is the host's
	Data  []byte
	Write bool // Data goes to the controller
	// Done is told the end: a wire.Status, ErrLost, or nil.
	Done   func(r *Request, err error, now frame.Time)
	Result uint64
}

// Limits of a host.
const (
	hostAdminEntries = 32
	readyPoll        = 10 * time.Millisecond
	maxProbes        = 1000
	ackTimeout       = 15 // of RoCE, 134 ms: with its retries, 4 seconds until a controller counts as gone
)

// Connect begins an association.
func Connect(cfg HostConfig, now frame.Time) (*Host, error) {
	h := &Host{cfg: cfg}
	var err error
	if h.pd, err = cfg.Context.AllocPD(); err != nil {
		return nil, err
	}
	if h.admin, err = h.dial(0, hostAdminEntries, now); err != nil {
		return nil, err
	}
	return h, nil
}

// Info is what the controller says of itself, once the association is ready.
func (h *Host) Info() wire.ControllerInfo { return h.info }

// Submit sends a command to the I/O queue, or admin commands to the admin queue. Those that find
// no room wait.
func (h *Host) Submit(r *Request, now frame.Time) { h.submit(h.io, r, now) }

// SubmitAdmin sends a command to the admin queue.
func (h *Host) SubmitAdmin(r *Request, now frame.Time) { h.submit(h.admin, r, now) }

func (h *Host) submit(q *hostQueue, r *Request, now frame.Time) {
	if h.ended || q == nil {
		r.Done(r, ErrLost, now)
		return
	}
	q.submit(r, now)
}

// Close ends the association in order.
func (h *Host) Close(now frame.Time) {
	if h.ended || h.closing {
		return
	}
	h.closing = true
	r := &Request{Done: func(_ *Request, _ error, now frame.Time) { h.end(nil, now) }}
	r.Cmd.Set(wire.Fabrics, 0)
	r.Cmd.SetFabricsType(wire.PropertySet)
	r.Cmd.SetProperty(wire.PropCC, 4, wire.CC|1<<14)
	h.SubmitAdmin(r, now)
}

// Abort ends the association at once.
func (h *Host) Abort(err error, now frame.Time) { h.end(err, now) }

// end disconnects; outstanding commands end with ErrLost, then Lost is called.
func (h *Host) end(err error, now frame.Time) {
	if h.ended {
		return
	}
	h.ended, h.err = true, err
	abortive := err != nil
	for _, q := range []*hostQueue{h.io, h.admin} {
		if q != nil {
			q.end(abortive, now)
		}
	}
	h.settle(now)
}

// settle tells of the end when both queues are gone.
func (h *Host) settle(now frame.Time) {
	if !h.ended || h.told || h.admin != nil && !h.admin.gone || h.io != nil && !h.io.gone {
		return
	}
	h.told = true
	_ = h.pd.Dealloc() // nothing is left of it
	h.cfg.Lost(h.err, now)
}

// connected begins the work of a queue: Connect.
func (h *Host) connected(q *hostQueue, now frame.Time) {
	d := wire.ConnectData{HostID: h.cfg.ID, CntlID: wire.AnyController, SubNQN: h.cfg.NQN, Host: h.cfg.Name}
	f := wire.ConnectFields{QID: q.qid, SQSize: uint16(q.entries - 1)}
	if q.qid == 0 {
		f.KATO = uint32(h.cfg.KeepAlive.Milliseconds())
	} else {
		d.CntlID = h.cntlid
	}
	r := &Request{Data: d.Append(nil), Write: true, Done: h.step(h.joined)}
	if q.qid != 0 {
		r.Done = h.step(func(_ *Request, now frame.Time) { h.cfg.Ready(now) })
	}
	r.Cmd.Set(wire.Fabrics, 0)
	r.Cmd.SetFabricsType(wire.Connect)
	r.Cmd.SetConnect(f)
	q.submit(r, now)
}

// step makes the Done of a request of which the association depends.
func (h *Host) step(next func(*Request, frame.Time)) func(*Request, error, frame.Time) {
	return func(r *Request, err error, now frame.Time) {
		switch {
		case h.ended:
		case err != nil:
			h.end(fmt.Errorf("%s: %w", stepName(&r.Cmd), err), now)
		default:
			next(r, now)
		}
	}
}

// stepName is what an error is about.
func stepName(c *wire.Command) string {
	switch {
	case c.Opcode() == wire.Fabrics && c.FabricsType() == wire.Connect:
		return "connect"
	case c.Opcode() == wire.Fabrics:
		return "property"
	}
	return fmt.Sprintf("command %#02x", uint8(c.Opcode()))
}

// property gets or sets one.
func (h *Host) property(kind uint8, at uint32, octets int, v uint64, next func(*Request, frame.Time), now frame.Time) {
	r := &Request{Done: h.step(next)}
	r.Cmd.Set(wire.Fabrics, 0)
	r.Cmd.SetFabricsType(kind)
	r.Cmd.SetProperty(at, octets, v)
	h.SubmitAdmin(r, now)
}

// joined enables the controller.
func (h *Host) joined(r *Request, now frame.Time) {
	h.cntlid = uint16(r.Result)
	h.property(wire.PropertyGet, wire.PropCAP, 8, 0, func(r *Request, now frame.Time) {
		if most := wire.MaxEntries(r.Result); h.cfg.Depth >= most {
			h.cfg.Depth = most - 1
		}
		h.property(wire.PropertySet, wire.PropCC, 4, wire.CC, func(_ *Request, now frame.Time) { h.probe(now) }, now)
	}, now)
}

// probe asks until the controller is ready.
func (h *Host) probe(now frame.Time) {
	h.property(wire.PropertyGet, wire.PropCSTS, 4, 0, func(r *Request, now frame.Time) {
		h.probes++
		switch {
		case r.Result&wire.CSTSFatal != 0 || h.probes > maxProbes:
			h.end(errors.New("the controller does not become ready"), now)
		case r.Result&wire.CSTSReady == 0:
			h.cfg.Device.Schedule(now.Add(readyPoll), func(now frame.Time) {
				if !h.ended {
					h.probe(now)
				}
			})
		default:
			h.identify(now)
		}
	}, now)
}

// identify learns what the controller can.
func (h *Host) identify(now frame.Time) {
	r := &Request{Data: make([]byte, wire.IdentifyLen)}
	r.Done = h.step(func(r *Request, now frame.Time) {
		h.info, _ = wire.ParseController(r.Data) // it has the length
		h.alive = now
		h.keep(now)
		if h.info.Discovery {
			h.cfg.Ready(now)
			return
		}
		h.queues(now)
	})
	r.Cmd.Set(wire.Identify, 0)
	r.Cmd.SetDWord(10, wire.CNSController)
	h.SubmitAdmin(r, now)
}

// queues asks for a queue for I/O and connects it.
func (h *Host) queues(now frame.Time) {
	r := &Request{Done: h.step(func(_ *Request, now frame.Time) {
		var err error
		if h.io, err = h.dial(1, h.cfg.Depth+1, now); err != nil {
			h.end(err, now)
		}
	})}
	r.Cmd.Set(wire.SetFeatures, 0)
	r.Cmd.SetDWord(10, wire.FeatureQueues)
	h.SubmitAdmin(r, now)
}

// keep sends keep-alives, and gives up on a controller that does not answer.
func (h *Host) keep(now frame.Time) {
	if h.ended || h.cfg.KeepAlive == 0 {
		return
	}
	if now.Sub(h.alive) >= h.cfg.KeepAlive {
		h.end(errors.New("the controller does not answer"), now)
		return
	}
	r := &Request{Done: func(_ *Request, err error, now frame.Time) {
		if err == nil {
			h.alive = now
		}
	}}
	r.Cmd.Set(wire.KeepAlive, 0)
	h.SubmitAdmin(r, now)
	h.cfg.Device.Schedule(now.Add(h.cfg.KeepAlive/2), h.keep)
}

// Namespace asks for what a namespace is.
func (h *Host) Namespace(id uint32, done func(wire.NamespaceInfo, error, frame.Time), now frame.Time) {
	r := &Request{Data: make([]byte, wire.IdentifyLen)}
	r.Done = func(r *Request, err error, now frame.Time) {
		var n wire.NamespaceInfo
		if err == nil {
			n, err = wire.ParseNamespace(r.Data)
		}
		done(n, err, now)
	}
	r.Cmd.Set(wire.Identify, 0)
	r.Cmd.SetNSID(id)
	r.Cmd.SetDWord(10, wire.CNSNamespace)
	h.SubmitAdmin(r, now)
}

// discoveryOctets is how much of a discovery log is read: 63 entries.
const discoveryOctets = 1 << 16

// Discover reads the log of a discovery subsystem.
func (h *Host) Discover(done func([]wire.Entry, error, frame.Time), now frame.Time) {
	r := &Request{Data: make([]byte, discoveryOctets)}
	r.Done = func(r *Request, err error, now frame.Time) {
		var list []wire.Entry
		if err == nil {
			list, _, err = wire.ParseDiscovery(r.Data)
		}
		done(list, err, now)
	}
	r.Cmd.Set(wire.GetLogPage, 0)
	r.Cmd.SetLogPage(wire.LogDiscovery, discoveryOctets, 0)
	h.SubmitAdmin(r, now)
}
