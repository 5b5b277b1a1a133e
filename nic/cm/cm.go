package cm

import (
	"fmt"
	"net/netip"
	"slices"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/enum"
	"tapir/wire/frame"
	"tapir/wire/roster"
)

// State is the state of an ID.
type State uint8

const (
	Idle       State = iota
	Connecting       // Connect was called
	Requested        // a peer's request waits for Accept or Reject
	Accepting        // Accept was called
	Connected        // data may flow
	Closing          // Disconnect was called or the peer closed
	Closed           // nothing will happen any more
	numStates
)

var stateNames = [numStates]string{
	"IDLE", "CONNECTING", "REQUESTED", "ACCEPTING", "CONNECTED", "CLOSING", "CLOSED",
}

func (s State) String() string { return stateNames[s] }

// moves lists the transitions; bit n stands for the target state n.
var moves = [numStates]uint8{
	Idle:       1<<Connecting | 1<<Closed,
	Connecting: 1<<Connected | 1<<Closing | 1<<Closed,
	Requested:  1<<Accepting | 1<<Closing | 1<<Closed,
	Accepting:  1<<Connected | 1<<Closing | 1<<Closed,
	Connected:  1<<Closing | 1<<Closed,
	Closing:    1 << Closed,
}

// EventType names an event.
type EventType uint8

const (
	// ConnectRequest: a peer wants to connect; answer with Accept or Reject.
	// The event's ID belongs to the handler, which destroys it when it is
	// closed.
	ConnectRequest EventType = iota
	// ActiveComplete: the connection that this side asked for is up.
	ActiveComplete
	// PassiveComplete: the connection that this side accepted is up.
	PassiveComplete
	// Rejected: the peer's application refused; PrivateData is its answer.
	Rejected
	// Refused: nothing listens at the peer's address.
	Refused
	// TimedOut: the peer did not answer in time.
	TimedOut
	// Unreachable: no way to the peer.
	Unreachable
	// Failed: set-up failed for another reason, Err.
	Failed
	// Disconnected: an established connection ended; Err is nil if orderly.
	Disconnected
	// ClosedEvent: nothing of the connection is left; the last event of an ID.
	ClosedEvent
	// ConnectResponse: the peer accepted, and with Params.ManualEstablish
	// Establish is due.
	ConnectResponse
	// ListenPaused: Pause of the event's Listener has taken effect; ID is nil.
	ListenPaused
	// DeviceRemoved: the NIC goes; Disconnected and Closed follow, or for a
	// Listener, when ID is nil, nothing.
	DeviceRemoved
)

var eventNames = [...]string{
	"connect request", "active complete", "passive complete", "rejected", "refused",
	"timed out", "unreachable", "failed", "disconnected", "closed", "connect response", "listen paused",
	"device removed",
}

func (t EventType) String() string {
	return enum.Name(eventNames[:], t, "event %d")
}

// Event is what a handler is told.
type Event struct {
	Type        EventType
	ID          *ID
	Listener    *Listener // of ConnectRequest
	PrivateData []byte    // the peer's, owned by the receiver of the event
	// IRD and ORD are this side's limits: offered with ConnectRequest, in
	// force with a completion.
	IRD, ORD uint16
	Err      error
	Reason   Reason // of a failure or an end
	// Code is the transport's number for a refusal; 0: it has none.
	Code uint16
	Peer Peer
}

// Peer is what a transport with datagrams or reliable connections of InfiniBand
// learns of the peer with ConnectRequest, ConnectResponse and completions; zero
// with others.
type Peer struct {
	Path        qpattr.Path // to the peer
	QPN         uint32      // 24 bits; in a datagram space who may be sent to
	QKey        uint32      // of a datagram space
	Retry       uint8       // that the peer asks for
	RNRRetry    uint8
	FlowControl bool
	SRQ         bool
}

// Handler is called by the device's Dispatch.
type Handler func(ev Event, now frame.Time)

