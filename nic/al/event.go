package al

import (
	"tapir/nic/verbs"
	"tapir/wire/enum"
	"tapir/wire/frame"
)

// EventType is an asynchronous event as applications know it, numbered as
// ibv_event_type.
type EventType uint8

const (
	CQErr            EventType = 0
	QPFatal          EventType = 1
	QPReqErr         EventType = 2
	QPAccessErr      EventType = 3
	CommEst          EventType = 4
	SQDrained        EventType = 5
	PathMig          EventType = 6
	PathMigErr       EventType = 7
	DeviceFatal      EventType = 8
	PortActive       EventType = 9
	PortErr          EventType = 10
	LIDChange        EventType = 11
	PKeyChange       EventType = 12
	SMChange         EventType = 13
	SRQErr           EventType = 14
	SRQLimitReached  EventType = 15
	QPLastWQEReached EventType = 16
	ClientReregister EventType = 17
	GIDChange        EventType = 18
	WQFatal          EventType = 19 // of work queues that no RNIC here has
)

var typeNames = [...]string{
	"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG",
	"PATH_MIG_ERR", "DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE",
	"SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER",
	"GID_CHANGE", "WQ_FATAL",
}

func (t EventType) String() string {
	return enum.Name(typeNames[:], t, "event %d")
}

// Event is what a handler is told.
type Event struct {
	Type    EventType
	Context *Context // whose handler it is, or that the object belongs to; nil: none
	QP      *verbs.QP
	CQ      *verbs.CQ
	SRQ     *verbs.SRQ
	Port    uint8 // of port events, from 1
	Err     error // why, where the device says
}

// EventHandler takes events: of a device if given to OpenCA, of an object if
// it is the object's private pointer (SetPrivate). Calls come from the
// device's Dispatch.
type EventHandler interface {
	AsyncEvent(ev Event, now frame.Time)
}

// EventFunc is a function as EventHandler.
type EventFunc func(ev Event, now frame.Time)

// AsyncEvent implements EventHandler.
func (f EventFunc) AsyncEvent(ev Event, now frame.Time) { f(ev, now) }

// Route says whom an event is for.
type Route uint8

const (
	Consumed Route = iota // ends in the access layer and is counted
	ToQP
	ToCQ
	ToSRQ
	ToContexts // every open context
	AddClient
	RemoveClient
)

var routeNames = [...]string{"consumed", "QP", "CQ", "SRQ", "contexts", "client add", "client remove"}

func (r Route) String() string { return routeNames[r] }

// Translation is what becomes of one event of the layer below.
type Translation struct {
	IBTF  string // the Solaris IBTF event that it stands for; empty: none
	Upper EventType
	Route Route
}

// translations is indexed by the event of the layer below. Rows with an IBTF
// name are those of the Solaris Open Fabrics architecture, section 1.1.1;
// what has no row is consumed.
var translations = [verbs.NumEventTypes]Translation{
	verbs.EventPathMigrated:     {"IBT_EVENT_PATH_MIGRATED", PathMig, ToQP},
	verbs.EventSQDrained:        {"IBT_EVENT_SQD", SQDrained, ToQP},
	verbs.EventCommEstablished:  {"IBT_EVENT_COM_EST", CommEst, ToQP},
	verbs.EventQPFatal:          {"IBT_ERROR_CATASTROPHIC_CHAN", QPFatal, ToQP},
	verbs.EventQPRequestError:   {"IBT_ERROR_INVALID_REQUEST_CHAN", QPReqErr, ToQP},
	verbs.EventQPAccessError:    {"IBT_ERROR_ACCESS_VIOLATION_CHAN", QPAccessErr, ToQP},
	verbs.EventPathMigrateError: {"IBT_ERROR_PATH_MIGRATE_REQ", PathMigErr, ToQP},
	verbs.EventCQError:          {"IBT_ERROR_CQ", CQErr, ToCQ},
	verbs.EventSRQLimit:         {"IBT_EVENT_LIMIT_REACHED_SRQ", SRQLimitReached, ToSRQ},
	verbs.EventLastWQE:          {"IBT_EVENT_EMPTY_CHAN", QPLastWQEReached, ToQP},
	verbs.EventSRQError:         {"IBT_ERROR_CATASTROPHIC_SRQ", SRQErr, ToSRQ},
	verbs.EventAttach:           {"IBT_ATTACH_EVENT", 0, AddClient},
	verbs.EventDetach:           {"IBT_DETACH_EVENT", 0, RemoveClient},

	verbs.EventDeviceFatal:      {"", DeviceFatal, ToContexts},
	verbs.EventPortActive:       {"", PortActive, ToContexts},
	verbs.EventPortError:        {"", PortErr, ToContexts},
	verbs.EventLIDChange:        {"", LIDChange, ToContexts},
	verbs.EventPKeyChange:       {"", PKeyChange, ToContexts},
	verbs.EventSMChange:         {"", SMChange, ToContexts},
	verbs.EventClientReregister: {"", ClientReregister, ToContexts},
	verbs.EventGIDChange:        {"", GIDChange, ToContexts},
}

// Translate tells what becomes of an event of the layer below.
func Translate(t verbs.EventType) Translation {
	if t >= verbs.NumEventTypes {
		return Translation{}
	}
	return translations[t]
}

// lower takes an event of the layer below; r is the client that an attach or
// detach concerns.
func (ca *CA) lower(low verbs.AsyncEvent, r *registration, now frame.Time) {
	t := Translate(low.Type)
	ev := Event{Type: t.Upper, QP: low.QP, CQ: low.CQ, SRQ: low.SRQ, Port: low.Port, Err: low.Err}
	if c := low.Context(); c != nil {
		ev.Context, _ = c.Private.(*Context)
	}
	var upper any
	switch t.Route {
	case AddClient:
		ca.attach(r, now)
		return
	case RemoveClient:
		if d := ca.device(r); d != nil {
			d.tell(now)
		}
		return
	case ToContexts:
		for _, c := range append([]*Context(nil), ca.contexts...) {
			ev.Context = c
			c.deliver(ev, now)
		}
		return
	case ToQP:
		upper = low.QP.Private
	case ToCQ:
		upper = low.CQ.Private
	case ToSRQ:
		upper = low.SRQ.Private
	}
	h, ok := upper.(EventHandler)
	switch {
	case t.Route == Consumed:
		ca.consumed[low.Type]++
	case ok:
		h.AsyncEvent(ev, now)
	case ev.Context != nil:
		ev.Context.deliver(ev, now)
	default:
		ca.consumed[low.Type]++
	}
}

func (c *Context) deliver(ev Event, now frame.Time) {
	if c.handler != nil {
		c.handler.AsyncEvent(ev, now)
	}
}

// CompletionHandler takes the notifications of a completion queue.
type CompletionHandler interface {
	Completion(cq *verbs.CQ, now frame.Time)
}

// Retarget makes upper, the layer above's own object for cq, the target of
// what cq reports: of its notifications, and, if it is an EventHandler too, of
// its events.
func Retarget(cq *verbs.CQ, upper CompletionHandler) {
	cq.Private = upper
	cq.SetHandler(completed)
}

// completed is the one notification handler of this layer.
func completed(cq *verbs.CQ, now frame.Time) {
	if h, ok := cq.Private.(CompletionHandler); ok {
		h.Completion(cq, now)
	}
}
