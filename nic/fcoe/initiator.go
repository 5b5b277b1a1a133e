package fcoe

import (
	"errors"
	"slices"

	"tapir/nic/scsi"
	"tapir/wire/drop"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// Errors of requests.
var (
	ErrGone    = errors.New("fcoe: the session with the target has ended")
	ErrRetries = errors.New("fcoe: the target does not answer")
	ErrRefused = errors.New("fcoe: the target could not do a command")
)

// Request is a SCSI command that may be done twice: one whose end is not heard of is sent
// again.
type Request struct {
	LUN  uint64 // as SAM-5 section 4.7 has it
	CDB  [16]byte
	Out  []byte // data for the target
	In   []byte // memory for the target's data
	Done func(q *Request, now frame.Time)

	Err      error // the command has not been done, or nobody knows
	Status   scsi.Status
	Sense    []byte // as it came
	Residual int    // octets of Out or In that did not move; negative: octets that had no room

	r        *Remote
	x        *exchange
	rxid     uint16
	tries    int
	got      int // octets of In
	next     int // where the next are expected
	off, end int // of Out, that the target has asked for
	seq      uint8
	count    uint16
	aborting bool
	waiting  bool // for the hardware
}

// Submit sends a command to a target whose session is Ready.
func (r *Remote) Submit(q *Request, now frame.Time) {
	q.r, q.tries, q.Err = r, 0, nil
	if r.state != Ready {
		q.Err = ErrGone
		q.Done(q, now)
		return
	}
	r.requests = append(r.requests, q)
	q.begin(now)
}

// begin sends the command in a new exchange, as soon as the hardware has place for it.
func (q *Request) begin(now frame.Time) {
	n := q.r.p.n
	if q.waiting = !n.env.Sessions.Task(q.r.handle, false); q.waiting {
		n.stats[TasksWaited]++
		n.sleeping = append(n.sleeping, q)
		return
	}
	q.command(now)
}

// command sends it.
func (q *Request) command(now frame.Time) {
	p := q.r.p
	q.got, q.next, q.off, q.end, q.count, q.aborting = 0, 0, 0, 0, 0, false
	q.Status, q.Sense, q.Residual = 0, nil, 0
	q.tries++
	q.rxid = fc.NoID
	q.x = p.newExchange(q.r.ID)
	q.x.request = q
	c := fc.SCSICommand{LUN: q.LUN, CDB: q.CDB}
	switch {
	case len(q.Out) > 0:
		c.Flags, c.DataLen = fc.WriteData, uint32(len(q.Out))
	case len(q.In) > 0:
		c.Flags, c.DataLen = fc.ReadData, uint32(len(q.In))
	}
	p.n.stats[CommandsSent]++
	q.r.post(q.x.header(fc.UnsolicitedCmd, fc.TypeFCP), c.AppendTo(nil), true, false)
	q.wait(now)
}

// wait gives the target time for its next frame.
func (q *Request) wait(now frame.Time) { q.r.p.n.set(&q.x.timer, now.Add(edTOV), q.timeout) }

// timeout aborts the exchange: a frame of it was lost.
func (q *Request) timeout(now frame.Time) {
	n := q.r.p.n
	n.stats[Timeouts]++
	if q.aborting { // the abort was lost, too
		q.r.violation(ErrAbortTimeout)
		q.again(ErrRetries, now)
		return
	}
	q.r.violation(ErrTimeout)
	q.aborting = true
	n.drop(q)
	n.stats[AbortsSent]++
	h := q.x.header(fc.Abort, fc.TypeBLS)
	h.FCtl, h.RXID, h.SeqID, h.Param = fc.First|fc.End|fc.Initiative, q.rxid, q.seq, 1
	q.r.p.frame(q.r.mac, h, nil)
	n.set(&q.x.timer, now.Add(edTOV), q.timeout)
}

// drop has a sender send no more.
func (n *Node) drop(s sender) {
	n.senders = slices.DeleteFunc(n.senders, func(o sender) bool { return o == s })
}

// leave ends the exchange.
func (q *Request) leave() {
	n := q.r.p.n
	n.drop(q)
	if q.x != nil {
		n.endExchange(q.x)
		q.x = nil
		n.env.Sessions.Done(q.r.handle)
		n.wakeSleeping()
	}
}

// wakeSleeping has requests that wait for the hardware try again.
func (n *Node) wakeSleeping() {
	if len(n.sleeping) > 0 {
		n.set(&n.waking, 0, func(now frame.Time) {
			list := n.sleeping
			n.sleeping = nil
			for _, q := range list {
				if q.waiting {
					q.begin(now)
				}
			}
		})
	}
}

// again repeats the command, or gives up with an error.
func (q *Request) again(err error, now frame.Time) {
	q.leave()
	if q.tries < maxTries {
		q.r.p.n.stats[Retries]++
		q.begin(now)
		return
	}
	q.r.requests = slices.DeleteFunc(q.r.requests, func(o *Request) bool { return o == q })
	q.fail(err, now)
}

// fail ends the request with an error.
func (q *Request) fail(err error, now frame.Time) {
	q.leave()
	q.waiting, q.Err = false, err
	q.Done(q, now)
}

// answered takes a frame of the target.
func (q *Request) answered(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	n := q.r.p.n
	n.env.Sessions.Traffic(q.r.handle, h.RCtl, len(payload), false)
	q.rxid = h.RXID
	switch {
	case h.RCtl == fc.AbortAccept || h.RCtl == fc.AbortReject:
		return q.r.complete(h, payload, now)
	case q.aborting:
		return drop.FCExchange // too late
	case h.RCtl == fc.SolicitedData:
		return q.data(h, payload, now)
	case h.RCtl == fc.DataDescriptor:
		return q.transfer(payload, now)
	case h.RCtl == fc.CommandStatus:
		return q.response(h, payload, now)
	}
	q.r.violation(ErrFrameType)
	return drop.Unused
}

// wrong tells of data or a request that cannot be right.
func (q *Request) wrong(e Error) frame.DropReason {
	q.r.p.n.stats[DataErrors]++
	q.r.violation(e)
	return drop.Malformed
}

// data takes data of a read. Frames of a sequence come in order, so that a gap shows as
// octets that are missing at the end.
func (q *Request) data(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	off := uint64(h.Param)
	switch {
	case len(q.In) == 0:
		return q.wrong(ErrDataNotRead)
	case len(payload) > q.r.p.n.cfg.MaxPayload:
		return q.wrong(ErrDataSize)
	case h.FCtl&fc.RelOffset == 0:
		return q.wrong(ErrDataOffset)
	case off+uint64(len(payload)) > uint64(len(q.In)):
		return q.wrong(ErrDataRange)
	case int(off) != q.next: // a frame is lost
		q.r.violation(ErrDataOffset)
	}
	q.next = int(off) + len(payload)
	if int(off) == q.got { // else one was lost, or comes twice
		copy(q.In[off:], payload)
		q.got += len(payload)
	}
	q.wait(now)
	return frame.DropNone
}

// transfer takes a target's request for data.
func (q *Request) transfer(payload []byte, now frame.Time) frame.DropReason {
	t, err := fc.ParseTransfer(payload)
	end := uint64(t.Offset) + uint64(t.Burst)
	switch {
	case err != nil:
		return q.wrong(ErrTransferLength)
	case len(q.Out) == 0:
		return q.wrong(ErrTransferNotWrite)
	case t.Burst == 0:
		return q.wrong(ErrTransferBurst)
	case end > uint64(len(q.Out)):
		return q.wrong(ErrTransferRange)
	case q.off < q.end:
		return q.wrong(ErrTransferPending)
	case int(t.Offset) != q.end:
		q.r.violation(ErrTransferOffset)
	}
	q.off, q.end, q.count = int(t.Offset), int(end), 0
	q.seq++
	q.r.p.n.senders = append(q.r.p.n.senders, q)
	q.wait(now)
	return frame.DropNone
}

// send sends a frame of data.
func (q *Request) send(now frame.Time) bool {
	k := min(q.r.payload, q.end-q.off)
	h := q.x.header(fc.SolicitedData, fc.TypeFCP)
	h.FCtl, h.SeqID, h.SeqCnt, h.RXID, h.Param = fc.RelOffset, q.seq, q.count, q.rxid, uint32(q.off)
	if q.off+k == q.end {
		h.FCtl |= fc.End | fc.Initiative
	}
	q.r.p.data(q.r.mac, h, q.Out[q.off:q.off+k], now)
	q.r.p.n.env.Sessions.Traffic(q.r.handle, h.RCtl, k, true)
	q.off, q.count = q.off+k, q.count+1
	q.wait(now)
	return q.off < q.end
}

// aborted tells that the target has ended a command that may be sent again (SAM-5 table 54).
func aborted(a *fc.Response) bool {
	return scsi.Status(a.Status) == scsi.CheckCondition && len(a.Sense) > 2 &&
		scsi.Key(a.Sense[2]&0xf) == scsi.AbortedCommand
}

// response takes the end of the command.
func (q *Request) response(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	if _, err := fc.ParseResponse(payload); err != nil {
		return q.wrong(ErrResponseLength)
	}
	return q.r.complete(h, payload, now)
}

// took takes the end of the command, or of its abort, out of a completion queue.
func (q *Request) took(h *fc.Header, payload []byte, now frame.Time) {
	switch {
	case h.RCtl == fc.AbortReject:
		q.r.violation(ErrAbortRejected)
		q.again(ErrRetries, now)
		return
	case h.RCtl == fc.AbortAccept:
		q.again(ErrRetries, now)
		return
	case q.aborting:
		q.r.p.n.dropped(drop.FCExchange) // too late
		return
	case q.off < q.end:
		q.r.violation(ErrResponsePending)
	}
	a, _ := fc.ParseResponse(payload)
	moved := q.got
	switch {
	case a.Flags&fc.Underrun != 0:
		q.Residual = int(a.Residual)
	case a.Flags&fc.Overrun != 0:
		q.Residual = -int(a.Residual)
	}
	missing := scsi.Status(a.Status) == scsi.Good && len(q.In) > 0 && moved != len(q.In)-max(q.Residual, 0)
	switch {
	case a.Flags&fc.HasInfo != 0 && a.Info == fc.DataLenWrong, missing, aborted(&a): // frames were lost
		q.r.p.n.stats[DataLost]++
		if missing {
			q.r.violation(ErrResponseData)
		} else {
			q.r.violation(ErrResponseLost)
		}
		q.again(ErrRetries, now)
		return
	case a.Flags&fc.HasInfo != 0 && a.Info != fc.TaskDone:
		q.Err = ErrRefused
	}
	q.Status, q.Sense = scsi.Status(a.Status), slices.Clone(a.Sense)
	q.leave()
	q.r.requests = slices.DeleteFunc(q.r.requests, func(o *Request) bool { return o == q })
	q.r.p.n.stats[CommandsDone]++
	q.Done(q, now)
}
