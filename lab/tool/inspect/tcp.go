package inspect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tapir/lab/tool/inspect/scsi"
	"tapir/mpa"
	"tapir/wire/ip"
	"tapir/wire/stream"
	"tapir/wire/tcp"
)

type connKey struct {
	iface int
	ends  stream.Ends
}

// conn is a TCP connection.
type conn struct {
	in    *Inspector
	flow  *Flow
	half  [2]*half // 0: whose address is Flow.A
	reads [2][]readRequest
	reply *mpa.Frame
	req   *mpa.Frame
	scsi  *scsi.Conn // nil: not iSCSI
	above above      // RDMA
	rtt   RTT

	again   Packet     // with a SYN that may open another connection
	opening tcp.Header // of that SYN

	initiator  int // side that sent the request
	over       bool
	ended      int64 // time of the first packet behind its end
	done       bool
	blind      bool // what was asked for is not known in full
	terminated [2]bool
}

// half is one direction of a connection, by its sender.
type half struct {
	c    *conn
	side int
	addr netip.AddrPort
	stat *Side

	begun   bool // the SYN was seen, or its sequence number is known
	opened  bool // the SYN was seen, with its options
	isn     tcp.Seq
	most    tcp.Seq // behind everything seen
	edge    tcp.Seq // of the window that this side offers
	acked   tcp.Seq // highest that this side acknowledges
	hasEdge bool
	shrank  bool // it has moved back
	shut    bool // the window was 0 lately
	spoke   int  // packet of the latest acknowledgement
	scales  bool
	scale   uint8
	mss     int
	fin     bool
	finAt   tcp.Seq
	rst     bool
	cut     int // packet from which the capture lacks octets, 0 if none
	order   stream.Order[origin]
	sample  struct {
		open bool
		end  tcp.Seq
		at   int64
	}
	beyond []suspect // octets beyond the window, if nobody ever acknowledges them
	unsent []suspect // acknowledgements of octets that were not seen, if none ever follow

	stream fpduStream
	rdma   rdmaState
	mute   bool // a violation is behind which no more messages are judged
}

// origin is where a segment comes from, and how many octets of it are known: the
// capture has cut the rest off.
type origin struct{ packet, known int }

type segment = stream.Segment[origin]

// suspect is a segment that may be at fault. Sure tells, of an acknowledgement,
// that its sender has acknowledged less later on.
type suspect struct {
	packet int
	seq    tcp.Seq
	end    tcp.Seq
	length int
	sure   bool
}

// tcp takes a segment of a packet.
func (i *Inspector) tcp(p *Packet, h *ip.Header, b []byte, cut bool) {
	t, payload, err := tcp.Parse(b)
	if err != nil {
		if !cut {
			i.violate(tcpHeader, p.Number, nil, "")
		}
		return
	}
	src, dst := netip.AddrPortFrom(h.Src, t.SrcPort), netip.AddrPortFrom(h.Dst, t.DstPort)
	c, side := i.conn(p, &t, src, dst)
	c.flow.Packets++
	c.flow.Last = p.Number
	s := c.half[side]
	s.stat.Packets++
	i.leave(p.Time)
	if c.done {
		return
	}
	if c.over && c.ended == 0 {
		c.ended = p.Time
		i.over = append(i.over, c)
	}
	if !cut && !i.checksum(p, h, &t, b, c) {
		return // nobody takes such a segment
	}
	if t.Flags&0xe00 != 0 {
		i.violate(tcpReserved, p.Number, c.flow, "%#x", uint16(t.Flags>>9))
	}
	length := h.PayloadLen - (len(b) - len(payload))
	s.control(p, &t)
	s.ack(p, &t, length)
	s.data(p, &t, payload, length)
}

