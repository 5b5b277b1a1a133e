package rdmap

import "tapir/ddp"

// Choose makes sure that a message is being sent, if there is one to send,
// and returns the length of its DDP header and of the payload left.
func (s *Stream) Choose() (header int, left uint64, ok bool) {
	if (s.err != nil || !s.cur.active) && !s.begin() {
		return 0, 0, false
	}
	m := &s.cur.msg
	return m.Header.Len(), m.Length - s.cur.off, true
}

// Cut fills seg with the next segment of the message chosen, of at most
// mulpdu octets, DDP header included. Choose must have returned ok.
func (s *Stream) Cut(mulpdu int, seg *Segment) {
	c := &s.cur
	seg.Len = c.msg.Segment(&seg.Header, c.off, mulpdu)
	seg.Op, seg.From, seg.Ref, seg.Off = c.op, c.from, c.ref, c.off
	seg.STag, seg.TO = c.stag, c.to+c.off
	seg.Control = nil
	if c.from == FromControl {
		seg.Control = c.control[c.off : c.off+uint64(seg.Len)]
	}
	c.off += uint64(seg.Len)
	seg.Final = seg.Header.Last && s.then == 0
	s.Counters.TxBytes += uint64(seg.Len)
	if !seg.Header.Last {
		return
	}
	c.active = false
	s.Counters.TxMessages[c.op]++
	switch c.op {
	case ReadResponse, AtomicResponseOp:
		s.responses.pop()
	case TerminateOp:
		s.termQueue = false
	}
}

// Repeat goes on behind the segment that Cut has just filled in, as if Cut
// had been called with the same mulpdu again for up to most segments, but not
// for the last one of the message. It returns for how many: they differ from
// seg in Off, TO and Header only.
func (s *Stream) Repeat(seg *Segment, most int) int {
	c := &s.cur
	if seg.Header.Last || seg.Len == 0 {
		return 0
	}
	left := c.msg.Length - c.off
	n := min(uint64(most), (left-1)/uint64(seg.Len))
	c.off += n * uint64(seg.Len)
	s.Counters.TxBytes += n * uint64(seg.Len)
	return int(n)
}

// begin chooses the next message: after an error the Terminate, at the start
// the ready-to-receive indication, then requests and Read Responses in turn.
func (s *Stream) begin() bool {
	switch {
	case s.err != nil:
		return s.beginTerminate()
	case s.rtrSend:
		return s.beginRTR()
	case s.then != 0:
		return s.beginThen()
	}
	if s.answered || s.responses.len() == 0 {
		if s.beginWork() {
			s.answered = false
			return true
		}
		if s.err != nil { // the upper layer found a fault in its request
			return s.beginTerminate()
		}
	}
	if s.responses.len() == 0 {
		return false
	}
	s.answered = true
	s.beginResponse()
	return true
}

func (s *Stream) start(op Opcode, from Source, ref uint64, h ddp.Header, length uint64) *outbound {
	c := &s.cur
	c.active, c.op, c.from, c.ref, c.off = true, op, from, ref, 0
	c.msg = ddp.Message{Header: h, Length: length}
	if length == 0 {
		c.from = FromNone
	}
	return c
}

func (s *Stream) nextMSN(op Opcode) uint32 {
	q := op.Queue()
	s.msn[q]++
	return s.msn[q] - 1
}

func (s *Stream) beginTerminate() bool {
	if !s.termQueue {
		s.cur.active = false
		return false
	}
	if s.cur.active && s.cur.op == TerminateOp {
		return true
	}
	h := UntaggedHeader(TerminateOp, true, 0, s.nextMSN(TerminateOp), 0)
	n := len(s.terminate.AppendTo(s.cur.control[:0]))
	s.start(TerminateOp, FromControl, NoRef, h, uint64(n))
	return true
}

