package roce

import (
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// kindOf are the operations of each request: those of a message of one packet and of
// the first, a middle and the last packet of a longer one.
var kindOf = [...]struct{ only, first, middle, last ib.Opcode }{
	verbs.OpSend:     {ib.OpSendOnly, ib.OpSendFirst, ib.OpSendMiddle, ib.OpSendLast},
	verbs.OpSendInv:  {ib.OpSendOnlyInvalidate, ib.OpSendFirst, ib.OpSendMiddle, ib.OpSendLastInvalidate},
	verbs.OpSendImm:  {ib.OpSendOnlyImm, ib.OpSendFirst, ib.OpSendMiddle, ib.OpSendLastImm},
	verbs.OpWrite:    {ib.OpWriteOnly, ib.OpWriteFirst, ib.OpWriteMiddle, ib.OpWriteLast},
	verbs.OpWriteImm: {ib.OpWriteOnlyImm, ib.OpWriteFirst, ib.OpWriteMiddle, ib.OpWriteLastImm},
}

// header makes the headers of packet i of a request.
func (q *qp) header(p *ib.Packet, w *verbs.SendWQE, rec *record, i uint32) {
	*p = ib.Packet{BTH: ib.BTH{MigReq: true, PKey: q.pkey(), DestQP: q.v.Attr().DestQPN, PSN: add(rec.first, i)}}
	done := uint64(i) * uint64(q.mtu)
	p.XRCSRQ = w.RemoteSRQ
	p.RETH = ib.RETH{VA: w.RemoteAddr + done, RKey: w.RKey, Len: uint32(w.Length - done)}
	last := i == rec.count-1
	switch {
	case w.Opcode == verbs.OpCompSwap:
		p.Opcode, p.AckReq = ib.OpCompareSwap, true
		p.Atomic = ib.AtomicETH{VA: w.RemoteAddr, RKey: w.RKey, SwapAdd: w.Atomic.Swap, Compare: w.Atomic.CompareAdd}
	case w.Opcode == verbs.OpFetchAdd:
		p.Opcode, p.AckReq = ib.OpFetchAdd, true
		p.Atomic = ib.AtomicETH{VA: w.RemoteAddr, RKey: w.RKey, SwapAdd: w.Atomic.CompareAdd}
	case rec.reads:
		p.Opcode, p.AckReq = ib.OpReadRequest, true
	default:
		kind := &kindOf[w.Opcode]
		p.Opcode = kind.middle
		switch {
		case rec.count == 1:
			p.Opcode = kind.only
		case i == 0:
			p.Opcode = kind.first
		case last:
			p.Opcode = kind.last
		}
		p.AckReq = q.reliable() && (last || i%ackEvery == ackEvery-1)
		p.Solicited = last && w.Flags&verbs.Solicited != 0 && w.Opcode != verbs.OpWrite
		p.Imm, p.Invalidate = uint32(w.Imm), w.Invalidate
	}
	p.Opcode |= q.class
}

// sendFrame sends the packet at the cursor, or as many as a super-frame holds.
func (q *qp) sendFrame(t *turn, now frame.Time) bool {
	r := &q.req
	rec := r.rec(r.at)
	w := q.v.SendWQE(rec.seq)
	var p ib.Packet
	i := (r.cursor - rec.first) & ib.PSNMask
	q.header(&p, w, rec, i)
	var out writer
	octets, step, messages := 0, uint32(1), uint32(1)
	ok := true
	switch {
	case rec.reads:
		if ok = q.e.begin(&out, &q.route, p.HeaderLen()+ib.ICRCLen, 0); ok {
			out.packet(&p, 0)
			out.seal(&p, 0, nil)
			step = rec.count - i
		}
	case rec.count == 1:
		octets, step, ok = q.renderMessages(&out, &p, w, t.octets)
		rec, messages = r.rec(r.at), step // of a ring that may have grown
	default:
		octets, step, ok = q.render(&out, &p, w, rec, i)
	}
	if !ok {
		return false
	}
	if sub(r.cursor, r.high) < 0 {
		q.count.PacketsAgain += uint64(step)
		q.e.stats.PacketsAgain += uint64(step)
	}
	q.count.PacketsOut += uint64(step)
	if q.e.env.Notes.On {
		q.note(&p, w.ID)
		if i == 0 && !rec.reads {
			q.noteSends(r.at, messages)
		}
	}
	if octets > 0 {
		q.spend(&out, now)
	}
	q.e.end(&out, octets, now)
	r.cursor = add(r.cursor, step)
	if sub(r.cursor, r.high) > 0 {
		r.timePSN(r.high, now)
		r.high = r.cursor
	}
	if messages > 1 || i+step == rec.count {
		r.at += messages
		q.sentAll()
	}
	t.frames--
	t.octets -= octets
	return true
}

// sentAll completes requests that nobody acknowledges.
func (q *qp) sentAll() {
	r := &q.req
	if q.typ != qpattr.UC {
		return
	}
	for ; r.head != r.at; r.head++ {
		q.v.FinishSend(r.rec(r.head).seq, verbs.StatusSuccess)
	}
	r.una = r.cursor
}

// segments is how many packets of rec, which begins with the headers p at packet i, a frame
// takes: packets of equal size, the last one perhaps shorter.
func (q *qp) segments(p *ib.Packet, w *verbs.SendWQE, rec *record, i uint32) uint32 {
	most := q.e.env.Segments()
	if most <= 1 || q.route.v1 || i+1 >= rec.count || i == 0 && p.HeaderLen() > ib.BTHLen {
		return 1
	}
	size := ib.BTHLen + q.mtu + ib.ICRCLen
	n := min(uint32(most), (maxDatagram-uint32(q.route.length))/size, rec.count-i, q.burst(size))
	if q.reliable() {
		n = min(n, uint32(max(1, q.window(w.Length)-sub(q.req.cursor, q.req.una))))
	}
	if i+n == rec.count { // the last packet has more headers, perhaps
		var last ib.Packet
		q.header(&last, w, rec, rec.count-1)
		rest := int(w.Length - uint64(rec.count-1)*uint64(q.mtu))
		if last.HeaderLen()+rest+int(ib.PadOf(rest))+ib.ICRCLen > int(size) {
			n--
		}
	}
	return n
}

// render puts packets of a Send or Write into a new frame, from packet i on. It
// returns their payload in octets and their number.
func (q *qp) render(out *writer, p *ib.Packet, w *verbs.SendWQE, rec *record, i uint32) (octets int, n uint32,
	ok bool) {
	n = q.segments(p, w, rec, i)
	sizeOf := func(i uint32) int { return int(min(uint64(q.mtu), w.Length-uint64(i)*uint64(q.mtu))) }
	total := 0
	size := p.HeaderLen() + sizeOf(i) + int(ib.PadOf(sizeOf(i))) + ib.ICRCLen
	if n > 1 {
		var last ib.Packet
		q.header(&last, w, rec, i+n-1)
		rest := sizeOf(i + n - 1)
		total = int(n-1)*size + last.HeaderLen() + rest + int(ib.PadOf(rest)) + ib.ICRCLen
	} else {
		total = size
	}
	if !q.e.begin(out, &q.route, total, size) {
		return 0, 0, false
	}
	for k := i; k < i+n; k++ {
		if k > i {
			q.header(p, w, rec, k)
		}
		m := sizeOf(k)
		if !q.packet(out, p, m, w, rec, uint64(k)*uint64(q.mtu)) {
			out.f.Release()
			q.unsendable(rec)
			return 0, 0, false
		}
		octets += m
	}
	return octets, n, true
}

// messages is how many messages a frame takes of those from the cursor on, the first of which is
// w with the headers p: messages of one packet that are as long as it. It begins requests.
func (q *qp) messages(p *ib.Packet, w *verbs.SendWQE, octets int) (n uint32) {
	r := &q.req
	most := uint32(q.e.env.Segments())
	if most <= 1 || q.route.v1 {
		return 1
	}
	size := uint32(p.HeaderLen()) + uint32(w.Length) + uint32(ib.PadOf(int(w.Length))) + ib.ICRCLen
	most = min(most, (maxDatagram-uint32(q.route.length))/size, uint32(octets)/max(1, uint32(w.Length)), q.burst(size))
	if q.reliable() {
		most = min(most, uint32(max(1, q.window(w.Length)-sub(r.cursor, r.una))))
	}
	for n = 1; n < most; n++ {
		if r.at+n == r.tail && !q.next() {
			break
		}
		rec := r.rec(r.at + n)
		if rec.count != 1 || rec.reads || rec.status != verbs.StatusSuccess {
			break
		}
		if next := q.v.SendWQE(rec.seq); next.Opcode != w.Opcode || next.Length != w.Length {
			break
		}
	}
	return n
}

// renderMessages puts messages of one packet into a new frame, the first of which is w with
// the headers p. It returns their payload in octets and their number.
func (q *qp) renderMessages(out *writer, p *ib.Packet, w *verbs.SendWQE, most int) (octets int, n uint32, ok bool) {
	r := &q.req
	m := int(w.Length)
	size := p.HeaderLen() + m + int(ib.PadOf(m)) + ib.ICRCLen
	for n = q.messages(p, w, most); ; {
		if !q.e.begin(out, &q.route, int(n)*size, size) {
			return 0, 0, false
		}
		k := uint32(0)
		for ; k < n; k++ {
			rec := r.rec(r.at + k)
			next := q.v.SendWQE(rec.seq)
			q.header(p, next, rec, 0)
			if !q.packet(out, p, m, next, rec, 0) {
				break
			}
		}
		if k == n {
			return int(n) * m, n, true
		}
		out.f.Release()
		if k == 0 {
			q.unsendable(r.rec(r.at))
			return 0, 0, false
		}
		n = k // those before can be read
	}
}

// unsendable has a request fail whose memory cannot be read.
func (q *qp) unsendable(rec *record) {
	q.req.halted = true
	rec.status = verbs.StatusLocalProtection
	q.abandon(rec)
}

// fuseFrom is from how many octets on the ICRC is computed with the copy.
const fuseFrom = 512

// packet puts a packet of a message with the headers p into the frame: m octets from offset off
// on. It returns false if they cannot be read.
func (q *qp) packet(out *writer, p *ib.Packet, m int, w *verbs.SendWQE, rec *record, off uint64) bool {
	b := out.packet(p, m)
	var src []byte
	switch {
	case rec.kept != nil:
		src = rec.kept[off:][:m]
	case m >= fuseFrom:
		src = w.Slice(off, m)
	}
	if src == nil && m > 0 && w.Fetch(b, off) != nil {
		return false
	}
	out.seal(p, m, src)
	return true
}

// abandon has a request fail whose memory cannot be read, when those before are complete.
func (q *qp) abandon(rec *record) {
	r := &q.req
	for r.at+1 < r.tail { // requests behind it are flushed
		r.tail--
		if r.rec(r.tail).reads {
			r.reads--
		}
	}
	r.max, r.at = r.cursor, r.tail
	rec.count = (r.cursor - rec.first) & ib.PSNMask
}
