package iwarp

import (
	"errors"
	"time"

	"tapir/ddp"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// abortTimeout is how long the Terminate of an abortive close may wait for
// the peer's window.
const abortTimeout = time.Second

// fail ends a connection in full operation for a protocol error: Terminate
// (unless the peer sent one), queue pair to error, FIN.
func (c *conn) fail(err *rdmap.Error) {
	if c.phase != full {
		return
	}
	c.stream.Fail(err)
	c.counters.Terminates++
	c.failWork(err)
	c.because(err)
	c.e.dev.Async(verbs.AsyncEvent{Type: asyncType(err), QP: c.qp, Err: err})
	c.toError(err)
	c.tcp.Close()
	c.e.armAfter(c, c.e.cfg.CloseTimeout)
}

// failWork completes the Read that the peer found fault with. Other requests
// are flushed: those that a Terminate may mean have completed long before.
func (c *conn) failWork(err *rdmap.Error) {
	if c.qp == nil {
		return
	}
	c.failInbound(err)
	ref := c.stream.FaultyRead()
	if ref == rdmap.NoRef {
		return
	}
	status := verbs.StatusRemoteOperation
	if err.Layer == rdmap.LayerRDMA && err.Type == rdmap.TypeProtection {
		status = verbs.StatusRemoteAccess
	}
	c.qp.FinishSend(ref, status)
}

// failInbound completes the receive that took a Send which is too long, or
// which invalidates what it must not, and the Read whose sink is gone.
func (c *conn) failInbound(err *rdmap.Error) {
	op := rdmap.ParseControl(c.stream.Header().ULP).Opcode
	switch {
	case err.Remote:
	case op == rdmap.ReadResponse &&
		errors.Is(err, &rdmap.Error{Type: rdmap.TypeOperation, Code: rdmap.CatastrophicStream}):
		c.qp.FinishSend(c.stream.ReadRef(), verbs.StatusLocalProtection)
	case !op.IsSend():
	case err.Layer == rdmap.LayerDDP && err.Type == ddp.TypeUntagged && err.Code == ddp.TooLong:
		c.qp.FinishRecv(verbs.RecvDone{Status: verbs.StatusLocalLength})
	case err.Layer == rdmap.LayerRDMA && err.Type == rdmap.TypeProtection && err.Code == rdmap.CannotBeInvalidated:
		c.qp.FinishRecv(verbs.RecvDone{Status: verbs.StatusRemoteInvalid})
	}
}

// toError stops work: what TCP may have to send again is copied, then the
// queue pair is flushed and the application told.
func (c *conn) toError(err error) {
	c.because(err)
	c.phase = closing
	c.err = err
	c.retain.ahead.n = 0
	c.retainUnacked(nil)
	if c.qp != nil {
		c.qp.Transition(verbs.Err)
	}
	c.id.Disconnecting(err)
}

// drain begins a graceful close: what is queued is still sent and answered.
func (c *conn) drain() {
	if c.phase != full || c.draining {
		return
	}
	c.draining = true
	if !c.held && !c.begins { // else the time begins with release
		c.e.armAfter(c, c.e.cfg.CloseTimeout)
	}
	if c.qp != nil {
		c.qp.Transition(verbs.SQD)
	}
	c.tcp.Kick()
	c.drained()
}

// drained sends the FIN of a graceful close once nothing is under way. Reads of
// the peer that come before this side's own work is done are still answered:
// it may be closing, too, and waits for them. What
// the peer sends until it closes too is still placed: it counts as delivered
// there once TCP has acknowledged it.
func (c *conn) drained() {
	if !c.draining || c.finished || c.phase != full || c.qp != nil && c.qp.SendsPending() > 0 {
		return
	}
	c.stream.Quiesce()
	if !c.stream.Idle() {
		return
	}
	c.finished = true
	c.e.dev.Async(verbs.AsyncEvent{Type: verbs.EventSQDrained, QP: c.qp})
	c.tcp.Close()
}

// close sends FIN behind what is queued; a deadline makes it abortive.
func (c *conn) close(now frame.Time) {
	c.phase = closing
	c.tcp.Close()
	c.e.arm(c, now.Add(c.e.cfg.CloseTimeout))
}

// abort ends the connection now: a Terminate if the stream is up, then RST. One
// that is under way for a protocol error goes out first.
func (c *conn) abort() {
	if c.phase == closing && !c.aborting && c.stream != nil && c.stream.Err() != nil && !c.stream.Terminating() {
		c.aborting = true
		c.tcp.Kick()
		c.e.armAfter(c, abortTimeout)
		return
	}
	if c.phase != full {
		c.tcp.Abort()
		return
	}
	if c.gated && !c.held { // RFC 5044 section 7.1.2: no FPDU before the initiator's first
		c.toError(cm.ErrAborted)
		c.tcp.Abort()
		return
	}
	c.aborting = true
	c.stream.Fail(&rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic, Code: rdmap.Unspecified})
	c.counters.Terminates++
	c.toError(cm.ErrAborted)
	c.tcp.Kick()
	c.e.armAfter(c, abortTimeout)
}

// PeerClosed implements toe.Handler. What came before the FIN is answered first,
// then this side closes, too (RFC 5041 section 6.2.1): Reads are served, what
// handlers post now is sent, and the application still decides on a request.
func (c *conn) PeerClosed(_ *toe.Conn, now frame.Time) {
	c.peerClosed = true
	switch c.phase {
	case offered:
		c.e.arm(c, now.Add(c.e.cfg.RequestTimeout))
		return
	case full:
	case closing:
		c.tcp.Close()
	default:
		c.mute = c.phase == waitReply && c.err == nil
		if c.err == nil {
			c.err = cm.ErrClosing
		}
		c.tcp.Abort()
		return
	}
	c.e.arm(c, now.Add(c.e.cfg.CloseTimeout))
}

// answerFIN closes behind the peer's FIN once nothing more can be sent. What
// waits for the peer's answer is flushed; what it has yet to acknowledge is
// waited for.
func (c *conn) answerFIN() {
	partial := c.rx.Partial() > 0
	if c.finished || !c.gated && !partial && c.qp.SendsPending() > 0 && !c.qp.ReadsPending() {
		return
	}
	var err error
	if partial {
		err = &rdmap.Error{Layer: rdmap.LayerLLP, Code: 1}
	}
	c.toError(err)
	// No Terminate: the peer has closed.
	c.stream.Fail(&rdmap.Error{Layer: rdmap.LayerLLP, Code: 1, Remote: true})
	c.tcp.Close()
	c.e.armAfter(c, c.e.cfg.CloseTimeout)
}

// Closed implements toe.Handler: the last call.
func (c *conn) Closed(_ *toe.Conn, err error, now frame.Time) {
	if c.fallback(err, now) {
		return
	}
	typ, cause := tcpEvent(err)
	if c.err != nil {
		cause = c.err
	}
	if c.err == nil && (err == nil || c.peerClosed && c.phase == full && errors.Is(cause, cm.ErrReset)) {
		cause = nil // a peer that has closed may take nothing more
	}
	c.because(cause)
	if c.phase == full && errors.Is(cause, cm.ErrTimedOut) {
		c.e.dev.Async(verbs.AsyncEvent{Type: verbs.EventQPFatal, QP: c.qp, Err: cause})
	}
	if c.qp != nil && c.endpoint.conn == c { // else it was reset and has a new connection
		c.qp.Transition(verbs.Err)
	}
	c.e.forget(c)
	if c.id == nil {
		return
	}
	if cause != nil {
		c.id.Fail(typ, cause, nil)
	}
	c.id.Finish(cause)
}
