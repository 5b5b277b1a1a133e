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
		return goodClose
	case errors.As(err, &no), errors.Is(err, cm.ErrRejected):
		return mpaReject
	case errors.As(err, &m):
		return startupReason(m)
	case errors.As(err, &r):
		return c.streamReason(r)
	case errors.Is(err, cm.ErrTimedOut), errors.Is(err, cm.ErrUnreachable):
		if c.phase == connecting {
			return tcpTimeout
		}
		return pick(mpaTimeout, llpTimeout)
	case errors.Is(err, cm.ErrRefused):
		return tcpReset
	case errors.Is(err, cm.ErrReset):
		return pick(mpaReset, llpReset)
	case errors.Is(err, cm.ErrClosing):
		return mpaFin
	case c.overflowed():
		return cqOverflow
	}
	return pick(localError, badClose)
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
		return mpaNotSupportedVer
	case m.Code == mpa.Startup:
		return mpaInvalidPacket
	case m.Code == mpa.InsufficientIRD:
		return mpaInsufficientIRD
	case m.Code == mpa.NoRTR:
		return mpaRTRMismatch
	}
	return localError
}

// streamReason names an error of full operation.
func (c *conn) streamReason(r *rdmap.Error) cm.Reason {
	switch {
	case r.Layer == rdmap.LayerLLP && r.Code == uint8(mpa.Closed):
		return llpClosed
	case r.Remote:
		return terminateReceived
	case c.local:
		return localAccessError
	case r.Layer == rdmap.LayerDDP && r.Type == ddp.TypeUntagged && r.Code == ddp.NoBuffer:
		if c.stream.Header().QN == rdmap.ReadRequestOp.Queue() {
			return irqFull
		}
		return rqEmpty
	case r.Layer == rdmap.LayerRDMA && r.Type == rdmap.TypeProtection, r.Layer == rdmap.LayerDDP &&
		r.Type == ddp.TypeTagged:
		return remoteProtectionError
	case r.Layer == rdmap.LayerRDMA && r.Type == rdmap.TypeCatastrophic:
		return localCatastrophic
	}
	return remoteOperationError
}

// errorEvents are the events that tell of an error before the end.
var errorEvents = map[cm.Reason]cm.DeviceEvent{
	irqFull: evIRQFull, rqEmpty: evRQEmpty, llpTimeout: evLLPTimeout,
	remoteProtectionError: evRemoteProtectionError, localCatastrophic: evQPCatastrophic,
	localAccessError: evLocalAccessError, remoteOperationError: evRemoteOperationError,
	terminateReceived: evTerminateReceived, cqOverflow: evCQOverflow,
}

// because records why the connection fails or ends, and logs the event of an
// error that comes from full operation.
func (c *conn) because(err error) {
	if c.id == nil || c.id.Reason() != (cm.Reason{}) {
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
	if ev == evRQEmpty && c.qp != nil && c.qp.Config().SRQ != nil {
		ev = evSRQEmpty
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
