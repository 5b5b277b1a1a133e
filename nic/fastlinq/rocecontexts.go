package fastlinq

import (
	"fmt"
	"slices"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/rdma"
	"tapir/nic/fastlinq/status"
	"tapir/nic/verbs"
)

// A queue pair of RoCE has two connection ids: the responder's, even, which is that of
// the queue pair, and the requester's behind it. The driver creates the responder with
// the move to RTR and the requester with that to RTS; both go with the move to RESET.
// In front of RTR the firmware knows nothing of the queue pair.

// protocol is that of the function's queue pairs.
func (c *contexts) protocol() ecore.Protocol {
	if c.roce() {
		return cxt.RoCE
	}
	return cxt.IWARP
}

func (c *contexts) roce() bool { return c.d.cfg.RDMA == verbs.RoCE }

// command is the name of a ramrod.
func (c *contexts) command(cmd uint8) fmt.Stringer {
	if c.roce() {
		return rdma.RoCECommand(cmd)
	}
	return rdma.Command(cmd)
}

// event is the name of an event.
func (c *contexts) event(opcode uint8) fmt.Stringer {
	if c.roce() {
		return rdma.RoCEEvent(opcode)
	}
	return rdma.Event(opcode)
}

// acquire takes the connection ids of a queue pair and returns the first; what fails
// leaves nothing.
func (c *contexts) acquire() (int, error) {
	m, first := c.manager(), verbs.NoCID
	for i := range c.d.cfg.RDMA.ICIDsPerQP() {
		cid, err := m.Acquire(c.protocol())
		if err == nil {
			if i == 0 {
				first = cid
			}
			if _, err = m.CIDInfo(cid); err == nil && cid != first+i {
				err = status.UnknownError.Errorf("connection ids %#x and %#x do not adjoin", first, cid)
			}
			if err != nil {
				c.d.management.note(m.Release(cid))
			}
		}
		if err != nil {
			if i > 0 {
				c.d.management.note(m.Release(first))
			}
			return verbs.NoCID, noResources(err)
		}
	}
	return first, nil
}

// roceStates are the states of verbs as the firmware of RoCE has them.
var roceStates = [...]rdma.RoCEState{verbs.Reset: rdma.RoCEReset, verbs.Init: rdma.RoCEInit, verbs.RTR: rdma.RoCERTR,
	verbs.RTS: rdma.RoCERTS, verbs.SQD: rdma.RoCESQD, verbs.SQE: rdma.RoCESQE, verbs.Err: rdma.RoCEError}

// modifyRoCE moves both halves of a queue pair, of which it makes those that the new
// state needs.
func (c *contexts) modifyRoCE(q *verbs.QP, to verbs.State, failed func(error)) {
	cids := [2]int{q.CID(), q.CID() + 1}
	for i, cid := range cids {
		made := c.fw.Made(cid)
		cmd, data := rdma.RoCEModifyQP, any(roceStates[to])
		switch {
		case to == verbs.Reset && made:
			cmd, data = rdma.RoCEDestroyQP, nil
		case made:
		case to == verbs.RTR && i == 0, to == verbs.RTS:
			cmd, data = rdma.RoCECreateQP, rdma.Half{Handle: q.Num(), State: roceStates[to]}
		default:
			continue
		}
		c.send(cid, uint8(cmd), data, func(_ uint64, err error) {
			if err != nil {
				failed(fmt.Errorf("%w: %w", verbs.ErrFirmware, err))
			}
		})
	}
}

// queryRoCE is the state of the responder's context.
func (c *contexts) queryRoCE(q *verbs.QP) (verbs.State, error) {
	if !c.fw.Made(q.CID()) {
		return q.State(), nil
	}
	r, err := c.post(q.CID(), uint8(rdma.RoCEQueryQP), nil)
	if err != nil {
		return q.State(), err
	}
	return verbs.State(slices.Index(roceStates[:], rdma.RoCEState(r))), nil
}

// destroyRoCE ends the contexts of a queue pair.
func (c *contexts) destroyRoCE(q *verbs.QP) {
	for i := range 2 {
		var err error
		if cid := q.CID() + i; c.fw.Made(cid) {
			_, err = c.post(cid, uint8(rdma.RoCEDestroyQP), nil)
			c.d.management.note(err)
		}
		c.releaseCID(q.CID()+i, err)
	}
}

// movedRoCE says that the firmware has moved a queue pair.
func (c *contexts) movedRoCE(q *verbs.QP) {
	for i := range 2 {
		c.fw.RoCEMoved(q.CID()+i, roceStates[q.State()])
	}
}

// roceEvents are the events of a queue pair.
var roceEvents = map[verbs.EventType]rdma.RoCEEvent{
	verbs.EventQPFatal: rdma.QPCatastrophic, verbs.EventQPRequestError: rdma.InvalidRequest,
	verbs.EventQPAccessError: rdma.LocalAccess, verbs.EventLastWQE: rdma.LastWQEReached,
	verbs.EventSQDrained: rdma.SQDrained, verbs.EventCommEstablished: rdma.CommEst,
}

// roceEvent is an event as the firmware of RoCE tells of it; false: it cannot.
func (c *contexts) roceEvent(ev verbs.AsyncEvent) (e spq.Event, ok bool) {
	e = spq.Event{Protocol: cxt.RoCE, VF: spq.NoVF, Async: true}
	switch code, ofQP := roceEvents[ev.Type]; {
	case ofQP && ev.QP.CID() != verbs.NoCID && c.fw.Made(ev.QP.CID()):
		e.Opcode, e.Data = uint8(code), uint64(ev.QP.Num())
	case ev.Type == verbs.EventCQError:
		e.Opcode, e.Data = uint8(rdma.RoCECQOverflow), uint64(ev.CQ.Num())
	case ev.Type == verbs.EventSRQLimit && c.fw.Limit(ev.SRQ.ID()):
		e.Opcode, e.Data = uint8(rdma.RoCESRQLimit), uint64(ev.SRQ.Num())
	default:
		return e, false
	}
	return e, true
}
