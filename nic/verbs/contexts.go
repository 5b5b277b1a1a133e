package verbs

import (
	"fmt"

	"tapir/wire/frame"
)

// NoCID is the connection id of a queue pair that has none.
const NoCID = -1

// Contexts is the hardware's side of queue pairs and shared receive queues: each
// has a context there, which the driver makes, changes and ends through the
// firmware. Errors are one clear line; those of resources that are all taken wrap
// ErrLimit, those of a firmware that does not do it ErrFirmware.
type Contexts interface {
	// CreateQP gives a queue pair a context and returns its connection id, NoCID as
	// long as there are no contexts at all. What fails leaves nothing.
	CreateQP(q *QP) (cid int, err error)
	// OffloadQP hands a connection to the queue pair's context, before its first
	// MPA frame.
	OffloadQP(q *QP) error
	// ModifyQP has the firmware close the connection gracefully (SQD), abort it
	// (Err), or forget it (Reset). failed is called if it does not, at once or later.
	ModifyQP(q *QP, to State, failed func(error))
	// MovedQP says that the transport, which stands for the firmware, has moved the
	// queue pair.
	MovedQP(q *QP)
	// QueryQP is the state of the context.
	QueryQP(q *QP) (State, error)
	// DestroyQP ends the context, whatever the firmware says.
	DestroyQP(q *QP)
	// CreateSRQ gives a shared receive queue a context, and returns its number or
	// NoCID. ModifySRQ arms its limit, DestroySRQ ends it.
	CreateSRQ(s *SRQ) (id int, err error)
	ModifySRQ(s *SRQ, limit int) error
	DestroySRQ(s *SRQ)
	// Raise has the firmware tell the driver of an event, which comes back to
	// Device.Deliver; false: there is no firmware that could.
	Raise(ev AsyncEvent) bool
}

// NoContexts is hardware without contexts.
type NoContexts struct{}

var _ Contexts = NoContexts{}

// CreateQP implements Contexts.
func (NoContexts) CreateQP(*QP) (int, error) { return NoCID, nil }

// OffloadQP implements Contexts.
func (NoContexts) OffloadQP(*QP) error { return nil }

// ModifyQP implements Contexts.
func (NoContexts) ModifyQP(*QP, State, func(error)) {}

// MovedQP implements Contexts.
func (NoContexts) MovedQP(*QP) {}

// QueryQP implements Contexts.
func (NoContexts) QueryQP(q *QP) (State, error) { return q.state, nil }

// DestroyQP implements Contexts.
func (NoContexts) DestroyQP(*QP) {}

// CreateSRQ implements Contexts.
func (NoContexts) CreateSRQ(*SRQ) (int, error) { return NoCID, nil }

// ModifySRQ implements Contexts.
func (NoContexts) ModifySRQ(*SRQ, int) error { return nil }

// DestroySRQ implements Contexts.
func (NoContexts) DestroySRQ(*SRQ) {}

// Raise implements Contexts.
func (NoContexts) Raise(AsyncEvent) bool { return false }

// SetContexts has queue pairs and shared receive queues take contexts; without it
// they have none.
func (d *Device) SetContexts(c Contexts) { d.conns = c }

// CID is the queue pair's connection id, NoCID if it has none.
func (q *QP) CID() int { return q.cid }

// ID is the number of the queue's context, NoCID if it has none.
func (s *SRQ) ID() int { return s.cid }

// TakeContexts gives a context to everything that has none: contexts have come.
func (d *Device) TakeContexts() (err error) {
	for _, s := range d.srqs.All() {
		if s.cid, err = d.conns.CreateSRQ(s); err == nil {
			err = d.conns.ModifySRQ(s, s.watch)
		}
		if err != nil {
			return fmt.Errorf("SRQ %d: %w", s.num, err)
		}
	}
	for _, q := range d.qps.All() {
		if q.cid, err = d.conns.CreateQP(q); err == nil && q.state > RTR {
			err = d.conns.OffloadQP(q)
		}
		if err != nil {
			return fmt.Errorf("QP %d: %w", q.num, err)
		}
		d.conns.MovedQP(q)
	}
	return nil
}

// DropContexts ends all contexts: they go.
func (d *Device) DropContexts() {
	for _, q := range d.qps.All() {
		d.conns.DestroyQP(q)
		q.cid = NoCID
	}
	for _, s := range d.srqs.All() {
		d.conns.DestroySRQ(s)
		s.cid = NoCID
	}
}

// Offload hands a connection to the queue pair's context, on the transport's
// behalf, before MPA begins.
func (q *QP) Offload() error { return q.dev.conns.OffloadQP(q) }

// Disconnect has the firmware close the connection, on behalf of the connection
// manager; the transport does it.
func (q *QP) Disconnect(abortive bool) {
	if abortive {
		modify(q, Err)
	} else {
		modify(q, SQD)
	}
}

// modify has the firmware move the queue pair; if that fails it is in error.
func modify(q *QP, to State) {
	q.dev.conns.ModifyQP(q, to, func(err error) {
		q.dev.Async(AsyncEvent{Type: EventQPFatal, QP: q, Err: fmt.Errorf("modify QP %d: %w", q.num, err)})
		q.dev.Defer(func(frame.Time) { abort(q) })
	})
}
