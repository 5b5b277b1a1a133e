package cm

import (
	"fmt"
	"net/netip"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
)

// ID is one connection end point.
type ID struct {
	m       *Manager
	num     uint32
	state   State
	handler Handler
	params  Params
	local   netip.AddrPort
	remote  netip.AddrPort
	ird     uint16
	ord     uint16
	peer    peerReads
	passive bool
	replied bool // ConnectResponse was sent, Establish is due
	dgram   bool // in a datagram space
	reason  Reason
	up      bool // Connected was reached
	dead    bool

	// Context is the owner's.
	Context any

	conn Conn
}

// NewID makes an ID for Connect.
func (m *Manager) NewID(h Handler, ctx any) *ID {
	m.nextNum++
	id := &ID{m: m, num: m.nextNum, handler: h, Context: ctx}
	m.ids.Add(id.num, id)
	return id
}

// Num is the ID's number within its manager, from 1.
func (id *ID) Num() uint32 { return id.num }

// State returns the state.
func (id *ID) State() State { return id.state }

// QP returns the queue pair given to Connect or Accept, or nil.
func (id *ID) QP() *verbs.QP { return id.params.QP }

// Params returns what Connect or Accept was called with.
func (id *ID) Params() Params { return id.params }

// Local returns this side's address once known.
func (id *ID) Local() netip.AddrPort { return id.local }

// Remote returns the peer's address.
func (id *ID) Remote() netip.AddrPort { return id.remote }

// IRD is the number of the peer's Reads that this side serves at a time.
func (id *ID) IRD() uint16 { return id.ird }

// ORD is the number of Reads that this side may have outstanding.
func (id *ID) ORD() uint16 { return id.ord }

// peerReads are the depths in the peer's frame.
type peerReads struct {
	ird, ord uint16
	told     bool
}

// PeerReads returns the IRD and ORD that the peer itself has stated, in its
// request, reply or reject; ok is false if it has not.
// 0x3fff leaves a depth to the applications.
func (id *ID) PeerReads() (ird, ord uint16, ok bool) {
	return id.peer.ird, id.peer.ord, id.peer.told
}

// Info describes a connection as the driver's cm_info does; all numbers are in
// host byte order.
type Info struct {
	IPVersion     int // 4 or 6
	Local, Remote netip.AddrPort
	VLAN          uint16 // of its local address; 0: untagged
	IRD, ORD      uint16
	PrivateData   []byte // of this side, borrowed
}

// Info describes the connection.
func (id *ID) Info() Info {
	v := 6
	if id.remote.Addr().Unmap().Is4() {
		v = 4
	}
	vlan := id.m.vlan
	if f, ok := id.conn.(FabricConn); ok { // each entry of the GID table has its own
		vlan = id.m.dev.GIDEntry(int(f.Peer().Path.SGIDIndex)).VLAN
	}
	return Info{IPVersion: v, Local: id.local, Remote: id.remote, VLAN: vlan, IRD: id.ird, ORD: id.ord,
		PrivateData: id.params.PrivateData}
}

// SetHandler replaces the handler.
func (id *ID) SetHandler(h Handler) { id.handler = h }

func (id *ID) wrap(what string, err error) error {
	return fmt.Errorf("%s id %d (%v): %w", what, id.num, id.state, err)
}

func (p *Params) check(m *Manager, passive bool) error {
	switch {
	case m.transport == nil:
		return ErrNoTransport
	case m.gone:
		return ErrRemoved
	}
	limit := m.transport.PrivateData(p.Space).Request
	if passive {
		limit = m.transport.PrivateData(p.Space).Reply
	}
	switch {
	case p.QP == nil && !(p.Space.Datagrams() && !passive):
		return fmt.Errorf("no QP: %w", ErrInvalid)
	case p.QP != nil && !p.OwnerMoves && p.QP.State() != verbs.Init && p.QP.State() != verbs.Reset:
		return fmt.Errorf("QP %d is in state %v: %w", p.QP.Num(), p.QP.State(), ErrInvalid)
	case len(p.PrivateData) > limit:
		return fmt.Errorf("%d octets of private data, limit %d: %w", len(p.PrivateData), limit, ErrInvalid)
	case p.IRD != NoReads && int(p.IRD) > m.dev.Limits().MaxIRD:
		return fmt.Errorf("IRD %d, limit %d: %w", p.IRD, m.dev.Limits().MaxIRD, ErrInvalid)
	case p.ORD != NoReads && int(p.ORD) > m.dev.Limits().MaxORD:
		return fmt.Errorf("ORD %d, limit %d: %w", p.ORD, m.dev.Limits().MaxORD, ErrInvalid)
	}
	if p.QP != nil && p.QP.State() == verbs.Reset && !p.OwnerMoves {
		return p.QP.Modify(verbs.Init)
	}
	return nil
}