// Params describes this side of a connection.
type Params struct {
	// QP is in state Init or Reset, or further with OwnerMoves. A client in a
	// datagram space needs none.
	QP          *verbs.QP
	PrivateData []byte // sent to the peer; see Transport.PrivateData
	// Space is the port space of Connect: see PortSpace.
	Space PortSpace
	// OwnerMoves leaves the moves to RTR and RTS to the queue pair's owner, who
	// gets the attributes from ID.QPAttr. A transport whose queue pairs the
	// owner cannot move has no use for it.
	OwnerMoves bool
	// QKey is that of the queue pair that a datagram space hands to clients; 0
	// takes the default. Accept only.
	QKey uint32
	// Retry and RNRRetry, 0 to 7, are asked of InfiniBand's reliable service, 7
	// if nil; SRQ tells the peer that the queue pair has a shared receive queue.
	Retry, RNRRetry *uint8
	SRQ             bool
	// AckTimeout replaces the ACK timeout that follows from the path, 4.096 us
	// times 2 to this power; 0 does not.
	AckTimeout uint8
	// IRD and ORD are the Reads wanted inbound and outbound, at most the
	// device's limits, cut to what the peer can do: 0 takes the NIC's default,
	// NoReads stands for none.
	IRD, ORD uint16
	// PeerToPeer asks for the peer-to-peer model, in which a ready-to-receive
	// indication lets the accepting side send first. Connect only.
	PeerToPeer bool
	// MaySendFirst lets the accepting side send first when the other side is
	// silent for a time that the NIC sets, though it has not asked for the
	// peer-to-peer model. Accept only.
	MaySendFirst bool
	// ManualEstablish lets the application say when it is ready:
	// ConnectResponse comes first, and Establish, which tells the peer if the
	// transport has a message for that, leads to ActiveComplete. Connect only.
	ManualEstablish bool
	// Local is the address to connect from; the zero value lets the NIC
	// choose, port 0 an ephemeral one. Connect only.
	Local netip.AddrPort
	// SL is the service level of the path, 1 to 7; 0 takes that of TOS. A transport without
	// service levels has no use for it. Connect only.
	SL uint8
	// TOS is DSCP<<2 of the connection's packets, the traffic class of IPv6; 0
	// takes the NIC's.
	TOS uint8
}

// NoReads as IRD or ORD of Params allows no RDMA Read in that direction.
const NoReads uint16 = 0xffff

// PortSpace is a number space of ports, numbered as rdma_cm's. The zero value
// stands for PortSpaceTCP.
type PortSpace uint16

// Port spaces. A transport without datagrams takes PortSpaceIB for TCP's and
// refuses the others.
const (
	PortSpaceIPoIB PortSpace = 0x0002
	PortSpaceTCP   PortSpace = 0x0106
	PortSpaceUDP   PortSpace = 0x0111 // datagrams
	PortSpaceIB    PortSpace = 0x013f
)

// Datagrams tells whether the space is for datagrams.
func (s PortSpace) Datagrams() bool { return s == PortSpaceUDP || s == PortSpaceIPoIB }

// Limits are numbers of octets of private data.
type Limits struct {
	Request, Reply, Reject int
}

// Transport makes and ends connections. It reports through the methods of ID
// and Manager that are marked "for transports".
type Transport interface {
	// Listen waits for requests to l's address.
	Listen(l *Listener) (Acceptor, error)
	// Connect begins a connection and gives it to id with ID.Attach.
	Connect(id *ID, now frame.Time) error
	// PrivateData is how much fits into the messages of a space.
	PrivateData(space PortSpace) Limits
	// Words are its names for events and reasons, borrowed.
	Words() *Words
}

// Acceptor is the transport's side of a listener.
type Acceptor interface {
	// Close ends listening. Connections whose request is not complete end,
	// requests that were reported stay.
	Close()
	// Pause makes the listener take no new connections until it is called with
	// false.
	Pause(on bool)
}

// Conn is the transport's side of a connection. An ID has one from Connect, or
// from Manager.Request, until the transport takes it back with Attach(nil).
type Conn interface {
	// Accept answers the peer's request with yes.
	Accept(now frame.Time) error
	// Establish completes a connection whose ConnectResponse was reported.
	Establish(now frame.Time)
	// Reject answers with private data, then closes.
	Reject(private []byte, now frame.Time)
	// Disconnect ends the connection: gracefully (queued sends first), or
	// abortively. During set-up it is always abortive.
	Disconnect(abortive bool, now frame.Time)
}

// Manager is the connection manager of one NIC.
type Manager struct {
	dev       *verbs.Device
	transport Transport
	ids       roster.Roster[ID]
	listeners roster.Roster[Listener]
	nextNum   uint32
	gone      bool
	vlan      uint16
	log       Log
	counted   map[DeviceEvent]uint64
	opened    uint32     // listeners
	ups       uint64     // connections
	begun     frame.Time // see Begin
	watch     func(*Entry)
	paused    bool // all listeners are
}

// New returns a manager whose events are dispatched by dev.
func New(dev *verbs.Device) *Manager {
	return &Manager{dev: dev, counted: map[DeviceEvent]uint64{}}
}

// SetTransport binds the transport.
func (m *Manager) SetTransport(t Transport) { m.transport = t }

// SetVLAN tells which VLAN the NIC's connections are in; 0: none.
func (m *Manager) SetVLAN(id uint16) { m.vlan = id }

// IDs returns all IDs not destroyed, in order of creation, borrowed.
func (m *Manager) IDs() []*ID { return m.ids.All() }

// Listeners returns all open listeners in order of creation, borrowed.
func (m *Manager) Listeners() []*Listener { return m.listeners.All() }

// Opened is the number of listeners ever opened.
func (m *Manager) Opened() uint64 { return uint64(m.opened) }

// Established is the number of connections that have come up.
func (m *Manager) Established() uint64 { return m.ups }

// Listener waits for requests at one address.
type Listener struct {
	m       *Manager
	num     uint32
	space   PortSpace
	local   netip.AddrPort
	backlog int
	handler Handler
	paused  bool
	closed  bool

	// Context is the owner's and is inherited by the IDs of requests.
	Context any

	acceptor Acceptor
}

