package iwarp

import (
	"tapir/mpa"
	"tapir/nic/msglog"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// runFPDUs bounds a run: what is cut stays cut when the path's MTU
// changes. It fills a super-frame.
const runFPDUs = 44

// outbound is the sending half of a connection: a toe.Source that cuts FPDUs
// and renders them again from their records.
type outbound struct {
	c      *conn
	tx     mpa.Layout
	base   uint64 // stream offset of the first FPDU sent
	copies bool   // long messages are copied, too
	shares bool   // long Read Responses are not copied
	log    sendLog
	retain retainer
	loans  []*verbs.Loan // of the regions that Read Responses are sent from
	seg    rdmap.Segment
}

// Next implements toe.Source: whole FPDUs up to limit octets.
func (o *outbound) Next(off uint64, limit int) int {
	if off < o.log.end {
		return o.again(off, limit)
	}
	if o.c.peerClosed && o.c.phase == full {
		o.c.qp.Transition(verbs.SQD) // what has been posted by now still goes
	}
	total := 0
	for total < limit {
		n := o.cut(limit-total, total == 0)
		if n == 0 {
			break
		}
		total += n
	}
	if total == 0 {
		o.c.nothingLeft()
	}
	return min(total, limit)
}

// Run implements toe.Runner: FPDUs of one run, one in each segment.
func (o *outbound) Run(off uint64, n, limit, most int) int {
	if off >= o.log.end || limit-n >= mpa.Overhead {
		return 0
	}
	r := o.log.at(o.log.find(off))
	if k, rest := r.split(off); rest == 0 && int(r.size) == n {
		return min(int(r.count)-k, most)
	}
	return 0
}

// nothingLeft runs when TCP has taken all that there is to send.
func (c *conn) nothingLeft() {
	if c.aborting && c.stream.Terminating() {
		c.tcp.Abort()
	}
	c.drained()
	if c.peerClosed && c.phase == full {
		c.answerFIN()
	}
}

// again returns what Next returned before, for a retransmission: records are
// cut only once.
func (o *outbound) again(off uint64, limit int) int {
	i := o.log.find(off)
	r := o.log.at(i)
	next := r.boundary(off)
	for next < o.log.end {
		if next == r.end() {
			i++
			r = o.log.at(i)
		}
		if next+uint64(r.size) > off+uint64(limit) {
			break
		}
		next += uint64(r.size)
	}
	return min(int(next-off), limit)
}

// cut makes the next FPDU and returns its length in the stream, 0 if there
// is nothing to send now. An FPDU that is not the first of its segment must
// fit into room and end its message, so that no message is chopped to fill a
// segment.
func (o *outbound) cut(room int, first bool) int {
	switch {
	case o.c.stream == nil:
		return 0
	case o.c.gated && o.c.stream.Err() == nil:
		if o.c.qp != nil {
			o.c.qp.NextSend() // local operations need not wait
		}
		return 0
	}
	pos := o.log.end - o.base
	for {
		hlen, left, ok := o.c.stream.Choose()
		if !ok {
			return 0
		}
		mulpdu := o.tx.MULPDU(o.fpduRoom(room, first))
		if !first && (left > uint64(mulpdu-hlen) || o.tx.FPDULen(pos, hlen+int(left)) > room) {
			return 0
		}
		o.c.stream.Cut(mulpdu, &o.seg)
		if n := o.record(pos); n > 0 {
			return n
		}
	}
}

// gsoRoom is the length of an FPDU that spans segments, when both sides
// offered that.
const gsoRoom = 32 << 10

// fpduRoom is the room for the next FPDU: what is left of the segment, unless
// FPDUs may span several.
func (o *outbound) fpduRoom(room int, first bool) int {
	if o.c.result.GSO && first {
		return max(room, gsoRoom)
	}
	return room
}

// record logs the FPDU for c.seg, copying its payload where that may change;
// where it may not, those that follow in the same message belong to the run.
// It returns 0 when the payload cannot be had: the stream has then failed.
func (o *outbound) record(pos uint64) int {
	s := &o.seg
	r := o.log.room(o.c)
	r.n, r.count, r.op, r.last, r.seq, r.wr, r.moff, r.kind = uint32(s.Len), 1, s.Op, s.Header.Last, s.Ref, rdmap.NoRef,
		s.Off, copied
	r.hlen = uint8(s.Header.Put(r.head[mpa.LengthLen:]))
	mpa.PutLength(r.head[:], int(r.hlen)+s.Len)
	r.size = uint32(o.tx.FPDULen(pos, int(r.hlen)+s.Len))
	r.done = s.Final && s.Ref != rdmap.NoRef && s.Op != rdmap.ReadRequestOp && s.Op != rdmap.AtomicRequestOp
	await, ok := o.payload(r)
	if !ok {
		return 0
	}
	if !o.tx.Markers && s.Len > 0 {
		o.lengthen(r)
	}
	o.log.push(r)
	o.c.counters.TxFPDUs += uint64(r.count)
	o.c.sentFPDU()
	if o.c.e.cfg.Log.On(msglog.TX) {
		o.c.logSegment(msglog.TX, r.wr, r.head[mpa.LengthLen:][:r.hlen], s.Len, int(r.count))
	}
	if r.done && !await {
		o.c.qp.FinishSend(r.seq, verbs.StatusSuccess)
	}
	return int(r.size)
}

// lengthen makes r, the record for c.seg, a run.
func (o *outbound) lengthen(r *record) {
	s := &o.seg
	switch r.kind {
	case lent:
		r.count += uint32(o.c.stream.Repeat(s, runFPDUs-1))
	case shared:
		n := o.c.stream.Repeat(s, min(runFPDUs-1, cap(r.data)/s.Len-1))
		r.count += uint32(n)
		r.data = r.data[:(n+1)*s.Len]
	case copied:
		if n := o.c.stream.Repeat(s, min(runFPDUs-1, o.retain.ahead.n/s.Len)); n > 0 {
			r.count += uint32(n)
			o.retain.extend(r, n*s.Len)
		}
	}
}

// payload finds the segment's payload. await says that the request completes
// only when its last octet is acknowledged.
func (o *outbound) payload(r *record) (await, ok bool) {
	s := &o.seg
	var w *verbs.SendWQE
	if s.Ref != rdmap.NoRef {
		if w = o.c.qp.SendWQE(s.Ref); w == nil {
			return false, false
		}
		r.wr = w.ID
	}
	switch s.From {
	case rdmap.FromControl:
		copy(o.retain.add(r, s.Len), s.Control)
		return w != nil && w.Opcode == verbs.OpWriteImm && o.lends(w), true
	case rdmap.FromMemory:
		m, f := o.c.qp.CheckRemote(s.STag, s.TO, uint64(s.Len), verbs.RemoteRead)
		if f != verbs.FaultNone {
			o.c.fail(o.c.stream.FailResponse(s, faults[f]))
			return false, false
		}
		if o.share(r, m) {
			return false, true
		}
		left := o.left(s, m.Addressable())
		if o.retain.fetch(r, m, place{uint64(s.STag), m.Turn(), s.TO}, s.Len, left) != nil {
			return false, o.localFault(r)
		}
	case rdmap.FromWork:
		if !w.Valid() {
			o.c.qp.FinishSend(s.Ref, verbs.StatusLocalProtection)
			o.c.local = true
			return false, o.localFault(r)
		}
		if o.lends(w) {
			o.c.qp.Lend(w)
			r.kind = lent
			return true, true
		}
		left := o.left(s, w.Addressable() || w.Flags&verbs.Inline != 0)
		if o.retain.fetch(r, w, place{s.Ref, 0, s.Off}, s.Len, left) != nil {
			o.c.qp.FinishSend(s.Ref, verbs.StatusLocalProtection)
			return false, o.localFault(r)
		}
	}
	return false, true
}

// maxLoans bounds the regions that a connection sends Read Responses from at a time
// without copies.
const maxLoans = 16

// share has r send its segment, of a Read Response, from region m itself, if there is no
// CRC: the octets may change until they are acknowledged, and a CRC over some that were
// sent before would then be wrong. It does not for the last copyLimit octets of a
// message, nor where the region is not one piece of memory of this process.
func (o *outbound) share(r *record, m *verbs.Region) bool {
	if !o.shares {
		return false
	}
	s := &o.seg
	left := o.left(s, false)
	if left <= copyLimit {
		return false
	}
	if _, f := o.c.qp.CheckRemote(s.STag, s.TO, left, verbs.RemoteRead); f != verbs.FaultNone {
		return false // what is allowed still goes
	}
	data := m.Slice(s.TO, int(left))
	if data == nil || !o.lendRegion(m) {
		return false
	}
	r.kind, r.data = shared, data[:s.Len]
	return true
}

// lendRegion sees to it that the connection hears of it when m goes; false: there are too
// many regions already.
func (o *outbound) lendRegion(m *verbs.Region) bool {
	for _, l := range o.loans {
		if l.Of(m) {
			return true
		}
	}
	if len(o.loans) == maxLoans {
		return false
	}
	n := len(o.loans)
	if n < cap(o.loans) && o.loans[:n+1][n] != nil {
		o.loans = o.loans[:n+1] // one that has ended
	} else {
		o.loans = append(o.loans, new(verbs.Loan))
	}
	o.loans[n].Begin(o.c.qp, m)
	return true
}

// endLoans is for when no record is left that reads regions again.
func (o *outbound) endLoans() {
	for _, l := range o.loans {
		l.End()
	}
	o.loans = o.loans[:0]
}

// left is how many octets may be read for segment s and those behind it: where
// memory is near, those of s alone.
func (o *outbound) left(s *rdmap.Segment, near bool) uint64 {
	if near || s.Header.Last {
		return uint64(s.Len)
	}
	_, behind, _ := o.c.stream.Choose() // of the same message
	return uint64(s.Len) + behind
}

// lends tells whether the octets of w are read again from its memory when they
// have to be sent again.
func (o *outbound) lends(w *verbs.SendWQE) bool {
	return w.Length > copyLimit && w.Addressable() && !o.copies
}

// localFault ends the stream because this side's own memory has gone.
func (o *outbound) localFault(r *record) bool {
	o.retain.drop(r)
	o.c.fail(memoryGone())
	return false
}

// memoryGone is the error of memory that was there when it was registered.
func memoryGone() *rdmap.Error {
	return &rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic, Code: rdmap.Unspecified}
}