// Connect asks the peer at remote for a connection. The outcome is an event.
func (id *ID) Connect(remote netip.AddrPort, p Params, now frame.Time) error {
	if id.state != Idle || id.dead {
		return id.wrap("connect", ErrState)
	}
	if !remote.Addr().IsValid() || remote.Port() == 0 {
		return id.wrap("connect", fmt.Errorf("remote address %v: %w", remote, ErrInvalid))
	}
	if err := p.check(id.m, false); err != nil {
		return id.wrap("connect", err)
	}
	id.dgram = p.Space.Datagrams()
	p.PrivateData = append([]byte(nil), p.PrivateData...)
	id.params, id.local, id.remote = p, p.Local, remote
	if err := id.m.transport.Connect(id, now); err != nil {
		return id.wrap("connect", err)
	}
	id.move(Connecting)
	return nil
}

// Accept answers a ConnectRequest with yes. PassiveComplete or Failed
// follows.
func (id *ID) Accept(p Params, now frame.Time) error {
	if id.state != Requested {
		return id.wrap("accept", ErrState)
	}
	p.Space = id.params.Space
	if err := p.check(id.m, true); err != nil {
		return id.wrap("accept", err)
	}
	p.PrivateData = append([]byte(nil), p.PrivateData...)
	id.params = p
	id.move(Accepting)
	if id.conn == nil {
		return id.wrap("accept", ErrClosing)
	}
	if err := id.conn.Accept(now); err != nil {
		return id.wrap("accept", err)
	}
	return nil
}

// Reject answers a ConnectRequest with no. Closed follows.
func (id *ID) Reject(private []byte, now frame.Time) error {
	if id.state != Requested {
		return id.wrap("reject", ErrState)
	}
	if limit := id.m.transport.PrivateData(id.params.Space).Reject; len(private) > limit {
		return id.wrap("reject", fmt.Errorf("%d octets of private data, limit %d: %w", len(private), limit, ErrInvalid))
	}
	id.move(Closing)
	id.m.Note(EvPassiveComplete, id, nil, id.m.transport.Words().Refusal, nil)
	if id.conn == nil {
		return ErrClosing
	}
	id.conn.Reject(private, now)
	return nil
}

// Disconnect ends the connection: gracefully, when queued sends are done and
// acknowledged, or at once if abortive. Disconnected and Closed follow. On an
// ID whose connection is ending already it has no effect unless abortive.
func (id *ID) Disconnect(abortive bool, now frame.Time) error {
	switch id.state {
	case Idle, Closed:
		return id.wrap("disconnect", ErrState)
	case Closing:
		if !abortive {
			return nil
		}
	}
	if id.conn != nil {
		id.conn.Disconnect(abortive, now)
	}
	return nil
}

// Destroy forgets an ID that is Idle or Closed.
func (id *ID) Destroy() error {
	switch {
	case id.m.dev.InCallback():
		return id.wrap("destroy", ErrInCallback)
	case id.state != Idle && id.state != Closed:
		return id.wrap("destroy", ErrBusy)
	}
	if !id.dead {
		id.dead = true
		id.m.ids.Remove(id.num)
	}
	return nil
}

func (id *ID) move(to State) bool {
	if moves[id.state]&(1<<to) == 0 {
		return false
	}
	id.state = to
	return true
}

func (id *ID) emit(ev Event) {
	ev.ID = id
	id.logged(&ev)
	id.m.dev.Enqueue(&eventRun{ev})
}

// Attach sets the transport's side of the connection, for transports; nil
// says that it has ended.
func (id *ID) Attach(c Conn) { id.conn = c }

// Conn returns the transport's side of the connection, nil if there is none.
func (id *ID) Conn() Conn { return id.conn }

// Request reports a peer's request over c, for transports: private data is
// taken, ird and ord are the limits that follow from the peer's.
func (m *Manager) Request(l *Listener, c Conn, local, remote netip.AddrPort, private []byte, ird, ord uint16) *ID {
	id := m.NewID(l.handler, l.Context)
	id.state, id.passive, id.conn, id.params.Space, id.dgram = Requested, true, c, l.space, l.space.Datagrams()
	id.local, id.remote, id.ird, id.ord = local, remote, ird, ord
	id.emit(Event{Type: ConnectRequest, Listener: l, PrivateData: private, IRD: ird, ORD: ord, Peer: peerOf(c)})
	return id
}