// DefaultBacklog is the backlog of a listener that names none.
const DefaultBacklog = 128

// Listen is ListenIn for the port space of TCP.
func (m *Manager) Listen(local netip.AddrPort, backlog int, h Handler, ctx any) (*Listener, error) {
	return m.ListenIn(PortSpaceTCP, local, backlog, h, ctx)
}

// ListenIn opens a listener at local, whose address may be unspecified
// (wildcard). backlog is the number of connections that may wait to be
// accepted; 0 stands for DefaultBacklog. h is the handler of the requests and,
// until changed, of their IDs.
func (m *Manager) ListenIn(space PortSpace, local netip.AddrPort, backlog int, h Handler, ctx any) (*Listener,
	error) {
	switch {
	case m.transport == nil:
		return nil, ErrNoTransport
	case m.gone:
		return nil, ErrRemoved
	case h == nil || local.Port() == 0 || !local.Addr().IsValid():
		return nil, fmt.Errorf("listen %v: address, port and handler are needed: %w", local, ErrInvalid)
	}
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	l := &Listener{m: m, space: space, local: local, backlog: backlog, handler: h, Context: ctx}
	var err error
	if l.acceptor, err = m.transport.Listen(l); err != nil {
		return nil, fmt.Errorf("listen %v: %w", local, err)
	}
	m.opened++
	l.num = m.opened
	m.listeners.Add(l.num, l)
	if m.paused {
		l.hold()
	}
	return l, nil
}

// Num is the listener's number within its manager, from 1.
func (l *Listener) Num() uint32 { return l.num }

// Acceptor returns the transport's side of the listener.
func (l *Listener) Acceptor() Acceptor { return l.acceptor }

// Space is the listener's port space.
func (l *Listener) Space() PortSpace { return l.space }

// Local returns the listener's address.
func (l *Listener) Local() netip.AddrPort { return l.local }

// Backlog is the number of connections that may wait to be accepted: from the
// peer's first message on until Accept or Reject. While they are as many, others do not
// get in; peers go on trying until their own timeout.
func (l *Listener) Backlog() int { return l.backlog }

// Close stops listening. Requests already reported stay.
func (l *Listener) Close() {
	if l.closed {
		return
	}
	l.closed = true
	l.m.listeners.Remove(l.num)
	l.acceptor.Close()
}

// Pause makes the listener take no new connections: peers go on asking until
// Resume or their own timeout. What has begun goes on. ListenPaused follows.
func (l *Listener) Pause() error { return l.pause(true) }

// Resume takes connections again.
func (l *Listener) Resume() error { return l.pause(false) }

// Paused tells whether Pause is in force.
func (l *Listener) Paused() bool { return l.paused }

func (l *Listener) pause(on bool) error {
	if l.closed {
		return fmt.Errorf("pause listener %v: %w", l.local, ErrState)
	}
	if l.paused == on {
		return nil
	}
	l.paused = on
	if l.m.paused { // it is already, and stays so
		return nil
	}
	if !on {
		l.acceptor.Pause(false)
		return nil
	}
	l.hold()
	return nil
}

// hold pauses the listener, and tells so.
func (l *Listener) hold() {
	l.acceptor.Pause(true)
	l.tell(ListenPaused)
	l.m.note(Entry{Event: EvListenPauseComp, Local: l.local})
}

// PauseAll pauses all listeners, also those to come, or ends that: then those that
// were paused themselves stay so.
func (m *Manager) PauseAll(on bool) {
	if m.paused == on {
		return
	}
	m.paused = on
	for _, l := range m.listeners.All() {
		switch {
		case l.paused:
		case on:
			l.hold()
		default:
			l.acceptor.Pause(false)
		}
	}
}

// tell sends an event of the listener itself.
func (l *Listener) tell(t EventType) {
	l.m.dev.Enqueue(&eventRun{Event{Type: t, Listener: l}})
}

// Remove ends all that the manager has because the NIC goes: every listener
// and ID is told with DeviceRemoved, listeners are closed, connections aborted
// (Disconnected, if they were up, and Closed follow). Nothing can be opened
// any more.
func (m *Manager) Remove(now frame.Time) {
	m.gone = true
	for _, l := range slices.Clone(m.listeners.All()) {
		l.tell(DeviceRemoved)
		m.note(Entry{Event: EvDeviceRemoval, Local: l.local})
		l.Close()
	}
	for _, id := range slices.Clone(m.ids.All()) {
		if id.state == Closed {
			continue
		}
		id.emit(Event{Type: DeviceRemoved})
		if id.state != Idle && id.conn != nil {
			id.conn.Disconnect(true, now)
		}
	}
}

type eventRun struct{ ev Event }

func (r *eventRun) Run(now frame.Time) {
	h := Handler(nil)
	if r.ev.ID != nil {
		h = r.ev.ID.handler
	} else {
		h = r.ev.Listener.handler
	}
	if h != nil {
		h(r.ev, now)
	}
}
