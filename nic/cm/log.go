package cm

import (
	"cmp"
	"net/netip"

	"tapir/nic/msglog"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// DeviceEvent names an event as the FastLinQ driver's iWARP interface does.
type DeviceEvent uint8

const (
	EvMPARequest DeviceEvent = iota
	EvPassiveComplete
	EvListenPauseComp
	EvActiveMPAReply
	EvActiveComplete
	EvDisconnect
	EvClose
	EvIRQFull
	EvRQEmpty
	EvLLPTimeout
	EvRemoteProtectionError
	EvCQOverflow
	EvQPCatastrophic
	EvLocalAccessError
	EvRemoteOperationError
	EvTerminateReceived
	EvSRQLimit
	EvSRQEmpty
	EvDeviceRemoval
	NumDeviceEvents
)

var deviceEventNames = [NumDeviceEvents]string{
	"MPA_REQUEST", "PASSIVE_COMPLETE", "LISTEN_PAUSE_COMP", "ACTIVE_MPA_REPLY", "ACTIVE_COMPLETE",
	"DISCONNECT", "CLOSE", "IRQ_FULL", "RQ_EMPTY", "LLP_TIMEOUT", "REMOTE_PROTECTION_ERROR",
	"CQ_OVERFLOW", "QP_CATASTROPHIC", "LOCAL_ACCESS_ERROR", "REMOTE_OPERATION_ERROR",
	"TERMINATE_RECEIVED", "SRQ_LIMIT", "SRQ_EMPTY", "DEVICE_REMOVAL",
}

func (e DeviceEvent) String() string { return deviceEventNames[e] }

// Entry is one event in a manager's log.
type Entry struct {
	Seq    uint64 // from 0, without gaps
	At     frame.Time
	Event  DeviceEvent
	ID     uint32 // of the connection; 0: none
	QP     uint32 // 0: none
	State  string // iWARP state of the QP behind the event
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
	m.note(e.of(qp))
}

// entry is an event of the connection.
func (id *ID) entry(ev DeviceEvent, why Reason, err error) Entry {
	return Entry{Event: ev, Reason: why, Err: err, ID: id.num, Local: id.local, Remote: id.remote, IRD: id.ird,
		ORD: id.ord}
}

// of is e as an event of qp, which may be nil.
func (e Entry) of(qp *verbs.QP) Entry {
	if qp != nil {
		e.QP, e.State = qp.Num(), qp.State().IWARP()
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

// logged adds ev to the log under the name that the driver's interface gives
// it.
func (id *ID) logged(ev *Event) {
	if ev.Type == DeviceRemoved {
		id.m.Note(EvDeviceRemoval, id, nil, NoReason, nil)
		return
	}
	e := id.entry(id.deviceEvent(ev.Type), ev.Reason, ev.Err)
	e.IRD, e.ORD, e.PrivateLen = ev.IRD, ev.ORD, len(ev.PrivateData)
	id.m.note(e.of(id.params.QP))
}

// deviceEvents are the names of events that tell nothing of the side.
var deviceEvents = map[EventType]DeviceEvent{
	ConnectRequest: EvMPARequest, MPAReply: EvActiveMPAReply, Disconnected: EvDisconnect, ClosedEvent: EvClose,
}

func (id *ID) deviceEvent(t EventType) DeviceEvent {
	if ev, ok := deviceEvents[t]; ok {
		return ev
	}
	if id.passive {
		return EvPassiveComplete
	}
	return EvActiveComplete
}