// FabricConn is a Conn of a transport that is a verbs.Fabric.
type FabricConn interface {
	Conn
	// QPAttr are the attributes that move the queue pair to state to, RTR or
	// RTS, and which of them count.
	QPAttr(to verbs.State) (qpattr.Attr, qpattr.Mask, error)
	// Peer is what is known of the peer.
	Peer() Peer
}

func peerOf(c Conn) (p Peer) {
	if f, ok := c.(FabricConn); ok {
		return f.Peer()
	}
	return p
}

// QPAttr are the attributes that move the queue pair to state to, RTR or RTS,
// and which of them count: known from ConnectRequest or ConnectResponse on.
// ErrState before, and if the connection manager makes the moves.
func (id *ID) QPAttr(to verbs.State) (qpattr.Attr, qpattr.Mask, error) {
	if f, ok := id.conn.(FabricConn); ok {
		return f.QPAttr(to)
	}
	return qpattr.Attr{}, 0, id.wrap("attributes", ErrState)
}

// Datagrams tells whether the ID is of a datagram space: it has no connection,
// only what was learned of the peer.
func (id *ID) Datagrams() bool { return id.dgram }

// SetLocal records the address chosen for Connect, for transports.
func (id *ID) SetLocal(local netip.AddrPort) { id.local = local }

// SetPeerReads records what the peer states about its Reads, for transports.
func (id *ID) SetPeerReads(ird, ord uint16) { id.peer = peerReads{ird, ord, true} }

// Complete reports that the connection is up, for transports.
func (id *ID) Complete(private []byte, ird, ord uint16) {
	typ := ActiveComplete
	if id.state == Accepting {
		typ = PassiveComplete
	}
	if !id.move(Connected) {
		return
	}
	id.up, id.ird, id.ord = true, ird, ord
	id.m.ups++
	id.emit(Event{Type: typ, PrivateData: private, IRD: ird, ORD: ord, Peer: peerOf(id.conn)})
}

// Replied reports, for transports, that the peer has accepted and Establish
// is awaited.
func (id *ID) Replied(private []byte, ird, ord uint16) {
	if id.state != Connecting || id.replied {
		return
	}
	id.replied, id.ird, id.ord = true, ird, ord
	id.emit(Event{Type: ConnectResponse, PrivateData: private, IRD: ird, ORD: ord, Peer: peerOf(id.conn)})
}

// Establish says that the application is ready: see Params.ManualEstablish. It
// is allowed once, after ConnectResponse. ActiveComplete follows.
func (id *ID) Establish(now frame.Time) error {
	if id.state != Connecting || !id.replied {
		return id.wrap("establish", ErrState)
	}
	id.replied = false
	if id.conn != nil {
		id.conn.Establish(now)
	}
	return nil
}

// SetReason records, for transports, why the connection fails or ends; the
// first one counts.
func (id *ID) SetReason(r Reason) {
	if id.reason == (Reason{}) {
		id.reason = r
	}
}

// Reason is why the connection failed or ended.
func (id *ID) Reason() Reason { return id.reason }

// Fail reports, for transports, that set-up failed: typ is Rejected, Refused,
// TimedOut, Unreachable or Failed. Closed follows by Finish.
func (id *ID) Fail(typ EventType, err error, private []byte) {
	id.FailWith(Event{Type: typ, Err: err, PrivateData: private})
}

// FailWith is Fail with an event that has a Code, too.
func (id *ID) FailWith(ev Event) {
	if !id.up && id.move(Closing) {
		ev.Reason = id.reason
		id.emit(ev)
	}
}

// Disconnecting reports, for transports, that the connection has begun to
// end: Disconnected is sent once, if the connection was up. A nil err means
// an orderly end.
func (id *ID) Disconnecting(err error) {
	if id.up && id.move(Closing) {
		id.emit(Event{Type: Disconnected, Err: err, Reason: id.reason})
	}
}

// Finish reports, for transports, that nothing of the connection is left. A
// connection that was neither completed nor failed is reported as Failed
// first.
func (id *ID) Finish(err error) {
	switch id.state {
	case Idle, Closed:
		return
	case Connecting, Requested, Accepting:
		if err == nil {
			err = ErrClosing
		}
		id.Fail(Failed, err, nil)
	case Connected:
		id.Disconnecting(err)
	}
	id.move(Closed)
	id.emit(Event{Type: ClosedEvent, Err: err, Reason: id.reason})
}
