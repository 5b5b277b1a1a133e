// Package iwarp makes queue pairs and connections work: RDMAP over DDP over
// MPA over the TCP offload engine. It is the transport of verbs and the
// connection manager.
//
// The way of an outbound work request:
//
//  1. verbs queues it and calls Posted; the connection is kicked (engine.go)
//  2. in its next poll toe asks Next how much to send (send.go)
//  3. rdmap chooses the message and cuts a DDP segment (rdmap/stream_send.go)
//  4. a record of the FPDU is kept until TCP acknowledges it (log.go); bytes
//     that may change meanwhile are copied (keep.go)
//  5. toe calls Render: header and payload go straight into the frame, the
//     CRC is computed over that copy (send.go)
//  6. Acked releases the records and completes requests (send.go)
//
// The way of inbound bytes:
//
//  1. toe hands over stream bytes in order (receive.go)
//  2. until start-up is complete they belong to MPA's negotiation (startup.go)
//  3. mpa finds the FPDUs and checks their CRC
//  4. rdmap checks the segment and places it through the upper side of the
//     connection, straight into the memory region (upper.go)
//  5. what TCP has received before its turn is placed too, and counted when
//     the gap in front of it closes (early.go)
//  6. errors become a Terminate and end the connection (close.go)
package iwarp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// Engine is the iWARP transport of one NIC. It has no clock, goroutine or
// lock; one thread calls it.
type Engine struct {
	cfg   Config
	dev   *verbs.Device
	cm    *cm.Manager
	tcp   *toe.Engine
	notes *frame.Notes
	// noted is what the last note with number noteID says.
	noted  noteKey
	noteID uint64

	now     frame.Time
	conns   []*conn // by creation
	timed   []*conn // those with a deadline
	memory  memory
	scratch []byte // one FPDU, for segments that hold only part of it
	placing *conn  // whose payload may wait in verbs to be placed
	totals  Totals // of connections that are gone
}

// New returns an engine that serves dev and m over t and makes itself their
// transport. notes, which may be nil, is told about each FPDU while on.
func New(cfg Config, dev *verbs.Device, m *cm.Manager, t *toe.Engine, notes *frame.Notes) *Engine {
	if notes == nil {
		notes = &frame.Notes{}
	}
	e := &Engine{cfg: cfg.withDefaults(), dev: dev, cm: m, tcp: t, notes: notes}
	dev.SetTransport((*transport)(e))
	m.SetTransport((*connector)(e))
	return e
}

// Poll runs the timers that are due and returns the next deadline. Call it
// before the TCP engine's Poll, which does the sending and may bring the
// deadline forward: ask Deadline after it.
func (e *Engine) Poll(now frame.Time) frame.Time {
	e.now = now
	e.settle()
	kept := e.timed[:0]
	due := []*conn(nil)
	for _, c := range e.timed {
		switch {
		case c.deadline == frame.Never:
			c.timed = false
		case c.deadline <= now:
			c.timed = false
			due = append(due, c)
		default:
			kept = append(kept, c)
		}
	}
	clear(e.timed[len(kept):])
	e.timed = kept
	for _, c := range due {
		c.deadline = frame.Never
		c.expired(now)
	}
	return e.Deadline()
}

// Deadline is when Poll has something to do, frame.Never if no timer runs.
func (e *Engine) Deadline() frame.Time {
	next := frame.Never
	for _, c := range e.timed {
		next = min(next, c.deadline)
	}
	return next
}

// arm sets the deadline of what c waits for; frame.Never stops it.
func (e *Engine) arm(c *conn, at frame.Time) {
	c.until, c.after = at, 0
	e.rearm(c)
}

// armAfter is arm for d from the next Poll on: calls of applications may come
// long after the last one, and bring no time with them.
func (e *Engine) armAfter(c *conn, d time.Duration) {
	c.until, c.after = 0, d
	e.rearm(c)
}

// rearm makes the first of c's deadlines the one that counts.
func (e *Engine) rearm(c *conn) {
	c.deadline = min(c.until, c.nudger.at)
	if c.deadline != frame.Never && !c.timed {
		c.timed = true
		e.timed = append(e.timed, c)
	}
}

// transport is the engine as verbs sees it.
type transport Engine

// Opcodes implements verbs.Transport.
func (t *transport) Opcodes() verbs.OpSet {
	return verbs.LocalOps | verbs.Ops(verbs.OpSend, verbs.OpSendInv, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm,
		verbs.OpRead, verbs.OpReadInv, verbs.OpCompSwap, verbs.OpFetchAdd, verbs.OpSwap,
		verbs.OpMaskedCompSwap, verbs.OpMaskedFetchAdd)
}

func (t *transport) Posted(qp *verbs.QP) {
	if c, ok := qp.Lower.(*conn); ok {
		c.tcp.Kick()
	}
}

func (t *transport) Modified(qp *verbs.QP, old verbs.State) {
	(*Engine)(t).settle()
	c, ok := qp.Lower.(*conn)
	if !ok {
		return
	}
	if qp.State() == verbs.SQD {
		c.drain()
		return
	}
	c.abort()
}

func (t *transport) Destroyed(qp *verbs.QP) {
	(*Engine)(t).settle()
	if c, ok := qp.Lower.(*conn); ok {
		c.abort()
		c.qp, qp.Lower = nil, nil
	}
}

