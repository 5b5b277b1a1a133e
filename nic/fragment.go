package nic

import (
	"net/netip"
	"time"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// Bounds of reassembly.
const (
	maxDatagrams    = 16
	maxPieces       = 128 // fragments per datagram: 64 KiB at an MTU of 576
	maxHeld         = 256 // fragments in all
	reassembleFor   = 30 * time.Second
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
func (d *Device) fragmentIn() verdict {
	in, r := &d.in, &d.fragments
	p := piece{off: int(in.ip.FragOffset), end: int(in.ip.FragOffset) + len(in.body), body: in.body, packet: in.packet, f: in.f}
	// RFC 8200 section 4.5: whole units of 8 octets, and no more than fits.
	if p.off == p.end || in.ip.MF && len(in.body)%8 != 0 || p.end+ip.HeaderLen4 > maxDatagramSize {
		return d.refuse(drop.Fragment)
	}
	if r.held >= maxHeld {
		d.abandon(r.list[0])
	}
	g := r.find(&in.ip)
	if g == nil {
		if len(r.list) >= maxDatagrams {
			d.abandon(r.list[0])
		}
		g = r.begin(&in.ip, d.now.Add(reassembleFor))
	}
	if d.notes.On {
		d.notes.Addf("fragment of datagram %d: octets %d-%d", g.id.id, p.off, p.end-1)
	}
	switch g.insert(p, in.ip.MF) {
	case pieceKnown:
		return d.refuse(drop.Fragment)
	case pieceBad:
		d.abandon(g)
		return d.refuse(drop.Fragment)
	}
	r.held++
	if p.off == 0 {
		g.head = in.ip
	}
	if g.octets != g.total {
		return kept
	}
	r.remove(g)
	in.whole = g
	return d.reassemble(g)
}

// reassemble hands the whole datagram to the upper layer.
func (d *Device) reassemble(g *datagram) verdict {
	in := &d.in
	f := d.get(g.total)
	if f == nil {
		return d.drop(drop.NoBuffer)
	}
	defer f.Release()
	for _, p := range g.pieces {
		f.Append(p.body)
	}
	in.ip, in.off = g.head, frame.Offload{}
	body, err := in.ip.Reassembled(f.Bytes())
	if err != nil {
		return d.refuse(parseDrop(err))
	}
	in.body = body
	return d.upper()
}

func (r *reassembler) find(h *ip.Header) *datagram {
	id := identify(h)
	for _, g := range r.list {
		if g.id == id {
			return g
		}
	}
	return nil
}

func identify(h *ip.Header) datagramID {
	if h.Version == 4 {
		return datagramID{h.Src, h.Dst, h.Proto, uint32(h.ID)}
	}
	return datagramID{src: h.Src, dst: h.Dst, id: h.FragID}
}

func (r *reassembler) begin(h *ip.Header, deadline frame.Time) *datagram {
	g := &datagram{id: identify(h), deadline: deadline}
	r.list = append(r.list, g)
	return g
}

func (r *reassembler) remove(g *datagram) {
	for i, h := range r.list {
		if h == g {
			r.list = append(r.list[:i], r.list[i+1:]...)
			r.held -= len(g.pieces)
			return
		}
	}
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
	g.pieces = append(g.pieces, piece{})
	copy(g.pieces[at+1:], g.pieces[at:])
	g.pieces[at] = p
	return pieceTaken
}

// abandon gives up on g: its fragments are dropped, or left to the operating
// system.
func (d *Device) abandon(g *datagram) {
	d.fragments.remove(g)
	if d.host.link != nil {
		d.settle(g, toHost)
		return
	}
	for range g.pieces {
		d.drops.Count(drop.Fragment)
	}
	d.settle(g, dropped)
}

// expire gives up on what has waited too long and tells the sender (RFC 1122
// section 3.3.2, RFC 8200 section 4.5).
func (r *reassembler) expire(d *Device) {
	for len(r.list) > 0 && r.list[0].deadline <= d.now {
		g := r.list[0]
		if d.host.link == nil && g.pieces[0].off == 0 {
			typ := icmp.TimeExceeded4
			if g.head.Version == 6 {
				typ = icmp.TimeExceeded6
			}
			d.sendErrorAbout(&g.head, g.pieces[0].packet, typ, 1)
		}
		d.abandon(g)
	}
}

func (r *reassembler) next() frame.Time {
	if len(r.list) == 0 {
		return frame.Never
	}
	return r.list[0].deadline
}
