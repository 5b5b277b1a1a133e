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
//     that may change meanwhile are copied (retain.go)
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
//     the gap in front of it closes (ooo.go)
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
	"tapir/wire/roster"
	"tapir/wire/timer"
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

	conns   roster.Roster[conn]
	made    uint32 // connections
	timers  timer.Heap[*conn]
	due     []*conn // scratch of Poll
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
	m.SetTransport((*manager)(e))
	m.PauseAll(cfg.ListenPaused)
	return e
}

// Poll runs the timers that are due and returns the next deadline. Call it
// before the TCP engine's Poll, which does the sending and may bring the
// deadline forward: ask Deadline after it.
func (e *Engine) Poll(now frame.Time) frame.Time {
	e.flushWrites()
	due := e.due[:0]
	for c, ok := e.timers.Pop(now); ok; c, ok = e.timers.Pop(now) {
		due = append(due, c)
	}
	for i, c := range due {
		due[i] = nil
		c.expired(now)
	}
	e.due = due
	return e.Deadline()
}

// Deadline is when Poll has something to do, frame.Never if no timer runs.
func (e *Engine) Deadline() frame.Time { return e.timers.Next() }

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
func (e *Engine) rearm(c *conn) { e.timers.Set(&c.timer, min(c.until, c.nudger.at)) }

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
	if c := endpointOf(qp).conn; c != nil && c.phase < closing {
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
