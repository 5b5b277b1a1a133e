package verbs

import (
	"encoding/binary"
	"fmt"
	"slices"

	"tapir/nic/msglog"
	"tapir/nic/verbs/qpattr"
)

// SendWR is a request to the send queue. PostSend copies it, with all that it
// points to except regions, windows and memory.
type SendWR struct {
	ID         uint64
	Opcode     Opcode
	Flags      SendFlags
	SGEs       []SGE  // source of Sends and Writes; sink of Reads and atomics
	Inline     []byte // source when Flags has Inline
	RemoteAddr uint64 // of Writes, Reads and atomics
	RKey       uint32 // of Writes, Reads and atomics
	Invalidate uint32 // STag: the peer's of OpSendInv, this side's of OpLocalInv
	Imm        uint64 // of OpSendImm and OpWriteImm; its octets travel big-endian, with a Fabric the lower four
	Atomic     Operands
	Reg        *FastReg // of OpRegMR
	Bind       *Bind    // of OpBindMW

	AH         *AH    // of datagrams
	RemoteQPN  uint32 // of datagrams, 24 bits
	RemoteQKey uint32 // of datagrams; with the highest bit set the queue pair's own counts
	RemoteSRQ  uint32 // of XRC, 24 bits: the shared receive queue at the peer
}

// SendWQE is a request in the send queue: what a transport works on. It is
// valid until finished; hold Seq, not the pointer, across posts. The masks of
// an atomic operation are filled in.
type SendWQE struct {
	SendWR
	Seq     uint64 // position in the send queue, from 0
	Length  uint64 // octets of the message
	Status  Status // outcome, when done
	q       *QP
	refused Status // not StatusSuccess: it could not be posted, completes so
	done    bool
	begun   bool
	spans   []span
	sges    []SGE
	inline  []byte
	local   *localWork
}

// sendQueue is a ring of WQEs that grows up to its limit and keeps the
// memory of each slot for the next request.
type sendQueue struct {
	ring  []SendWQE
	limit int
	// head is the oldest request not completed, next the oldest not begun
	// by the transport, tail the next to be posted.
	head, next, tail uint64

	reads  int  // Reads and atomics begun and not done
	fenced bool // the request at next waits for its fence
	halted bool // a local failure: nothing more is begun
	failed bool // a request has failed: those behind it are flushed

	source SendSource // nil: PostSend only
	rung   int        // requests there that were announced
	wr     SendWR     // what it gave last
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
		if err = q.maySend(); err == nil {
			err = q.checkSend(&wrs[i], false)
		}
		if err != nil {
			err = fmt.Errorf("post send to QP %d, WR %d: %w", q.num, wrs[i].ID, err)
			break
		}
		q.enqueue(&wrs[i])
		posted++
	}
	if posted > 0 {
		q.doorbell()
	}
	return posted, err
}

// doorbell sees to what has been queued.
func (q *QP) doorbell() {
	if q.state == Err || q.state == SQE {
		q.flushSends()
		return
	}
	q.endpoint.Posted()
}

// maySend refuses posting in a state that does not allow it.
func (q *QP) maySend() error {
	switch {
	case q.dead:
		return ErrDestroyed
	case q.cfg.Type == qpattr.XRCTarget:
		return fmt.Errorf("a QP of type %v has no send queue: %w", q.cfg.Type, ErrInvalid)
	case q.state == SQD && q.dev.fabric != nil:
	case q.state != RTS && q.state != Err && q.state != SQE:
		return fmt.Errorf("%v: %w", q.state, ErrState)
	}
	return nil
}

// checkSend refuses a request that can be seen to be wrong when it is posted.
// verb is set within BindMW.
func (q *QP) checkSend(wr *SendWR, verb bool) error {
	switch {
	case q.sq.tail-q.sq.head >= uint64(q.sq.limit):
		return ErrQueueFull
	case wr.Opcode >= numOpcodes:
		return fmt.Errorf("%v: %w", wr.Opcode, ErrInvalid)
	case !q.dev.ops.Has(wr.Opcode):
		return fmt.Errorf("%v: %w", wr.Opcode, ErrUnsupported)
	}
	if err := q.checkData(wr); err != nil {
		return err
	}
	if q.dev.fabric != nil {
		if err := q.checkService(wr); err != nil {
			return err
		}
	}
	switch {
	case wr.Opcode == OpRegMR:
		return wr.Reg.check(q)
	case wr.Opcode == OpBindMW:
		return wr.Bind.check(q, verb)
	case wr.Opcode.Atomic() && sgeLength(wr.SGEs) != AtomicLen:
		return fmt.Errorf("%v of %d octets: %w", wr.Opcode, sgeLength(wr.SGEs), ErrInvalid)
	}
	return nil
}

