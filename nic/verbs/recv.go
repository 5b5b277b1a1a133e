package verbs

import (
	"fmt"

	"tapir/nic/verbs/qpattr"
)

// RecvWR is a request to a receive queue. PostRecv copies it.
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}

// RecvWQE is a request in a receive queue: where a transport places an
// incoming Send.
type RecvWQE struct {
	ID      uint64
	Length  uint64 // octets that fit
	sges    []SGE
	spans   []span
	refused Status // not StatusSuccess: malformed, completes so
}

// Place copies p to offset off of the resolved request.
func (r *RecvWQE) Place(p []byte, off uint64) error { return copySpans(r.spans, p, off, true) }

// RecvDone describes a received message.
type RecvDone struct {
	Status      Status
	ByteLen     uint32
	Invalidated uint32
	Imm         uint64
	WithInv     bool
	WithImm     bool
	Solicited   bool
	Write       bool // the message was a Write with immediate data
	GRH         bool // the first 40 octets are the global route header or IP header
	SL          uint8
	PKeyIndex   uint16
	SrcQP       uint32 // sender's number, of a datagram
}

// recvQueue is a ring that grows up to its limit.
type recvQueue struct {
	ring       []RecvWQE
	limit      int
	head, tail uint64

	fromSRQ  RecvWQE // the request taken from the SRQ and not completed
	srqTaken bool

	source RecvSource // nil: PostRecv only
	wr     RecvWR     // what it gave last
}

func (r *recvQueue) at(seq uint64) *RecvWQE { return &r.ring[seq&uint64(len(r.ring)-1)] }

func (r *recvQueue) push(wr *RecvWR) {
	if int(r.tail-r.head) == len(r.ring) {
		ring := make([]RecvWQE, max(4, 2*len(r.ring)))
		for seq := r.head; seq != r.tail; seq++ {
			ring[seq&uint64(len(ring)-1)] = *r.at(seq)
		}
		r.ring = ring
	}
	w := r.at(r.tail)
	w.ID, w.Length, w.refused = wr.ID, sgeLength(wr.SGEs), StatusSuccess
	w.sges = append(w.sges[:0], wr.SGEs...)
	r.tail++
}

func (r *recvQueue) check(wr *RecvWR, maxSGE int) error {
	switch {
	case int(r.tail-r.head) >= r.limit:
		return ErrQueueFull
	case len(wr.SGEs) > maxSGE:
		return ErrTooManySGE
	}
	return nil
}

// PostRecv queues wrs in order. On error it returns the index of the first
// request that was not queued; those before it were. In state Err requests
// are accepted and flushed at once.
func (q *QP) PostRecv(wrs ...RecvWR) (bad int, err error) {
	for i := range wrs {
		if err := q.checkRecv(&wrs[i]); err != nil {
			return i, fmt.Errorf("post receive to QP %d, WR %d: %w", q.num, wrs[i].ID, err)
		}
		q.rq.push(&wrs[i])
		q.dev.logRecv(kindQP, q.num, &wrs[i])
		if q.state == Err {
			q.flushRecv(q.rq.at(q.rq.head))
			q.rq.head++
		}
	}
	return len(wrs), nil
}

func (q *QP) checkRecv(wr *RecvWR) error {
	switch {
	case q.dead:
		return ErrDestroyed
	case q.cfg.Type == qpattr.XRCInitiator || q.cfg.Type == qpattr.XRCTarget:
		return fmt.Errorf("a QP of type %v has no receive queue: %w", q.cfg.Type, ErrInvalid)
	case q.cfg.SRQ != nil:
		return fmt.Errorf("receives of this QP come from an SRQ: %w", ErrInvalid)
	case q.state == Reset:
		return fmt.Errorf("%v: %w", q.state, ErrState)
	}
	return q.rq.check(wr, q.cfg.MaxSGE)
}

// RecvsPending is the number of receives posted and not completed.
func (q *QP) RecvsPending() int { return q.rq.len() }

// NextRecv returns the request for the next message, its memory resolved, or
// nil when none is posted. It stays current until FinishRecv. A fault means
// that its elements are not writable, or that the request is malformed; with
// nil, that the shared queue has failed.
func (q *QP) NextRecv() (*RecvWQE, Fault) {
	r := &q.rq
	var w *RecvWQE
	srq := q.srq()
	switch {
	case srq != nil:
		if !r.srqTaken && !srq.take(&r.fromSRQ) {
			if srq.failed {
				return nil, FaultMalformed
			}
			return nil, FaultNone
		}
		r.srqTaken = true
		w = &r.fromSRQ
	case r.empty():
		return nil, FaultNone
	default:
		w = r.at(r.head)
	}
	if w.refused != StatusSuccess {
		return w, FaultMalformed
	}
	pd := q.pd
	if srq != nil {
		pd = srq.pd
	}
	var f Fault
	w.spans, f = q.dev.resolve(w.spans[:0], pd, w.sges, LocalWrite)
	return w, f
}

// CurrentRecv returns the request that NextRecv returned last, or nil if it
// has completed.
func (q *QP) CurrentRecv() *RecvWQE {
	switch {
	case q.rq.srqTaken:
		return &q.rq.fromSRQ
	case q.cfg.SRQ != nil || q.rq.head == q.rq.tail:
		return nil
	}
	return q.rq.at(q.rq.head)
}

// FinishRecv completes the request that NextRecv returned.
func (q *QP) FinishRecv(done RecvDone) {
	w := q.CurrentRecv()
	if w == nil {
		return
	}
	if q.rq.srqTaken {
		q.rq.srqTaken = false
	} else {
		q.rq.head++
	}
	if w.refused != StatusSuccess {
		done.Status = w.refused
	}
	op := WCRecv
	if done.Write {
		op = WCRecvWrite
	}
	q.recvCQ().push(WC{
		ID: w.ID, QP: q, ByteLen: done.ByteLen, Status: done.Status, Opcode: op,
		Invalidated: done.Invalidated, WithInv: done.WithInv,
		Imm: done.Imm, WithImm: done.WithImm, Solicited: done.Solicited,
		GRH: done.GRH, SL: done.SL, PKeyIndex: done.PKeyIndex, SrcQP: done.SrcQP,
	})
}
