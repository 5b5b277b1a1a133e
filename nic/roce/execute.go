package roce

import (
	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// place executes a packet of a Send or Write whose turn has come. Nothing has
// happened unless it returns SyndromeACK, but for octets of a Write whose last packet finds no
// receive: they come again.
func (q responding) place(p *ib.Packet) ib.Syndrome {
	o, op := p.Opcode.Operation(), p.Opcode.Op()
	n, mtu := uint64(len(p.Payload)), uint64(q.mtu)
	switch {
	case (o.Place == ib.First || o.Place == ib.Middle) && n != mtu, n > mtu, o.Place == ib.Last && n == 0:
		return ib.NAKInvalidRequest
	}
	if familyOf(op) == sends {
		return q.placeSend(p, o)
	}
	return q.placeWrite(p, o)
}

// receive takes the receive for the message under way; SyndromeACK if there is one.
func (q responding) receive() (*verbs.RecvWQE, ib.Syndrome) {
	w, fault := q.v.NextRecv()
	switch {
	case w == nil && fault == verbs.FaultNone:
		return nil, ib.SyndromeRNR + ib.Syndrome(q.v.Attr().MinRNRTimer)
	case fault != verbs.FaultNone:
		q.res.recv = w != nil
		return nil, ib.NAKRemoteOperation
	}
	q.res.recv = true
	return w, ib.SyndromeACK
}

// placeSend executes a packet of a Send.
func (q responding) placeSend(p *ib.Packet, o *ib.Operation) ib.Syndrome {
	r := &q.res
	w := q.v.CurrentRecv()
	if !r.recv {
		var s ib.Syndrome
		if w, s = q.receive(); s != ib.SyndromeACK {
			return s
		}
	}
	n := uint64(len(p.Payload))
	switch {
	case w == nil:
		return ib.NAKRemoteOperation
	case n > w.Length-r.got:
		r.recv, r.told = false, true
		q.e.flushWrites()
		q.v.FinishRecv(verbs.RecvDone{Status: verbs.StatusLocalLength})
		return ib.NAKInvalidRequest
	}
	end := o.Place == ib.Last || o.Place == ib.Only
	q.hold(!end)
	if n > 0 && w.Place(p.Payload, r.got) != nil || end && q.settle() != nil {
		return ib.NAKRemoteOperation
	}
	r.got += n
	r.op = sends
	if !end {
		return ib.SyndromeACK
	}
	done := verbs.RecvDone{ByteLen: uint32(r.got), Solicited: p.Solicited}
	h, _ := p.Opcode.Headers()
	if done.WithImm = h&ib.HasImm != 0; done.WithImm {
		done.Imm = uint64(p.Imm)
	}
	if done.WithInv = h&ib.HasIETH != 0; done.WithInv {
		done.Invalidated = p.Invalidate
		if q.v.InvalidateRemote(p.Invalidate) != verbs.FaultNone {
			return ib.NAKRemoteAccess
		}
	}
	q.complete(done)
	return ib.SyndromeACK
}

// complete ends a message that took a receive.
func (q responding) complete(done verbs.RecvDone) {
	q.endMessage()
	q.v.FinishRecv(done)
}

// endMessage ends a message.
func (q responding) endMessage() {
	r := &q.res
	r.op, r.got, r.recv, r.left = none, 0, false, 0
	r.msn = add(r.msn, 1)
}

// placeWrite executes a packet of a Write.
func (q responding) placeWrite(p *ib.Packet, o *ib.Operation) ib.Syndrome {
	r := &q.res
	n := uint64(len(p.Payload))
	end := o.Place == ib.Last || o.Place == ib.Only
	va, left, rkey := r.va, r.left, r.rkey
	if o.Place == ib.First || o.Place == ib.Only {
		va, left, rkey = p.RETH.VA, uint64(p.RETH.Len), p.RETH.RKey
		switch {
		case q.v.Access()&verbs.RemoteWrite == 0, left > maxMessage:
			return ib.NAKInvalidRequest
		case left > 0:
			if _, f := q.v.CheckRemote(rkey, va, left, verbs.RemoteWrite); f != verbs.FaultNone {
				return ib.NAKRemoteAccess
			}
		}
	}
	if n > left || end && n != left || !end && n == left {
		return ib.NAKInvalidRequest
	}
	h, _ := p.Opcode.Headers()
	completes := h&ib.HasImm != 0
	if n > 0 {
		region, f := q.v.CheckRemote(rkey, va, n, verbs.RemoteWrite)
		if f != verbs.FaultNone {
			return ib.NAKRemoteAccess
		}
		q.hold(!completes)
		if region.Place(p.Payload, va) != nil {
			return ib.NAKRemoteOperation
		}
	}
	if completes && q.settle() != nil {
		return ib.NAKRemoteOperation
	}
	if completes {
		if _, s := q.receive(); s != ib.SyndromeACK {
			return s
		}
	}
	r.op, r.va, r.left, r.rkey = writes, va+n, left-n, rkey
	r.got += n
	switch {
	case completes:
		q.complete(verbs.RecvDone{ByteLen: uint32(r.got), Solicited: p.Solicited, WithImm: true, Imm: uint64(p.Imm),
			Write: true})
	case end:
		q.endMessage()
	}
	return ib.SyndromeACK
}

// unreliable takes a request of an unreliable connection (section 9.8.3): what is lost
// takes its message with it, and nobody hears of it.
func (q responding) unreliable(p *ib.Packet) frame.DropReason {
	r := &q.res
	o, op := p.Opcode.Operation(), p.Opcode.Op()
	lost := p.PSN != r.expected
	if lost {
		q.count.OutOfSequence++
		q.e.stats.OutOfSequence++
	}
	r.expected = add(p.PSN, 1)
	if o.Place == ib.First || o.Place == ib.Only {
		r.op, r.got, r.left = none, 0, 0
	} else if lost || r.op != familyOf(op) {
		r.op = skipped
		return q.e.drop(nicdrop.PSN)
	}
	if q.place(p) == ib.SyndromeACK {
		return frame.DropNone
	}
	r.op = skipped
	return q.e.drop(nicdrop.Refused)
}