func (t *transport) Deregister(mr *verbs.MR) {
	(*Engine)(t).settle()
	for _, c := range t.conns {
		c.keepUnacked(mr)
	}
}

// connector is the engine as the connection manager sees it.
type connector Engine

func (t *connector) Listen(l *cm.Listener) error {
	e := (*Engine)(t)
	if e.cfg.Detached != nil {
		return fmt.Errorf("%w (%w)", cm.ErrNoDevice, e.cfg.Detached)
	}
	q := new(acceptQueue)
	tl, err := e.tcp.Listen(l.Local(), l.Backlog(), func(tc *toe.Conn, now frame.Time) toe.Handler {
		c := e.newConn()
		c.tcp, c.listener = tc, l
		q.add(c)
		c.awaitRequest(now)
		return c
	})
	if err != nil {
		return err
	}
	tl.SetQueue(func() int { return q.waiting })
	l.Lower = tl
	return nil
}

// acceptQueue counts the connections of a listener that wait for their MPA
// request or the application's answer.
type acceptQueue struct{ waiting int }

func (q *acceptQueue) add(c *conn) {
	q.waiting++
	c.queue = q
}

// leaveQueue ends the waiting of c.
func (c *conn) leaveQueue() {
	if c.queue != nil {
		c.queue.waiting--
		c.queue = nil
	}
}

func (t *connector) Unlisten(l *cm.Listener) {
	l.Lower.(*toe.Listener).Close()
	for _, c := range t.conns {
		if c.listener == l && c.phase == waitRequest {
			c.err = cm.ErrClosing
			c.tcp.Abort()
		}
	}
}

func (t *connector) Pause(l *cm.Listener, on bool) {
	if tl := l.Lower.(*toe.Listener); on {
		tl.Pause()
	} else {
		tl.Resume()
	}
}

func (t *connector) SendRTR(id *cm.ID, now frame.Time) {
	if c, ok := id.Lower.(*conn); ok && c.phase == full {
		c.ready(now)
	}
}

func (t *connector) Connect(id *cm.ID, now frame.Time) error {
	e := (*Engine)(t)
	if err := e.mayConnect(id); err != nil {
		return err
	}
	local, err := e.source(id)
	if err != nil {
		return err
	}
	return e.dial(id, local, e.cfg.Revision, now)
}

// mayConnect refuses what the settings exclude.
func (e *Engine) mayConnect(id *cm.ID) error {
	if e.cfg.Detached != nil {
		return fmt.Errorf("%w (%w)", cm.ErrNoDevice, e.cfg.Detached)
	}
	if e.cfg.Allow != nil {
		if err := e.cfg.Allow(id.Remote().Addr()); err != nil {
			return fmt.Errorf("%w (%w)", cm.ErrUnreachable, err)
		}
	}
	return unbound(id.QP())
}

// unbound refuses a queue pair that another connection is using.
func unbound(qp *verbs.QP) error {
	if c, ok := qp.Lower.(*conn); ok && c.phase < closing {
		return fmt.Errorf("QP %d is in use by connection id %d: %w", qp.Num(), c.id.Num(), cm.ErrBusy)
	}
	return nil
}

// source is the address that id connects from.
func (e *Engine) source(id *cm.ID) (netip.AddrPort, error) {
	local := id.Params().Local
	if local.Addr().IsValid() && !local.Addr().IsUnspecified() {
		return local, nil
	}
	if e.cfg.Source == nil {
		return local, fmt.Errorf("no local address for %v: %w", id.Remote(), cm.ErrUnreachable)
	}
	addr, err := e.cfg.Source(id.Remote().Addr())
	return netip.AddrPortFrom(addr, local.Port()), err
}

func (t *connector) Accept(id *cm.ID, now frame.Time) error {
	c, ok := id.Lower.(*conn)
	if !ok {
		return cm.ErrClosing
	}
	c.leaveQueue()
	err := unbound(id.QP())
	if err == nil {
		err = c.accept()
	}
	if err != nil {
		c.err = err
		c.reject(nil, now)
	}
	return err
}

func (t *connector) Reject(id *cm.ID, private []byte, now frame.Time) error {
	c, ok := id.Lower.(*conn)
	if !ok {
		return cm.ErrClosing
	}
	c.reject(private, now)
	return nil
}

func (t *connector) Disconnect(id *cm.ID, abortive bool, now frame.Time) {
	c, ok := id.Lower.(*conn)
	switch {
	case !ok:
	case abortive || c.phase != full || id.State() == cm.Connecting:
		c.abort()
	default:
		c.drain()
	}
}

// tcpEvent maps a TCP failure to the event and error of the connection
// manager.
func tcpEvent(err error) (cm.EventType, error) {
	var t *toe.Error
	if !errors.As(err, &t) {
		return cm.Failed, err
	}
	switch t.Kind {
	case toe.Refused:
		return cm.Refused, fmt.Errorf("%w (%w)", cm.ErrRefused, err)
	case toe.Timeout:
		return cm.TimedOut, fmt.Errorf("%w (%w)", cm.ErrTimedOut, err)
	case toe.Unreachable:
		return cm.Unreachable, fmt.Errorf("%w (%w)", cm.ErrUnreachable, err)
	case toe.Reset:
		return cm.Failed, fmt.Errorf("%w (%w)", cm.ErrReset, err)
	}
	return cm.Failed, err
}
