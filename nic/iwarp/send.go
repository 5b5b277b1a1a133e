package iwarp

import (
	"tapir/mpa"
	"tapir/nic/msglog"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// runFPDUs bounds a run: what is cut cannot be cut anew when the path's MTU
// changes. It fills a super-frame.
const runFPDUs = 44

// Next implements toe.Source: whole FPDUs up to limit octets.
func (c *conn) Next(off uint64, limit int) int {
	if off < c.log.end {
		return c.again(off, limit)
	}
	total := 0
	for total < limit {
		n := c.cut(limit-total, total == 0)
		if n == 0 {
			break
		}
		total += n
	}
	if total == 0 {
		c.nothingLeft()
	}
	return min(total, limit)
}

// Run implements toe.Runner: FPDUs of one run, one in each segment.
func (c *conn) Run(off uint64, n, limit, most int) int {
	if off >= c.log.end || limit-n >= mpa.Overhead {
		return 0
	}
	r := c.log.at(c.log.find(off))
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
}

// again returns what Next returned before, for a retransmission: records are
// never cut anew.
func (c *conn) again(off uint64, limit int) int {
	i := c.log.find(off)
	r := c.log.at(i)
	next := r.boundary(off)
	for next < c.log.end {
		if next == r.end() {
			i++
			r = c.log.at(i)
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
func (c *conn) cut(room int, first bool) int {
	switch {
	case c.stream == nil:
		return 0
	case c.gated && c.stream.Err() == nil:
		if c.qp != nil {
			c.qp.NextSend() // local operations need not wait
		}
		return 0
	}
	pos := c.log.end - c.base
	for {
		hlen, left, ok := c.stream.Choose()
		if !ok {
			return 0
		}
		mulpdu := c.tx.MULPDU(c.fpduRoom(room, first))
		if !first && (left > uint64(mulpdu-hlen) || c.tx.FPDULen(pos, hlen+int(left)) > room) {
			return 0
		}
		c.stream.Cut(mulpdu, &c.seg)
		if n := c.record(pos); n > 0 {
			return n
		}
	}
}

// gsoRoom is the length of an FPDU that spans segments, when both sides
// offered that.
const gsoRoom = 32 << 10

// fpduRoom is the room for the next FPDU: what is left of the segment, unless
// FPDUs may span several.
func (c *conn) fpduRoom(room int, first bool) int {
	if c.result.GSO && first {
		return max(room, gsoRoom)
	}
	return room
}

// record logs the FPDU for c.seg, copying its payload where that may change;
// where it may not, those that follow in the same message belong to the run.
// It returns 0 when the payload cannot be had: the stream has then failed.
func (c *conn) record(pos uint64) int {
	s := &c.seg
	r := c.log.room(c)
	r.n, r.count, r.op, r.last, r.seq, r.wr, r.moff, r.kind = uint32(s.Len), 1, s.Op, s.Header.Last, s.Ref, rdmap.NoRef, s.Off, copied
	r.hlen = uint8(s.Header.Put(r.head[mpa.LengthLen:]))
	mpa.PutLength(r.head[:], int(r.hlen)+s.Len)
	r.size = uint32(c.tx.FPDULen(pos, int(r.hlen)+s.Len))
	r.done = s.Final && s.Ref != rdmap.NoRef && s.Op != rdmap.ReadRequestOp && s.Op != rdmap.AtomicRequestOp
	await, ok := c.payload(r)
	if !ok {
		return 0
	}
	if !c.tx.Markers && s.Len > 0 {
		c.lengthen(r)
	}
	c.log.push(r)
	c.counters.TxFPDUs += uint64(r.count)
	c.sentFPDU()
	if c.e.cfg.Log.On(msglog.TX) {
		c.logSegment(msglog.TX, r.wr, r.head[mpa.LengthLen:][:r.hlen], s.Len, int(r.count))
	}
	if r.done && !await {
		c.qp.FinishSend(r.seq, verbs.StatusSuccess)
	}
	return int(r.size)
}

// lengthen makes r, the record for c.seg, a run.
func (c *conn) lengthen(r *record) {
	s := &c.seg
	switch r.kind {
	case lent:
		r.count += uint32(c.stream.Repeat(s, runFPDUs-1))
	case copied:
		if n := c.stream.Repeat(s, min(runFPDUs-1, c.retain.ahead.n/s.Len)); n > 0 {
			r.count += uint32(n)
			c.retain.extend(r, n*s.Len)
		}
	}
}

// payload finds the segment's payload. await says that the request completes
// only when its last octet is acknowledged.
func (c *conn) payload(r *record) (await, ok bool) {
	s := &c.seg
	var w *verbs.SendWQE
	if s.Ref != rdmap.NoRef {
		if w = c.qp.SendWQE(s.Ref); w == nil {
			return false, false
		}
		r.wr = w.ID
	}
	switch s.From {
	case rdmap.FromControl:
		copy(c.retain.add(r, s.Len), s.Control)
		return w != nil && w.Opcode == verbs.OpWriteImm && c.lends(w), true
	case rdmap.FromMemory:
		m, f := c.qp.CheckRemote(s.STag, s.TO, uint64(s.Len), verbs.RemoteRead)
		if f != verbs.FaultNone {
			c.fail(c.stream.FailResponse(s, faults[f]))
			return false, false
		}
		left := c.left(s, m.Addressable())
		if c.retain.fetch(r, m, place{uint64(s.STag), true, s.TO}, s.Len, left) != nil {
			return false, c.localFault(r)
		}
	case rdmap.FromWork:
		if !w.Valid() {
			c.qp.FinishSend(s.Ref, verbs.StatusLocalProtection)
			c.local = true
			return false, c.localFault(r)
		}
		if c.lends(w) {
			r.kind = lent
			return true, true
		}
		left := c.left(s, w.Addressable() || w.Flags&verbs.Inline != 0)
		if c.retain.fetch(r, w, place{s.Ref, false, s.Off}, s.Len, left) != nil {
			c.qp.FinishSend(s.Ref, verbs.StatusLocalProtection)
			return false, c.localFault(r)
		}
	}
	return false, true
}

// left is how many octets may be read for segment s and those behind it: where
// memory is near, those of s alone.
func (c *conn) left(s *rdmap.Segment, near bool) uint64 {
	if near || s.Header.Last {
		return uint64(s.Len)
	}
	_, behind, _ := c.stream.Choose() // of the same message
	return uint64(s.Len) + behind
}

// lends tells whether the octets of w are read again from its memory when they
// have to be sent again.
func (c *conn) lends(w *verbs.SendWQE) bool {
	return w.Length > copyLimit && w.Addressable() && !c.copies
}

// localFault ends the stream because this side's own memory has gone.
func (c *conn) localFault(r *record) bool {
	c.retain.drop(r)
	c.fail(memoryGone())
	return false
}

// memoryGone is the error of memory that was there when it was registered.
func memoryGone() *rdmap.Error {
	return &rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic, Code: rdmap.Unspecified}
}

// Render implements toe.Source.
func (c *conn) Render(off uint64, p []byte) {
	for len(p) > 0 {
		i := c.log.find(off)
		r := c.log.at(i)
		var n int
		if k, rest := r.split(off); rest == 0 && len(p) >= int(r.size) {
			n = c.renderRun(r, k, p)
		} else {
			n = c.renderPart(r, k, rest, p)
		}
		off, p = off+uint64(n), p[n:]
		c.log.cursor = i
	}
}

// renderRun writes the FPDUs of r from the kth on, as many as p has room for.
func (c *conn) renderRun(r *record, k int, p []byte) (n int) {
	size, count := int(r.size), min(int(r.count)-k, len(p)/int(r.size))
	src, whole := c.payloadOf(r, k, count)
	for end := k + count; k < end; k++ {
		if dst := p[n : n+size]; whole {
			c.put(r, k, dst, src[:r.n])
			src = src[r.n:]
		} else {
			c.render(r, k, dst)
		}
		n += size
	}
	c.noteRendered(r, count)
	return n
}

// renderPart writes the kth FPDU of r to p, from its octet rest on.
func (c *conn) renderPart(r *record, k, rest int, p []byte) int {
	if cap(c.e.scratch) < int(r.size) {
		c.e.scratch = make([]byte, r.size)
	}
	whole := c.e.scratch[:r.size]
	c.render(r, k, whole)
	c.noteRendered(r, 1)
	return copy(p, whole[rest:])
}

// render writes the kth FPDU of r to dst.
func (c *conn) render(r *record, k int, dst []byte) {
	if r.kind == raw {
		copy(dst, r.data)
	} else if src, whole := c.payloadOf(r, k, 1); whole {
		c.put(r, k, dst, src)
	} else {
		c.gather(r, k, dst)
	}
}

// payloadOf is the payload of count FPDUs of r from the kth on, if it lies in
// one piece. Memory that is lent was checked when r was cut.
func (c *conn) payloadOf(r *record, k, count int) (src []byte, whole bool) {
	from, n := k*int(r.n), count*int(r.n)
	switch r.kind {
	case copied:
		return r.data[from : from+n], true
	case lent:
		if w := c.qp.SendWQE(r.seq); w != nil {
			src = w.Slice(r.moff+uint64(from), n)
		}
	}
	return src, src != nil
}

// put writes the kth FPDU of r, whose payload is src, to dst.
func (c *conn) put(r *record, k int, dst, src []byte) {
	c.tx.Complete(dst, r.pos(c, k), r.putHead(dst, k), src)
}

// gather writes the kth FPDU of r, whose payload lies in several pieces.
func (c *conn) gather(r *record, k int, dst []byte) {
	n := r.putHead(dst, k)
	end := n + int(r.n)
	if w := c.qp.SendWQE(r.seq); w != nil {
		_ = w.Fetch(dst[n:end], r.moff+uint64(k)*uint64(r.n)) // Addressable memory cannot fail
	}
	c.tx.Seal(dst, r.pos(c, k), end-mpa.LengthLen)
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
		if c.phase == closing {
			c.tcp.Close() // behind a reply that says no; else it has been called
		}
	}
	c.drained()
}
