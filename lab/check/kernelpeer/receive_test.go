package kernelpeer

import (
	"errors"
	"io"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// readLoop takes the byte stream apart until it ends.
func (p *Peer) readLoop(rest []byte) {
	defer p.done.Done()
	fpdus := mpa.NewReceiver(p.result.Rx(), nil)
	b := make([]byte, batch)
	n, err := copy(b, rest), error(nil)
	for {
		if perr := fpdus.Receive(b[:n], p); perr != nil {
			p.protocolError(perr)
			return
		}
		if err != nil {
			break
		}
		n, err = p.rw.Read(b)
	}
	if fpdus.Partial() > 0 && err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	p.fail(err)
}

// violation is an error together with the Terminate that reports it.
type violation struct {
	err  *rdmap.Error
	term rdmap.Terminate
}

func (v *violation) Error() string { return v.err.Error() }

// violated is a violation found in the segment with header h and n octets of
// payload.
func violated(typ, code uint8, h *ddp.Header, n int) *violation {
	e := &rdmap.Error{Layer: rdmap.LayerRDMA, Type: typ, Code: code}
	return &violation{e, e.Terminate().WithSegment(*h, h.Len()+n)}
}

// protocolError ends the stream and, unless the other side has reported the
// error itself, tells it why.
func (p *Peer) protocolError(err error) {
	var reported *rdmap.Error
	if errors.As(err, &reported) {
		p.fail(reported)
		return
	}
	v := explain(err)
	data := v.term.AppendTo(nil)
	h := rdmap.UntaggedHeader(rdmap.TerminateOp, false, 0, 0, 0)
	p.mu.Lock()
	p.mayWrite = true
	p.mu.Unlock()
	// What is queued goes first; a stream that takes no more ends the wait.
	if err := p.post(&job{msg: ddp.Message{Header: h, Length: uint64(len(data))}, data: data}); err != nil {
		p.fail(errors.Join(v.err, err))
		return
	}
	p.fail(v.err)
}

// explain maps an error of any layer to the Terminate for it.
func explain(err error) *violation {
	var own *violation
	var fromDDP *ddp.Error
	var fromMPA *mpa.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &fromDDP):
		e := rdmap.FromDDP(fromDDP)
		return &violation{e, e.Terminate().WithSegment(fromDDP.Header, fromDDP.Length)}
	case errors.As(err, &fromMPA):
		e := &rdmap.Error{Layer: rdmap.LayerLLP, Code: uint8(fromMPA.Code)}
		return &violation{e, e.Terminate()}
	}
	e := &rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic}
	return &violation{e, e.Terminate()}
}

// ULPDU implements mpa.Consumer.
func (p *Peer) ULPDU(b []byte) error {
	p.mu.Lock()
	p.mayWrite = true
	p.changed.Broadcast()
	p.mu.Unlock()
	return p.in.Segment(b)
}

// opcode checks the RDMAP part of a segment, RFC 5040 sections 4.1 and 7.2.
func opcode(h *ddp.Header, payload int) (rdmap.Opcode, error) {
	c := rdmap.ParseControl(h.ULP)
	switch {
	case c.Version > rdmap.Version:
		return 0, violated(rdmap.TypeOperation, rdmap.InvalidVersion, h, payload)
	case c.Opcode > rdmap.TerminateOp, c.Opcode.Tagged() != h.Tagged:
		return 0, violated(rdmap.TypeOperation, rdmap.UnexpectedOpcode, h, payload)
	case !h.Tagged && c.Opcode.Queue() != h.QN:
		return 0, &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.InvalidQN}
	}
	return c.Opcode, nil
}

// PlaceTagged implements ddp.Placer.
func (p *Peer) PlaceTagged(h *ddp.Header, payload []byte) error {
	op, err := opcode(h, len(payload))
	if err != nil || len(payload) == 0 {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if op == rdmap.ReadResponse && (len(p.reads) == 0 || p.reads[0].stag != h.STag) {
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.InvalidSTag}
	}
	r, ok := p.memory[h.STag]
	if !ok {
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.InvalidSTag}
	}
	to, ok := r.slice(h.TO, uint64(len(payload)))
	if !ok {
		return &ddp.Error{Type: ddp.TypeTagged, Code: ddp.Bounds}
	}
	copy(to, payload)
	return nil
}

// slice is the n octets of the region from tagged offset to on.
func (r region) slice(to, n uint64) ([]byte, bool) {
	off, size := to-r.base, uint64(len(r.data))
	if to < r.base || off > size || n > size-off {
		return nil, false
	}
	return r.data[off : off+n], true
}

// PlaceUntagged implements ddp.Placer.
func (p *Peer) PlaceUntagged(h *ddp.Header, payload []byte) error {
	op, err := opcode(h, len(payload))
	if err != nil {
		return err
	}
	if !op.IsSend() && !h.Last {
		return &ddp.Error{Type: ddp.TypeUntagged, Code: ddp.TooLong}
	}
	p.part[h.QN] = append(p.part[h.QN][:h.MO], payload...)
	return nil
}

// Deliver implements ddp.Placer.
func (p *Peer) Deliver(h *ddp.Header, _ uint64) error {
	op := rdmap.ParseControl(h.ULP).Opcode
	var data []byte
	if !h.Tagged {
		data, p.part[h.QN] = p.part[h.QN], nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.changed.Broadcast()
	first := !p.firstSeen
	p.firstSeen = true
	switch {
	case op == rdmap.Write:
		return nil
	case op == rdmap.ReadResponse:
		return p.readDone(h)
	case op == rdmap.ReadRequestOp:
		return p.serveRead(h, data)
	case op == rdmap.TerminateOp:
		t, _, err := rdmap.ParseTerminate(data)
		if err != nil {
			return err
		}
		return t.Error()
	case first && len(data) == 0 && p.result.PeerToPeer && p.result.RTR&mpa.RTRSend != 0:
		return nil // the ready-to-receive indication
	}
	m := Message{Op: op, Data: data}
	if op.Invalidates() {
		if _, ok := p.memory[h.ULPWord]; !ok {
			return violated(rdmap.TypeProtection, rdmap.CannotBeInvalidated, h, len(data))
		}
		delete(p.memory, h.ULPWord)
		m.Invalidate = h.ULPWord
	}
	p.received = append(p.received, m)
	return nil
}

// readDone completes the oldest Read; p.mu is held.
func (p *Peer) readDone(h *ddp.Header) error {
	if len(p.reads) == 0 {
		return violated(rdmap.TypeOperation, rdmap.UnexpectedOpcode, h, 0)
	}
	p.reads[0].done = true
	p.reads = p.reads[1:]
	return nil
}

// serveRead queues the response to a Read Request; p.mu is held.
func (p *Peer) serveRead(h *ddp.Header, data []byte) error {
	req, err := rdmap.ParseReadRequest(data)
	if err != nil {
		return err
	}
	var from []byte
	if req.Size > 0 {
		protection := func(code uint8) error {
			v := violated(rdmap.TypeProtection, code, h, len(data))
			v.term = v.term.WithRead(req)
			return v
		}
		r, ok := p.memory[req.SourceSTag]
		if !ok {
			return protection(rdmap.InvalidSTag)
		}
		if from, ok = r.slice(req.SourceTO, uint64(req.Size)); !ok {
			return protection(rdmap.Bounds)
		}
	}
	rh := rdmap.TaggedHeader(rdmap.ReadResponse, false, req.SinkSTag, req.SinkTO)
	p.jobs = append(p.jobs, &job{msg: ddp.Message{Header: rh, Length: uint64(req.Size)}, data: from})
	return nil
}
