package inspect

import (
	"fmt"

	"tapir/wire/ib"
)

// response takes an acknowledgement or response of d to a request of its peer.
func (d *roceDir) response(i *Inspector, r *rocePacket) {
	h, _ := r.Opcode.Headers()
	s := r.AETH.Syndrome
	_, rnr := s.RNR()
	ack := r.Opcode.Op() == ib.OpAcknowledge
	name := r.Opcode.Operation().Name
	if ack {
		name = s.String()
		if rnr {
			name = "RNR NAK"
		}
	}
	if p := r.Opcode.Operation().Place; p == ib.Only || p == ib.Last {
		d.flow.Sides[d.side].message(name, uint64(r.size))
	}
	if h&ib.HasAETH != 0 && (!s.ACK() && !rnr && !s.NAK() || !ack && !s.ACK() || s == ib.NAKInvalidRD) {
		i.violate(roceSyndrome, r.in.Number, d.flow, "%#02x in %s", uint8(s), r.Opcode)
		return
	}
	if !ack && !d.full(i, r) {
		return
	}
	if d.peer == nil {
		i.findPeer(d, r)
	}
	x := d.peer
	switch {
	case x == nil || !x.begun && !x.known:
		d.gap(r.in.Number, "the requests that are answered are not in the capture")
		return
	}
	nak := ack && !s.ACK()
	delta := psnSub(r.PSN, x.high)
	if delta > roceFar || delta < -roceFar || x.known && psnSub(r.PSN, psnAdd(x.first, ib.PSNMask)) < 0 {
		i.violate(roceAckPSN, r.in.Number, d.flow, "PSN %d, the last request has %d", r.PSN, psnAdd(x.high, ib.PSNMask))
		return
	}
	if delta >= 0 && !(nak && delta == 0) {
		if x.beyond == nil && ack {
			x.beyond = &roceAnswer{psn: r.PSN, packet: r.in.Number, msn: r.AETH.MSN}
		} else {
			x.gap(r.in.Number, "requests are missing from the capture")
		}
		return
	}
	switch {
	case nak:
		x.denied(i, d, r)
	case ack:
		x.acked(i, d, r, true)
	default:
		x.answered(i, d, r)
	}
}

// acked takes the acknowledgement of all requests up to a PSN.
func (x *roceDir) acked(i *Inspector, d *roceDir, r *rocePacket, exact bool) {
	if f := x.fatal; f != nil && psnSub(r.PSN, f.psn) >= 0 {
		i.violate(roceAfterNAK, r.in.Number, d.flow, "PSN %d, which packet %d has refused", r.PSN, f.packet)
		return
	}
	if x.most == nil || psnSub(r.PSN, x.most.psn) > 0 {
		x.most = &roceAnswer{psn: r.PSN, packet: r.in.Number}
	}
	if next := psnAdd(r.PSN, 1); psnSub(next, x.una) > 0 {
		x.una, x.tries = next, 0
	}
	rec := x.covering(r.PSN)
	if rec == nil {
		if psnSub(r.PSN, x.first) >= 0 {
			x.gap(r.in.Number, "requests are missing from the capture")
		}
		return
	}
	x.count(i, d, r, rec, exact)
}

// count judges the MSN of a response: rec is the last request that it acknowledges. A response
// to a Read may count messages behind it, too.
func (x *roceDir) count(i *Inspector, d *roceDir, r *rocePacket, rec *roceRec, exact bool) {
	c := rec.chain
	if c == nil {
		return
	}
	want := psnAdd(c.base, rec.msn)
	if !c.known { // two acknowledgements that agree tell where the count begins
		if base := psnAdd(r.AETH.MSN, ib.PSNMask+1-rec.msn&ib.PSNMask); exact && rec.ends() {
			c.known = c.told && base == c.base
			c.base, c.told = base, true
		}
		return
	}
	more := psnSub(r.AETH.MSN, want)
	top := int32(0)
	if x.top != nil && x.top.chain == c {
		top = int32(x.top.msn - rec.msn)
	} else if !exact {
		top = roceFar
	}
	if exact && more != 0 || more < 0 || more > top {
		i.violate(roceMSN, r.in.Number, d.flow, "MSN %d for PSN %d, which makes %d", r.AETH.MSN, r.PSN, want)
	}
}

// denied takes a NAK.
func (x *roceDir) denied(i *Inspector, d *roceDir, r *rocePacket) {
	s := r.AETH.Syndrome
	prev := psnAdd(r.PSN, ib.PSNMask)
	if psnSub(prev, x.una) >= 0 {
		x.una, x.tries = r.PSN, 0
	}
	if before := x.covering(prev); before != nil {
		x.count(i, d, r, before, true)
	}
	rec := x.covering(r.PSN)
	_, rnr := s.RNR()
	switch {
	case rnr:
		x.tries = 0
		if rec != nil && (isRead(rec.Opcode) || isAtomic(rec.Opcode)) {
			i.violate(roceRNR, r.in.Number, d.flow, "PSN %d is %s", r.PSN, rec.Opcode)
		}
	case s == ib.NAKSequence:
		x.outOfSequence(i, d, r, rec)
	default:
		if m := x.most; m != nil && psnSub(m.psn, r.PSN) >= 0 {
			i.violate(roceAfterNAK, r.in.Number, d.flow, "PSN %d, which packet %d acknowledges", r.PSN, m.packet)
			return
		}
		if x.fatal == nil {
			x.fatal = &roceAnswer{psn: r.PSN, packet: r.in.Number}
		}
		if rec == nil && x.clean() && r.PSN == x.high {
			i.violate(roceAckPSN, r.in.Number, d.flow, "PSN %d, the last request has %d", r.PSN, prev)
			return
		}
		if s == ib.NAKRemoteAccess && rec != nil {
			x.access(i, d, r, rec)
		}
	}
}

