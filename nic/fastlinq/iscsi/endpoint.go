package iscsi

import (
	"errors"

	"tapir/nic/fastlinq/storage"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// endpoint is the firmware's half of a connection: between the stream and its queues.
type endpoint struct {
	f       *Firmware
	cid     int
	tcp     *toe.Conn
	upper   toe.Handler
	queue   int
	sq, uhq *storage.Ring
	taken   uint64 // octets of the stream that the firmware has taken out of the SQ
	broken  bool   // an error was told
	stats   Stats
}

// sendable is how far the stream may be sent: to the end of the last PDU that the firmware
// has taken. It takes PDUs while those that are not acknowledged have room.
func (e *endpoint) sendable() uint64 {
	for e.sq.Used() > 0 && e.uhq.Used() < e.uhq.Size {
		e.taken = e.sq.Consume()
		e.uhq.Produce(e.taken)
		e.stats.TxPDUs++
	}
	return e.taken
}

// Next implements toe.Source.
func (e *endpoint) Next(off uint64, limit int) int { return e.upper.Next(off, limit) }

// Render implements toe.Source.
func (e *endpoint) Render(off uint64, p []byte) {
	e.stats.TxBytes += uint64(len(p))
	e.upper.Render(off, p)
}

// Established implements toe.Handler; the connection is, before it comes here.
func (e *endpoint) Established(*toe.Conn, frame.Time) {}

// Receive implements toe.Handler.
func (e *endpoint) Receive(c *toe.Conn, data []byte, now frame.Time) {
	e.stats.RxBytes += uint64(len(data))
	e.upper.Receive(c, data, now)
}

// Acked implements toe.Handler.
func (e *endpoint) Acked(c *toe.Conn, off uint64, now frame.Time) {
	for e.uhq.Used() > 0 && e.uhq.First() <= off {
		e.uhq.Consume()
	}
	e.upper.Acked(c, off, now)
}

// PeerClosed implements toe.Handler.
func (e *endpoint) PeerClosed(c *toe.Conn, now frame.Time) {
	if e.f.ends[e.cid] == e {
		e.f.Event(CloseReceived, OK, e.cid)
	}
	e.upper.PeerClosed(c, now)
}

// SYNReceived implements toe.SYNHandler.
func (e *endpoint) SYNReceived(*toe.Conn) {
	if e.f.ends[e.cid] == e {
		e.f.Event(SYNReceived, OK, e.cid)
	}
}

// Closed implements toe.Handler: the last event of the connection says why.
func (e *endpoint) Closed(c *toe.Conn, err error, now frame.Time) {
	if e.f.ends[e.cid] != e { // the function was stopped before
		e.upper.Closed(c, err, now)
		return
	}
	event := AsyncTerminate
	switch {
	case err == nil, e.f.Context(e.cid)[0] == ctxTerminating && errors.Is(err, &toe.Error{Kind: toe.Aborted}):
	case errors.Is(err, &toe.Error{Kind: toe.Reset}):
		event = AbortReceived
	case errors.Is(err, toe.ErrKeepAlive):
		event = MaxKAProbes
	case errors.Is(err, toe.ErrUserTimeout):
		event = MaxRTTime
	case errors.Is(err, toe.ErrFinWait2):
		event = FinWait2
	case errors.Is(err, toe.ErrRetries):
		event = MaxRTCount
	default:
		event = TCPError
	}
	delete(e.f.ends, e.cid)
	e.f.total.add(&e.stats)
	clear(e.f.Context(e.cid)[:2])
	e.f.Event(event, OK, e.cid)
	e.upper.Closed(c, err, now)
}
