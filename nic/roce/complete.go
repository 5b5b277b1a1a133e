package roce

import (
	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// response takes an acknowledgement or a response.
func (q *qp) response(p *ib.Packet, now frame.Time) frame.DropReason {
	r := &q.req
	if !q.reliable() || q.v.State() != verbs.RTS && q.v.State() != verbs.SQD {
		return nicdrop.DestQP
	}
	// Section 9.7.5.1.4: a PSN outside of what is outstanding is a ghost.
	d := sub(p.PSN, r.una)
	nak := p.Opcode.Op() == ib.OpAcknowledge && !p.AETH.Syndrome.ACK()
	if d < 0 || sub(p.PSN, r.high) >= 0 && !(nak && p.PSN == r.high) {
		return drop.Unused
	}
	switch p.Opcode.Op() {
	case ib.OpAcknowledge:
		return q.acknowledge(p, now)
	case ib.OpAtomicAcknowledge:
		return q.atomicResult(p, now)
	}
	return q.readResponse(p, now)
}

// acknowledge takes an ACK or NAK.
func (q *qp) acknowledge(p *ib.Packet, now frame.Time) frame.DropReason {
	s := p.AETH.Syndrome
	if s.ACK() {
		q.e.stats.AcksIn++
		q.acked(add(p.PSN, 1), now)
		return frame.DropNone
	}
	code, rnr := s.RNR()
	if !rnr && !s.NAK() {
		return nicdrop.Transport
	}
	if !q.acked(p.PSN, now) {
		return frame.DropNone
	}
	r := &q.req
	switch {
	case rnr:
		q.count.RNRNaksIn++
		q.e.stats.RNRNaksIn++
		if q.v.Attr().RNRRetry != rnrForever {
			if r.rnrRetries == 0 {
				q.failRequest(verbs.StatusRNRExceeded)
				return frame.DropNone
			}
			r.rnrRetries--
		}
		q.goBack(p.PSN)
		r.wait, r.expiry, r.early, r.naked = now.Add(ib.RNRDelay(code)), 0, 0, false
		q.setTimer()
	case s == ib.NAKSequence:
		q.count.NaksIn++
		q.e.stats.NaksIn++
		q.implied(p.PSN, now)
	default:
		q.count.NaksIn++
		q.e.stats.NaksIn++
		status := map[ib.Syndrome]verbs.Status{ib.NAKRemoteAccess: verbs.StatusRemoteAccess,
			ib.NAKRemoteOperation: verbs.StatusRemoteOperation}[s]
		if status == verbs.StatusSuccess {
			status = verbs.StatusRemoteInvalid
		}
		q.failRequest(status)
	}
	return frame.DropNone
}

// implied goes back to psn, once until there is progress: what follows a lost packet
// would else double the load for each.
func (q *qp) implied(psn uint32, now frame.Time) {
	r := &q.req
	if r.naked || psn == r.high {
		return
	}
	r.naked = true
	if q.retry(psn, verbs.StatusRetryExceeded, &r.retries) {
		q.armTimer(now)
	}
}

// acked takes what acknowledges all PSNs before psn. It returns false if an earlier Read
// has no response: sending went back to it.
func (q *qp) acked(psn uint32, now frame.Time) bool {
	r := &q.req
	for r.head != r.tail {
		rec := r.rec(r.head)
		end := add(rec.first, rec.count)
		if rec.status != verbs.StatusSuccess {
			break
		}
		if rec.reads && sub(psn, rec.first) > 0 && rec.got < rec.count {
			q.progress(add(rec.first, rec.got), now)
			q.implied(add(rec.first, rec.got), now)
			return false
		}
		if sub(psn, end) < 0 {
			break
		}
		q.finish(rec)
	}
	q.progress(psn, now)
	if r.halted || r.draining {
		q.endOfTurn(now)
	}
	return true
}

// finish completes the oldest request with success.
func (q *qp) finish(rec *record) {
	r := &q.req
	if rec.reads {
		r.reads--
	}
	rec.kept = nil
	if r.at == r.head {
		r.at++
		r.cursor = add(rec.first, rec.count)
	}
	r.head++
	q.v.FinishSend(rec.seq, verbs.StatusSuccess)
}

// progress moves the oldest PSN that is not acknowledged forward to psn.
func (q *qp) progress(psn uint32, now frame.Time) {
	r := &q.req
	if sub(psn, r.una) <= 0 {
		return
	}
	r.una = psn
	if sub(r.cursor, psn) < 0 { // never send again what is acknowledged
		r.cursor = psn
		r.seek()
	}
	r.naked, r.earlies = false, 0
	r.timeACK(psn, now)
	q.reload()
	q.armTimer(now)
	q.kick()
}

// current finds the Read or atomic operation that a response at psn belongs to, behind
// requests that it acknowledges.
func (q *qp) current(psn uint32, now frame.Time) *record {
	r := &q.req
	for r.head != r.tail {
		rec := r.rec(r.head)
		if (psn-rec.first)&ib.PSNMask < rec.count {
			if !rec.reads {
				return nil
			}
			return rec
		}
		if rec.status != verbs.StatusSuccess || !q.acked(add(rec.first, rec.count), now) {
			return nil
		}
	}
	return nil
}

// readResponse takes a packet of a response to a Read.
func (q *qp) readResponse(p *ib.Packet, now frame.Time) frame.DropReason {
	r := &q.req
	rec := q.current(p.PSN, now)
	if rec == nil || r.head == r.tail {
		return drop.Unused
	}
	w := q.v.SendWQE(rec.seq)
	i := (p.PSN - rec.first) & ib.PSNMask
	switch {
	case w == nil || w.Opcode.Atomic():
		q.failRequest(verbs.StatusBadResponse)
		return nicdrop.Transport
	case i < rec.got:
		return drop.Unused
	case i > rec.got: // section 9.7.5.1.4: an implied NAK
		q.implied(add(rec.first, rec.got), now)
		return nicdrop.PSN
	}
	off := uint64(i) * uint64(q.mtu)
	last := i == rec.count-1
	op := p.Opcode.Operation()
	ends := op.Place == ib.Last || op.Place == ib.Only
	if uint64(len(p.Payload)) != min(uint64(q.mtu), w.Length-off) || last != ends {
		q.failRequest(verbs.StatusBadResponse)
		return nicdrop.Transport
	}
	q.hold(!last)
	if len(p.Payload) > 0 && w.Place(p.Payload, off) != nil || last && q.settle() != nil {
		q.failRequest(verbs.StatusLocalProtection)
		return frame.DropNone
	}
	rec.got++
	if last {
		q.finish(rec)
	} else if r.at == r.head && sub(r.cursor, add(rec.first, rec.got)) < 0 {
		r.cursor = add(rec.first, rec.got)
	}
	q.progress(add(p.PSN, 1), now)
	if r.halted || r.draining {
		q.endOfTurn(now)
	}
	return frame.DropNone
}

// atomicResult takes the response to an atomic operation.
func (q *qp) atomicResult(p *ib.Packet, now frame.Time) frame.DropReason {
	rec := q.current(p.PSN, now)
	if rec == nil {
		return drop.Unused
	}
	w := q.v.SendWQE(rec.seq)
	q.e.flushWrites()
	switch {
	case w == nil || !w.Opcode.Atomic():
		q.failRequest(verbs.StatusBadResponse)
		return nicdrop.Transport
	case w.PlaceOriginal(p.Orig) != nil:
		q.failRequest(verbs.StatusLocalProtection)
		return frame.DropNone
	}
	rec.got = 1
	q.finish(rec)
	q.progress(add(p.PSN, 1), now)
	if q.req.halted || q.req.draining {
		q.endOfTurn(now)
	}
	return frame.DropNone
}

// hold says whether what the queue pair places from now on may wait in verbs.
func (q *qp) hold(on bool) {
	if q.e.placing != q {
		q.e.flushWrites()
	}
	if q.e.dev.BatchWrites(on); on {
		q.e.placing = q
	}
}

// settle places what waits.
func (q *qp) settle() error {
	q.e.placing = nil
	return q.e.dev.FlushWrites()
}
