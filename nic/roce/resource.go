package roce

import (
	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// resource is what a Read or atomic operation leaves behind, so that a duplicate can be
// answered (section 9.7.5.1.2).
type resource struct {
	first, count uint32
	va           uint64
	length       uint32
	rkey         uint32
	srq          uint32 // XRC
	sent         uint32 // responses sent at least once, of a Read
	atomic       bool
	original     uint64
}

// keep adds a resource; the oldest one goes.
func (r *responder) keep(s resource) {
	if len(r.resources) < cap(r.resources) {
		r.resources = append(r.resources, s)
		r.latest = len(r.resources) - 1
		return
	}
	r.latest = (r.latest + 1) % len(r.resources)
	r.resources[r.latest] = s
}

// find returns the resource that psn belongs to, nil if it is gone.
func (r *responder) find(psn uint32) *resource {
	for i := range r.resources {
		if s := &r.resources[i]; (psn-s.first)&ib.PSNMask < s.count {
			return s
		}
	}
	return nil
}

// maxReplies is how many responses wait at most, those of duplicates included.
const maxReplies = 512

// admit tells whether the responder has room for another Read or atomic operation.
func (q responding) admit() bool {
	limit := int(q.v.Attr().MaxDestRdAtomic)
	for i := range q.res.replies {
		if !q.res.replies[i].again { // the network may repeat old requests, which count nothing
			limit--
		}
	}
	return limit > 0
}

// read takes a Read request.
func (q responding) read(p *ib.Packet) frame.DropReason {
	t := &p.RETH
	switch {
	case q.v.Access()&verbs.RemoteRead == 0, !q.admit(), t.Len > maxMessage, len(p.Payload) > 0:
		return q.invalid()
	case t.Len > 0:
		if _, f := q.v.CheckRemote(t.RKey, t.VA, uint64(t.Len), verbs.RemoteRead); f != verbs.FaultNone {
			return q.deny(ib.NAKRemoteAccess)
		}
	}
	return q.accept(resource{first: p.PSN, count: q.packetsOf(uint64(t.Len)), va: t.VA, length: t.Len, rkey: t.RKey,
		srq: p.XRCSRQ})
}

// accept keeps what a request leaves behind and has its response sent.
func (q responding) accept(s resource) frame.DropReason {
	r := &q.res
	r.keep(s)
	r.msn = add(r.msn, 1)
	r.expected = add(s.first, s.count)
	r.replies = append(r.replies, reply{resource: s, psn: s.first})
	q.kick()
	return frame.DropNone
}

// atomic takes an atomic operation and executes it.
func (q responding) atomic(p *ib.Packet) frame.DropReason {
	t := &p.Atomic
	if q.v.Access()&verbs.RemoteAtomic == 0 || !q.admit() || t.VA%verbs.AtomicLen != 0 || len(p.Payload) > 0 {
		return q.invalid()
	}
	q.e.flushWrites()
	region, f := q.v.CheckAtomic(t.RKey, t.VA)
	switch f {
	case verbs.FaultNone:
	case verbs.FaultAlign:
		return q.invalid()
	default:
		return q.deny(ib.NAKRemoteAccess)
	}
	old, err := region.Load(t.VA)
	if err == nil {
		switch {
		case p.Opcode.Op() == ib.OpFetchAdd:
			err = region.Store(t.VA, old+t.SwapAdd)
		case old == t.Compare:
			err = region.Store(t.VA, t.SwapAdd)
		}
	}
	if err != nil {
		return q.deny(ib.NAKRemoteOperation)
	}
	return q.accept(resource{first: p.PSN, count: 1, atomic: true, original: old})
}

// duplicate takes a request that was executed before. A Send or Write is acknowledged
// again, an atomic operation answered from what is stored, a Read from memory.
func (q responding) duplicate(p *ib.Packet) frame.DropReason {
	r, op := &q.res, p.Opcode.Op()
	switch op {
	case ib.OpReadRequest, ib.OpCompareSwap, ib.OpFetchAdd:
	default:
		r.ack = true
		q.kick()
		return q.e.drop(nicdrop.PSN)
	}
	s := r.find(p.PSN)
	if s == nil || s.atomic != (op != ib.OpReadRequest) {
		return q.e.drop(nicdrop.PSN)
	}
	again := reply{resource: *s, psn: p.PSN, again: true}
	if !s.atomic {
		t, done := &p.RETH, uint64((p.PSN-s.first)&ib.PSNMask)*uint64(q.mtu)
		end := s.va + uint64(s.length)
		if t.RKey != s.rkey || t.VA != s.va+done || t.VA+uint64(t.Len) > end || t.Len > s.length {
			return q.e.drop(nicdrop.PSN)
		}
		again.first, again.va, again.length = p.PSN, t.VA, t.Len
		again.count = q.packetsOf(uint64(t.Len))
	}
	// What was asked for behind it comes again, too.
	for i := range r.replies {
		if sub(r.replies[i].last(), p.PSN) >= 0 {
			r.replies = r.replies[:i]
			break
		}
	}
	if len(r.replies) < maxReplies {
		r.replies = append(r.replies, again)
	}
	q.kick()
	return frame.DropNone
}

// reply is a response that is to be sent: a Read's from psn on, or an atomic's.
type reply struct {
	resource
	psn   uint32 // next
	again bool   // of a duplicate
}

// last is the last PSN.
func (s *reply) last() uint32 { return add(s.first, s.count-1) }

// sendReplies sends responses, which acknowledge what comes before them. It reports whether there
// is more to send now.
func (q responding) sendReplies(t *turn, now frame.Time) (more bool) {
	r := &q.res
	for len(r.replies) > 0 {
		if t.over(q.e) || q.held(now) {
			return true
		}
		s := &r.replies[0]
		done := false
		if s.atomic {
			done = q.sendOriginal(s, now)
			t.frames--
		} else {
			done = q.sendResponse(s, t, now)
		}
		if q.e.starved {
			return true
		}
		if done && len(r.replies) > 0 {
			r.replies = r.replies[:copy(r.replies, r.replies[1:])]
		}
	}
	return false
}

// sendAcknowledgement sends the acknowledgement or NAK that is due, when all responses before it
// are sent. It reports whether it could not.
func (q responding) sendAcknowledgement(t *turn, now frame.Time) (more bool) {
	r := &q.res
	return (r.ack || r.nak.due) && (t.over(q.e) || !q.acknowledgeNow(now))
}

// bth is the header of a packet to the peer.
func (q responding) bth(op ib.Opcode, psn uint32) ib.BTH {
	return ib.BTH{Opcode: op | q.class, MigReq: true, PKey: q.pkey(), DestQP: q.v.Attr().DestQPN, PSN: psn}
}

// acknowledgeNow sends an ACK for everything received, or the NAK that is due.
func (q responding) acknowledgeNow(now frame.Time) bool {
	r := &q.res
	p := ib.Packet{BTH: q.bth(ib.OpAcknowledge, add(r.expected, ib.PSNMask))}
	p.AETH = ib.AETH{Syndrome: ib.SyndromeACK, MSN: r.msn}
	if r.nak.due {
		p.PSN, p.AETH.Syndrome = r.nak.psn, r.nak.syndrome
	}
	if !q.sendSmall(&p, now) {
		return false
	}
	_, rnr := r.nak.syndrome.RNR()
	switch {
	case r.nak.due && rnr:
		q.count.RNRNaksOut++
		q.e.stats.RNRNaksOut++
	case r.nak.due:
		q.count.NaksOut++
		q.e.stats.NaksOut++
	default:
		q.e.stats.AcksOut++
	}
	r.ack, r.nak = false, nak{}
	return true
}

// sendSmall sends a packet without payload.
func (q responding) sendSmall(p *ib.Packet, now frame.Time) bool {
	var out writer
	if !q.e.begin(&out, &q.route, p.HeaderLen()+ib.ICRCLen, 0) {
		return false
	}
	out.packet(p, 0)
	out.seal(p, 0, nil)
	q.count.PacketsOut++
	if q.e.env.Notes.On {
		q.noteOther(p)
	}
	q.e.end(&out, 0, now)
	return true
}

// sendOriginal sends the result of an atomic operation.
func (q responding) sendOriginal(s *reply, now frame.Time) bool {
	p := ib.Packet{BTH: q.bth(ib.OpAtomicAcknowledge, s.psn), Orig: s.original}
	p.AETH = ib.AETH{Syndrome: ib.SyndromeACK, MSN: q.res.msn}
	return q.sendSmall(&p, now)
}

// response makes the headers of packet i of s.
func (q responding) responseHeader(p *ib.Packet, s *reply, i uint32) {
	op := ib.OpReadResponseMiddle
	switch {
	case s.count == 1:
		op = ib.OpReadResponseOnly
	case i == 0:
		op = ib.OpReadResponseFirst
	case i == s.count-1:
		op = ib.OpReadResponseLast
	}
	*p = ib.Packet{BTH: q.bth(op, add(s.first, i)), AETH: ib.AETH{Syndrome: ib.SyndromeACK, MSN: q.res.msn}}
}

// responses is how many packets of s from i on a frame takes.
func (q responding) responses(s *reply, i uint32) uint32 {
	most := q.e.env.Segments()
	if most <= 1 || q.route.v1 || i == 0 || i+1 >= s.count {
		return 1
	}
	size := ib.BTHLen + q.mtu + ib.ICRCLen
	n := min(uint32(most), (maxDatagram-uint32(q.route.length))/size, s.count-i, q.burst(size))
	rest := s.length - (s.count-1)*q.mtu
	if i+n == s.count && ib.BTHLen+ib.AETHLen+rest+uint32(ib.PadOf(int(rest)))+ib.ICRCLen > size {
		n--
	}
	return n
}

// sendResponse sends a frame of the response to a Read. It reports whether the response is
// at its end, or cannot be sent.
func (q responding) sendResponse(s *reply, t *turn, now frame.Time) (done bool) {
	i := (s.psn - s.first) & ib.PSNMask
	n := q.responses(s, i)
	var out writer
	var p ib.Packet
	sizeOf := func(k uint32) int { return int(min(q.mtu, s.length-k*q.mtu)) }
	wire := func(k uint32) int {
		q.responseHeader(&p, s, k)
		return p.HeaderLen() + sizeOf(k) + int(ib.PadOf(sizeOf(k))) + ib.ICRCLen
	}
	size, total := wire(i), 0
	for k := i; k < i+n; k++ {
		total += wire(k)
	}
	if !q.e.begin(&out, &q.route, total, size) {
		return false
	}
	octets := 0
	for k := i; k < i+n; k++ {
		q.responseHeader(&p, s, k)
		m := sizeOf(k)
		if b := out.packet(&p, m); m > 0 && !q.load(b, s, uint64(k)*uint64(q.mtu)) {
			out.f.Release()
			q.unreadable(s)
			return true
		}
		out.seal(&p, m, nil)
		octets += m
	}
	q.count.PacketsOut += uint64(n)
	if q.e.env.Notes.On {
		q.noteOther(&p)
	}
	q.spend(&out, now)
	q.e.end(&out, octets, now)
	s.psn = add(s.psn, n)
	if kept := q.res.find(add(s.psn, ib.PSNMask)); kept != nil {
		kept.sent = max(kept.sent, (s.psn-kept.first)&ib.PSNMask)
	}
	t.frames--
	t.octets -= octets
	return i+n == s.count
}

// load reads octets of a response from memory.
func (q responding) load(b []byte, s *reply, off uint64) bool {
	if !q.selectSRQ(s.srq) {
		return false
	}
	region, f := q.v.CheckRemote(s.rkey, s.va+off, uint64(len(b)), verbs.RemoteRead)
	return f == verbs.FaultNone && region.Fetch(b, s.va+off) == nil
}

// unreadable sees to a Read whose memory has gone. A response that was sent before is dropped:
// the peer may have it, and have said so, which is why the memory went. Else the connection ends.
func (q responding) unreadable(s *reply) {
	kept := q.res.find(s.psn)
	if kept == nil || (s.psn-kept.first)&ib.PSNMask < kept.sent || q.v.State() == verbs.Err {
		return
	}
	q.refuse(ib.NAKRemoteAccess, s.psn, verbs.EventQPAccessError, verbs.StatusLocalAccess)
}