// Render implements toe.Source.
func (o *outbound) Render(off uint64, p []byte) {
	for len(p) > 0 {
		i := o.log.find(off)
		r := o.log.at(i)
		var n int
		if k, rest := r.split(off); rest == 0 && len(p) >= int(r.size) {
			n = o.renderRun(r, k, p)
		} else {
			n = o.renderPart(r, k, rest, p)
		}
		off, p = off+uint64(n), p[n:]
		o.log.cursor = i
	}
}

// renderRun writes the FPDUs of r from the kth on, as many as p has room for.
func (o *outbound) renderRun(r *record, k int, p []byte) (n int) {
	size, count, from := int(r.size), min(int(r.count)-k, len(p)/int(r.size)), k
	src, whole := o.payloadOf(r, k, count)
	for end := k + count; k < end; k++ {
		if dst := p[n : n+size]; whole {
			o.put(r, k, dst, src[:r.n])
			src = src[r.n:]
		} else {
			o.render(r, k, dst)
		}
		n += size
	}
	o.noteRendered(r, from, count)
	return n
}

// renderPart writes the kth FPDU of r to p, from its octet rest on.
func (o *outbound) renderPart(r *record, k, rest int, p []byte) int {
	if cap(o.c.e.scratch) < int(r.size) {
		o.c.e.scratch = make([]byte, r.size)
	}
	whole := o.c.e.scratch[:r.size]
	o.render(r, k, whole)
	o.noteRendered(r, k, 1)
	return copy(p, whole[rest:])
}

