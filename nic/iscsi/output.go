package iscsi

import (
	"math/bits"

	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// Buffer is the data of a command; its last user gives it back.
type Buffer struct {
	b     []byte
	users int
	of    *Conn
	// Region is what RDMA knows the memory by, nil at first; its Release is called when the memory
	// is given up.
	Region interface{ Release() }
}

// Bytes is all of the memory, at the same place for good.
func (b *Buffer) Bytes() []byte { return b.b[:cap(b.b)] }

// pool keeps buffers by the logarithm of their size.
type pool struct {
	free [32][]*Buffer
	kept int // octets
}

// maxKept is how many octets of buffers a target keeps for later.
const maxKept = 32 << 20

func (p *pool) take(n int, of *Conn) *Buffer {
	class := bits.Len(uint(max(n, 512) - 1))
	list := p.free[class]
	var b *Buffer
	if k := len(list); k > 0 {
		b, p.free[class] = list[k-1], list[:k-1]
		p.kept -= cap(b.b)
	} else {
		b = &Buffer{b: make([]byte, 1<<class)}
	}
	b.b, b.users, b.of = b.b[:n], 1, of
	of.held += cap(b.b)
	return b
}

func (p *pool) drop(b *Buffer) {
	if b == nil {
		return
	}
	if b.users--; b.users > 0 {
		return
	}
	b.of.held -= cap(b.b)
	b.of = nil
	if size := cap(b.b); p.kept+size <= maxKept {
		p.kept += size
		class := bits.Len(uint(size - 1))
		p.free[class] = append(p.free[class], b)
	} else if b.Region != nil {
		b.Region.Release()
	}
}

// piece is a PDU on its way: header, data that lies elsewhere, padding with digest.
type piece struct {
	head  [iscsi.HeaderLen + 4]byte
	tail  [3 + 4]byte
	heads uint8
	tails uint8
	data  []byte
	buf   *Buffer // of data; nil: its own
	begin uint64  // its first octet in the stream
}

func (p *piece) end() uint64 {
	return p.begin + uint64(p.heads) + uint64(len(p.data)) + uint64(p.tails)
}

// output is the stream that a connection sends, from the first octet that the peer has
// not acknowledged.
type output struct {
	pieces []piece // those before at are gone
	at     int
	end    uint64 // octets in all, ever
	una    uint64 // octets that the peer has
	plain  int    // pieces without the data of a command
	hw     Hardware
	posted int // pieces from the first on that are in the send queue, or were
	notes  *frame.Notes
}

// offload has the PDUs that are not sent yet go by the queues of hardware.
func (o *output) offload(hw Hardware) { o.hw, o.posted = hw, o.at }

// next is how many octets there are to send at off, at most limit.
func (o *output) next(off uint64, limit int) int {
	end := o.end
	if o.hw != nil {
		o.post()
		end = o.hw.Sendable()
		o.post()
	}
	return int(min(uint64(limit), max(end, off)-off))
}

// post puts PDUs into the send queue while it has room.
func (o *output) post() {
	for o.posted < len(o.pieces) && o.hw.Post(o.pieces[o.posted].end()) {
		o.posted++
	}
}

// full tells whether PDUs wait for the send queue.
func (o *output) full() bool {
	if o.hw == nil {
		return false
	}
	o.post()
	return o.posted < len(o.pieces)
}

// add appends a PDU. data is not copied, and must stay until it is acknowledged; buf is
// the buffer that it is part of, or nil.
func (o *output) add(h *iscsi.BHS, data []byte, buf *Buffer, d iscsi.Digests) {
	o.compact()
	o.pieces = append(o.pieces, piece{})
	p := &o.pieces[len(o.pieces)-1]
	h.SetDataLen(len(data))
	p.heads = uint8(len(d.Head(p.head[:0], h)))
	p.tails = uint8(len(d.Tail(p.tail[:0], data)))
	p.data, p.buf, p.begin = data, buf, o.end
	if buf != nil {
		buf.users++
	} else {
		o.plain++
	}
	o.end = p.end()
}

// compact makes room at the front when half of the slice is gone.
func (o *output) compact() {
	if o.at > 16 && o.at*2 > len(o.pieces) {
		n := copy(o.pieces, o.pieces[o.at:])
		clear(o.pieces[n:])
		o.pieces, o.posted, o.at = o.pieces[:n], o.posted-o.at, 0
	}
}

// render writes the octets from off on to dst.
func (o *output) render(off uint64, dst []byte) {
	lo, hi := o.at, len(o.pieces)
	for lo+1 < hi { // the last piece that begins at off or before
		if mid := (lo + hi) / 2; o.pieces[mid].begin <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	for i := lo; len(dst) > 0; i++ {
		p := &o.pieces[i]
		skip := int(off - p.begin)
		if skip == 0 && o.notes != nil && o.notes.On {
			h := iscsi.BHS(p.head[:iscsi.HeaderLen])
			note(o.notes, &h)
		}
		for _, part := range [3][]byte{p.head[:p.heads], p.data, p.tail[:p.tails]} {
			if skip >= len(part) {
				skip -= len(part)
				continue
			}
			n := copy(dst, part[skip:])
			dst, off, skip = dst[n:], off+uint64(n), 0
		}
	}
}

// acked lets go of what is before off.
func (o *output) acked(off uint64, pool *pool) {
	o.una = max(o.una, off)
	for o.at < len(o.pieces) && o.pieces[o.at].end() <= off {
		p := &o.pieces[o.at]
		if p.buf != nil {
			pool.drop(p.buf)
		} else {
			o.plain--
		}
		p.data, p.buf = nil, nil
		o.at++
	}
}