// checksum verifies the TCP checksum. A sum over the pseudo-header alone is
// what hosts leave to their hardware, and captures on them show.
func (i *Inspector) checksum(p *Packet, h *ip.Header, t *tcp.Header, b []byte, c *conn) bool {
	pseudo := ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(b))
	if ip.Checksum(b, pseudo) == 0 {
		return true
	}
	if t.Checksum == ip.Fold(pseudo) {
		i.note(p.Number, "TCP checksums are left to the sender's hardware: not judged")
		return true
	}
	i.violate(tcpChecksum, p.Number, c.flow, "")
	return false
}

// conn finds the connection of a segment and the side that sent it.
func (i *Inspector) conn(p *Packet, t *tcp.Header, src, dst netip.AddrPort) (*conn, int) {
	k := connKey{p.Interface, stream.EndsOf(src, dst)}
	c := i.conns[k]
	opens := t.Flags.Has(tcp.SYN) && !t.Flags.Has(tcp.ACK)
	switch {
	case c == nil:
	case opens && c.half[0].begun && (c.half[0].addr != src || c.half[0].isn != t.Seq) && c.over:
		c.finish()
		c = nil // the ports are used again
	case opens:
		if h := c.half[c.side(src)]; h.begun && h.isn != t.Seq {
			c.again, c.opening = Packet{Number: p.Number, Time: p.Time, End: p.End}, *t
		}
	case t.Flags.Has(tcp.SYN) && c.again.Number > 0 && t.Ack == c.opening.Seq+1: // so they are, without an end
		c.finish()
		again, opening := c.again, c.opening
		c = i.newConn(&again, dst, src)
		i.conns[k] = c
		c.half[0].control(&again, &opening)
	}
	if c == nil {
		if t.Flags.Has(tcp.SYN) && !opens {
			src, dst = dst, src
		}
		c = i.newConn(p, src, dst)
		i.conns[k] = c
	}
	return c, c.side(src)
}

// side is that of an address.
func (c *conn) side(src netip.AddrPort) int {
	if c.half[0].addr == src {
		return 0
	}
	return 1
}

func (i *Inspector) newConn(p *Packet, a, b netip.AddrPort) *conn {
	f := &Flow{Number: len(i.report.Flows) + 1, Protocol: "TCP", A: a.String(), B: b.String(), First: p.Number,
		Sides: make([]Side, 2)}
	c := &conn{in: i, flow: f}
	for n, addr := range []netip.AddrPort{a, b} {
		c.half[n] = &half{c: c, side: n, addr: addr, stat: &f.Sides[n], rdma: newRDMAState()}
	}
	i.addFlow(p, f)
	f.first().sights = append(f.first().sights, c)
	i.order = append(i.order, c)
	return c
}

func (h *half) peer() *half { return h.c.half[1-h.side] }

// control takes SYN, RST and the options.
func (h *half) control(p *Packet, t *tcp.Header) {
	if t.Flags.Has(tcp.SYN) && (!h.begun || !h.opened && h.isn == t.Seq) {
		if h.opened = true; !h.begun {
			h.begin(t.Seq)
		}
		h.mss = int(t.Opts.MSS)
		h.scales, h.scale = t.Opts.HasWS, t.Opts.WS
		if t.Flags.Has(tcp.ACK) && !h.peer().begun {
			h.peer().begin(t.Ack - 1)
		}
		h.event(p.Number, p.Time, "TCP "+t.Flags.String(), "")
	}
	if t.Flags.Has(tcp.RST) {
		if !h.rst {
			h.event(p.Number, p.Time, "TCP RST", "")
		}
		h.rst, h.c.over = true, true
	}
}

func (h *half) begin(isn tcp.Seq) {
	h.begun, h.isn, h.order.Next, h.most = true, isn, isn+1, isn+1
}

// window is the window that t offers. It is scaled if both sides are for it.
func (h *half) window(t *tcp.Header) uint32 {
	if t.Flags.Has(tcp.SYN) || !h.scales || !h.peer().scales {
		return uint32(t.Window)
	}
	return uint32(t.Window) << h.scale
}

