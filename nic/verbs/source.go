package verbs

import "fmt"

// A program that has the queues in its own memory reaches them without a call:
// its completions go to a Sink, its requests come from a SendSource and a
// RecvSource. Whatever these hold was written by a program and is checked
// here like a posted request; what cannot be posted completes with an error.

// Sink takes the completions of a CQ instead of Poll.
type Sink interface {
	// Cap is how many completions fit, Len how many of them have not been
	// fetched yet.
	Cap() int
	Len() int
	// Push takes one, borrowed. There is room.
	Push(wc *WC)
	// Awaited tells, once, whether the program has asked the Sink itself to be
	// notified of a completion such as the one that was pushed last: solicited
	// or failed, or any. told: the Sink has woken it already.
	Awaited(solicited bool) (asked, told bool)
	// Resize changes how many fit; those not fetched stay.
	Resize(entries int) error
}

// SetSink gives the completions to s from now on; none may wait. What s has
// taken belongs to the program, also when the QP is destroyed.
func (c *CQ) SetSink(s Sink) error {
	switch {
	case c.dead:
		return fmt.Errorf("sink of CQ %d: %w", c.num, ErrDestroyed)
	case c.count > 0:
		return fmt.Errorf("sink of CQ %d: %d completions wait: %w", c.num, c.count, ErrInvalid)
	}
	c.sink, c.ring = s, nil
	return nil
}

// SendSource holds requests of a send queue that the owner writes there by
// itself and announces with QP.Doorbell.
type SendSource interface {
	// Len is how many requests wait.
	Len() int
	// Next moves the oldest into wr, whose slices and pointers are borrowed
	// until the next call. A status other than StatusSuccess says that it is
	// malformed: only wr.ID counts then. False: none waits.
	Next(wr *SendWR) (Status, bool)
}

// SetSendSource has the queue pair take requests from s, beside PostSend.
func (q *QP) SetSendSource(s SendSource) { q.sq.source = s }

// Doorbell posts the requests that the send source holds: as many as fit, the
// rest when others complete. Those that PostSend would refuse complete with an
// error, mostly StatusLocalQPOp, and the queue pair fails. In state Err they
// are flushed at once, and with them what the receive source holds. ErrState
// in a state in which PostSend is refused, too: the requests then stay.
func (q *QP) Doorbell() error {
	if err := q.maySend(); err != nil {
		return fmt.Errorf("doorbell of QP %d: %w", q.num, err)
	}
	if q.sq.source == nil {
		return nil
	}
	if q.state == RTS {
		q.sq.rung = q.sq.source.Len()
		q.takeRung()
	}
	q.doorbell() // flushes in the other states
	if q.state == Err {
		q.flushRecvs()
	}
	return nil
}

// takeRung posts what was rung for and fits; it reports whether that was
// anything.
func (q *QP) takeRung() (taken bool) {
	s := &q.sq
	for s.rung > 0 && s.tail-s.head < uint64(s.limit) {
		status, ok := s.source.Next(&s.wr)
		if !ok {
			s.rung = 0
			break
		}
		s.rung--
		if status == StatusSuccess {
			status = q.judge(&s.wr)
		}
		if status != StatusSuccess {
			s.wr = SendWR{ID: s.wr.ID}
		}
		q.enqueue(&s.wr)
		s.at(s.tail - 1).refused = status
		taken = true
	}
	return taken
}

// judge is what a request of the source completes with if it cannot be posted.
// Windows of both types are bound by requests there.
func (q *QP) judge(wr *SendWR) Status {
	bind := wr.Opcode == OpBindMW && wr.Bind != nil
	byVerb := bind && wr.Bind.MW != nil && wr.Bind.MW.kind == MWType1
	switch err := q.checkSend(wr, byVerb); {
	case err == nil:
		return StatusSuccess
	case bind:
		return StatusMWBind
	}
	return StatusLocalQPOp
}

// refuse ends a request that could not be posted when its turn has come.
func (q *QP) refuse(w *SendWQE) {
	q.BeginSend()
	q.failLocal()
	q.FinishSend(w.Seq, w.refused)
}

// RecvSource holds requests of a receive queue that the owner writes there by
// itself. One is taken when a message needs it.
type RecvSource interface {
	// Len is how many requests wait.
	Len() int
	// Next moves the oldest into wr, whose elements are borrowed until the
	// next call. A status other than StatusSuccess says that it is malformed:
	// it then completes so when its turn has come. False: none waits.
	Next(wr *RecvWR) (Status, bool)
	// Resize changes how many fit; those waiting stay.
	Resize(maxWR int) error
}

// SetRecvSource has the queue pair take receives from s when there are none
// of PostRecv.
func (q *QP) SetRecvSource(s RecvSource) { q.rq.source = s }

// SetRecvSource has the SRQ take receives from s when there are none of
// PostRecv.
func (s *SRQ) SetRecvSource(src RecvSource) { s.rq.source = src }

// pull moves a request from the source to the queue.
func (r *recvQueue) pull() bool {
	if r.source == nil {
		return false
	}
	status, ok := r.source.Next(&r.wr)
	if !ok {
		return false
	}
	if status != StatusSuccess {
		r.wr.SGEs = nil
	}
	r.push(&r.wr)
	r.at(r.tail - 1).refused = status
	return true
}

// len is the number of receives that wait, those of the source included.
func (r *recvQueue) len() int {
	n := int(r.tail - r.head)
	if r.source != nil {
		n += r.source.Len()
	}
	return n
}

// empty tells that nothing waits. It takes a request from the source if the
// queue has none.
func (r *recvQueue) empty() bool { return r.head == r.tail && !r.pull() }

// flushRecvs flushes what waits now; what a program adds meanwhile does not
// keep it here.
func (q *QP) flushRecvs() {
	for n := q.rq.len(); n > 0 && !q.rq.empty(); n-- {
		q.flushRecv(q.rq.at(q.rq.head))
		q.rq.head++
	}
}

// awaitErrFlush puts a queue pair in state Err on the list of those whose receive
// source is still written to, without anyone being told.
func (q *QP) awaitErrFlush() {
	if q.state == Err && q.rq.source != nil && !q.errFlush {
		q.errFlush = true
		q.dev.errFlush = append(q.dev.errFlush, q)
	}
}

// FlushInError flushes the receives that programs have written into the queues of
// queue pairs in state Err: there is no doorbell for them, so it is to be
// called now and then while there are such queue pairs. It reports whether
// there were receives.
func (d *Device) FlushInError() (flushed bool) {
	kept := d.errFlush[:0]
	for _, q := range d.errFlush {
		if q.errFlush = !q.dead && q.state == Err; !q.errFlush {
			continue
		}
		kept = append(kept, q)
		if q.rq.len() > 0 {
			flushed = true
			q.flushRecvs()
		}
	}
	clear(d.errFlush[len(kept):])
	d.errFlush = kept
	return flushed
}

// InError is the number of queue pairs that FlushInError looks at.
func (d *Device) InError() int { return len(d.errFlush) }

// Window returns the memory window whose STag has the same index as stag,
// whatever its key and whether it is bound or not; nil if there is none.
func (d *Device) Window(stag uint32) *MW {
	if r := d.regions[stag>>8]; r != nil {
		return r.window
	}
	return nil
}

// Region returns the valid memory region that stag names, nil if there is none.
func (d *Device) Region(stag uint32) *MR {
	if r := d.Lookup(stag); r != nil && r.window == nil {
		return r.mr
	}
	return nil
}
