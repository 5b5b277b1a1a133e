package verbs

import "fmt"

// RecvWR is a request to a receive queue. PostRecv copies it.
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}

// RecvWQE is a request in a receive queue: where a transport places an
// incoming Send.
type RecvWQE struct {
	ID     uint64
	Length uint64 // octets of room
	sges   []SGE
	spans  []span
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
}

// recvQueue is a ring that grows up to its limit.
type recvQueue struct {
	ring       []RecvWQE
	limit      int
	head, tail uint64

	fromSRQ  RecvWQE // the request taken from the SRQ and not completed
	srqTaken bool
}

func (r *recvQueue) at(seq uint64) *RecvWQE { return &r.ring[seq&uint64(len(r.ring)-1)] }

func (r *recvQueue) len() int { return int(r.tail - r.head) }

func (r *recvQueue) push(wr *RecvWR) {
	if r.len() == len(r.ring) {
		ring := make([]RecvWQE, max(4, 2*len(r.ring)))
		for seq := r.head; seq != r.tail; seq++ {
			ring[seq&uint64(len(ring)-1)] = *r.at(seq)
		}
		r.ring = ring
	}
	w := r.at(r.tail)
	w.ID, w.Length = wr.ID, sgeLength(wr.SGEs)
	w.sges = append(w.sges[:0], wr.SGEs...)
	r.tail++
}

func (r *recvQueue) check(wr *RecvWR, maxSGE int) error {
	switch {
	case r.len() >= r.limit:
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
// that its elements are not writable.
func (q *QP) NextRecv() (*RecvWQE, Fault) {
	r := &q.rq
	var w *RecvWQE
	switch {
	case q.cfg.SRQ != nil:
		if !r.srqTaken && !q.cfg.SRQ.take(&r.fromSRQ) {
			return nil, FaultNone
		}
		r.srqTaken = true
		w = &r.fromSRQ
	case r.head == r.tail:
		return nil, FaultNone
	default:
		w = r.at(r.head)
	}
	var f Fault
	w.spans, f = q.dev.resolve(w.spans[:0], q.pd, w.sges, LocalWrite)
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
	op := WCRecv
	if done.Write {
		op = WCRecvWrite
	}
	q.cfg.RecvCQ.push(WC{
		ID: w.ID, QP: q, ByteLen: done.ByteLen, Status: done.Status, Opcode: op,
		Invalidated: done.Invalidated, WithInv: done.WithInv,
		Imm: done.Imm, WithImm: done.WithImm, Solicited: done.Solicited,
	})
}

// SRQ is a receive queue shared by several QPs.
type SRQ struct {
	pd     *PD
	num    uint32
	rq     recvQueue
	maxSGE int
	watch  int // EventSRQLimit below this many receives; 0 = off
	refs   int
	dead   bool

	private any
}

// CreateSRQ makes a shared receive queue for maxWR requests of up to maxSGE
// elements.
func (p *PD) CreateSRQ(maxWR, maxSGE int) (*SRQ, error) {
	d := p.dev
	if p.dead || maxWR < 1 || maxWR > d.limits.MaxSRQWR || maxSGE < 1 || maxSGE > d.limits.MaxSGE {
		return nil, fmt.Errorf("create SRQ: %d requests of %d elements: %w", maxWR, maxSGE, ErrInvalid)
	}
	num, err := d.add(kindSRQ, d.limits.MaxSRQ, "SRQ")
	if err != nil {
		return nil, err
	}
	p.refs++
	s := &SRQ{pd: p, num: num, rq: recvQueue{limit: maxWR}, maxSGE: maxSGE}
	d.srqs = append(d.srqs, s)
	return s, nil
}

// Num is the SRQ's number within its device, from 1.
func (s *SRQ) Num() uint32 { return s.num }

// Len is the number of receives waiting.
func (s *SRQ) Len() int { return s.rq.len() }

// SetLimit arms one EventSRQLimit for when fewer than n receives wait.
func (s *SRQ) SetLimit(n int) { s.watch = n }

// Destroy frees the SRQ; ErrBusy while a QP uses it.
func (s *SRQ) Destroy() error {
	if err := s.pd.dev.mayDestroy("SRQ", s.num, s.dead, s.refs); err != nil {
		return err
	}
	s.dead = true
	s.pd.refs--
	s.pd.dev.objects[kindSRQ]--
	s.pd.dev.srqs = remove(s.pd.dev.srqs, s)
	return nil
}

// PostRecv is QP.PostRecv for the shared queue.
func (s *SRQ) PostRecv(wrs ...RecvWR) (bad int, err error) {
	for i := range wrs {
		err := s.rq.check(&wrs[i], s.maxSGE)
		if s.dead {
			err = ErrDestroyed
		}
		if err != nil {
			return i, fmt.Errorf("post receive to SRQ %d, WR %d: %w", s.num, wrs[i].ID, err)
		}
		s.rq.push(&wrs[i])
	}
	return len(wrs), nil
}

// take moves the oldest request into w.
func (s *SRQ) take(w *RecvWQE) bool {
	if s.rq.len() == 0 {
		return false
	}
	from := s.rq.at(s.rq.head)
	s.rq.head++
	w.ID, w.Length = from.ID, from.Length
	w.sges = append(w.sges[:0], from.sges...)
	if s.rq.len() < s.watch {
		s.watch = 0
		s.pd.dev.Async(AsyncEvent{Type: EventSRQLimit, SRQ: s})
	}
	return true
}
