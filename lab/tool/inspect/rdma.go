package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tapir/ddp"
	msg "tapir/lab/tool/inspect/message"
	"tapir/mpa"
	"tapir/rdmap"
)

// readRequest is a Read or an atomic operation that waits for its answer.
type readRequest struct {
	rdmap.ReadRequest
	atomic bool
	id     uint32
	have   uint64
}

// rdmaState is what the messages of a direction have come to.
type rdmaState struct {
	queue  [rdmap.NumQueues]message
	tagged message
	begun  bool   // the first message has come
	most   int    // longest payload of a segment that was not the last
	sent   []sent // the latest segments, for Terminates that quote them
	older  bool   // there were more
	ops    uint16 // of all segments, a bit for each opcode
}

// message is the one under way, or the place of the next.
type message struct {
	open   bool
	op     rdmap.Opcode
	msn    uint32
	mo     uint32
	stag   uint32
	to     uint64
	length uint64
	first  int  // packet of its first segment
	prior  int  // packet of its latest segment
	n      int  // payload of its latest segment
	adopt  bool // the next segment tells where the queue is
	odd    *doubt
	spans  []span // that the segments cover, behind the doubt
	data   []byte // of a Send, for the protocol above
	lacks  bool   // not all of it was kept
}

// doubt is a segment that is not where the ones before it end. RFC 5041 section
// 5.3 only recommends that order: it is wrong if there is a gap at the message's
// end, or an overlap.
type doubt struct {
	rule   *Rule
	packet int
	detail string
}

type span struct{ from, to uint64 }

