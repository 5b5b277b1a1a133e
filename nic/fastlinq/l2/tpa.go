package l2

import (
	"bytes"
	"encoding/binary"

	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// TPAParams are those of the aggregation of received TCP segments (sge_tpa_params).
type TPAParams struct {
	IPv4, IPv6       bool // for which it is on
	MaxBuffersPerCQE int  // 0: as many as MaxSize takes
	MaxAggregations  int  // at a time
	MaxSize          int  // octets of an IP packet
	MinStart         int  // octets of payload that begin an aggregation
	MinContinue      int  // and that go on with one
}

// DefaultTPA are those that drivers choose for an MTU.
func DefaultTPA(mtu int) TPAParams {
	return TPAParams{IPv4: true, IPv6: true, MaxAggregations: 64, MaxSize: 0xffff, MinStart: mtu / 2,
		MinContinue: mtu / 2}
}

func (p *TPAParams) check() error {
	if p.MaxAggregations < 0 || p.MaxAggregations > 64 || p.MaxSize < 0 || p.MaxSize > 0xffff ||
		p.MaxBuffersPerCQE < 0 {
		return status.Inval.Errorf("TPA of %d aggregations of %d octets", p.MaxAggregations, p.MaxSize)
	}
	return nil
}

// tpa is the aggregation of one vport.
type tpa struct {
	on   bool
	mode TPAMode
	TPAParams
	open []aggregation
}

func (t *tpa) update(p *TPAParams, mode TPAMode) {
	t.TPAParams, t.mode = *p, mode
	t.on = mode != TPANone && (p.IPv4 || p.IPv6) && p.MaxAggregations > 0
	if cap(t.open) < p.MaxAggregations {
		t.open = make([]aggregation, 0, p.MaxAggregations)
	}
}

// aggregation is the beginning of a TCP stream's next packet.
type aggregation struct {
	f    *frame.Frame
	q    *RxQueue
	cqe  CQE
	dst  ether.Addr
	s    segment // the first
	next uint32  // sequence number
	size int     // octets of payload in a segment
	segs int
	n    int // octets of payload
	push bool
}

// segment is where things lie in a TCP segment's frame.
type segment struct {
	l3, l4, payload, end int
	v6                   bool
}

// segmentOf is the packet in hand as a segment that could be put together with
// others; f holds it, perhaps without its tag.
func (fn *Function) segmentOf(v *vport, f *frame.Frame, c Csum) (s segment, ok bool) {
	p := &fn.pkt
	n := p.network()
	if !n.ports || n.Proto != ip.ProtoTCP || n.End-n.L4 < tcp.HeaderLen || p.off.GSO != frame.GSONone {
		return s, false
	}
	cut := len(p.Frame) - f.Len()
	s = segment{n.L3 - cut, n.L4 - cut, n.L4 - cut + int(p.Frame[n.L4+12]>>4)*4, n.End - cut, n.Version == 6}
	plain := s.l4-s.l3 == ip.HeaderLen4
	on := v.tpa.IPv4
	if s.v6 {
		plain, on = true, v.tpa.IPv6
	}
	flags := tcp.Flags(p.Frame[n.L4+13])
	ok = on && plain && s.payload >= s.l4+tcp.HeaderLen && s.payload < s.end && flags&^tcp.PSH == tcp.ACK
	if ok && c == CsumNone {
		c = p.verify(f)
	}
	return s, ok && c == CsumGood
}

// aggregate takes f, the packet in hand, if it begins or goes on with an
// aggregation. If not, what was put together of its stream goes first.
func (fn *Function) aggregate(v *vport, q *RxQueue, f *frame.Frame, cqe CQE) bool {
	t := &v.tpa
	s, ok := fn.segmentOf(v, f, cqe.Csum)
	n := fn.pkt.network()
	if !n.ports || n.Proto != ip.ProtoTCP {
		return false
	}
	b := f.Bytes()
	at := t.find(q, b, len(fn.pkt.Frame)-len(b), n)
	if at >= 0 {
		a := &t.open[at]
		if ok && s.end-s.payload >= t.MinContinue && a.takes(t, b, s) {
			if fn.extend(t, a, b, s) {
				f.Release()
				if a.closed(t) {
					fn.close(v, at)
				}
				return true
			}
		}
		v.stats.CoalescedAborts++
		fn.close(v, at)
	}
	if !ok || s.end-s.payload < t.MinStart || len(t.open) == t.MaxAggregations || tcp.Flags(b[s.l4+13])&tcp.PSH != 0 {
		v.stats.NonCoalescedPkts++
		return false
	}
	t.open = append(t.open, aggregation{f: f, q: q, cqe: cqe, dst: fn.pkt.dst, s: s, segs: 1,
		next: binary.BigEndian.Uint32(b[s.l4+4:]) + uint32(s.end-s.payload), size: s.end - s.payload,
		n: s.end - s.payload})
	fn.aggregations++
	return true
}

// find is the aggregation of a packet's stream, -1 if there is none; the frame b is
// cut octets shorter than what n was found in.
func (t *tpa) find(q *RxQueue, b []byte, cut int, n *packet) int {
	from, to := n.L3-cut+12, n.L3-cut+20
	if n.Version == 6 {
		from, to = n.L3-cut+8, n.L3-cut+40
	}
	l4 := n.L4 - cut
	for i := range t.open {
		a := &t.open[i]
		first := a.f.Bytes()
		at := a.s.l3 + from - (n.L3 - cut)
		if a.q == q && a.s.v6 == (n.Version == 6) && bytes.Equal(first[a.s.l4:a.s.l4+4], b[l4:l4+4]) &&
			bytes.Equal(first[at:at+to-from], b[from:to]) {
			return i
		}
	}
	return -1
}

// takes tells whether a segment goes on where the aggregation ends, with the
// same headers. All segments have the same size, but for the last, unless the
// mode is RSC.
func (a *aggregation) takes(t *tpa, b []byte, s segment) bool {
	first := a.f.Bytes()
	n := s.end - s.payload
	switch {
	case s.l3 != a.s.l3 || s.l4 != a.s.l4 || s.payload != a.s.payload || !bytes.Equal(first[:s.l3], b[:s.l3]):
		return false
	case binary.BigEndian.Uint32(b[s.l4+4:]) != a.next || a.n+n+s.payload-s.l3 > t.MaxSize:
		return false
	case t.mode == TPAGRO && n > a.size:
		return false
	case t.MaxBuffersPerCQE > 0 && a.q.buffers(s.payload+a.n+n) > t.MaxBuffersPerCQE:
		return false
	}
	return sameNetwork(first[s.l3:s.l4], b[s.l3:s.l4], s.v6) && sameTransport(first[s.l4:s.payload], b[s.l4:s.payload])
}

// sameNetwork compares type of service, flags and time to live.
func sameNetwork(a, b []byte, v6 bool) bool {
	if v6 {
		return bytes.Equal(a[:4], b[:4]) && a[7] == b[7]
	}
	return a[1] == b[1] && a[6] == b[6] && a[8] == b[8]
}

// sameTransport compares acknowledgement, window and options.
func sameTransport(a, b []byte) bool {
	return bytes.Equal(a[8:13], b[8:13]) && bytes.Equal(a[14:16], b[14:16]) && bytes.Equal(a[18:], b[18:])
}

// extend appends a segment's payload. The frame of the first becomes a large
// one; without memory for that there is no more.
func (fn *Function) extend(t *tpa, a *aggregation, b []byte, s segment) bool {
	if a.segs == 1 {
		g := fn.cfg.Pool.Get(s.l3 + t.MaxSize)
		if g == nil {
			a.q.Stats.AllocErrors++
			return false
		}
		g.Append(a.f.Bytes()[:a.s.end])
		g.ID, g.Stamp, g.Seen, g.Queue = a.f.ID, a.f.Stamp, a.f.Seen, a.f.Queue
		a.f.Release()
		a.f = g
	}
	n := s.end - s.payload
	a.f.Append(b[s.payload:s.end])
	a.push = tcp.Flags(b[s.l4+13])&tcp.PSH != 0
	a.segs++
	a.n += n
	a.next += uint32(n)
	if t.mode == TPARSC {
		a.size = max(a.size, n)
	}
	return true
}

// closed: nothing can follow.
func (a *aggregation) closed(t *tpa) bool {
	return a.push || t.mode == TPAGRO && a.n%a.size != 0
}

// close hands an aggregation to its queue.
func (fn *Function) close(v *vport, at int) {
	t := &v.tpa
	a := t.open[at]
	t.open[at] = t.open[len(t.open)-1]
	t.open[len(t.open)-1] = aggregation{}
	t.open = t.open[:len(t.open)-1]
	fn.aggregations--
	if a.segs > 1 {
		a.seal()
		a.cqe.Segments = a.segs
		v.stats.CoalescedEvents++
		v.stats.CoalescedPkts += uint64(a.segs)
		v.stats.CoalescedBytes += uint64(a.n)
	} else {
		v.stats.NonCoalescedPkts++
	}
	if r := a.q.receive(a.dst, a.f, a.cqe); r != frame.DropNone {
		a.q.lose(a.f, r, a.segs)
	}
}

// seal writes lengths and sums of the packet that was put together, and says how
// to cut it again.
func (a *aggregation) seal() {
	b, s := a.f.Bytes(), a.s
	h, t := b[s.l3:s.l4], b[s.l4:]
	pseudo := uint32(ip.ProtoTCP) + uint32(len(t))
	off := frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, HdrLen: uint16(s.payload), GSOSize: uint16(a.size),
		CsumStart: uint16(s.l4), CsumOffset: tcp.ChecksumOffset}
	if s.v6 {
		off.GSO = frame.GSOTCPv6
		binary.BigEndian.PutUint16(h[4:], uint16(len(t)))
		pseudo = ip.Sum(h[8:40], pseudo)
	} else {
		binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(t)))
		binary.BigEndian.PutUint16(h[10:], 0)
		binary.BigEndian.PutUint16(h[10:], ip.Checksum(h, 0))
		pseudo = ip.Sum(h[12:20], pseudo)
	}
	if a.push {
		t[13] |= byte(tcp.PSH)
	}
	binary.BigEndian.PutUint16(t[tcp.ChecksumOffset:], ip.Fold(pseudo))
	a.f.Offload = off
}

// Flush hands over what was put together so far: at the end of a batch nothing
// waits for segments that may not come.
func (fn *Function) Flush() {
	if fn.aggregations == 0 {
		return
	}
	for _, v := range fn.started {
		fn.flush(v)
	}
}

func (fn *Function) flush(v *vport) {
	for len(v.tpa.open) > 0 {
		fn.close(v, 0)
	}
}
