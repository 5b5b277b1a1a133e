package verbs

import (
	"tapir/wire/enum"
	"tapir/wire/frame"
)

// EventType names an asynchronous event of this layer. The access layer
// (nic/al) translates it to the numbers of ibv_event_type.
type EventType uint8

const (
	// EventCQError: a completion queue overflowed; completions were lost.
	EventCQError EventType = iota
	// EventQPFatal: the connection failed; Err says why.
	EventQPFatal
	// EventQPRequestError: the peer violated the protocol.
	EventQPRequestError
	// EventQPAccessError: the peer tried an access it has no right to.
	EventQPAccessError
	// EventTerminated: the peer sent a Terminate message; Err holds it.
	EventTerminated
	// EventCommEstablished: the first frame of the initiator arrived on a queue
	// pair whose owner waits for it: the responder's in the peer-to-peer model.
	EventCommEstablished
	// EventSQDrained: the send queue ran empty in state SQD.
	EventSQDrained
	// EventLastWQE: a queue pair with an SRQ took its last receive.
	EventLastWQE
	// EventSRQLimit: an SRQ holds fewer receives than its armed limit.
	EventSRQLimit
	// EventSRQError: an SRQ failed, since the memory of its ring holds a request
	// that cannot be read. It gives no receives any more.
	EventSRQError
	// EventPathMigrated and EventPathMigrateError belong to InfiniBand's
	// alternate paths; a TCP connection has none, so no RNIC raises them.
	EventPathMigrated
	EventPathMigrateError
	// EventDeviceFatal: the device is gone; its queue pairs are in error and
	// flushed. Err says why. Objects can still be destroyed.
	EventDeviceFatal
	// EventPortActive and EventPortError: Port began or ceased to carry data.
	EventPortActive
	EventPortError
	// EventGIDChange: the GID table of Port changed.
	EventGIDChange
	// EventLIDChange, EventPKeyChange, EventSMChange and
	// EventClientReregister: a manager programmed Port.
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventClientReregister
	// EventAttach and EventDetach: the device came into or leaves the care of
	// an access layer.
	EventAttach
	EventDetach
	NumEventTypes
)

var eventNames = [NumEventTypes]string{
	"CQ error", "QP fatal", "QP request error", "QP access error", "terminated by peer",
	"communication established", "SQ drained", "last WQE reached", "SRQ limit reached",
	"SRQ error", "path migrated", "path migration error", "device fatal", "port active",
	"port error", "GID change", "LID change", "PKey change", "SM change", "client reregister",
	"attach", "detach",
}

func (t EventType) String() string {
	return enum.Name(eventNames[:], t, "event %d")
}

// AsyncEvent is an event that belongs to no work request. An affiliated one
// sets the object concerned; an unaffiliated one of a port sets Port; the
// others concern the device.
type AsyncEvent struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	Port uint8 // from 1
	Err  error // of EventQP*, EventTerminated and EventDeviceFatal: a *rdmap.Error with iWARP
}

// Context returns the context that the object concerned was made through;
// nil for the others and for unaffiliated events.
func (ev *AsyncEvent) Context() *Context {
	switch {
	case ev.QP != nil:
		return ev.QP.pd.ctx
	case ev.CQ != nil:
		return ev.CQ.ctx
	case ev.SRQ != nil:
		return ev.SRQ.pd.ctx
	}
	return nil
}

// stale tells that the object concerned was destroyed after the event was
// raised: its owner must not hear of it any more.
func (ev *AsyncEvent) stale() bool {
	return ev.QP != nil && ev.QP.dead || ev.CQ != nil && ev.CQ.dead || ev.SRQ != nil && ev.SRQ.dead
}

type asyncRun struct {
	d  *Device
	ev AsyncEvent
}

func (r *asyncRun) Run(now frame.Time) {
	if r.d.async != nil && !r.ev.stale() {
		r.d.async(r.ev, now)
	}
}

// Async tells of ev: through the firmware if there is one, else at once.
// Transports call it.
func (d *Device) Async(ev AsyncEvent) {
	if !d.conns.Raise(ev) {
		d.Deliver(ev)
	}
}

// Deliver counts ev and queues it for the device's handler: the driver has heard
// of it.
func (d *Device) Deliver(ev AsyncEvent) {
	d.raised[ev.Type]++
	if d.watch != nil {
		d.watch(ev)
	}
	if d.async != nil {
		d.Enqueue(&asyncRun{d, ev})
	}
}

// Watch has fn called with every event as it is delivered, beside the handler.
func (d *Device) Watch(fn func(AsyncEvent)) { d.watch = fn }

// Raised is how often events of type t were raised.
func (d *Device) Raised(t EventType) uint64 { return d.raised[t] }