// render writes the kth FPDU of r to dst.
func (o *outbound) render(r *record, k int, dst []byte) {
	if r.kind == raw {
		copy(dst, r.data)
	} else if src, whole := o.payloadOf(r, k, 1); whole {
		o.put(r, k, dst, src)
	} else {
		o.gather(r, k, dst)
	}
}

// payloadOf is the payload of count FPDUs of r from the kth on, if it lies in
// one piece. Memory that is lent was checked when r was cut.
func (o *outbound) payloadOf(r *record, k, count int) (src []byte, whole bool) {
	from, n := k*int(r.n), count*int(r.n)
	switch r.kind {
	case copied, shared:
		return r.data[from : from+n], true
	case lent:
		if w := o.c.qp.SendWQE(r.seq); w != nil {
			src = w.Slice(r.moff+uint64(from), n)
		}
	}
	return src, src != nil
}

// put writes the kth FPDU of r, whose payload is src, to dst.
func (o *outbound) put(r *record, k int, dst, src []byte) {
	o.tx.Complete(dst, r.pos(o.c, k), r.putHead(dst, k), src)
}

// gather writes the kth FPDU of r, whose payload lies in several pieces.
func (o *outbound) gather(r *record, k int, dst []byte) {
	n := r.putHead(dst, k)
	end := n + int(r.n)
	if w := o.c.qp.SendWQE(r.seq); w != nil {
		_ = w.Fetch(dst[n:end], r.moff+uint64(k)*uint64(r.n)) // Addressable memory cannot fail
	}
	o.tx.Seal(dst, r.pos(o.c, k), end-mpa.LengthLen)
}

// Acked implements toe.Handler.
func (c *conn) Acked(_ *toe.Conn, off uint64, _ frame.Time) {
	for c.log.len() > 0 {
		r := c.log.at(c.log.head)
		if r.end() > off {
			break
		}
		if r.kind == raw && c.phase == full {
			c.tcp.SaveContext(false) // the peer has the reply: start-up is complete
		}
		if r.done && c.qp != nil {
			c.qp.FinishSend(r.seq, verbs.StatusSuccess)
		}
		c.log.pop(c)
	}
	if c.log.len() == 0 {
		c.retain.releaseIdle()
		c.endLoans()
		if c.phase == closing {
			c.tcp.Close() // behind a reply that says no; else it has been called
		}
	}
	c.drained()
}
