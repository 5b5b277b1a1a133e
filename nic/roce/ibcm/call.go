package ibcm

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"tapir/nic/cm"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
)

// transport is the engine as the connection manager sees it.
type transport Engine

// PrivateData implements cm.Transport.
func (t *transport) PrivateData(s cm.PortSpace) cm.Limits {
	if s.Datagrams() {
		return cm.Limits{Request: ib.SIDRREQUser, Reply: ib.SIDRREPPrivate, Reject: ib.SIDRREPPrivate}
	}
	return cm.Limits{Request: ib.REQUser, Reply: ib.REPPrivate, Reject: ib.REJPrivate}
}

// acceptor is the transport's side of a listener.
type acceptor struct {
	e       *Engine
	l       *cm.Listener
	space   ib.PortSpace
	waiting int // requests that the application has not answered, or the peer not completed
	paused  bool
}

func spaceOf(s cm.PortSpace) ib.PortSpace {
	if s == 0 {
		return ib.PortSpaceTCP
	}
	return ib.PortSpace(s)
}

// Listen implements cm.Transport. Error: cm.ErrAddrInUse.
func (t *transport) Listen(l *cm.Listener) (cm.Acceptor, error) {
	e := (*Engine)(t)
	a := &acceptor{e: e, l: l, space: spaceOf(l.Space())}
	at := l.Local().Addr()
	for _, o := range e.listeners {
		have := o.l.Local().Addr()
		if o.space == a.space && o.l.Local().Port() == l.Local().Port() &&
			(have == at || (have.IsUnspecified() || at.IsUnspecified()) && have.Is4() == at.Is4()) {
			return nil, fmt.Errorf("port %d: %w", l.Local().Port(), cm.ErrAddrInUse)
		}
	}
	e.listeners = append(e.listeners, a)
	return a, nil
}

// Close implements cm.Acceptor.
func (a *acceptor) Close() {
	a.e.listeners = slices.DeleteFunc(a.e.listeners, func(o *acceptor) bool { return o == a })
}

// Pause implements cm.Acceptor.
func (a *acceptor) Pause(on bool) { a.paused = on }

// listener finds who listens, nil if nobody does: at the address before at none in
// particular.
func (e *Engine) listener(s ib.PortSpace, at netip.Addr, port uint16) (found *acceptor) {
	for _, a := range e.listeners {
		if a.space != s || a.l.Local().Port() != port {
			continue
		}
		switch have := a.l.Local().Addr(); {
		case have == at:
			return a
		case have.IsUnspecified() && (have.Is6() || at.Is4()) && found == nil:
			found = a
		}
	}
	return found
}

// Connect implements cm.Transport.
func (t *transport) Connect(id *cm.ID, now frame.Time) error {
	e := (*Engine)(t)
	p, remote := id.Params(), id.Remote()
	to := remote.Addr().Unmap().WithZone("")
	if e.env.Allow != nil {
		if err := e.env.Allow(to); err != nil {
			return err
		}
	}
	from := id.Local().Addr().Unmap().WithZone("")
	source, vlan := e.env.SourceFor(to, from)
	if !from.IsValid() || from.IsUnspecified() {
		from = source
	}
	index, ok := e.gidIndex(from, vlan)
	if !from.IsValid() || !ok || from.Is4() != to.Is4() {
		return fmt.Errorf("no GID for the way to %v: %w", to, cm.ErrUnreachable)
	}
	port := id.Local().Port()
	if port == 0 {
		port = e.port()
	}
	id.SetLocal(netip.AddrPortFrom(from, port))
	c := e.newConn(reqSent)
	e.nextTID++
	c.id, c.active, c.qp, c.tid = id, true, p.QP, e.nextTID
	c.path = qpattr.Path{DGID: to.As16(), SGIDIndex: index, HopLimit: hopLimit, TClass: p.TOS}
	if c.path.SL = p.SL & 7; c.path.SL == 0 && vlan != 0 {
		c.path.SL = ip.Priority(p.TOS)
	}
	c.service = spaceOf(p.Space).ServiceID(remote.Port())
	if c.qp != nil {
		c.pkeyIndex = c.qp.Attr().PKeyIndex
	}
	id.Attach(c)
	cma := ib.CMA{Src: id.Local(), Dst: to}
	private := append(make([]byte, ib.CMALen), p.PrivateData...)
	cma.Put(private)
	if p.Space.Datagrams() {
		c.state, c.sidr = sidrReqSent, true
		c.request(ib.AttrSIDRREQ, &ib.SIDRREQ{RequestID: c.local, PKey: c.key(), ServiceID: c.service,
			Private: private}, now)
		return nil
	}
	c.sendREQ(&p, from, private, now)
	return nil
}

// key is the partition key of the connection on this side.
func (c *conn) key() uint16 { return c.e.env.Dev.PKeys()[c.pkeyIndex] }

func retries(n *uint8) uint8 {
	if n == nil {
		return 7
	}
	return *n & 7
}

