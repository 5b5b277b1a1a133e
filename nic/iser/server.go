package iser

import (
	"net/netip"
	"time"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/iscsi"
	"tapir/wire/frame"
	wire "tapir/wire/iscsi"
)

// Server is the portal of a target on a device. It is a client of the access layer: it serves
// whenever its device is there; the target stays when the device goes.
type Server struct {
	Device  string // its name
	Address netip.AddrPort
	Target  *iscsi.Target
	// Err is why the device cannot be served.
	Err error

	leave    func(done func())
	dev      *al.Device
	port     *port // nil without the device
	listener *cm.Listener
	stopped  bool
	deadline frame.Time // of an orderly end
}

const (
	maxConns = 128
	// pollEvery is how often a target looks after its timers, at least.
	pollEvery = time.Second
	// slack is how long an orderly end may take.
	slack = 2 * time.Second
	// ackTimeout is that of RoCE, 134 ms: with its retries, 4 seconds until a peer counts as gone.
	ackTimeout = 15
)

// Start begins to serve, on the thread of the device if it is there.
func (s *Server) Start(l *al.Layer) { s.leave = l.RegisterClient(s) }

// Stop ends all sessions, and then the service.
func (s *Server) Stop(now frame.Time) {
	s.stopped, s.deadline = true, now.Add(slack)
	if s.dev == nil {
		s.leave(nil)
		return
	}
	s.listener.Close()
	s.Target.Stop()
	s.poll(now)
}

// Add implements al.Client.
func (s *Server) Add(d *al.Device, now frame.Time) {
	if d.Name() != s.Device || s.stopped {
		return
	}
	ctx, err := d.Open(nil, nil)
	if err == nil {
		s.port, err = newPort(ctx, d.CM())
	}
	if err == nil {
		if s.listener, err = d.CM().Listen(s.Address, maxConns, s.event, nil); err != nil {
			s.port.close(now)
		}
	}
	if s.Err = err; err != nil {
		s.port = nil
		return
	}
	s.dev = d
	s.poll(now)
}

// Remove implements al.Client. Sessions end at once.
func (s *Server) Remove(d *al.Device, now frame.Time) {
	if s.dev != d {
		return
	}
	s.listener.Close()
	s.port.close(now)
	s.dev, s.port = nil, nil
}

// poll looks after timers while the device is there.
func (s *Server) poll(now frame.Time) {
	next := s.Target.Poll(now)
	switch {
	case s.dev == nil:
	case s.stopped && (len(s.port.conns) == 0 || now >= s.deadline):
		s.leave(nil)
	case s.stopped:
		s.dev.Schedule(now.Add(slack/100), s.poll)
	default:
		s.dev.Schedule(min(next, now.Add(pollEvery)), s.poll)
	}
}

// event takes requests, and what becomes of them.
func (s *Server) event(ev cm.Event, now frame.Time) {
	id := ev.ID
	if id == nil {
		return // of the listener, which goes with the device
	}
	switch c, _ := id.Context.(*served); {
	case c != nil:
		c.Conn.event(ev, now)
	case ev.Type == cm.ConnectRequest:
		s.admit(ev, now)
	case ev.Type == cm.ClosedEvent && s.dev != nil: // it was refused
		s.dev.CA().Verbs().Defer(func(frame.Time) { _ = id.Destroy() })
	}
}

// admit accepts a connection.
func (s *Server) admit(ev cm.Event, now frame.Time) {
	id := ev.ID
	v := &served{}
	if s.stopped || s.dev == nil || len(s.port.conns) >= maxConns {
		_ = id.Reject(nil, now) // whoever has gone needs no answer
		return
	}
	c, err := s.port.newConn(v)
	if err != nil {
		_ = id.Reject(nil, now)
		return
	}
	c.id, v.Conn, id.Context = id, c, v
	c.peer(ev.PrivateData)
	v.session = s.Target.Accept(id.Local(), id.Remote(), c, now)
	if err := id.Accept(cm.Params{QP: c.qp, PrivateData: private()}, now); err != nil {
		c.fail(err)
		c.Abort()
	}
}

// served is a connection of a Server.
type served struct {
	*Conn
	session *iscsi.Conn
}

// Established implements Handler.
func (v *served) Established(*Conn, frame.Time) {}

// Control implements Handler.
func (v *served) Control(m *wire.Message, now frame.Time) { v.session.Control(m, now) }

// Hello implements Handler.
func (v *served) Hello() bool { return v.session.Hello() }

// Malformed implements Handler.
func (v *served) Malformed() { v.session.Malformed() }

// PeerClosed implements Handler.
func (v *served) PeerClosed(error, frame.Time) { v.session.PeerClosed() }

// Closed implements Handler.
func (v *served) Closed(error, frame.Time) { v.session.Gone() }

// Dial connects an initiator to a target. It takes the context, of a client of the access layer or of
// its own, which must have been opened for this connection alone: the device's memory that a target
// may invalidate belongs to one queue pair. What becomes of the connection h is told.
func Dial(ctx *al.Context, m *cm.Manager, remote netip.AddrPort, h Handler, now frame.Time) (*Conn, error) {
	p, err := newPort(ctx, m)
	if err != nil {
		return nil, err
	}
	c, err := p.newConn(h)
	if err == nil {
		c.id = m.NewID(c.event, c)
		params := cm.Params{QP: c.qp, PrivateData: private(), AckTimeout: ackTimeout}
		if err = c.id.Connect(remote, params, now); err != nil {
			p.conns = nil
			id := c.id
			ctx.Device().Defer(func(frame.Time) { _ = id.Destroy() })
		}
	}
	if err != nil {
		p.close(now)
		return nil, err
	}
	p.ended = true // with the connection
	return c, nil
}
