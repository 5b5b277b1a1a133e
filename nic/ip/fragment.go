package ip

import (
	"net/netip"
	"slices"
	"time"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// Bounds of reassembly.
const (
	MaxDatagrams    = 16
	maxPieces       = 128 // fragments per datagram: 64 KiB at an MTU of 576
	MaxFragments    = 256 // fragments in all
	ReassembleFor   = 30 * time.Second
	maxDatagramSize = 65535
)

// datagramID tells which fragments belong together (RFC 791, RFC 8200 section
// 4.5).
type datagramID struct {
	src, dst netip.Addr
	proto    uint8 // IPv4 only
	id       uint32
}

// piece is one fragment: the octets [off, end) of the datagram's payload.
type piece struct {
	off, end int
	body     []byte
	packet   []byte
	f        *frame.Frame // owned
}

type datagram struct {
	id       datagramID
	deadline frame.Time
	pieces   []piece // by offset
	octets   int     // of all pieces
	total    int     // 0 until the last fragment has come
	head     ip.Header
}

// reassembler holds fragments until their datagram is whole, in the order in
// which the datagrams began and so by deadline.
type reassembler struct {
	list []*datagram
	held int // fragments
}

// fragmentIn takes the fragment in hand. When it completes its datagram, that
// goes on to the upper layer.
func (l *Layer) fragmentIn(p *Packet) Verdict {
	if f := p.fragmentFault(); f != nil {
		return l.reject(p, f)
	}
	r := &l.fragments
	part := piece{off: int(p.IP.FragOffset), end: int(p.IP.FragOffset) + len(p.Body), body: p.Body, packet: p.packet,
		f: p.Frame}
	if r.held >= MaxFragments {
		l.abandon(r.list[0], p.Now)
	}
	g := l.datagram(p)
	if l.env.Wire.Notes.On {
		l.env.Wire.Notes.Addf("fragment of datagram %d: octets %d-%d", g.id.id, part.off, part.end-1)
	}
	switch g.insert(part, p.IP.MF) {
	case pieceKnown:
		return p.Refuse(drop.Fragment)
	case pieceBad:
		l.abandon(g, p.Now)
		return p.Refuse(drop.Fragment)
	}
	r.held++
	if part.off == 0 {
		g.head = p.IP
	}
	if g.octets != g.total {
		return Held
	}
	r.remove(g)
	p.whole = g
	return l.reassemble(p, g)
}

// reassemble hands the whole datagram to the upper layer.
func (l *Layer) reassemble(p *Packet, g *datagram) Verdict {
	f := l.get(g.total)
	if f == nil {
		return p.Discard(drop.NoBuffer)
	}
	defer f.Release()
	for _, part := range g.pieces {
		f.Append(part.body)
	}
	p.IP, p.Off = g.head, frame.Offload{}
	body, err := p.IP.Reassembled(f.Bytes())
	if err != nil {
		return p.Refuse(parseDrop(err))
	}
	p.Body = body
	if fault := p.extensionFault(g.head.HeaderLen()); fault != nil {
		return l.reject(p, fault)
	}
	return l.upper(p)
}

// datagram finds that of the fragment in hand, or begins it; the oldest gives way.
func (l *Layer) datagram(p *Packet) *datagram {
	r, h := &l.fragments, &p.IP
	id := datagramID{src: h.Src, dst: h.Dst, id: h.FragID}
	if h.Version == 4 {
		id.proto, id.id = h.Proto, uint32(h.ID)
	}
	if i := slices.IndexFunc(r.list, func(g *datagram) bool { return g.id == id }); i >= 0 {
		return r.list[i]
	}
	if len(r.list) >= MaxDatagrams {
		l.abandon(r.list[0], p.Now)
	}
	g := &datagram{id: id, deadline: p.Now.Add(ReassembleFor)}
	r.list = append(r.list, g)
	return g
}

func (r *reassembler) remove(g *datagram) {
	i := slices.Index(r.list, g)
	r.list = slices.Delete(r.list, i, i+1)
	r.held -= len(g.pieces)
}

type insertion uint8

const (
	pieceTaken insertion = iota
	pieceKnown           // an exact duplicate
	pieceBad             // overlaps or contradicts: the datagram is lost (RFC 5722)
)

// insert puts p in its place; more tells that p is not the last fragment.
func (g *datagram) insert(p piece, more bool) insertion {
	at := len(g.pieces)
	for at > 0 && g.pieces[at-1].off >= p.off {
		at--
	}
	if at < len(g.pieces) && g.pieces[at].off == p.off && g.pieces[at].end == p.end {
		return pieceKnown
	}
	switch {
	case len(g.pieces) >= maxPieces,
		at > 0 && g.pieces[at-1].end > p.off,
		at < len(g.pieces) && g.pieces[at].off < p.end,
		g.total != 0 && (p.end > g.total || !more),
		!more && at < len(g.pieces):
		return pieceBad
	}
	if !more {
		g.total = p.end
	}
	g.octets += p.end - p.off
	g.pieces = slices.Insert(g.pieces, at, p)
	return pieceTaken
}

// abandon gives up on g: its fragments are dropped, or left to the operating
// system.
func (l *Layer) abandon(g *datagram, now frame.Time) {
	l.fragments.remove(g)
	if !l.shared() {
		for range g.pieces {
			l.env.Wire.Drops.Count(drop.Fragment)
		}
	}
	l.release(g, l.shared(), now)
}

// DiscardFragments gives up on all fragments that are held.
func (l *Layer) DiscardFragments(now frame.Time) {
	for len(l.fragments.list) > 0 {
		l.abandon(l.fragments.list[0], now)
	}
}

// Held is the number of datagrams that are not whole, and of their fragments.
func (l *Layer) Held() (datagrams, fragments int) { return len(l.fragments.list), l.fragments.held }

// release releases the fragments of a datagram, or leaves them to the operating
// system.
func (l *station) release(g *datagram, host bool, now frame.Time) {
	for _, p := range g.pieces {
		if host {
			l.env.Host(p.f, now)
		} else {
			p.f.Release()
		}
	}
}

// expire gives up on what has waited too long and tells the sender (RFC 1122
// section 3.3.2, RFC 8200 section 4.5).
func (r *reassembler) expire(l *Layer, now frame.Time) {
	for len(r.list) > 0 && r.list[0].deadline <= now {
		g := r.list[0]
		if first := &g.pieces[0]; !l.shared() && first.off == 0 && !isReport(&g.head, first.body) {
			typ := icmp.TimeExceeded4
			if g.head.Version == 6 {
				typ = icmp.TimeExceeded6
			}
			l.sendErrorAbout(&g.head, first.packet, icmp.Message{Type: typ, Code: 1}, now)
		}
		l.abandon(g, now)
	}
}

func (r *reassembler) next() frame.Time {
	if len(r.list) == 0 {
		return frame.Never
	}
	return r.list[0].deadline
}