func (c *conn) sendREQ(p *cm.Params, from netip.Addr, private []byte, now frame.Time) {
	limits := c.e.env.Dev.Limits()
	c.ird, c.ord = c.reads(p.IRD, limits.MaxIRD, defaultReads), c.reads(p.ORD, limits.MaxORD, defaultReads)
	c.mtu = qpattr.MTUCode(c.e.env.MTU())
	if c.timeout = c.e.cfg.PacketLifetime + 1; p.AckTimeout != 0 {
		c.timeout = p.AckTimeout & 31
	}
	c.peer.Retry, c.peer.RNRRetry = retries(p.Retry), retries(p.RNRRetry)
	cfg := &c.e.cfg
	req := ib.REQ{
		LocalID: c.local, ServiceID: c.service, CAGUID: c.e.guid, QPN: c.qp.QPN(), Responder: c.ird, Initiator: c.ord,
		RemoteTimeout: cfg.ResponseTimeout, LocalTimeout: cfg.ResponseTimeout,
		PSN:   c.psn,
		Retry: c.peer.Retry, PKey: c.key(), MTU: c.mtu, RNRRetry: c.peer.RNRRetry, MaxCMRetries: cfg.Retries,
		SRQ: p.SRQ,
		Primary: ib.Path{
			LocalLID: ib.LIDRoCE, RemoteLID: ib.LIDRoCE, LocalGID: from.As16(), RemoteGID: c.path.DGID, Rate: rateAny,
			TrafficClass: p.TOS, SL: c.path.SL, HopLimit: hopLimit, AckTimeout: c.timeout,
		},
		Private: private,
	}
	switch c.qp.Type() {
	case qpattr.UC:
		req.Service = ib.ServiceUC
	case qpattr.XRCInitiator: // which serves no Reads
		req.Service, req.Extended, req.Responder = ib.ServiceExtended, ib.ExtendedXRC, 0
	}
	c.request(ib.AttrREQ, &req, now)
}

// answering is the type of the queue pair that a request asks this side for.
func answering(m *ib.REQ) (t qpattr.Type, ok bool) {
	switch {
	case m.Service == ib.ServiceRC:
		return qpattr.RC, true
	case m.Service == ib.ServiceUC:
		return qpattr.UC, true
	}
	return qpattr.XRCTarget, m.Service == ib.ServiceExtended && m.Extended == ib.ExtendedXRC
}

// Accept implements cm.Conn.
func (c *conn) Accept(now frame.Time) error {
	p := c.id.Params()
	c.qp = p.QP
	if c.sidr {
		return c.acceptSIDR(&p)
	}
	limits := c.e.env.Dev.Limits()
	c.ird, c.ord = c.reads(p.IRD, limits.MaxIRD, c.ird), c.reads(p.ORD, limits.MaxORD, c.ord)
	rnr := retries(p.RNRRetry)
	err := error(nil)
	if c.qp.Type() != c.typ {
		err = fmt.Errorf("QP %d has type %v, the request asks for %v: %w", c.qp.QPN(), c.qp.Type(), c.typ,
			cm.ErrInvalid)
	} else {
		err = c.readyToReceive()
	}
	if err != nil {
		c.refuse(ib.RejectNoQP, nil, now)
		return err
	}
	c.state = repSent
	rep := ib.REP{
		LocalID: c.local, RemoteID: c.remote, QPN: c.qp.QPN(), PSN: c.psn, Responder: c.ird, Initiator: c.ord,
		AckDelay: ackDelay, RNRRetry: rnr, SRQ: p.SRQ || c.qp.Config().SRQ != nil, CAGUID: c.e.guid,
		Private: p.PrivateData,
	}
	if c.typ == qpattr.XRCTarget { // section A14.5: the number stands where those of EE contexts do
		rep.QPN, rep.EECN, rep.SRQ = 0, rep.QPN, true
	}
	c.request(ib.AttrREP, &rep, now)
	return nil
}

func (c *conn) acceptSIDR(p *cm.Params) error {
	if err := c.readyToSend(); err != nil {
		return err
	}
	key := p.QKey
	if key == 0 {
		key = ib.QKeyCM
	}
	c.state = sidrAnswered
	c.leaveQueue()
	c.send(ib.AttrSIDRREP, &ib.SIDRREP{RequestID: c.remote, Status: ib.SIDROK, QPN: p.QP.QPN(), ServiceID: c.service,
		QKey: key, Private: p.PrivateData})
	c.id.Complete(nil, 0, 0)
	return nil
}

// Establish implements cm.Conn.
func (c *conn) Establish(frame.Time) {
	if c.state == repReceived {
		c.complete(nil)
	}
}

// Reject implements cm.Conn.
func (c *conn) Reject(private []byte, now frame.Time) { c.refuse(ib.RejectConsumer, private, now) }

// refuse answers no and stays for a while to answer duplicates.
func (c *conn) refuse(why ib.RejectReason, private []byte, now frame.Time) {
	if c.sidr {
		c.state = sidrAnswered
		c.send(ib.AttrSIDRREP, &ib.SIDRREP{RequestID: c.remote, Status: ib.SIDRReject, ServiceID: c.service,
			Private: private})
	} else {
		c.state = refused
		c.sendREJ(ib.AboutREQ, why, private)
	}
	c.leaveQueue()
	if id := c.id; id != nil {
		c.id = nil
		id.Attach(nil)
		id.Finish(nil)
	}
	c.e.timers.Set(&c.timer, now.Add(c.patience()))
}

// Disconnect implements cm.Conn.
func (c *conn) Disconnect(abortive bool, now frame.Time) {
	switch c.state {
	case up, draining:
		if c.slow = 0; abortive || c.id.Params().OwnerMoves || c.qp == nil {
			c.slow = c.patience()
			c.failQP()
		}
		c.state = draining
		c.drain(now)
		return
	case dreqSent, timeWait:
		return
	case reqReceived, mraSent, sidrReqReceived:
		c.refuse(ib.RejectConsumer, nil, now)
		return
	case sidrReqSent, sidrAnswered:
	case reqSent, mraReceived:
		c.sendREJ(ib.AboutREQ, ib.RejectTimeout, nil)
	default: // repReceived, repSent
		c.sendREJ(ib.AboutREP, ib.RejectConsumer, nil)
	}
	c.failQP()
	c.finish(cm.ErrAborted)
}

func putGUID(g uint64) []byte { return binary.BigEndian.AppendUint64(nil, g) }
