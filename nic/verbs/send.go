package verbs

import "fmt"

// Opcode says what a send work request does.
type Opcode uint8

const (
	OpSend    Opcode = iota // Send, or with Solicited: Send with Solicited Event
	OpSendInv               // Send with Invalidate, or with Solicited: with both
	OpWrite                 // RDMA Write
	OpRead                  // RDMA Read
	numOpcodes
)

var opcodeNames = [numOpcodes]string{"Send", "Send with Invalidate", "RDMA Write", "RDMA Read"}

func (o Opcode) String() string {
	if o < numOpcodes {
		return opcodeNames[o]
	}
	return fmt.Sprintf("opcode %d", uint8(o))
}

func (o Opcode) completion() WCOpcode {
	switch o {
	case OpWrite:
		return WCWrite
	case OpRead:
		return WCRead
	}
	return WCSend
}

// SendFlags modify a send work request.
type SendFlags uint8

const (
	// Signaled asks for a completion also on success.
	Signaled SendFlags = 1 << iota
	// Solicited raises an event at the receiver (Sends only).
	Solicited
	// Fence starts the request only after all earlier Reads are complete.
	Fence
	// Inline takes the data from Inline, not from the elements.
	Inline
)

// SendWR is a request to the send queue. PostSend copies it, SGEs and inline
// data included.
type SendWR struct {
	ID         uint64
	Opcode     Opcode
	Flags      SendFlags
	SGEs       []SGE  // source of Send and Write; sink of Read
	Inline     []byte // source when Flags has Inline
	RemoteAddr uint64 // of Write and Read
	RKey       uint32 // of Write and Read
	Invalidate uint32 // STag that OpSendInv invalidates at the peer
}

// SendWQE is a request in the send queue: what a transport works on. It is
// valid until finished; hold Seq, not the pointer, across posts.
type SendWQE struct {
	SendWR
	Seq    uint64 // position in the send queue, from 0
	Length uint64 // octets of the message
	Status Status // outcome, when done
	done   bool
	spans  []span
	sges   []SGE
	inline []byte
}

// sendQueue is a ring of WQEs that grows up to its limit and keeps the
// memory of each slot for the next request.
type sendQueue struct {
	ring  []SendWQE
	limit int
	// head is the oldest request not completed, next the oldest not begun
	// by the transport, tail the next to be posted.
	head, next, tail uint64
}

func (s *sendQueue) at(seq uint64) *SendWQE { return &s.ring[seq&uint64(len(s.ring)-1)] }

func (s *sendQueue) grow() {
	ring := make([]SendWQE, max(4, 2*len(s.ring)))
	for seq := s.head; seq != s.tail; seq++ {
		ring[seq&uint64(len(ring)-1)] = *s.at(seq)
	}
	s.ring = ring
}

// PostSend queues wrs in order. On error it returns the index of the first
// request that was not queued; those before it were. In state Err requests
// are accepted and flushed at once.
func (q *QP) PostSend(wrs ...SendWR) (bad int, err error) {
	posted := 0
	for i := range wrs {
		if err = q.checkSend(&wrs[i]); err != nil {
			err = fmt.Errorf("post send to QP %d, WR %d: %w", q.num, wrs[i].ID, err)
			break
		}
		q.enqueue(&wrs[i])
		posted++
	}
	switch {
	case posted == 0:
	case q.state == Err || q.state == SQE:
		q.flushSends()
	case q.dev.transport != nil:
		q.dev.transport.Posted(q)
	}
	return posted, err
}

func (q *QP) checkSend(wr *SendWR) error {
	switch {
	case q.dead:
		return ErrDestroyed
	case q.state != RTS && q.state != Err && q.state != SQE:
		return fmt.Errorf("%v: %w", q.state, ErrState)
	case q.sq.tail-q.sq.head >= uint64(q.sq.limit):
		return ErrQueueFull
	case wr.Opcode >= numOpcodes:
		return fmt.Errorf("%v: %w", wr.Opcode, ErrInvalid)
	}
	if wr.Flags&Inline != 0 {
		switch {
		case wr.Opcode == OpRead:
			return fmt.Errorf("inline RDMA Read: %w", ErrInvalid)
		case len(wr.Inline) > q.cfg.MaxInline:
			return ErrInlineSize
		}
		return nil
	}
	most := q.cfg.MaxSGE
	if wr.Opcode == OpRead {
		most = min(most, q.dev.limits.MaxSGERead)
	}
	if len(wr.SGEs) > most {
		return ErrTooManySGE
	}
	if n := sgeLength(wr.SGEs); n > uint64(q.dev.limits.MaxMsg) {
		return fmt.Errorf("message of %d octets, limit %d: %w", n, q.dev.limits.MaxMsg, ErrInvalid)
	}
	return nil
}

