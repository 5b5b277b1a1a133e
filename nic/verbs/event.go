package verbs

import (
	"fmt"

	"tapir/wire/frame"
)

// EventType names an asynchronous event, as in ibv_event_type.
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
	// EventCommEstablished: the first message arrived on a queue pair.
	EventCommEstablished
	// EventSQDrained: the send queue ran empty in state SQD.
	EventSQDrained
	// EventLastWQE: a queue pair with an SRQ took its last receive.
	EventLastWQE
	// EventSRQLimit: an SRQ holds fewer receives than its armed limit.
	EventSRQLimit
)

var eventNames = [...]string{
	"CQ error", "QP fatal", "QP request error", "QP access error", "terminated by peer",
	"communication established", "SQ drained", "last WQE reached", "SRQ limit reached",
}

func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint8(t))
}

// AsyncEvent is an event that belongs to no work request. The object
// concerned is the field that is set.
type AsyncEvent struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	Err  error // of EventQP* and EventTerminated: a *rdmap.Error with iWARP
}

type asyncRun struct {
	d  *Device
	ev AsyncEvent
}

func (r *asyncRun) Run(now frame.Time) {
	if r.d.async != nil {
		r.d.async(r.ev, now)
	}
}

// Async queues ev for the device's handler. Transports call it.
func (d *Device) Async(ev AsyncEvent) {
	if d.async != nil {
		d.Enqueue(&asyncRun{d, ev})
	}
}
