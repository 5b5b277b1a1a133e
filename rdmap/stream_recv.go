package rdmap

import (
	"errors"

	"tapir/ddp"
)

// Receive takes the next ULPDU, borrowed: one DDP segment in stream order.
// Every check precedes the placement of the segment's first octet. The error
// is sticky; a Terminate for it is queued unless the peer sent one.
func (s *Stream) Receive(ulpdu []byte) *Error {
	if s.err != nil {
		return s.err
	}
	s.isRead = false
	if err := s.rx.Segment(ulpdu); err != nil {
		s.failInbound(err, len(ulpdu))
	}
	return s.err
}

// Resume is Receive for a segment of which PlaceOOO has placed the first
// placed octets of the payload; rest (borrowed) is what remains.
func (s *Stream) Resume(h *ddp.Header, placed int, rest []byte) *Error {
	if s.err != nil {
		return s.err
	}
	s.isRead = false
	if err := s.rx.Resume(h, placed, rest); err != nil {
		s.failInbound(err, h.Len()+placed+len(rest))
	}
	return s.err
}

// PlaceOOO places the first n octets of the payload of a segment that has
// arrived before its turn, if it belongs to a Write, to the Read Response that
// is expected next, or to the Send under way, and if all of it may be placed.
// What it refuses is not an error: Receive judges it when its turn has come.
func (s *Stream) PlaceOOO(h *ddp.Header, payload []byte, n int) bool {
	c := ParseControl(h.ULP)
	total := uint64(len(payload))
	if s.err != nil || h.Version != ddp.Version || c.Version != Version || c.Opcode.Tagged() != h.Tagged {
		return false
	}
	switch {
	case c.Opcode == Write:
		return total > 0 && s.upper.PlaceWrite(h.STag, h.TO, total, 0, payload[:n]) == FaultNone
	case c.Opcode == ReadResponse && s.reads.len() > 0:
		r := s.reads.front()
		off := h.TO - r.to
		return !r.atomic && h.STag == r.stag && off >= r.have && off <= r.size && total <= r.size-off &&
			s.upper.PlaceRead(r.ref, payload[:n], off) == FaultNone
	case c.Opcode.IsSend() && h.QN == QueueSend:
		q := s.rx.Queue(QueueSend)
		return q.MO > 0 && h.MSN == q.MSN && h.MO >= q.MO && uint64(h.MO)+total <= s.room &&
			s.upper.PlaceRecv(payload[:n], uint64(h.MO)) == FaultNone
	}
	return false
}

// Last tells whether the segment received last ended its message.
func (s *Stream) Last() bool { return s.rx.Header().Last }

// Header is the DDP header of the segment received last.
func (s *Stream) Header() *ddp.Header { return s.rx.Header() }

// ReadRef is the reference of the Read whose response is expected, or NoRef.
func (s *Stream) ReadRef() uint64 {
	if s.reads.len() == 0 {
		return NoRef
	}
	return s.reads.front().ref
}

// failInbound turns err into the stream's error and a Terminate with the
// headers that RFC 5040 figure 10 asks for.
func (s *Stream) failInbound(err error, length int) {
	var d *ddp.Error
	var r *Error
	switch {
	case errors.As(err, &d):
		s.Fail(FromDDP(d))
		s.terminate = s.terminate.WithSegment(d.Header, d.Length)
	case errors.As(err, &r):
		s.Fail(r)
		if r.Remote || r.Layer == LayerRDMA && r.Type == TypeCatastrophic {
			return
		}
		s.terminate = s.terminate.WithSegment(*s.rx.Header(), length)
		if s.isRead && r.Type == TypeProtection {
			s.terminate = s.terminate.WithRead(s.badRead)
		}
	default: // shorter than its header: no layer has a better code than MPA
		s.Fail(&Error{Layer: LayerLLP, Code: 3})
	}
}

func protection(code uint8) *Error {
	return &Error{Layer: LayerRDMA, Type: TypeProtection, Code: code}
}

func operation(code uint8) *Error {
	return &Error{Layer: LayerRDMA, Type: TypeOperation, Code: code}
}