// ack takes the acknowledgement and the window of a segment with length octets.
func (h *half) ack(p *Packet, t *tcp.Header, length int) {
	if !t.Flags.Has(tcp.ACK) || t.Flags.Has(tcp.RST) || t.Flags.Has(tcp.SYN) && t.Seq != h.isn {
		return
	}
	o := h.peer()
	h.spoke, h.shut = p.Number, t.Window == 0
	if e := t.Ack.Add(int(h.window(t))); h.opened && o.opened && (!h.hasEdge || h.edge.Less(e)) {
		h.edge, h.hasEdge = e, true
	} else {
		h.shrank = h.shrank || e.Less(h.edge) && h.acked.LessEq(t.Ack)
	}
	if !o.begun {
		return
	}
	if n := len(h.unsent); n > 0 && !t.Flags.Has(tcp.SYN) {
		// Who sends more has sent it later: acknowledgements do not go back.
		l := &h.unsent[n-1]
		behind := l.seq.Add(l.length)
		l.sure = l.sure || t.Ack.Less(l.end) && (behind.Less(t.Seq) || behind == t.Seq && length > 0)
	}
	if o.most.Less(t.Ack) {
		h.unsent = append(h.unsent, suspect{packet: p.Number, seq: t.Seq, end: t.Ack, length: length})
		return
	}
	if h.acked == 0 || h.acked.Less(t.Ack) {
		h.acked = t.Ack
	}
	if o.sample.open && o.sample.end.LessEq(t.Ack) {
		o.sample.open = false
		h.c.rtt.add(time.Duration(p.Time - o.sample.at))
	}
}

// data takes the octets of a segment, length of them on the wire.
func (h *half) data(p *Packet, t *tcp.Header, b []byte, length int) {
	fin := t.Flags.Has(tcp.FIN)
	if !h.begun && !joins(h, t, b) {
		h.stream.guess = h.stream.guess || looksLikeFPDU(b)
		return
	}
	if length == 0 && !fin || t.Flags.Has(tcp.SYN) {
		return
	}
	end := t.Seq.Add(length)
	o := h.peer()
	if h.mss > 0 && o.mss > 0 && length > o.mss {
		h.stat.SuperFrames++
	}
	switch {
	case length == 1 && end == h.most && !fin:
		return // a keep-alive probe, whose octet may be any: RFC 9293 section 3.8.4
	case o.hasEdge && !o.shut && o.edge.Add(1).Less(end):
		h.beyond = append(h.beyond, suspect{packet: p.Number, end: end, length: length})
	case h.fin && h.finAt.Less(end):
		h.violate(tcpBehindFIN, p.Number, "")
		return
	}
	h.time(p, end, length)
	if length > 0 {
		h.put(p, t.Seq, b, length)
	}
	if h.most.Less(end) {
		h.most = end
	}
	if fin && !h.fin {
		h.fin, h.finAt = true, end
		h.event(p.Number, p.Time, "TCP FIN", "")
		h.most = end.Add(1)
	}
	h.closed(p)
}

// time takes a sample of the round trip from a segment that is new.
func (h *half) time(p *Packet, end tcp.Seq, length int) {
	switch {
	case length == 0:
	case end.LessEq(h.most):
		h.sample.open = false
	case !h.sample.open:
		h.sample.open, h.sample.end, h.sample.at = true, end, p.Time
	}
}

// closed tells the layers above of a FIN that is in order.
func (h *half) closed(p *Packet) {
	if h.fin && h.order.Next == h.finAt {
		h.order.Next++
		if h.peer().fin {
			h.c.over = true
		}
		if h.stream.state != streamDead {
			h.ended(p.Number)
		}
	}
}

// mostPending bounds the octets that wait for a gap to be closed.
const mostPending = 64 << 20