// access judges a NAK about access: the request must have asked for it.
func (x *roceDir) access(i *Inspector, d *roceDir, r *rocePacket, rec *roceRec) {
	h, _ := rec.Opcode.Headers()
	keyed := h&(ib.HasRETH|ib.HasAtomicETH|ib.HasIETH) != 0 || !sending(rec.Opcode)
	if !keyed {
		i.violate(roceAccess, r.in.Number, d.flow, "PSN %d is %s", r.PSN, rec.Opcode)
		return
	}
	key := rec.RETH.RKey
	switch {
	case h&ib.HasAtomicETH != 0:
		key = rec.Atomic.RKey
	case h&ib.HasIETH != 0:
		key = rec.Invalidate
	case h&ib.HasRETH == 0:
		return
	}
	i.note(r.in.Number, fmt.Sprintf("the responder does not accept R_Key %#x of packet %d", key, rec.packet))
}

// outOfSequence takes a NAK of a sequence error: something behind its PSN must have been sent, and
// it is sent once until that PSN arrives.
func (x *roceDir) outOfSequence(i *Inspector, d *roceDir, r *rocePacket, rec *roceRec) {
	if x.clean() && (x.top == nil || psnSub(x.top.PSN, r.PSN) <= 0) {
		i.violate(roceNAK, r.in.Number, d.flow, "PSN %d is the last that was sent", r.PSN)
		return
	}
	times := 0
	if rec != nil {
		times = rec.times
	}
	if n := x.naked; n != nil && n.psn == r.PSN && n.times == times && n.hash != r.hash {
		i.violate(roceNAKTwice, r.in.Number, d.flow, "PSN %d, as in packet %d", r.PSN, n.packet)
	}
	x.naked = &roceAnswer{psn: r.PSN, packet: r.in.Number, times: times, hash: r.hash}
}

// answered takes a response to a Read or atomic operation.
func (x *roceDir) answered(i *Inspector, d *roceDir, r *rocePacket) {
	rec := x.covering(r.PSN)
	op := r.Opcode.Op()
	if rec == nil {
		if x.clean() && psnSub(r.PSN, x.first) >= 0 {
			x.gap(r.in.Number, "requests are missing from the capture")
		}
		return
	}
	if isAtomic(rec.Opcode) != (op == ib.OpAtomicAcknowledge) || !isAtomic(rec.Opcode) && !isRead(rec.Opcode) {
		i.violate(roceUnasked, r.in.Number, d.flow, "%s for PSN %d, which is %s", r.Opcode, r.PSN, rec.Opcode)
		return
	}
	h, _ := r.Opcode.Headers()
	if isRead(rec.Opcode) {
		fits, known, resumes := false, true, false
		for _, q := range x.reads {
			if q.n == 0 {
				known = known && psnSub(r.PSN, q.PSN) < 0
				if op == ib.OpReadResponseOnly && r.PSN == q.PSN && uint32(r.size) == q.RETH.Len {
					x.span(q, 1)
				}
			}
			fits = fits || x.suits(q, r)
			resumes = resumes || x.resumes(q, r)
		}
		switch {
		case !fits && resumes:
			x.gap(r.in.Number, "a repeated Read request is missing from the capture")
		case !fits && known:
			i.violate(roceResponse, r.in.Number, d.flow, "%s with %d octets for PSN %d of a Read of %d from %d on",
				r.Opcode, r.size, r.PSN, rec.RETH.Len, rec.PSN)
			return
		}
	}
	if place := r.Opcode.Operation().Place; isRead(rec.Opcode) && (place == ib.Only || place == ib.Last) {
		x.answersAbove(d, r)
	}
	if h&ib.HasAETH != 0 {
		x.acked(i, d, r, false)
	} else if psnSub(psnAdd(r.PSN, 1), x.una) > 0 {
		x.una, x.tries = psnAdd(r.PSN, 1), 0
	}
}

// resumes tells whether a packet begins the responses to a repeated request for the rest of the Read q.
// The capture may lack that request: nothing else tells of it.
func (x *roceDir) resumes(q *roceRec, r *rocePacket) bool {
	k := psnSub(r.PSN, q.PSN)
	if k <= 0 || k >= int32(q.n) {
		return false
	}
	rest := *q
	rest.PSN, rest.n, rest.RETH.Len = r.PSN, q.n-uint32(k), q.RETH.Len-uint32(k)*x.mtu
	return x.suits(&rest, r)
}

// suits tells whether a packet of a response is one to the Read q.
func (x *roceDir) suits(q *roceRec, r *rocePacket) bool {
	k := psnSub(r.PSN, q.PSN)
	if k < 0 || k >= int32(q.n) {
		return false
	}
	want, size := ib.OpReadResponseMiddle, x.mtu
	switch {
	case q.n == 1:
		want = ib.OpReadResponseOnly
	case k == 0:
		want = ib.OpReadResponseFirst
	case uint32(k) == q.n-1:
		want = ib.OpReadResponseLast
	}
	if uint32(k) == q.n-1 {
		size = q.RETH.Len - uint32(k)*x.mtu
	}
	return r.Opcode.Op() == want && uint32(r.size) == size
}
