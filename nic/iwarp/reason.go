package iwarp

import (
	"errors"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/rdmap"
)

// starting tells whether the connection is not in full operation yet.
func (c *conn) starting() bool { return c.phase < full }

// reason names err, in the phase where the connection is, as the firmware of
// the original does. A nil err is an orderly end.
func (c *conn) reason(err error) cm.Reason {
	var m *mpa.Error
	var r *rdmap.Error
	var no *mpa.Rejected
	pick := func(start, later cm.Reason) cm.Reason {
		if c.starting() {
			return start
		}
		return later
	}
	switch {
	case err == nil:
		return cm.GoodClose
	case errors.As(err, &no), errors.Is(err, cm.ErrRejected):
		return cm.MPAReject
	case errors.As(err, &m):
		return startupReason(m)
	case errors.As(err, &r):
		return c.streamReason(r)
	case errors.Is(err, cm.ErrTimedOut), errors.Is(err, cm.ErrUnreachable):
		if c.phase == connecting {
			return cm.TCPTimeout
		}
		return pick(cm.MPATimeout, cm.LLPTimeout)
	case errors.Is(err, cm.ErrRefused):
		return cm.TCPReset
	case errors.Is(err, cm.ErrReset):
		return pick(cm.MPAReset, cm.LLPReset)
	case errors.Is(err, cm.ErrClosing):
		return cm.MPAFin
	case c.overflowed():
		return cm.CQOverflow
	}
	return pick(cm.LocalError, cm.BadClose)
}

// overflowed tells whether a completion queue of the queue pair has failed.
func (c *conn) overflowed() bool {
	if c.qp == nil {
		return false
	}
	cfg := c.qp.Config()
	return cfg.SendCQ.Failed() || cfg.RecvCQ.Failed()
}

func startupReason(m *mpa.Error) cm.Reason {
	switch {
	case m.Code == mpa.Startup && m.Version:
		return cm.MPANotSupportedVer
	case m.Code == mpa.Startup:
		return cm.MPAInvalidPacket
	case m.Code == mpa.InsufficientIRD:
		return cm.MPAInsufficientIRD
	case m.Code == mpa.NoRTR:
		return cm.MPARTRMismatch
	}
	return cm.LocalError
}

// streamReason names an error of full operation.
func (c *conn) streamReason(r *rdmap.Error) cm.Reason {
	switch {
	case r.Layer == rdmap.LayerLLP && r.Code == uint8(mpa.Closed):
		return cm.LLPClosed
	case r.Remote:
		return cm.TerminateReceived
	case c.local:
		return cm.LocalAccessError
	case r.Layer == rdmap.LayerDDP && r.Type == ddp.TypeUntagged && r.Code == ddp.NoBuffer:
		if c.stream.Header().QN == rdmap.ReadRequestOp.Queue() {
			return cm.IRQFull
		}
		return cm.RQEmpty
	case r.Layer == rdmap.LayerRDMA && r.Type == rdmap.TypeProtection, r.Layer == rdmap.LayerDDP &&
		r.Type == ddp.TypeTagged:
		return cm.RemoteProtectionError
	case r.Layer == rdmap.LayerRDMA && r.Type == rdmap.TypeCatastrophic:
		return cm.LocalCatastrophic
	}
	return cm.RemoteOperationError
}

// errorEvents are the events that tell of an error before the end.
var errorEvents = map[cm.Reason]cm.DeviceEvent{
	cm.IRQFull: cm.EvIRQFull, cm.RQEmpty: cm.EvRQEmpty, cm.LLPTimeout: cm.EvLLPTimeout,
	cm.RemoteProtectionError: cm.EvRemoteProtectionError, cm.LocalCatastrophic: cm.EvQPCatastrophic,
	cm.LocalAccessError: cm.EvLocalAccessError, cm.RemoteOperationError: cm.EvRemoteOperationError,
	cm.TerminateReceived: cm.EvTerminateReceived, cm.CQOverflow: cm.EvCQOverflow,
}

// because records why the connection fails or ends, and logs the event of an
// error that comes from full operation.
func (c *conn) because(err error) {
	if c.id == nil || c.id.Reason() != cm.NoReason {
		return
	}
	if err == nil && c.id.State() == cm.Accepting { // the ready-to-receive indication never came
		err = cm.ErrClosing
	}
	why := c.reason(err)
	c.id.SetReason(why)
	c.logError(err)
	ev, ok := errorEvents[why]
	if !ok || c.starting() {
		return
	}
	if ev == cm.EvRQEmpty && c.qp != nil && c.qp.Config().SRQ != nil {
		ev = cm.EvSRQEmpty
	}
	c.e.cm.Note(ev, c.id, c.qp, why, err)
}

// localAccess ends the connection because a work request names memory that it
// may not use.
func (c *conn) localAccess() {
	c.local = true
	c.fail(&rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic, Code: rdmap.Unspecified})
}

// asyncType is the asynchronous event of the queue pair for err.
func asyncType(err *rdmap.Error) verbs.EventType {
	switch {
	case err.Remote:
		return verbs.EventTerminated
	case err.Layer == rdmap.LayerRDMA && err.Type == rdmap.TypeCatastrophic:
		return verbs.EventQPFatal
	case err.Layer == rdmap.LayerRDMA && err.Type == rdmap.TypeProtection,
		err.Layer == rdmap.LayerDDP && err.Type == ddp.TypeTagged:
		return verbs.EventQPAccessError
	}
	return verbs.EventQPRequestError
}
