package rdmap

import "tapir/ddp"

// The messages of RFC 7306 within a stream: Immediate Data and atomic
// operations.

// beginThen starts the Immediate Data of a Write that has been sent.
func (s *Stream) beginThen() bool {
	op := s.then
	s.then = 0
	s.beginImmediate(op, s.immRef, &s.imm)
	return true
}

func (s *Stream) beginImmediate(op Opcode, ref uint64, imm *Immediate) {
	c := s.start(op, FromControl, ref, UntaggedHeader(op, true, 0, s.nextMSN(op), 0), ImmediateLen)
	imm.Put(c.control[:])
}

// beginAtomic sends an Atomic Request. Its identifier is its message number.
func (s *Stream) beginAtomic(w *Work) {
	msn := s.nextMSN(AtomicRequestOp)
	req := w.Atomic
	req.ID, req.STag, req.TO = msn, w.STag, w.TO
	s.reads.push(read{ref: w.Ref, atomic: true, msn: msn})
	c := s.start(AtomicRequestOp, FromControl, w.Ref, UntaggedHeader(AtomicRequestOp, true, 0, msn, 0),
		AtomicRequestLen)
	req.Put(c.control[:])
}

// exactly refuses a segment that is not a whole message of n octets.
func exactly(h *ddp.Header, payload []byte, n int) error {
	switch {
	case int64(h.MO)+int64(len(payload)) > int64(n):
		return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.TooLong}
	case len(payload) < n || !h.Last:
		return operation(Unspecified)
	}
	return nil
}

// immediate takes Immediate Data, which uses up a receive buffer and places
// nothing in it (RFC 7306 section 6.3).
func (k *sink) immediate(h *ddp.Header, payload []byte) error {
	if err := exactly(h, payload, ImmediateLen); err != nil {
		return err
	}
	_, f, ok := k.upper.NextRecv()
	switch {
	case !ok:
		return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.NoBuffer}
	case f != FaultNone:
		return operation(CatastrophicStream)
	}
	k.inImm = Immediate(payload)
	return nil
}

// atomicRequest takes an Atomic Request, which counts as an inbound Read.
func (k *sink) atomicRequest(h *ddp.Header, payload []byte) error {
	if err := exactly(h, payload, AtomicRequestLen); err != nil {
		return err
	}
	if k.responses.len() >= k.limits.IRD {
		return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.NoBuffer}
	}
	var err error
	k.inAtomic, err = ParseAtomicRequest(payload)
	return err
}

// executeAtomic does the operation, once, when its request is delivered. A
// stream that closes answers no more, and so does none.
func (k *sink) executeAtomic() error {
	req := &k.inAtomic
	switch {
	case req.Op > CmpSwap:
		return operation(UnexpectedOpcode)
	case k.quiet:
		return nil
	}
	original, f := k.upper.Atomic(req)
	switch f {
	case FaultNone:
		k.responses.push(response{atomic: true, result: AtomicResponse{ID: req.ID, Original: original}})
		return nil
	case FaultAlign: // RFC 7306 section 8.2
		return operation(CatastrophicStream)
	}
	return readFault(f)
}

// atomicResponse takes the answer to the oldest outstanding request.
func (k *sink) atomicResponse(h *ddp.Header, payload []byte) error {
	if err := exactly(h, payload, AtomicResponseLen); err != nil {
		return err
	}
	res, err := ParseAtomicResponse(payload)
	switch {
	case err != nil:
		return err
	case k.reads.len() == 0:
		return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.NoBuffer}
	case !k.reads.front().atomic:
		return operation(UnexpectedOpcode)
	case res.ID != k.reads.front().msn:
		return operation(Unspecified)
	}
	k.original = res.Original
	return nil
}
