package inspect

import (
	"bytes"
	"slices"
	"sort"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

type streamState uint8

const (
	streamStart streamState = iota // the start-up frame has not come in full
	streamFull                     // full operation
	streamOther                    // not MPA
	streamDead                     // cannot be followed further
)

// fpduStream is the octets of a direction in order, and which packet brought each.
type fpduStream struct {
	state streamState
	guess bool // of a connection whose start is missing: it looks like FPDUs
	buf   []byte
	base  uint64 // place of buf[0] in the stream
	done  uint64 // place of the first octet that nobody has taken
	marks []mark
	holes []hole
	now   int64 // time of the packet in hand

	resumed bool   // behind a gap of the capture
	since   uint64 // place of the gap
	first   uint64 // place where full operation begins
	layout  mpa.Layout
	prior   fpdu // the FPDU in front of the one in hand
}

// mark says that the octets from off on came in a packet.
type mark struct {
	off    uint64
	packet int
}

// hole is octets that the capture has cut off.
type hole struct{ from, to uint64 }

// append adds octets, of which the first ones are known.
func (s *fpduStream) append(b []byte, known, packet int, now int64) {
	s.marks = append(s.marks, mark{s.end(), packet})
	if known < len(b) {
		s.holes = append(s.holes, hole{s.end() + uint64(known), s.end() + uint64(len(b))})
	}
	s.buf = append(s.buf, b...)
	s.now = now
}

// unknown tells whether octets from up to, but not at, to are missing.
func (s *fpduStream) unknown(from, to uint64) bool {
	for k := len(s.holes) - 1; k >= 0 && s.holes[k].to > from; k-- {
		if s.holes[k].from < to {
			return true
		}
	}
	return false
}

func (s *fpduStream) end() uint64              { return s.base + uint64(len(s.buf)) }
func (s *fpduStream) at(off uint64) []byte     { return s.buf[off-s.base:] }
func (s *fpduStream) rest() []byte             { return s.at(s.done) }
func (s *fpduStream) position(o uint64) uint64 { return o - s.first }

// mark finds what brought the octet at off.
func (s *fpduStream) mark(off uint64) int {
	return sort.Search(len(s.marks), func(k int) bool { return s.marks[k].off > off }) - 1
}

func (s *fpduStream) packet(off uint64) int { return s.marks[max(0, s.mark(off))].packet }

// segmentEnd is the place behind the segment that brought the octet at off.
func (s *fpduStream) segmentEnd(off uint64) uint64 {
	if k := s.mark(off) + 1; k < len(s.marks) {
		return s.marks[k].off
	}
	return s.end()
}

// begins tells whether a segment begins at off.
func (s *fpduStream) begins(off uint64) bool { return s.marks[max(0, s.mark(off))].off == off }

// What a stream keeps of what has been taken, to compare retransmissions with.
const kept = 256 << 10

// forget drops what is no longer wanted.
func (s *fpduStream) forget() {
	if s.done < s.base+2*kept {
		return
	}
	cut := min(s.done-kept, s.prior.at)
	if cut <= s.base {
		return
	}
	s.buf = append(s.buf[:0], s.at(cut)...)
	s.base = cut
	s.marks = slices.Delete(s.marks, 0, max(0, s.mark(cut)))
	s.holes = slices.DeleteFunc(s.holes, func(h hole) bool { return h.to <= cut })
}

// arrived takes what has come in order.
func (h *half) arrived() {
	s := &h.stream
	if s.state == streamStart {
		h.startup()
	}
	if s.state == streamFull {
		h.fpdus()
	}
	switch {
	case s.state == streamOther && h.c.scsi != nil:
		s.done += uint64(h.c.scsi.Take(h.side, octets{s}))
		s.prior.at = s.done
	case s.state == streamOther || s.state == streamDead:
		s.done = s.end()
		s.prior.at = s.done
	}
	s.forget()
}

// Keys of start-up frames.
var keys = [...]string{mpa.Request: "MPA ID Req Frame", mpa.Reply: "MPA ID Rep Frame"}

// alike counts the octets that b has in common with the key of a frame.
func alike(b []byte, k mpa.Kind) (n int) {
	for i := range min(len(b), len(keys[k])) {
		if b[i] == keys[k][i] {
			n++
		}
	}
	return n
}

// startup takes the start-up frame of a direction.
func (h *half) startup() {
	s, c := &h.stream, h.c
	b := s.rest()
	if s.unknown(s.done, s.done+mpa.FrameHeaderLen+mpa.EnhancedLen) {
		s.state = streamOther
		if bytes.HasPrefix(b, []byte("MPA ID Re")) {
			h.lacks(s.packet(s.done), cutShort)
			c.flow.Protocol, s.state = "iWARP", streamDead
		}
		return
	}
	want := mpa.Request
	if c.req != nil || bytes.HasPrefix(h.peer().stream.rest(), []byte(keys[mpa.Request])) {
		want = mpa.Reply
	}
	have := min(len(b), len(keys[want]))
	other := mpa.Request + mpa.Reply - want
	switch n := alike(b, want); {
	case n == have && have < len(keys[want]):
		return
	case c.req == nil && bytes.HasPrefix(b, []byte(keys[mpa.Reply])) &&
		(h.peer().missing() || h.peer().stream.state == streamOther):
		s.guess = true // the capture may yet show the request
		return
	case n == have:
	case c.req != nil && bytes.HasPrefix(b, []byte(keys[other])):
		h.violate(mpaBoth, s.packet(s.done), "")
		return
	case n > 3 || c.req != nil:
		if have < len(keys[want]) {
			return
		}
		if n >= 12 || c.req != nil {
			c.flow.Protocol = "iWARP"
			c.flow.State = Replayed
			h.violate(mpaKey, s.packet(s.done), "%q", b[:have])
			h.peer().stream.state = streamDead
			return
		}
		fallthrough
	default:
		s.state, h.peer().stream.state = streamOther, streamOther
		speaksISCSI(h, b)
		return
	}
	h.frame(b, want)
}

// frame takes the start-up frame at the front of b, once it is there in full.
func (h *half) frame(b []byte, kind mpa.Kind) {
	s, c := &h.stream, h.c
	c.flow.Protocol = "iWARP"
	at := s.packet(s.done)
	f, n, err := mpa.ParseFrame(b, kind)
	if err != nil {
		h.violate(mpaPDTooLong, at, "%d", be.Uint16(b[18:]))
		h.peer().stream.state = streamDead
		return
	}
	if kind == mpa.Reply && c.req == nil {
		h.replyEarly()
		return
	}
	if n == 0 {
		return
	}
	f.PrivateData = bytes.Clone(f.PrivateData)
	behind := int(s.segmentEnd(s.done)-s.done) - n
	s.done += uint64(n)
	s.first = s.done
	h.judgeFrame(&f, at)
	if kind == mpa.Request {
		c.req, c.initiator, h.peer().stream.guess = &f, h.side, false
	} else {
		c.reply = &f
	}
	if behind > 0 && s.state != streamDead && !looksLikeFPDU(s.rest()) {
		h.strayPrivateData(&f, at, behind)
		return
	}
	h.event(at, s.now, "MPA "+f.Kind.String(), frameText(&f))
	if f.Rev == 0 { // RFC 5044 appendix C
		for _, x := range c.half {
			x.lacks(at, "MPA revision 0, of the RDMA Consortium")
			x.stream.state = streamDead
		}
	}
	if s.state != streamDead {
		s.state = streamFull
	}
	if o := h.peer(); kind == mpa.Request && o.stream.state == streamStart && len(o.stream.rest()) > 0 {
		o.arrived()
	}
	if kind == mpa.Reply {
		h.agree()
		if s.state == streamFull && h.peer().stream.state == streamFull {
			h.peer().fpdus()
		}
	}
}

// replyEarly: a reply comes though the request is not complete.
func (h *half) replyEarly() {
	o := h.peer()
	o.violate(mpaPDLength, o.stream.packet(o.stream.done), "%d, of which %d came before the reply",
		be.Uint16(o.stream.rest()[18:]), len(o.stream.rest())-mpa.FrameHeaderLen)
	h.stream.state = streamDead
}

// strayPrivateData: n octets that are no FPDU follow the frame in its segment.
func (h *half) strayPrivateData(f *mpa.Frame, at, n int) {
	r, pd := mpaPDLength, len(f.PrivateData)
	if pd < mpa.EnhancedLen && pd+n == pd+256 {
		r = mpaPDWraps
	}
	h.violate(r, at, "%d, and %d more octets in the segment", pd, n)
	h.stream.state, h.peer().stream.state = streamDead, streamDead
}

// agree is what the two frames make of the connection.
func (h *half) agree() {
	c := h.c
	crc := c.req.CRC || c.reply.CRC
	for _, x := range c.half {
		theirs := c.reply
		if x.side != c.initiator {
			theirs = c.req
		}
		x.stream.layout = mpa.Layout{CRC: crc, Markers: theirs.Markers}
	}
	c.flow.Agreed = agreedText(c)
	if !c.reply.Reject {
		h.c.begins()
	}
}

// fpdu is where an FPDU lies.
type fpdu struct {
	at     uint64
	ulpdu  int
	size   int
	packet int
}

// fpdus takes the FPDUs that are complete.
func (h *half) fpdus() {
	s, c := &h.stream, h.c
	if len(s.rest()) == 0 {
		return
	}
	if c.reply == nil {
		if o := h.peer(); h.stream.prior.packet == 0 && o.stream.state == streamStart && !o.missing() {
			h.stream.prior.packet = s.packet(s.done)
			h.early()
		}
		return
	}
	for s.state == streamFull && h.fpdu() {
	}
}

// early: the initiator goes on before it has the reply.
func (h *half) early() {
	s, o := &h.stream, h.peer()
	if part := o.stream.rest(); o.stream.state == streamStart && len(part) >= mpa.FrameHeaderLen {
		o.violate(mpaPDLength, o.stream.packet(o.stream.done), "%d, of which %d came before the first FPDU",
			be.Uint16(part[18:]), len(part)-mpa.FrameHeaderLen)
		s.state = streamDead
		return
	}
	h.violate(mpaEarly, s.packet(s.done), "")
}

// headerLen is the number of octets of a ULPDU of n octets that are looked at.
func headerLen(u []byte, n int) int {
	op := rdmap.ParseControl(u[1]).Opcode
	switch {
	case op == rdmap.TerminateOp:
		return n
	case u[0]&0x80 != 0:
		return min(n, ddp.TaggedLen)
	}
	return min(n, ddp.UntaggedLen+op.HeaderLen())
}

const cutShort = "the capture has cut headers off"

// fpdu takes one FPDU and reports false if there is none in full.
func (h *half) fpdu() bool {
	s := &h.stream
	b := s.rest()
	pos := s.position(s.done)
	lead := 0
	if s.layout.Markers && pos%mpa.MarkerInterval == 0 {
		lead = mpa.MarkerLen
	}
	if len(b) < lead+mpa.LengthLen {
		return false
	}
	if s.unknown(s.done, s.done+uint64(lead+mpa.LengthLen)) {
		h.lacks(s.packet(s.done), cutShort)
		s.state = streamDead
		return false
	}
	n := int(be.Uint16(b[lead:]))
	x := fpdu{at: s.done, ulpdu: n, size: s.layout.FPDULen(pos, n), packet: s.packet(s.done + uint64(lead))}
	if n > mpa.MaxMULPDU && !h.blamePrior() {
		h.violate(fpduTooLong, x.packet, "%d", n)
	}
	if s.state != streamFull || len(b) < x.size {
		if s.layout == (mpa.Layout{}) && len(b) > mpa.LengthLen+1 && !looksLikeFPDU(b) {
			h.blamePrior()
		}
		return false
	}
	layout, whole := s.layout, !s.unknown(x.at, x.at+uint64(x.size))
	if !whole {
		if layout.Markers || s.unknown(x.at, x.at+uint64(mpa.LengthLen+headerLen(b[mpa.LengthLen:x.size], n))) {
			h.lacks(x.packet, cutShort)
			s.state = streamDead
			return false
		}
		layout.CRC = false
		h.c.in.note(x.packet, "the capture has cut payload off: CRCs of such FPDUs are not judged")
	}
	u, size, err := layout.ParseFPDU(b[:x.size], pos, make([]byte, n))
	if err != nil || size == 0 {
		h.badFPDU(&x, err)
		return false
	}
	if !layout.CRC && !plausible(u) && h.blamePrior() {
		return false
	}
	if s.prior.size == 0 && !s.resumed {
		h.firstFPDU(u, x.packet)
	}
	h.stat.FPDUs++
	if whole {
		h.trailer(&x, b[:x.size], pos)
	}
	s.prior = x
	h.segment(u, x.packet, whole)
	if s.state == streamFull {
		s.done += uint64(x.size)
	}
	return s.state == streamFull
}

// firstFPDU: RFC 5044 section 7.1.2, rule 4, and what a rejection leaves. By RFC
// 6581 sections 9.1 and 9.3 a Terminate may tell why start-up failed.
func (h *half) firstFPDU(u []byte, packet int) {
	c, o := h.c, h.peer()
	switch {
	case c.req.Enhanced && len(u) > 1 && rdmap.ParseControl(u[1]).Opcode == rdmap.TerminateOp:
	case c.reply.Reject:
		h.violate(mpaAfterReject, packet, "")
	case h.side != c.initiator && o.stream.prior.size == 0 && o.followed():
		h.violate(mpaRespFirst, packet, "")
	}
}

// missing tells whether the capture lacks octets in front of others, or of those
// that the peer acknowledges, or their beginnings.
func (h *half) missing() bool {
	late := h.peer().unsent
	return !h.begun || h.cut != 0 || h.stream.resumed || len(h.order.Gap) > 0 || h.order.Next.Less(h.most) ||
		len(late) > 0 && h.most.Less(late[len(late)-1].end)
}

// followed tells whether everything that the side has sent so far was seen and
// judged.
func (h *half) followed() bool { return h.recorded() && !h.mute && !h.c.blind }

// recorded tells whether all its segments were seen. An FPDU of which a part has
// come may have a wrong length.
func (h *half) recorded() bool {
	return h.stream.state == streamFull && !h.missing() && len(h.stream.rest()) == 0
}

// trailer looks at pad and markers of a good FPDU.
func (h *half) trailer(x *fpdu, b []byte, pos uint64) {
	s := &h.stream
	end := x.at + uint64(x.size)
	sure := s.layout.CRC || s.begins(end) || end == s.end() || looksLikeFPDU(s.at(end)) // of where it ends
	if sure && s.layout.Trailer(b, pos).Pad != [3]byte{} {
		h.violate(fpduPad, s.packet(x.at+uint64(x.size)-5), "")
	}
	h.markers(x, b, pos, func(at uint64, m []byte, _ uint16) {
		if be.Uint16(m) != 0 {
			h.violate(markerResvd, s.packet(at), "%#04x", be.Uint16(m))
		}
		if m[3]&3 != 0 {
			h.violate(markerLow, s.packet(at), "")
		}
	})
}

// markers calls each for the markers of an FPDU, with what FPDUPTR is to be.
func (h *half) markers(x *fpdu, b []byte, pos uint64, each func(at uint64, m []byte, ptr uint16)) {
	if !h.stream.layout.Markers {
		return
	}
	start := 0
	if pos%mpa.MarkerInterval == 0 {
		start = mpa.MarkerLen
	}
	for at := int(-pos % mpa.MarkerInterval); at+mpa.MarkerLen <= len(b); at += mpa.MarkerInterval {
		each(x.at+uint64(at), b[at:at+mpa.MarkerLen], uint16(max(at-start, 0)))
	}
}

// badFPDU finds out which field made CRC or markers wrong.
func (h *half) badFPDU(x *fpdu, err error) {
	s := &h.stream
	pos := s.position(x.at)
	if h.blameLength(x) {
		return
	}
	if e, ok := err.(*mpa.Error); ok && e.Code == mpa.Marker {
		h.markers(x, s.at(x.at)[:x.size], pos, func(at uint64, m []byte, ptr uint16) {
			if got := be.Uint16(m[2:]) &^ 3; got != ptr {
				h.violate(markerPtr, s.packet(at), "%d instead of %d", got, ptr)
			}
		})
		s.state = streamDead
		return
	}
	h.stat.CRCErrors++
	h.violate(fpduCRC, s.packet(x.at+uint64(x.size)-1), "")
}

// blamePrior tells, where no FPDU begins, whether that is the fault of the
// FPDU in front: its length field is then at fault.
func (h *half) blamePrior() bool {
	s := &h.stream
	return s.prior.size > 0 && !s.begins(s.done) && h.blameLength(&s.prior)
}

// blameLength blames the length field of x if another length would make it end
// where its segment does, and there an FPDU begins or nothing more comes.
func (h *half) blameLength(x *fpdu) bool {
	s := &h.stream
	end := s.segmentEnd(x.at)
	pos, size := s.position(x.at), int(end-x.at)
	if size == x.size || size < mpa.Overhead+ddp.TaggedLen || x.at < s.base {
		return false
	}
	at := 0
	if s.layout.Markers && pos%mpa.MarkerInterval == 0 {
		at = mpa.MarkerLen
	}
	rest := s.at(end)
	for n := min(size-mpa.Overhead, mpa.MaxULPDU); n > size-mpa.Overhead-size/64-8 && n > 0; n-- {
		if s.layout.FPDULen(pos, n) != size {
			continue
		}
		b := bytes.Clone(s.at(x.at)[:size])
		be.PutUint16(b[at:], uint16(n))
		u, _, err := s.layout.ParseFPDU(b, pos, make([]byte, n))
		fits := plausible(u) && (len(rest) == 0 || looksLikeFPDU(rest))
		if err == nil && u != nil && (s.layout.CRC || fits) {
			h.violate(fpduLength, x.packet, "%d; the segment holds %d", x.ulpdu, n)
			return true
		}
	}
	return false
}

// looksLikeFPDU tells whether b may begin with an FPDU without markers.
func looksLikeFPDU(b []byte) bool {
	if len(b) < mpa.LengthLen+2 {
		return false
	}
	n := int(be.Uint16(b))
	return n >= ddp.TaggedLen && n <= mpa.MaxMULPDU && plausibleControl(b[mpa.LengthLen:])
}

// plausible tells whether u has the control fields of a DDP segment.
func plausible(u []byte) bool {
	_, _, err := ddp.Parse(u)
	return err == nil && plausibleControl(u)
}

func plausibleControl(u []byte) bool {
	c := rdmap.ParseControl(u[1])
	return u[0]&3 == ddp.Version && u[0]>>2&15 == 0 && c.Version == rdmap.Version && c.Reserved == 0 &&
		c.Opcode.Valid() && c.Opcode.Tagged() == (u[0]&0x80 != 0)
}

// ended judges what is open when the FIN has come in order.
func (h *half) ended(packet int) {
	s := &h.stream
	n := len(s.rest())
	switch {
	case n == 0:
	case h.c.scsi != nil:
		h.c.scsi.Ended(h.side, packet, n)
	case s.state == streamStart && (h.c.flow.Protocol != "iWARP" || s.guess || h.peer().missing()):
	case s.state == streamStart:
		h.violate(streamInFrame, s.packet(s.done), "%d octets of it", n)
	case s.state == streamFull && h.c.reply != nil:
		x := h.open()
		if !h.blameOpen(&x) {
			h.violate(streamInFPDU, packet, "%d octets of %d", n, x.size)
		}
	}
}

// blameOpen finds out whether a wrong length is why x is not complete.
func (h *half) blameOpen(x *fpdu) bool {
	if b := h.stream.rest(); len(b) > mpa.LengthLen+1 && !looksLikeFPDU(b) && h.blamePrior() {
		return true
	}
	return h.blameLength(x)
}

// open is the FPDU of which octets wait for the rest.
func (h *half) open() fpdu {
	s := &h.stream
	x := fpdu{at: s.done, packet: s.packet(s.done)}
	if b := s.rest(); len(b) >= mpa.LengthLen {
		x.ulpdu = int(be.Uint16(b))
		x.size = s.layout.FPDULen(s.position(s.done), x.ulpdu)
	}
	return x
}

// left judges what is open at the end of the capture.
func (h *half) left() {
	s := &h.stream
	n := len(s.rest())
	switch {
	case n == 0 || s.state == streamOther:
	case s.state == streamFull && h.c.reply != nil:
		x := h.open()
		if more := s.segmentEnd(x.at) < s.end(); h.cut != 0 || !more || !h.blameOpen(&x) {
			h.c.in.note(s.packet(s.done), "the capture ends inside an FPDU")
		}
	case s.state == streamStart && h.c.req != nil && h.peer().stream.state != streamDead:
		h.c.in.note(s.packet(s.done), "the capture ends inside an MPA start-up frame")
	}
}
