package roce

import (
	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// family is the kind of message that is under way.
type family uint8

const (
	none family = iota
	sends
	writes
	skipped // UC: the rest is not wanted
)

// responder is the receiving half of a queue pair.
type responder struct {
	expected uint32 // PSN
	msn      uint32
	nakked   bool // a NAK was sent; nothing more is said until the expected PSN comes

	op   family
	got  uint64 // octets of the message so far
	recv bool   // a receive is taken
	told bool   // it has completed with an error already

	va   uint64 // of a Write: where the next octet belongs
	left uint64 // octets that are still to come
	rkey uint32

	resources []resource // a ring of the latest Reads and atomics
	latest    int
	replies   []reply // that wait to be sent, in order
	ack       bool    // an acknowledgement is due
	nak       nak
}

// nak is a negative acknowledgement that is due.
type nak struct {
	due      bool
	psn      uint32
	syndrome ib.Syndrome
}

func (r *responder) start(psn uint32, resources int) {
	*r = responder{expected: psn, resources: make([]resource, 0, max(1, resources)), replies: r.replies[:0]}
}

// forget drops what is under way, but for the NAK that says why.
func (r *responder) forget() {
	r.op, r.got, r.recv, r.told, r.ack, r.nakked = none, 0, false, false, false, false
	r.resources, r.latest, r.replies = r.resources[:0], 0, r.replies[:0]
}

// responding is a queue pair as responder.
type responding struct{ *qp }

// request takes a request of a reliable service, in the order of section 9.7.4.
func (q responding) request(p *ib.Packet) frame.DropReason {
	r := &q.res
	switch d := sub(p.PSN, r.expected); {
	case d > 0:
		q.count.OutOfSequence++
		q.e.stats.OutOfSequence++
		if !r.nakked {
			q.answer(ib.NAKSequence, r.expected)
			r.nakked = true
		}
		return q.e.drop(nicdrop.PSN)
	case d < 0:
		q.count.Duplicates++
		q.e.stats.Duplicates++
		return q.duplicate(p)
	}
	r.nakked, r.nak = false, nak{} // a NAK that waits to be sent is about this PSN, which has come
	op := p.Opcode.Op()
	switch {
	case !q.inOrder(p.Opcode.Operation(), op), !q.selectSRQ(p.XRCSRQ):
		return q.invalid()
	case op == ib.OpReadRequest:
		return q.read(p)
	case op == ib.OpCompareSwap || op == ib.OpFetchAdd:
		return q.atomic(p)
	}
	if why := q.place(p); why != ib.SyndromeACK {
		return q.deny(why)
	}
	r.expected = add(r.expected, 1)
	if p.AckReq {
		r.ack = true
		q.kick()
	}
	return frame.DropNone
}

// inOrder tells whether an operation may follow what is under way (section 9.7.4.1.3).
func (q responding) inOrder(o *ib.Operation, op ib.Opcode) bool {
	want := familyOf(op)
	if o.Place == ib.First || o.Place == ib.Only {
		return q.res.op == none
	}
	return q.res.op == want
}

// familyOf is the kind of message that an operation belongs to.
func familyOf(op ib.Opcode) family {
	switch {
	case op <= ib.OpSendOnlyImm || op == ib.OpSendLastInvalidate || op == ib.OpSendOnlyInvalidate:
		return sends
	case op <= ib.OpWriteOnlyImm:
		return writes
	}
	return none
}

// selectSRQ has the message of an XRC target complete in a shared receive queue of its domain,
// whose protection domain is that of the peer's keys. False: the domain has no such queue.
func (q responding) selectSRQ(num uint32) bool {
	if q.typ != qpattr.XRCTarget {
		return true
	}
	s := q.v.XRCD().SRQ(num)
	if s == nil {
		return false
	}
	q.v.SelectSRQ(s)
	return true
}

// answer has a NAK sent.
func (q responding) answer(s ib.Syndrome, psn uint32) {
	q.res.nak = nak{true, psn, s}
	q.kick()
}

// deny answers a packet that was refused: for want of a receive for now, else the
// queue pair is broken.
func (q responding) deny(s ib.Syndrome) frame.DropReason {
	r := &q.res
	if _, rnr := s.RNR(); rnr {
		q.answer(s, r.expected)
		r.nakked = true
		return q.e.drop(nicdrop.Refused)
	}
	event, status := verbs.EventQPRequestError, verbs.StatusRemoteInvalid
	switch s {
	case ib.NAKRemoteAccess:
		event, status = verbs.EventQPAccessError, verbs.StatusLocalAccess
	case ib.NAKRemoteOperation:
		event, status = verbs.EventQPFatal, verbs.StatusLocalProtection
	}
	q.refuse(s, r.expected, event, status)
	return q.e.drop(nicdrop.Refused)
}

// invalid answers an invalid request.
func (q responding) invalid() frame.DropReason { return q.deny(ib.NAKInvalidRequest) }

// refuse sends a NAK that ends the connection; the receive in use completes with
// status, without one event tells of it.
func (q responding) refuse(s ib.Syndrome, psn uint32, event verbs.EventType, status verbs.Status) {
	q.answer(s, psn)
	if q.res.recv {
		q.res.recv = false
		q.v.FinishRecv(verbs.RecvDone{Status: status})
	} else if !q.res.told {
		q.e.dev.Async(verbs.AsyncEvent{Type: event, QP: q.v})
	}
	q.fail()
}