// taggedFault is the error for an inbound Write that f refuses. Rights are
// RDMAP's business, the rest DDP's (RFC 5041 section 7.1).
func taggedFault(f Fault) error {
	switch f {
	case FaultNone:
		return nil
	case FaultSTag:
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.InvalidSTag}
	case FaultBounds:
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.Bounds}
	case FaultPD:
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.NotAssociated}
	case FaultWrap:
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.TOWrap}
	case FaultAccess:
		return protection(AccessRights)
	}
	return operation(CatastrophicStream)
}

// readFault is the error for an inbound Read Request that f refuses.
func readFault(f Fault) error {
	switch f {
	case FaultNone:
		return nil
	case FaultSTag:
		return protection(InvalidSTag)
	case FaultBounds:
		return protection(Bounds)
	case FaultPD:
		return protection(NotAssociated)
	case FaultWrap:
		return protection(TOWrap)
	case FaultAccess:
		return protection(AccessRights)
	}
	return operation(CatastrophicStream)
}

// sink is the stream as DDP's Placer.
type sink Stream

// check refuses what no opcode of the header's model may look like.
func (k *sink) check(h *ddp.Header) (Opcode, error) {
	c := ParseControl(h.ULP)
	switch {
	case c.Version != Version:
		return 0, operation(InvalidVersion)
	case !c.Opcode.Valid(), c.Opcode.Tagged() != h.Tagged:
		return 0, operation(UnexpectedOpcode)
	case !h.Tagged && h.QN != c.Opcode.Queue():
		return 0, &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.InvalidQN}
	}
	return c.Opcode, nil
}

// PlaceTagged implements ddp.Placer.
func (k *sink) PlaceTagged(h *ddp.Header, payload []byte) error {
	op, err := k.check(h)
	if err != nil {
		return err
	}
	if op == ReadResponse {
		return k.placeRead(h, payload)
	}
	placed := uint64(k.rx.Placed())
	n := placed + uint64(len(payload))
	if n == 0 {
		return nil
	}
	return taggedFault(k.upper.PlaceWrite(h.STag, h.TO, n, placed, payload))
}

// placeRead places a Read Response, which must answer the oldest Read.
func (k *sink) placeRead(h *ddp.Header, payload []byte) error {
	if k.reads.len() == 0 || k.reads.front().atomic {
		return operation(UnexpectedOpcode)
	}
	r := k.reads.front()
	placed := uint64(k.rx.Placed())
	n := placed + uint64(len(payload))
	switch {
	case n > 0 && h.STag != r.stag:
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.InvalidSTag}
	case n > 0 && h.TO != r.to+r.have, n > r.size-r.have, h.Last && r.have+n != r.size:
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.Bounds}
	}
	if n > 0 {
		if f := k.upper.PlaceRead(r.ref, payload, r.have+placed); f != FaultNone {
			return operation(CatastrophicStream)
		}
	}
	r.have += n
	return nil
}

// PlaceUntagged implements ddp.Placer.
func (k *sink) PlaceUntagged(h *ddp.Header, payload []byte) error {
	op, err := k.check(h)
	switch {
	case err != nil:
		return err
	case op == ReadRequestOp:
		return k.readRequest(h, payload)
	case op == TerminateOp:
		return k.terminated(payload)
	case op == AtomicRequestOp:
		return k.atomicRequest(h, payload)
	case op == AtomicResponseOp:
		return k.atomicResponse(h, payload)
	case op.IsImmediate():
		return k.immediate(h, payload)
	case k.absorbs(op, h, payload):
		return nil
	}
	return k.placeSend(h, payload)
}

// absorbs tells whether the segment is the peer's ready-to-receive Send,
// which uses up no receive buffer.
func (k *sink) absorbs(op Opcode, h *ddp.Header, payload []byte) bool {
	return k.rtrWait && k.rtr == Send && op == Send && h.Last && h.MSN == 1 && h.MO == 0 && len(payload) == 0
}