func sgeLength(sges []SGE) (n uint64) {
	for i := range sges {
		n += uint64(sges[i].Length)
	}
	return n
}

func (q *QP) enqueue(wr *SendWR) {
	s := &q.sq
	if s.tail-s.head == uint64(len(s.ring)) {
		s.grow()
	}
	w := s.at(s.tail)
	sges, inline, spans := w.sges[:0], w.inline[:0], w.spans[:0]
	// Field by field, so that the caller's slices need not outlive the call.
	*w = SendWQE{Seq: s.tail, spans: spans}
	w.ID, w.Opcode, w.Flags = wr.ID, wr.Opcode, wr.Flags
	w.RemoteAddr, w.RKey, w.Invalidate = wr.RemoteAddr, wr.RKey, wr.Invalidate
	if wr.Flags&Inline != 0 {
		inline = append(inline, wr.Inline...)
		w.Length = uint64(len(inline))
		w.SGEs, w.Inline = nil, inline
	} else {
		sges = append(sges, wr.SGEs...)
		w.Length = sgeLength(sges)
		w.SGEs, w.Inline = sges, nil
	}
	w.sges, w.inline = sges, inline
	s.tail++
}

// flushSends completes what is queued with StatusFlushed.
func (q *QP) flushSends() {
	for q.sq.head != q.sq.tail {
		w := q.sq.at(q.sq.head)
		w.Status, w.done = StatusFlushed, true
		q.retire(w)
	}
	q.sq.next = q.sq.tail
}

// NextSend returns the oldest request that the transport has not begun, or
// nil.
func (q *QP) NextSend() *SendWQE {
	if q.sq.next == q.sq.tail {
		return nil
	}
	return q.sq.at(q.sq.next)
}

// BeginSend marks the request of NextSend as begun.
func (q *QP) BeginSend() { q.sq.next++ }

// SendWQE returns the request at position seq, or nil when it has completed.
func (q *QP) SendWQE(seq uint64) *SendWQE {
	if seq-q.sq.head >= q.sq.tail-q.sq.head {
		return nil
	}
	return q.sq.at(seq)
}

// SendsPending is the number of requests that have not completed.
func (q *QP) SendsPending() int { return int(q.sq.tail - q.sq.head) }

// Resolve finds the memory of w's elements and checks it: readable for Send
// and Write, writable for Read.
func (q *QP) Resolve(w *SendWQE) (f Fault) {
	need := Access(0)
	if w.Opcode == OpRead {
		need = LocalWrite
	}
	w.spans, f = q.dev.resolve(w.spans[:0], q.pd, w.SGEs, need)
	return f
}

// Addressable tells whether all of w's data is memory of this process other
// than inline data, so that it can be read again later without a copy.
func (w *SendWQE) Addressable() bool {
	if w.Flags&Inline != 0 {
		return false
	}
	for i := range w.spans {
		if s := &w.spans[i]; s.mr.mem.Slice(s.off, 1) == nil {
			return false
		}
	}
	return true
}

// Valid tells whether the regions of the resolved elements may still be used.
func (w *SendWQE) Valid() bool {
	for i := range w.spans {
		if !w.spans[i].mr.valid {
			return false
		}
	}
	return true
}

// Uses tells whether a resolved element of w lies in mr.
func (w *SendWQE) Uses(mr *MR) bool {
	for i := range w.spans {
		if w.spans[i].mr == mr {
			return true
		}
	}
	return false
}

// Fetch copies len(p) octets of the resolved message from offset off.
func (w *SendWQE) Fetch(p []byte, off uint64) error {
	if w.Flags&Inline != 0 {
		copy(p, w.Inline[off:])
		return nil
	}
	return copySpans(w.spans, p, off, false)
}

// Place copies p to offset off of the resolved sink of a Read.
func (w *SendWQE) Place(p []byte, off uint64) error { return copySpans(w.spans, p, off, true) }

// FinishSend records the outcome of the request at position seq. Completions
// appear in the order of posting: a request that finishes early waits for
// those before it.
func (q *QP) FinishSend(seq uint64, status Status) {
	w := q.SendWQE(seq)
	if w == nil || w.done {
		return
	}
	w.Status, w.done = status, true
	for q.sq.head != q.sq.next {
		w := q.sq.at(q.sq.head)
		if !w.done {
			return
		}
		q.retire(w)
	}
}

// retire removes the oldest request and completes it if it is signalled or
// failed.
func (q *QP) retire(w *SendWQE) {
	q.sq.head++
	if w.Status == StatusSuccess && w.Flags&Signaled == 0 && !q.cfg.SignalAll {
		return
	}
	wc := WC{ID: w.ID, QP: q, Status: w.Status, Opcode: w.Opcode.completion()}
	if w.Status == StatusSuccess {
		wc.ByteLen = uint32(w.Length)
	}
	q.cfg.SendCQ.push(wc)
}