// checkData checks the elements or inline data of wr.
func (q *QP) checkData(wr *SendWR) error {
	traits := &opcodes[wr.Opcode]
	inline := wr.Flags&Inline != 0
	most := q.cfg.MaxSGE
	switch {
	case wr.Opcode == OpReadInv || traits.atomic:
		most = 1
	case traits.reads:
		most = min(most, q.dev.limits.MaxSGERead)
	}
	noData := traits.noData && !(wr.Opcode == OpSendImm && q.dev.fabric != nil)
	switch {
	case noData && (inline || len(wr.SGEs) > 0):
		return fmt.Errorf("%v with data: %w", wr.Opcode, ErrInvalid)
	case inline && traits.noInline:
		return fmt.Errorf("inline %v: %w", wr.Opcode, ErrInvalid)
	case inline && len(wr.Inline) > q.cfg.MaxInline:
		return ErrInlineSize
	case inline:
		return nil
	case len(wr.SGEs) > most:
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
	sges, inline, spans, local := w.sges[:0], w.inline[:0], w.spans[:0], w.local
	// Field by field, so that the caller's slices need not outlive the call.
	*w = SendWQE{Seq: s.tail, q: q, spans: spans, local: local}
	w.ID, w.Opcode, w.Flags = wr.ID, wr.Opcode, wr.Flags
	w.RemoteAddr, w.RKey, w.Invalidate, w.Imm = wr.RemoteAddr, wr.RKey, wr.Invalidate, wr.Imm
	w.Atomic = wr.Atomic.normal(wr.Opcode)
	w.AH, w.RemoteQPN, w.RemoteQKey, w.RemoteSRQ = wr.AH, wr.RemoteQPN, wr.RemoteQKey, wr.RemoteSRQ
	w.copyLocal(wr)
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
	if q.dev.log.On(msglog.WR) {
		q.logSend(w)
	}
}

// flushSends completes what is not finished with StatusFlushed, in order, then
// what a source holds and did not even announce.
func (q *QP) flushSends() {
	q.flushPosted()
	if q.sq.source == nil {
		return
	}
	q.sq.rung = q.sq.source.Len()
	for q.takeRung() {
		q.flushPosted()
	}
}

func (q *QP) flushPosted() {
	for q.sq.head != q.sq.tail {
		w := q.sq.at(q.sq.head)
		if !w.done {
			w.Status, w.done = StatusFlushed, true
		}
		q.retire(w)
	}
	q.sq.next = q.sq.tail
	q.sq.reads, q.sq.fenced = 0, false
}

// NextSend returns the oldest request that the transport has not begun, or
// nil: there is none, or it waits for its fence. Local operations whose turn
// has come are done here and not returned, so a transport calls NextSend only
// when it has rendered or copied all of the request before.
func (q *QP) NextSend() *SendWQE {
	s := &q.sq
	for s.next != s.tail && !s.halted {
		w := s.at(s.next)
		if s.fenced = s.waits(w); s.fenced {
			return nil
		}
		if w.refused != StatusSuccess {
			q.refuse(w)
			continue
		}
		if !w.Opcode.Local() {
			return w
		}
		q.BeginSend()
		status := StatusSuccess
		if !q.execute(w) {
			status = StatusMWBind
		}
		q.FinishSend(w.Seq, status)
	}
	return nil
}

// waits tells whether the fence of w, the request at next, holds it back.
func (s *sendQueue) waits(w *SendWQE) bool {
	return w.Flags&(Fence|ReadFence) != 0 && s.reads > 0 || w.Flags&LocalFence != 0 && s.head != s.next
}

// BeginSend marks the request of NextSend as begun.
func (q *QP) BeginSend() {
	w := q.sq.at(q.sq.next)
	w.begun = true
	if w.Opcode.Reads() {
		q.sq.reads++
	}
	q.sq.next++
}

// SendWQE returns the request at position seq, or nil when it has completed.
func (q *QP) SendWQE(seq uint64) *SendWQE {
	if seq-q.sq.head >= q.sq.tail-q.sq.head {
		return nil
	}
	return q.sq.at(seq)
}

// SendsPending is the number of requests that have not completed.
func (q *QP) SendsPending() int { return int(q.sq.tail-q.sq.head) + q.sq.rung }

// ReadsPending tells whether Reads or atomics are among them.
func (q *QP) ReadsPending() bool {
	for seq := q.sq.head; seq != q.sq.tail; seq++ {
		if w := q.sq.at(seq); !w.done && w.Opcode.Reads() {
			return true
		}
	}
	return false
}

// Resolve finds the memory of w's elements and checks it: readable for Sends
// and Writes, writable for Reads and atomics.
func (q *QP) Resolve(w *SendWQE) (f Fault) {
	need := Access(0)
	if w.Opcode.Reads() {
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
		if s := &w.spans[i]; s.r.mem.Slice(s.r.base+s.off, 1) == nil {
			return false
		}
	}
	return true
}

// Valid tells whether the regions of the resolved elements may still be used.
func (w *SendWQE) Valid() bool {
	for i := range w.spans {
		if !w.spans[i].alive() {
			return false
		}
	}
	return true
}

// Uses tells whether a resolved element of w lies in mr.
func (w *SendWQE) Uses(mr *MR) bool {
	return slices.ContainsFunc(w.spans, func(s span) bool { return s.r.mr == mr })
}

// Fetch copies len(p) octets of the resolved message from offset off.
func (w *SendWQE) Fetch(p []byte, off uint64) error {
	if w.Flags&Inline != 0 {
		copy(p, w.Inline[off:])
		return nil
	}
	if w.short() {
		return w.q.dev.ahead.fetch(w, p, off)
	}
	return copySpans(w.spans, p, off, false)
}

// Slice returns n octets of the resolved message from offset off themselves,
// nil where they are not one piece of memory that this process can address.
func (w *SendWQE) Slice(off uint64, n int) []byte {
	if w.Flags&Inline != 0 {
		return nil
	}
	for i := range w.spans {
		s := &w.spans[i]
		if off >= s.n {
			off -= s.n
			continue
		}
		if uint64(n) > s.n-off || !s.alive() {
			return nil
		}
		p := s.r.mem.Slice(s.r.base+s.off+off, n)
		if p != nil && s.r.pd.dev.log.On(msglog.Data) {
			s.r.logData(p, s.off+off, false)
		}
		return p
	}
	return nil
}

// Place copies p to offset off of the resolved sink of a Read.
func (w *SendWQE) Place(p []byte, off uint64) error { return copySpans(w.spans, p, off, true) }

// PlaceOriginal stores the value that an atomic operation found at the peer,
// in host order.
func (w *SendWQE) PlaceOriginal(v uint64) error {
	var b [AtomicLen]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return w.Place(b[:], 0)
}

// FinishSend records the outcome of the request at position seq. Completions
// appear in the order of posting: a request that finishes early waits for
// those before it.
func (q *QP) FinishSend(seq uint64, status Status) {
	w := q.SendWQE(seq)
	if w == nil || w.done {
		return
	}
	if w.begun && w.Opcode.Reads() {
		q.sq.reads--
	}
	if w.Opcode == OpReadInv && status == StatusSuccess && len(w.SGEs) > 0 && !q.invalidate(w.SGEs[0].LKey) {
		status = StatusMWBind
	}
	if status == StatusMWBind {
		q.failLocal()
	}
	w.Status, w.done = status, true
	for q.sq.head != q.sq.next && q.sq.at(q.sq.head).done {
		q.retire(q.sq.at(q.sq.head))
	}
	posted := q.sq.rung > 0 && q.takeRung()
	if q.sq.fenced && !q.sq.waits(q.sq.at(q.sq.next)) {
		q.sq.fenced, posted = false, true
	}
	if posted {
		q.endpoint.Posted()
	}
}

// retire removes the oldest request and completes it if it is signalled or
// failed. Behind a failure nothing counts as done, not even what the
// transport had finished early.
func (q *QP) retire(w *SendWQE) {
	q.sq.head++
	w.EndLoan()
	if w.Status != StatusSuccess {
		q.sq.failed = true
	} else if q.sq.failed {
		w.Status = StatusFlushed
	}
	if w.Status == StatusSuccess && w.Flags&Signaled == 0 && !q.cfg.SignalAll {
		return
	}
	wc := WC{ID: w.ID, QP: q, Status: w.Status, Opcode: opcodes[w.Opcode].wc}
	if w.Status == StatusSuccess {
		wc.ByteLen = uint32(w.Length)
	}
	q.cfg.SendCQ.push(wc)
}