func (s *Stream) beginRTR() bool {
	s.rtrSend = false
	switch s.rtr {
	case Write:
		s.start(Write, FromNone, NoRef, TaggedHeader(Write, true, 1, 0), 0)
	case ReadRequestOp:
		s.beginRead(&Work{Op: ReadRequestOp, Ref: NoRef, SinkSTag: 1, STag: 1})
	default:
		s.start(Send, FromNone, NoRef, UntaggedHeader(Send, true, 0, s.nextMSN(Send), 0), 0)
	}
	return true
}

// beginWork starts the next request unless it has to wait: a Read for one of
// the ORD slots, a fenced one for all Reads.
func (s *Stream) beginWork() bool {
	w, ok := s.upper.NextWork()
	if !ok || w.Fence && s.reads.len() > 0 {
		return false
	}
	switch {
	case w.Op == ReadRequestOp:
		if s.reads.len() >= s.limits.ORD {
			return false
		}
		s.beginRead(&w)
	case w.Op == AtomicRequestOp:
		if s.reads.len() >= s.limits.ORD {
			return false
		}
		s.beginAtomic(&w)
	case w.Op.IsImmediate():
		s.beginImmediate(w.Op, w.Ref, &w.Imm)
	case w.Op == Write:
		s.then, s.imm, s.immRef = w.Then, w.Imm, w.Ref
		s.start(Write, FromWork, w.Ref, TaggedHeader(Write, true, w.STag, w.TO), w.Length)
	default:
		h := UntaggedHeader(w.Op, true, w.Invalidate, s.nextMSN(w.Op), 0)
		s.start(w.Op, FromWork, w.Ref, h, w.Length)
	}
	s.upper.BeginWork()
	return true
}

func (s *Stream) beginRead(w *Work) {
	req := ReadRequest{SinkSTag: w.SinkSTag, SinkTO: w.SinkTO, Size: uint32(w.Length),
		SourceSTag: w.STag, SourceTO: w.TO}
	msn := s.nextMSN(ReadRequestOp)
	s.reads.push(read{ref: w.Ref, msn: msn, stag: w.SinkSTag, to: w.SinkTO, size: w.Length})
	h := UntaggedHeader(ReadRequestOp, true, 0, msn, 0)
	c := s.start(ReadRequestOp, FromControl, w.Ref, h, ReadRequestLen)
	req.Put(c.control[:])
}

// FailResponse ends the stream because the source of the Read Response of
// which seg has been cut is not accessible any more, for reason f. Its
// Terminate says how far the Read has come (RFC 5040 section 4.8).
func (s *Stream) FailResponse(seg *Segment, f Fault) *Error {
	err, _ := readFault(f).(*Error)
	if s.err != nil {
		return s.err
	}
	s.Fail(err)
	r := &s.answer
	s.terminate = s.terminate.WithSegment(UntaggedHeader(ReadRequestOp, true, 0, r.msn, 0),
		ddp.UntaggedLen+ReadRequestLen)
	if err.Type == TypeProtection {
		left := r.req
		left.SinkTO, left.SourceTO, left.Size = left.SinkTO+seg.Off, left.SourceTO+seg.Off, left.Size-uint32(seg.Off)
		s.terminate = s.terminate.WithRead(left)
	}
	return err
}

func (s *Stream) beginResponse() {
	if r := s.responses.front(); r.atomic {
		h := UntaggedHeader(AtomicResponseOp, true, 0, s.nextMSN(AtomicResponseOp), 0)
		c := s.start(AtomicResponseOp, FromControl, NoRef, h, AtomicResponseLen)
		r.result.Put(c.control[:])
		return
	}
	s.answer = *s.responses.front()
	req := &s.answer.req
	h := TaggedHeader(ReadResponse, true, req.SinkSTag, req.SinkTO)
	c := s.start(ReadResponse, FromMemory, NoRef, h, uint64(req.Size))
	c.stag, c.to = req.SourceSTag, req.SourceTO
}
