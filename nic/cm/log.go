package cm

import (
	"cmp"
	"net/netip"

	"tapir/nic/msglog"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// DeviceEvent is an event of the log by its name, such as PASSIVE_COMPLETE.
type DeviceEvent string

// The events of every transport. Others are a transport's own: see Words.
const (
	EvPassiveComplete DeviceEvent = "PASSIVE_COMPLETE"
	EvListenPauseComp DeviceEvent = "LISTEN_PAUSE_COMP"
	EvActiveComplete  DeviceEvent = "ACTIVE_COMPLETE"
	EvDisconnect      DeviceEvent = "DISCONNECT"
	EvClose           DeviceEvent = "CLOSE"
	EvSRQLimit        DeviceEvent = "SRQ_LIMIT"
	EvDeviceRemoval   DeviceEvent = "DEVICE_REMOVAL"
)

// Words are what a transport calls what happens to its connections.
type Words struct {
	// Events are all that its log may hold, in the order in which they are shown.
	Events []DeviceEvent
	// Request and Reply are ConnectRequest and ConnectResponse.
	Request, Reply DeviceEvent
	// Refusal is the reason of a request that the application here refuses.
	Refusal Reason
}

// Events are those that the log may hold, in the order in which they are shown.
func (m *Manager) Events() []DeviceEvent {
	if m.transport == nil {
		return nil
	}
	return m.transport.Words().Events
}

// Entry is one event in a manager's log.
type Entry struct {
	Seq    uint64 // from 0, without gaps
	At     frame.Time
	Event  DeviceEvent
	ID     uint32 // of the connection; 0: none
	QP     uint32 // 0: none
	State  string // of the QP behind the event, as its transport calls it
	Local  netip.AddrPort
	Remote netip.AddrPort
	Reason Reason
	IRD    uint16
	ORD    uint16
	// PrivateLen is the octets of private data that came with the event.
	PrivateLen int
	Err        error
}

// logEntries bounds the events that a log keeps.
const logEntries = 512

// Log holds the latest events of a manager, in their order.
type Log = msglog.Latest[Entry]

// Counted is how often event ev was logged.
func (m *Manager) Counted(ev DeviceEvent) uint64 { return m.counted[ev] }

// Log returns the manager's log.
func (m *Manager) Log() *Log { return &m.log }

// Begin says when the call began of which the following entries of the log tell:
// their time.
func (m *Manager) Begin(now frame.Time) { m.begun = now }

// Watch has fn called with every entry as it is logged.
func (m *Manager) Watch(fn func(*Entry)) { m.watch = fn }

// Note logs an event of a queue pair that is no event of an ID, for
// transports and the NIC. id and qp may be nil.
func (m *Manager) Note(ev DeviceEvent, id *ID, qp *verbs.QP, why Reason, err error) {
	e := Entry{Event: ev, Reason: why, Err: err}
	if id != nil {
		e = id.entry(ev, why, err)
		qp = cmp.Or(qp, id.params.QP)
	}
	m.note(m.of(e, qp))
}

// entry is an event of the connection.
func (id *ID) entry(ev DeviceEvent, why Reason, err error) Entry {
	return Entry{Event: ev, Reason: why, Err: err, ID: id.num, Local: id.local, Remote: id.remote, IRD: id.ird,
		ORD: id.ord}
}

// of is e as an event of qp, which may be nil.
func (m *Manager) of(e Entry, qp *verbs.QP) Entry {
	if qp != nil {
		e.QP, e.State = qp.Num(), qp.State().IWARP()
		if m.dev.Fabric() {
			e.State = qp.State().String()
		}
	}
	return e
}

func (m *Manager) note(e Entry) {
	e.Seq, e.At = m.log.Next(), m.begun
	m.counted[e.Event]++
	m.log.Add(e, logEntries)
	if m.watch != nil {
		m.watch(&e)
	}
}

// logged adds ev to the log under the name that the transport gives it.
func (id *ID) logged(ev *Event) {
	if ev.Type == DeviceRemoved {
		id.m.Note(EvDeviceRemoval, id, nil, Reason{}, nil)
		return
	}
	e := id.entry(id.deviceEvent(ev.Type), ev.Reason, ev.Err)
	e.IRD, e.ORD, e.PrivateLen = ev.IRD, ev.ORD, len(ev.PrivateData)
	id.m.note(id.m.of(e, id.params.QP))
}

func (id *ID) deviceEvent(t EventType) DeviceEvent {
	switch {
	case t == ConnectRequest:
		return id.m.transport.Words().Request
	case t == ConnectResponse:
		return id.m.transport.Words().Reply
	case t == Disconnected:
		return EvDisconnect
	case t == ClosedEvent:
		return EvClose
	case id.passive:
		return EvPassiveComplete
	}
	return EvActiveComplete
}
