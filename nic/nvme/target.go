package nvme

import (
	"net/netip"
	"slices"
	"time"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

// Config says what a target serves.
type Config struct {
	GUID       verbs.GUID // of the device to serve on
	Port       uint16
	NQN        string
	Serial     string
	Hosts      []string // that may connect, by NQN; none: all
	Namespaces []*Namespace
	// FirstID is the number of the first controller, from 1: targets of one subsystem on several
	// NICs have different ones.
	FirstID uint16
	// Failed is told, in the thread of the device, why the target cannot serve on it.
	Failed func(error)
}

// Target is an NVM subsystem and its discovery subsystem. It serves on a device whenever that is
// there: it is a client of the access layer.
type Target struct {
	cfg         Config
	port        *port // nil: the device is not there
	controllers []*controller
	nextID      uint16
	stats       Stats
	failures    []wire.ErrorEntry // the latest first
	failed      uint64            // failures ever
}

// Limits of a target.
const (
	maxEntries     = 128 // of a queue
	maxQueues      = 16  // for I/O, of a controller
	maxControllers = 64
	maxConns       = 256
	backlog        = 64
	connectWithin  = 10 * time.Second
	closeWithin    = 2 * time.Second
)

// NewTarget makes a target.
func NewTarget(cfg Config) *Target { return &Target{cfg: cfg, nextID: max(cfg.FirstID, 1)} }

// Stats are the counters.
func (t *Target) Stats() Stats { return t.stats }

// port is a target on a device.
type port struct {
	t        *Target
	dev      *al.Device
	ctx      *al.Context
	pd       *verbs.PD
	listener *cm.Listener
	queues   []*queue
	pool     pool
	waiting  []*slot // for a buffer
	leaving  bool
	gone     bool
	cancel   func()
}

// Add implements al.Client.
func (t *Target) Add(d *al.Device, _ frame.Time) {
	if d.GUID() != t.cfg.GUID {
		return
	}
	p := &port{t: t, dev: d, cancel: func() {}}
	if err := p.open(); err != nil {
		if p.ctx != nil {
			_ = p.ctx.Reclaim(0) // what was made of it
		}
		if t.cfg.Failed != nil {
			t.cfg.Failed(err)
		}
		return
	}
	t.port = p
}

// open listens on a device.
func (p *port) open() (err error) {
	if p.ctx, err = p.dev.Open(nil, nil); err != nil {
		return err
	}
	if p.pd, err = p.ctx.AllocPD(); err != nil {
		return err
	}
	p.pool.pd = p.pd
	local := netip.AddrPortFrom(netip.IPv6Unspecified(), p.t.cfg.Port)
	p.listener, err = p.dev.CM().Listen(local, backlog, p.event, nil)
	return err
}

// Remove implements al.Client: connections end, in order unless the device is gone, and then
// everything that the target has of the device.
func (t *Target) Remove(d *al.Device, now frame.Time) {
	p := t.port
	if p == nil || p.dev != d {
		return
	}
	t.port, p.leaving = nil, true
	p.listener.Close()
	dead := d.CA().Verbs().Removed()
	for _, q := range slices.Clone(p.queues) {
		q.disconnect(dead, now)
	}
	for _, c := range slices.Clone(t.controllers) {
		c.end(dead, now)
	}
	if dead || len(p.queues) == 0 {
		p.leave(now)
		return
	}
	p.cancel = d.Schedule(now.Add(closeWithin), p.leave)
}

// leave gives back what is left of the device.
func (p *port) leave(now frame.Time) {
	if p.gone {
		return
	}
	p.gone = true
	p.cancel()
	for _, q := range p.queues {
		q.dead = true
		if q.id.State() != cm.Closed {
			_ = q.id.Disconnect(true, now) // it ends anyway
		}
	}
	p.queues = nil
	_ = p.ctx.Reclaim(now) // outside of callbacks it cannot fail
}

// event takes what the connection manager says.
func (p *port) event(ev cm.Event, now frame.Time) {
	if ev.Type == cm.ConnectRequest {
		p.request(ev, now)
		return
	}
	if ev.ID == nil { // of the listener
		return
	}
	q, ok := ev.ID.Context.(*queue)
	if ev.Type == cm.ClosedEvent {
		p.dev.CA().Verbs().Defer(func(now frame.Time) {
			_ = ev.ID.Destroy() // it is closed
			if ok {
				q.destroy(now)
			}
		})
		return
	}
	if !ok { // it was refused
		return
	}
	switch ev.Type {
	case cm.PassiveComplete:
		p.t.stats[Connections]++
		q.timer = p.dev.Schedule(now.Add(connectWithin), q.expire)
	default: // it ends, in one way or another
		q.disconnect(ev.Err != nil, now)
	}
}

// request answers a request for a connection.
func (p *port) request(ev cm.Event, now frame.Time) {
	q, reason := p.admit(ev)
	if reason != 0 {
		p.t.stats[ConnectionRefused]++
		ev.ID.Context = nil
		_ = ev.ID.Reject(wire.AppendReject(nil, reason), now) // who has gone needs no answer
		return
	}
	q.id, ev.ID.Context = ev.ID, q
	p.queues = append(p.queues, q)
	params := cm.Params{QP: q.qp, PrivateData: wire.AppendReply(nil, uint16(q.entries))}
	if err := ev.ID.Accept(params, now); err != nil {
		q.disconnect(true, now)
	}
}

// admit makes a queue for a request.
func (p *port) admit(ev cm.Event) (q *queue, reason wire.Reason) {
	r, reason := wire.ParseRequest(ev.PrivateData)
	ird, _, told := ev.ID.PeerReads()
	switch {
	case reason != 0:
	case p.leaving || len(p.queues) >= maxConns:
		reason = wire.NoResources
	case r.QID > maxQueues:
		reason = wire.InvalidQID
	case r.HSQSize == 0 || int(r.HSQSize) >= maxEntries:
		reason = wire.InvalidSendSize
	case r.HRQSize < r.HSQSize:
		reason = wire.InvalidRecvSize
	case told && ird == 0:
		reason = wire.InvalidIRD
	default:
		var err error
		if q, err = p.newQueue(r.QID, int(r.HSQSize)+1); err != nil {
			reason = wire.NoResources
		}
	}
	return q, reason
}

// wake gives buffers to commands that wait.
func (p *port) wake(now frame.Time) {
	for len(p.waiting) > 0 && !p.gone {
		s := p.waiting[0]
		if !s.q.dead {
			b := p.pool.get(s.octets)
			if b == nil {
				return
			}
			p.waiting = p.waiting[1:]
			s.buf = b
			s.move(now)
			continue
		}
		p.waiting = p.waiting[1:]
	}
}

// release takes back a buffer.
func (p *port) release(b *buffer, now frame.Time) {
	if b == nil || p.gone {
		return
	}
	if mr := p.pool.put(b); mr != nil {
		p.dev.CA().Verbs().Defer(func(frame.Time) {
			if !p.gone {
				_ = mr.Dereg() // nothing is bound to it
			}
		})
	}
	p.wake(now)
}

// ControllerInfo describes a controller for people.
type ControllerInfo struct {
	ID       uint16 `json:"id"`
	NQN      string `json:"nqn"` // of the subsystem
	Host     string `json:"host"`
	Remote   string `json:"remote"`
	Queues   int    `json:"queues"` // for I/O
	Commands int    `json:"commands"`
	// KeepAlive is the timeout in milliseconds; 0: none.
	KeepAlive int64 `json:"keep_alive_ms"`
	Ready     bool  `json:"ready"`
}

// Controllers describes those that there are.
func (t *Target) Controllers() []ControllerInfo {
	list := []ControllerInfo{}
	for _, c := range t.controllers {
		i := ControllerInfo{ID: c.id, NQN: c.nqn, Host: c.host, Remote: c.admin.id.Remote().String(),
			Queues: len(c.queues), KeepAlive: c.kato.Milliseconds(), Ready: c.csts&wire.CSTSReady != 0}
		for _, q := range append([]*queue{c.admin}, c.queues...) {
			i.Commands += q.busy
		}
		i.Commands -= len(c.requests) // which wait for events
		list = append(list, i)
	}
	return list
}