// put puts segments in order and hands the stream on. What the capture has cut
// off is made up for by zeros that nobody looks at.
func (h *half) put(p *Packet, seq tcp.Seq, b []byte, length int) {
	x := segment{Seq: seq, Data: b, Note: origin{p.Number, len(b)}}
	if len(b) < length {
		x.Data = append(bytes.Clone(b), make([]byte, length-len(b))...)
	}
	switch d := h.order.Next.Sub(seq); {
	case d < 0:
		h.stat.OutOfOrder++
		if len(b)+h.order.Waiting > mostPending {
			h.lacks(p.Number, "octets are missing from the capture")
			return
		}
		if h.order.Wait(x); !jumped(&h.order) {
			return
		}
		h.resume()
		x = h.order.Pop()
	case int(d) >= length:
		h.stat.Retransmissions++
	}
	for due := true; due; x, due = h.order.Due() {
		h.take(p, x)
	}
}

// A capture goes on elsewhere in the stream if segments follow one another
// behind a gap that no window has room for, or as many that nobody would wait
// for the gap any longer.
const (
	farGap  = 1 << 20
	manyGap = 1000
)

func jumped(o *stream.Order[origin]) bool {
	g := o.Gap
	if len(g) < 2 || g[0].Seq.Add(len(g[0].Data)) != g[1].Seq {
		return false
	}
	return g[0].Seq.Sub(o.Next) > farGap || len(g) > manyGap
}

// resume goes on behind a gap of the capture.
func (h *half) resume() {
	x := &h.order.Gap[0]
	gap := x.Seq.Sub(h.order.Next)
	if h.stream.state == streamFull && (h.stream.layout.Markers || !looksLikeFPDU(x.Data)) ||
		h.stream.state == streamStart {
		h.lacks(x.Note.packet, fmt.Sprintf("%d octets are missing from the capture", gap))
	}
	h.c.part(
		fmt.Sprintf("%d octets are missing from the capture before packet %d: what was under way then is not judged",
			gap, x.Note.packet))
	h.beyond, h.order.Next = nil, x.Seq
	h.peer().hasEdge = false
	h.stream.done, h.stream.since = h.stream.end(), h.stream.end()
	h.stream.prior = fpdu{}
	h.stream.resumed, h.c.blind = true, true
	h.c.reads = [2][]readRequest{}
	h.rdma.resume()
	if h.c.scsi != nil {
		h.c.scsi.Gap(h.side, x.Note.packet)
	}
	h.c.above.gap(h.side, x.Note.packet)
}

// take hands on what is new of a segment.
func (h *half) take(p *Packet, x segment) {
	d := int(h.order.Next.Sub(x.Seq))
	h.compare(x.Note.packet, x.Seq, x.Data[:min(d, x.Note.known)])
	b := h.order.Advance(x)
	if len(b) == 0 {
		return
	}
	h.stat.Octets += uint64(len(b))
	if h.cut == 0 {
		h.stream.append(b, max(0, x.Note.known-d), x.Note.packet, p.Time)
		h.arrived()
	}
}

// compare looks for octets that a retransmission has changed.
func (h *half) compare(packet int, seq tcp.Seq, b []byte) {
	off := int64(h.stream.end()) - int64(h.order.Next.Sub(seq)) // in the stream
	if h.fin && h.finAt.Less(h.order.Next) {
		off++ // of the FIN, which is none of it
	}
	from := max(off, int64(h.stream.base), int64(h.stream.since))
	if len(b) == 0 || h.cut != 0 || from >= off+int64(len(b)) {
		return
	}
	b = b[from-off:]
	had := h.stream.at(uint64(from))
	if !h.stream.unknown(uint64(from), uint64(from)+uint64(len(b))) && !bytes.Equal(b, had[:len(b)]) {
		h.violate(tcpChanged, packet, "")
	}
}

// lacks ends the replay of a direction of which the capture lacks octets.
func (h *half) lacks(packet int, why string) {
	if h.cut == 0 {
		h.cut = packet
		h.c.part(fmt.Sprintf("%s: not replayed from packet %d on", why, packet))
	}
}