// scatter places a segment that d is about, or one behind such, in a message that
// begins at from and reports false if d was right.
func (m *message) scatter(from, at uint64, s *seg, d doubt) bool {
	if m.odd == nil {
		m.odd, m.spans = &d, []span{{from, from + m.length}}
	}
	end := at + uint64(len(s.payload))
	for _, x := range m.spans {
		if at < x.to && x.from < end {
			return false
		}
	}
	if at < end {
		m.spans = append(m.spans, span{at, end})
	}
	slices.SortFunc(m.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	list := m.spans[:1]
	for _, x := range m.spans[1:] {
		if l := &list[len(list)-1]; l.to == x.from {
			l.to = x.to
		} else if l.to > l.from {
			list = append(list, x)
		} else {
			*l = x
		}
	}
	m.spans = list
	if !s.Last || s.Tagged {
		return !s.Last || len(list) == 1
	}
	// An empty last segment covers nothing, yet its offset is the message's length.
	return len(list) == 1 && list[0].from == from && (at < end || list[0].to == at)
}

// sent is a segment as a Terminate may quote it.
type sent struct {
	h      ddp.Header
	length int // of the ULPDU
	read   rdmap.ReadRequest
}

// mostSent bounds the segments that are kept for Terminates.
const mostSent = 4096

func newRDMAState() (s rdmaState) {
	for k := range s.queue {
		s.queue[k].msn = 1
	}
	return s
}

// resume goes on behind a gap of the capture.
func (r *rdmaState) resume() {
	r.begun, r.tagged = true, message{}
	for k := range r.queue {
		r.queue[k] = message{adopt: true}
	}
}

// seg is the segment in hand.
type seg struct {
	ddp.Header
	c       rdmap.Control
	payload []byte
	packet  int
	whole   bool // the capture has all of the payload
}

// headerRules are the rules about the control fields of one segment.
var headerRules = []struct {
	rule   *Rule
	broken func(s *seg) bool
}{
	{ddpVersion, func(s *seg) bool { return s.Version != ddp.Version }},
	{ddpReserved, func(s *seg) bool { return s.Reserved != 0 }},
	{rdmapVersion, func(s *seg) bool { return s.c.Version != rdmap.Version }},
	{rdmapReserved, func(s *seg) bool { return s.c.Reserved != 0 }},
	{rdmapOpcode, func(s *seg) bool { return !s.c.Opcode.Valid() }},
	{rdmapTagged, func(s *seg) bool { return s.c.Opcode.Tagged() != s.Tagged }},
	{rdmapQueue, func(s *seg) bool { return !s.Tagged && s.QN != s.c.Opcode.Queue() }},
	{rdmapInvSTag, func(s *seg) bool { return !s.Tagged && !s.c.Opcode.Invalidates() && s.ULPWord != 0 }},
	{ddpWrap, func(s *seg) bool { n := uint64(len(s.payload)); return s.Tagged && n > 0 && s.TO+n-1 < s.TO }},
}

// segment takes a ULPDU: one DDP segment.
func (h *half) segment(u []byte, packet int, whole bool) {
	hdr, payload, err := ddp.Parse(u)
	if err != nil {
		h.violate(ddpTruncated, packet, "%d octets", len(u))
		return
	}
	s := &seg{hdr, rdmap.ParseControl(hdr.ULP), payload, packet, whole}
	h.remember(s, len(u))
	if h.mute {
		if s.c.Opcode == rdmap.TerminateOp {
			h.stat.message(s.c.Opcode.String(), 0)
			h.event(packet, h.stream.now, s.c.Opcode.String(), h.terminate(s))
		}
		return
	}
	for _, r := range headerRules {
		if r.broken(s) {
			h.violate(r.rule, packet, "%s", s.text())
			if r.rule.Last {
				return
			}
		}
	}
	if h.c.terminated[h.side] {
		h.violate(termAfter, packet, "%v", s.c.Opcode)
		return
	}
	if !h.rdma.begun {
		h.rdma.begun = true
		h.firstMessage(s)
	}
	if s.Tagged {
		h.taggedSegment(s)
	} else {
		h.untaggedSegment(s)
	}
}

// text is the segment's header in a line.
func (s *seg) text() string {
	if s.Tagged {
		return fmt.Sprintf("%v, STag %#x, TO %#x", s.c.Opcode, s.STag, s.TO)
	}
	return fmt.Sprintf("%v, QN %d, MSN %d, MO %d", s.c.Opcode, s.QN, s.MSN, s.MO)
}

// readText is a Read Request in a line.
func readText(r *rdmap.ReadRequest) string {
	return fmt.Sprintf("%d octets of STag %#x, TO %#x to STag %#x, TO %#x", r.Size, r.SourceSTag, r.SourceTO,
		r.SinkSTag, r.SinkTO)
}

// remember keeps the segment for a Terminate that quotes it.
func (h *half) remember(s *seg, length int) {
	x := sent{h: s.Header, length: length}
	if s.c.Opcode == rdmap.ReadRequestOp {
		x.read, _ = rdmap.ParseReadRequest(s.payload)
	}
	h.rdma.ops |= 1 << s.c.Opcode
	if len(h.rdma.sent) >= 2*mostSent {
		h.rdma.older = true
		h.rdma.sent = append(h.rdma.sent[:0], h.rdma.sent[mostSent:]...)
	}
	h.rdma.sent = append(h.rdma.sent, x)
}

// firstMessage: in the peer-to-peer model the initiator begins with an
// indication that both sides know, or with a Terminate.
func (h *half) firstMessage(s *seg) {
	e, ok := words(h.c.reply)
	q, _ := words(h.c.req)
	if !ok || !e.P2P || !q.P2P || h.side != h.c.initiator || s.c.Opcode == rdmap.TerminateOp {
		return
	}
	kinds := map[rdmap.Opcode]bool{rdmap.Send: e.RTRSend, rdmap.Write: e.RTRWrite, rdmap.ReadRequestOp: e.RTRRead}
	r, _ := rdmap.ParseReadRequest(s.payload)
	if !kinds[s.c.Opcode] || s.c.Opcode != rdmap.ReadRequestOp && len(s.payload) > 0 || r.Size > 0 {
		h.violate(mpaWrongRTR, s.packet, "%s, %d octets; agreed: %v", s.text(), len(s.payload), e.RTR())
	}
}

func (h *half) taggedSegment(s *seg) {
	if s.c.Opcode == rdmap.ReadResponse {
		h.readResponse(s)
		return
	}
	m := &h.rdma.tagged
	if m.open && !h.continues(s) {
		if d := m.odd; d != nil {
			h.violate(d.rule, d.packet, "%s", d.detail)
		}
		return
	}
	if !m.open {
		*m = message{open: true, op: s.c.Opcode, stag: s.STag, to: s.TO, first: s.packet}
	}
	h.took(m, s)
	if s.Last {
		h.message(s.c.Opcode, m, fmt.Sprintf("STag %#x, TO %#x", m.stag, m.to))
		m.open = false
	}
}

// took counts a segment to its message.
func (h *half) took(m *message, s *seg) {
	n := len(s.payload)
	m.length += uint64(n)
	m.prior, m.n = s.packet, n
	if !s.Last {
		h.rdma.most = max(h.rdma.most, n)
	}
}

// continues tells whether s continues the Write under way.
func (h *half) continues(s *seg) bool {
	m := &h.rdma.tagged
	switch {
	case s.c.Opcode != m.op:
		h.interleaved(m, s)
	case len(s.payload) == 0 && s.Last:
		return true
	case s.STag != m.stag && (m.n < h.rdma.most || s.TO != m.to+m.length):
		h.violate(ddpLast, m.prior, "%v, but a new message follows in packet %d", m.op, s.packet)
	case s.STag != m.stag:
		h.violate(ddpSTag, s.packet, "%#x instead of %#x", s.STag, m.stag)
	case s.TO == m.to+m.length && m.odd == nil:
		return true
	case m.n < h.rdma.most:
		return m.scatter(m.to, s.TO, s, doubt{ddpLast, m.prior,
			fmt.Sprintf("%v, but a new message follows in packet %d", m.op, s.packet)})
	default:
		return m.scatter(m.to, s.TO, s, doubt{ddpTO, s.packet, fmt.Sprintf("%#x instead of %#x", s.TO, m.to+m.length)})
	}
	return false
}

// interleaved: s belongs to another message though m is not at its end. If m's
// last segment was no full one it is the L bit that is missing.
func (h *half) interleaved(m *message, s *seg) {
	if m.n < h.rdma.most || h.rdma.most == 0 || m.n == 0 {
		h.violate(ddpLast, m.prior, "%v, but a new message follows in packet %d", m.op, s.packet)
		return
	}
	h.violate(ddpInterleave, s.packet, "%v in packet %d is open", m.op, m.first)
}

// readResponse checks a segment against the oldest Read of the peer.
func (h *half) readResponse(s *seg) {
	reads := &h.c.reads[1-h.side]
	m := &h.rdma.tagged
	if m.open && m.op != rdmap.ReadResponse {
		h.interleaved(m, s)
		return
	}
	if !h.c.asked(1-h.side, func(r *readRequest) bool {
		end := r.have + uint64(len(s.payload))
		return !r.atomic && (end == 0 || s.STag == r.SinkSTag && s.TO == r.SinkTO+r.have) &&
			end <= uint64(r.Size) && s.Last == (end == uint64(r.Size))
	}) {
		h.took(m, s)
		return
	}
	if len(*reads) == 0 || (*reads)[0].atomic {
		h.violate(respUnasked, s.packet, "%s", s.text())
		return
	}
	r, n := &(*reads)[0], uint64(len(s.payload))
	if !m.open {
		*m = message{open: true, op: s.c.Opcode, stag: s.STag, to: s.TO, first: s.packet}
	}
	switch {
	case n > 0 && s.STag != r.SinkSTag:
		h.violate(respSTag, s.packet, "%#x instead of %#x", s.STag, r.SinkSTag)
	case n > 0 && (s.TO != r.SinkTO+r.have || m.odd != nil) && !m.answers(s, r):
		h.violate(respTO, m.odd.packet, "%s", m.odd.detail)
	case r.have+n > uint64(r.Size):
		h.violate(respSize, s.packet, "%d of %d octets", r.have+n, r.Size)
	case s.Last != (r.have+n == uint64(r.Size)):
		h.violate(ddpLast, s.packet, "%d of %d octets of a Read Response", r.have+n, r.Size)
	default:
		h.took(m, s)
		r.have += n
		if s.Last {
			h.message(s.c.Opcode, m, fmt.Sprintf("STag %#x, TO %#x", r.SinkSTag, r.SinkTO))
			m.open = false
			*reads = (*reads)[1:]
		}
	}
}

// answers tells whether s, which is not the next of the answer, may be another
// part of what r asks for.
func (m *message) answers(s *seg, r *readRequest) bool {
	at, size := s.TO-r.SinkTO, uint64(r.Size)
	d := doubt{respTO, s.packet, fmt.Sprintf("%#x instead of %#x", s.TO, r.SinkTO+r.have)}
	if at > size || at+uint64(len(s.payload)) > size {
		m.odd = cmp.Or(m.odd, &d)
		return false
	}
	return m.scatter(0, at, s, d)
}

// asked goes on to the request of a side that is answered, if the capture lacks
// some of them or their answers, and reports false if that one is unknown.
func (c *conn) asked(side int, answered func(*readRequest) bool) bool {
	reads := &c.reads[side]
	if len(*reads) > 0 && answered(&(*reads)[0]) || c.half[side].followed() {
		return true
	}
	c.blind = true
	for k := range *reads {
		if answered(&(*reads)[k]) {
			*reads = (*reads)[k:]
			return true
		}
	}
	return false
}

func (h *half) untaggedSegment(s *seg) {
	q := &h.rdma.queue[s.QN]
	if q.adopt {
		*q = message{open: s.MO > 0, op: s.c.Opcode, msn: s.MSN, mo: s.MO, stag: s.ULPWord, first: s.packet}
	}
	msn, mo := s.MSN != q.msn, s.MO != q.mo
	switch {
	case q.open && msn && mo:
		h.violate(ddpLast, q.prior, "%v, but a new message follows in packet %d", q.op, s.packet)
		return
	case msn && s.MSN == q.msn-1 && s.MO != 0 && mo:
		h.violate(ddpLast, q.prior, "%v, but the message goes on in packet %d", q.op, s.packet)
		return
	case msn:
		h.violate(ddpMSN, s.packet, "%d instead of %d in queue %d", s.MSN, q.msn, s.QN)
		return
	case q.open && (s.c.Opcode != q.op || s.ULPWord != q.stag && q.op.Invalidates()):
		h.violate(sendChanged, s.packet, "%v instead of %v", s.c.Opcode, q.op)
		return
	}
	if !q.open {
		*q = message{open: true, op: s.c.Opcode, msn: q.msn, stag: s.ULPWord, first: s.packet}
	}
	if mo || q.odd != nil {
		d := doubt{ddpMO, s.packet, fmt.Sprintf("%d instead of %d", s.MO, q.mo)}
		if !q.scatter(0, uint64(s.MO), s, d) {
			h.violate(ddpMO, q.odd.packet, "%s", q.odd.detail)
			return
		}
	}
	h.took(q, s)
	if s.QN == rdmap.QueueSend && h.c.above.wants() {
		q.keep(s)
	}
	q.mo += uint32(len(s.payload))
	h.untagged(s, q)
	if s.Last || s.QN != rdmap.QueueSend {
		q.open, q.mo, q.odd = false, 0, nil
		q.msn++
	}
}

// untagged takes what the opcode adds.
func (h *half) untagged(s *seg, q *message) {
	op := s.c.Opcode
	if !op.IsSend() && !s.Last {
		h.violate(readLast, s.packet, "%v", op)
	}
	detail := ""
	switch op {
	case rdmap.ReadRequestOp:
		detail = h.readRequest(s)
	case rdmap.AtomicRequestOp:
		detail = h.atomicRequest(s)
	case rdmap.AtomicResponseOp:
		h.atomicResponse(s)
	case rdmap.ImmediateOp, rdmap.ImmediateSE:
		if len(s.payload) != rdmap.ImmediateLen {
			h.violate(immLength, s.packet, "%d", len(s.payload))
		}
	case rdmap.TerminateOp:
		h.c.terminated[h.side] = true
		h.stat.message(op.String(), 0)
		h.event(s.packet, h.stream.now, op.String(), h.terminate(s))
		return
	}
	if !s.Last && s.QN == rdmap.QueueSend {
		return
	}
	if op.Invalidates() {
		detail = fmt.Sprintf("STag %#x", s.ULPWord)
	}
	h.message(op, q, detail)
}

func (h *half) readRequest(s *seg) string {
	r, err := rdmap.ParseReadRequest(s.payload)
	if err != nil || len(s.payload) != rdmap.ReadRequestLen {
		h.violate(readLength, s.packet, "%d", len(s.payload))
		return ""
	}
	h.ask(s, readRequest{ReadRequest: r})
	h.above(&msg.Message{Kind: msg.Read, Packet: s.packet, Octets: uint64(r.Size), Key: r.SourceSTag, Addr: r.SourceTO})
	return readText(&r)
}

// ask counts an outstanding Read or atomic operation.
func (h *half) ask(s *seg, r readRequest) {
	reads := &h.c.reads[h.side]
	*reads = append(*reads, r)
	if depth, ok := h.c.depth(h.side); ok && len(*reads) > depth && h.peer().followed() {
		h.violate(readDepth, s.packet, "%d; the peer's IRD is %d", len(*reads), depth)
	}
}

// depth is the IRD of a side's peer as negotiated: RFC 6581 section 9.1. One Read
// is always possible in the peer-to-peer model that begins with it.
func (c *conn) depth(side int) (int, bool) {
	q, ok1 := words(c.req)
	r, ok2 := words(c.reply)
	if !ok1 || !ok2 {
		return 0, false
	}
	if side == c.initiator {
		n := int(r.IRD)
		if r.RTRRead {
			n = max(n, 1)
		}
		return n, r.IRD != mpa.NotNegotiated
	}
	return max(int(q.IRD), int(r.ORD)), q.IRD != mpa.NotNegotiated && r.ORD != mpa.NotNegotiated
}

func (h *half) atomicRequest(s *seg) string {
	a, err := rdmap.ParseAtomicRequest(s.payload)
	if err != nil || len(s.payload) != rdmap.AtomicRequestLen {
		h.violate(atomicLength, s.packet, "%d", len(s.payload))
		return ""
	}
	if a.Op > rdmap.CmpSwap {
		h.violate(atomicOp, s.packet, "%d", uint8(a.Op))
	}
	h.ask(s, readRequest{atomic: true, id: a.ID})
	return fmt.Sprintf("%v at STag %#x, TO %#x", a.Op, a.STag, a.TO)
}

func (h *half) atomicResponse(s *seg) {
	reads := &h.c.reads[1-h.side]
	a, err := rdmap.ParseAtomicResponse(s.payload)
	if !h.c.asked(1-h.side, func(r *readRequest) bool { return r.atomic && r.id == a.ID }) {
		return
	}
	if err != nil || len(*reads) == 0 || !(*reads)[0].atomic {
		h.violate(atomicAnswer, s.packet, "")
		return
	}
	if id := (*reads)[0].id; a.ID != id {
		h.violate(atomicID, s.packet, "%d instead of %d", a.ID, id)
	}
	*reads = (*reads)[1:]
}

// message reports a whole message.
func (h *half) message(op rdmap.Opcode, m *message, detail string) {
	n := m.length
	if op.HeaderLen() > 0 && !op.IsImmediate() {
		n = 0
	}
	h.stat.message(op.String(), n)
	var parts []string
	if op.HeaderLen() == 0 || op.IsImmediate() {
		parts = append(parts, fmt.Sprintf("%d octets", m.length))
	}
	if detail != "" {
		parts = append(parts, detail)
	}
	if m.prior != m.first {
		parts = append(parts, fmt.Sprintf("packets %d to %d", m.first, m.prior))
	}
	h.event(m.prior, h.stream.now, op.String(), strings.Join(parts, ", "))
	if x, ok := forAbove(op, m); ok {
		h.above(&x)
	}
}