func (k *sink) placeSend(h *ddp.Header, payload []byte) error {
	if h.MO == 0 {
		room, f, ok := k.upper.NextRecv()
		switch {
		case !ok:
			return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.NoBuffer}
		case f != FaultNone:
			return operation(CatastrophicStream)
		}
		k.room = room
	}
	at := uint64(h.MO) + uint64(k.rx.Placed())
	if at+uint64(len(payload)) > k.room {
		return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.TooLong}
	}
	if len(payload) > 0 && k.upper.PlaceRecv(payload, at) != FaultNone {
		return operation(CatastrophicStream)
	}
	return nil
}

// readRequest checks a Read Request against IRD and memory and queues its
// answer.
func (k *sink) readRequest(h *ddp.Header, payload []byte) error {
	switch {
	case len(payload) > ReadRequestLen:
		return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.TooLong}
	case len(payload) < ReadRequestLen || !h.Last:
		return operation(Unspecified)
	case k.responses.len() >= k.limits.IRD:
		return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.NoBuffer}
	}
	req, err := ParseReadRequest(payload)
	if err != nil {
		return operation(Unspecified)
	}
	if req.Size > 0 {
		f := k.upper.CheckRead(req.SourceSTag, req.SourceTO, uint64(req.Size))
		if f != FaultNone {
			k.badRead, k.isRead = req, true
			return readFault(f)
		}
	}
	if !k.quiet {
		k.responses.push(response{req: req, msn: h.MSN})
	}
	return nil
}

// terminated ends the stream with the peer's error.
func (k *sink) terminated(payload []byte) error {
	t, _, err := ParseTerminate(payload)
	if err != nil {
		return &Error{Layer: LayerRDMA, Type: TypeOperation, Code: Unspecified, Remote: true}
	}
	k.peer = t
	return t.Error()
}

// FaultyRead is the reference of the Read or atomic operation that the peer's
// Terminate names, or NoRef. For Reads the message number is no help: siw puts
// the size in its place.
func (s *Stream) FaultyRead() uint64 {
	d := &s.peer.DDP
	atomic := s.peer.HasDDP && !d.Tagged && d.QN == QueueRequest && ParseControl(d.ULP).Opcode == AtomicRequestOp
	if !s.peer.HasRead && !atomic {
		return NoRef
	}
	for i := s.reads.head; i != s.reads.tail; i++ {
		r, named := s.reads.at(i), &s.peer.Read
		if r.atomic != atomic {
			continue
		}
		if atomic && r.msn == d.MSN {
			return r.ref
		}
		// What has been answered is gone from both ends of the range.
		if !atomic && r.stag == named.SinkSTag && named.SinkTO-r.to <= r.size &&
			named.SinkTO+uint64(named.Size) == r.to+r.size {
			return r.ref
		}
	}
	return NoRef
}

// Deliver implements ddp.Placer.
func (k *sink) Deliver(h *ddp.Header, length uint64) error {
	op := ParseControl(h.ULP).Opcode
	k.Counters.RxMessages[op]++
	k.Counters.RxBytes += length
	first := k.rtrWait
	k.rtrWait = false
	switch {
	case op == ReadResponse:
		ref := k.reads.front().ref
		k.reads.pop()
		if ref != NoRef {
			k.upper.ReadDone(ref)
		}
		return nil
	case op == AtomicResponseOp:
		ref := k.reads.front().ref
		k.reads.pop()
		if k.upper.AtomicDone(ref, k.original) != FaultNone {
			return operation(CatastrophicStream)
		}
		return nil
	case op == AtomicRequestOp:
		return k.executeAtomic()
	case op == Write:
		k.write, k.wrote = true, length
		return nil
	case op.IsImmediate():
		done := Received{Op: op, Imm: k.inImm, AfterWrite: k.write}
		if k.write {
			done.Length = k.wrote
		}
		k.upper.RecvDone(done)
	case op.IsSend():
		if first && k.rtr == Send && op == Send && length == 0 {
			return nil
		}
		if op.Invalidates() && k.upper.Invalidate(h.ULPWord) != FaultNone {
			return protection(CannotBeInvalidated)
		}
		k.upper.RecvDone(Received{Op: op, Length: length, Invalidated: h.ULPWord})
	}
	k.write = false
	return nil
}