// part makes the flow one that is judged only in part.
func (c *conn) part(why string) {
	if c.flow.Why == "" {
		c.flow.Why = why
		c.flow.State = Partly
	}
}

// violate reports that a packet of the direction breaks r, if the direction is
// still judged, and ends its judgement or its replay if r says so.
func (h *half) violate(r *Rule, packet int, format string, args ...any) {
	if !h.mute {
		h.c.in.violate(r, packet, h.c.flow, format, args...)
	}
	h.mute = h.mute || r.Last
	if r.Lost {
		h.stream.state = streamDead
	}
}

// lingers is how long a connection that is over is still judged, in nanoseconds:
// TIME-WAIT of RFC 9293 section 3.4.2 is twice 2 minutes.
const lingers = int64(4 * time.Minute)

// leave ends the judging of connections that have been over for long, so that an
// endless capture takes no more memory for them than a flow of the report does.
func (i *Inspector) leave(now int64) {
	for len(i.over) > 0 && now-i.over[0].ended > lingers {
		c := i.over[0]
		i.over = i.over[1:]
		c.finish()
		for _, h := range c.half {
			*h = half{c: c, side: h.side, addr: h.addr, stat: h.stat, begun: h.begun, isn: h.isn}
		}
		c.reads, c.above = [2][]readRequest{}, above{}
	}
}

// finish judges what only the end of the capture tells.
func (c *conn) finish() {
	if c.done {
		return
	}
	c.done = true
	for _, h := range c.half {
		h.finish()
	}
	c.above.finish(c.flow)
	if c.rtt.Samples > 0 {
		c.flow.RTT = &c.rtt
	}
	switch {
	case c.scsi != nil:
		c.finishISCSI()
	case c.half[0].stream.guess || c.half[1].stream.guess:
		c.flow.Protocol = "iWARP"
		c.flow.State, c.flow.Why = NotReplayed, "begins in mid-stream: not replayed from its start"
	case c.req == nil && c.flow.State == "":
		c.flow.State, c.flow.Why = NotRDMA, "not RDMA"
	case c.flow.State == "":
		c.flow.State = Replayed
	}
}

func (h *half) finish() {
	h.suspects()
	if len(h.order.Gap) > 0 {
		h.lacks(h.order.Gap[0].Note.packet, fmt.Sprintf("%d octets are missing from the capture", h.gap()))
	}
	if h.stream.state != streamDead {
		h.left()
	}
}

// gap is the number of octets that were never seen, in front of those that are
// where they may be.
func (h *half) gap() int {
	for _, x := range h.order.Gap {
		if !slices.ContainsFunc(h.beyond, func(s suspect) bool { return s.packet == x.Note.packet }) {
			return int(x.Seq.Sub(h.order.Next))
		}
	}
	return 0
}

// suspects judges what may be a capture's gap as well as a fault. A segment is
// beyond the window if no more than that segment is missing, and its receiver
// went on to say that it has no room for it; an acknowledgement is wrong if
// nothing is missing, and its sender took it back.
func (h *half) suspects() {
	o := h.peer()
	for _, s := range h.beyond {
		if gap := h.gap(); o.acked.Less(s.end) && (gap == 0 || gap == s.length) &&
			o.spoke > s.packet && !o.shrank && o.edge.Add(1).Less(s.end) {
			h.c.in.violate(tcpWindow, s.packet, h.c.flow,
				"the window ends %d octets before the segment does", s.end.Sub(o.edge))
		}
	}
	for _, s := range h.unsent {
		if s.sure && o.most.Less(s.end) && o.gap() == 0 && len(o.beyond) == 0 {
			h.c.in.violate(tcpAck, s.packet, h.c.flow, "by %d octets", s.end.Sub(o.most))
		}
	}
}

var be = binary.BigEndian
