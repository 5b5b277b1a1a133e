package iwarp

import (
	"fmt"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// transport is the engine as verbs sees it.
type transport Engine

// Opcodes implements verbs.Transport.
func (t *transport) Opcodes() verbs.OpSet {
	return verbs.LocalOps | verbs.Ops(verbs.OpSend, verbs.OpSendInv, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm,
		verbs.OpRead, verbs.OpReadInv, verbs.OpCompSwap, verbs.OpFetchAdd, verbs.OpSwap,
		verbs.OpMaskedCompSwap, verbs.OpMaskedFetchAdd)
}

// NewEndpoint implements verbs.Transport.
func (t *transport) NewEndpoint(qp *verbs.QP) verbs.Endpoint {
	return &endpoint{e: (*Engine)(t), qp: qp}
}

// endpoint is the transport's side of a queue pair.
type endpoint struct {
	e    *Engine
	qp   *verbs.QP
	conn *conn    // the last one until it has ended, else nil
	past Counters // of the connections that have ended
}

// endpointOf returns the endpoint that NewEndpoint made for qp.
func endpointOf(qp *verbs.QP) *endpoint { return qp.Endpoint().(*endpoint) }

// Posted implements verbs.Endpoint.
func (p *endpoint) Posted() {
	if p.conn != nil {
		p.conn.tcp.Kick()
	}
}

// Paced implements verbs.Pacer.
func (p *endpoint) Paced() {
	if p.conn != nil {
		p.conn.tcp.SetRate(p.qp.RateLimit())
	}
}

// Modified implements verbs.Endpoint.
func (p *endpoint) Modified(verbs.State) {
	p.e.flushWrites()
	switch {
	case p.conn == nil:
	case p.qp.State() == verbs.SQD:
		p.conn.drain()
	default:
		p.conn.abort()
	}
}

// Destroyed implements verbs.Endpoint.
func (p *endpoint) Destroyed() {
	p.e.flushWrites()
	if c := p.conn; c != nil {
		if c.phase != closing { // else TCP has what is left to send
			c.abort()
		}
		c.qp, p.conn = nil, nil
	}
}

// Reclaim implements verbs.Endpoint.
func (p *endpoint) Reclaim(mr *verbs.MR) {
	if p.conn != nil {
		p.conn.retainUnacked(mr)
	}
}

// manager is the engine as the connection manager sees it.
type manager Engine

// Listen implements cm.Transport.
func (t *manager) Listen(l *cm.Listener) (cm.Acceptor, error) {
	e := (*Engine)(t)
	if l.Space().Datagrams() {
		return nil, errDatagrams
	}
	if e.cfg.Detached != nil {
		return nil, fmt.Errorf("%w (%w)", cm.ErrNoDevice, e.cfg.Detached)
	}
	a := &acceptor{e: e, l: l}
	var err error
	a.tcp, err = e.tcp.Listen(l.Local(), l.Backlog(), func(tc *toe.Conn, now frame.Time) toe.Handler {
		c := e.newConn()
		c.tcp = tc
		a.enter(c, now)
		c.awaitRequest(now)
		return c
	})
	if err != nil {
		return nil, err
	}
	a.tcp.SetQueue(toe.Queue{Len: a.queue.Len, Silent: a.silent.Len, MakeRoom: a.makeRoom})
	return a, nil
}

// Connect implements cm.Transport.
func (t *manager) Connect(id *cm.ID, now frame.Time) error {
	e := (*Engine)(t)
	if id.Params().Space.Datagrams() {
		return errDatagrams
	}
	if err := e.mayConnect(id); err != nil {
		return err
	}
	local, err := e.source(id)
	if err != nil {
		return err
	}
	if err := id.QP().Offload(); err != nil {
		return err
	}
	return e.dial(id, local, e.cfg.Revision, now)
}

// MaxPrivateData is what fits into an MPA frame beside the enhanced words
// (RFC 5044 section 7.1.1, RFC 6581 section 4).
const MaxPrivateData = 508

// Words implements cm.Transport.
func (t *manager) Words() *cm.Words { return &words }

// PrivateData implements cm.Transport.
func (t *manager) PrivateData(cm.PortSpace) cm.Limits {
	return cm.Limits{Request: MaxPrivateData, Reply: MaxPrivateData, Reject: MaxPrivateData}
}

var errDatagrams = fmt.Errorf("an RNIC has no datagrams: %w", cm.ErrInvalid)

// Accept implements cm.Conn.
func (c *conn) Accept(now frame.Time) error {
	c.leaveQueue()
	err := unbound(c.id.QP())
	if err == nil {
		err = c.accept()
	}
	if err != nil {
		c.err = err
		c.Reject(nil, now)
	}
	return err
}

// Establish implements cm.Conn.
func (c *conn) Establish(now frame.Time) {
	if c.phase == full {
		c.ready(now)
	}
}

// Reject implements cm.Conn.
func (c *conn) Reject(private []byte, now frame.Time) {
	c.leaveQueue()
	c.part(c.responder.AppendReject(nil, private), now)
}

// Disconnect implements cm.Conn.
func (c *conn) Disconnect(abortive bool, _ frame.Time) {
	switch {
	case c.phase != full:
		c.abort()
	case abortive || c.id.State() == cm.Connecting:
		c.qp.Disconnect(true)
		c.abort()
	case !c.draining:
		c.qp.Disconnect(false)
		c.drain()
	}
}
