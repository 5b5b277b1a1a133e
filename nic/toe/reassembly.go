package toe

import (
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// block is a range of stream offsets, [left, right).
type block struct{ left, right uint64 }

// piece is data received out of order, copied to a frame of the pool, or only
// its place if an EarlyReceiver has taken it.
type piece struct {
	prev, next *piece
	off, n     uint64
	f          *frame.Frame
}

// takenCost is what a piece without a frame counts for, so that their number
// is bounded, too.
const takenCost = 512

func (p *piece) end() uint64 { return p.off + p.n }

func (p *piece) memory() int {
	if p.f == nil {
		return takenCost
	}
	return p.f.Cap()
}

// held is the number of octets that p keeps.
func (p *piece) held() int {
	if p.f == nil {
		return 0
	}
	return p.f.Len()
}

// reassembly holds a connection's out-of-order data as disjoint pieces in
// order, and the ranges to report in SACK blocks, the most recent first.
type reassembly struct {
	head, tail *piece
	octets     int // data held
	memory     int // backing arrays held, and takenCost for each other piece
	blocks     [maxBlocks]block
	nblocks    int
	fresh      int              // blocks at the front that no acknowledgement has reported
	dsacks     [maxDSACKs]block // duplicates to be reported once, each by its own acknowledgement (RFC 2883)
	ndsacks    int
}

// maxDSACKs is how many duplicates of one batch are reported.
const maxDSACKs = 8

// repeated notes a duplicate; the last one of those that are too many is lost.
func (r *reassembly) repeated(b block) {
	r.dsacks[min(r.ndsacks, maxDSACKs-1)] = b
	r.ndsacks = min(r.ndsacks+1, maxDSACKs)
}

// maxBlocks is how many ranges are remembered. More than one SACK option holds,
// because one acknowledgement may answer a whole batch of segments.
const maxBlocks = 16

// insert copies what is new of data at off, or lets early take it.
func (r *reassembly) insert(c *Conn, early EarlyReceiver, off uint64, data []byte, now frame.Time) frame.DropReason {
	p := r.tail
	for p != nil && p.off > off {
		p = p.prev
	}
	left, right := off, off+uint64(len(data))
	held := 0
	for off < right {
		if p != nil && p.end() > off {
			n := min(p.end(), right) - off
			off, data = off+n, data[n:]
			continue
		}
		next := r.head
		if p != nil {
			next = p.next
		}
		n := right - off
		if next != nil && next.off < right {
			n = next.off - off
		}
		if n > 0 {
			var why frame.DropReason
			if p, why = r.add(c, early, p, off, data[:n], now); why != frame.DropNone {
				return why
			}
			held += int(n)
			off, data = off+n, data[n:]
		}
		if off < right {
			p = next
		}
	}
	if held == 0 {
		r.repeated(block{left, right})
		return frame.DropTCPDuplicate
	}
	r.note(block{left, right})
	return frame.DropNone
}

// add puts data behind piece p (nil: at the front) and returns its piece.
func (r *reassembly) add(c *Conn, early EarlyReceiver, p *piece, off uint64, data []byte, now frame.Time) (*piece, frame.DropReason) {
	e := c.e
	behind := p != nil && p.end() == off
	if behind && p.f != nil && early == nil && p.f.Tailroom() >= len(data) {
		return r.extend(e, p, data), frame.DropNone
	}
	if r.memory > 2*e.cfg.RcvWnd || e.reassembly > e.cfg.MaxReassembly {
		return nil, frame.DropReassembly
	}
	taken := 0
	if early != nil {
		taken = early.ReceiveEarly(c, off, data, now)
	}
	switch {
	case taken == 0:
	case behind && p.f == nil:
		p.n += uint64(taken)
	default:
		p = r.link(e, p, piece{prev: p, off: off, n: uint64(taken)})
	}
	if off, data = off+uint64(taken), data[taken:]; len(data) == 0 {
		return p, frame.DropNone
	}
	if behind && taken == 0 && p.f != nil && p.f.Tailroom() >= len(data) {
		return r.extend(e, p, data), frame.DropNone
	}
	f := e.pool.Get(len(data))
	if f == nil {
		return nil, frame.DropNoBuffer
	}
	f.Append(data)
	e.stats.BytesHeld += uint64(len(data))
	return r.link(e, p, piece{prev: p, off: off, n: uint64(len(data)), f: f}), frame.DropNone
}

// extend appends data to piece p.
func (r *reassembly) extend(e *Engine, p *piece, data []byte) *piece {
	e.stats.BytesHeld += uint64(len(data))
	p.f.Append(data)
	p.n += uint64(len(data))
	r.octets += len(data)
	return p
}

// link puts a new piece behind p (nil: at the front).
func (r *reassembly) link(e *Engine, p *piece, v piece) *piece {
	q := e.freePiece
	if q == nil {
		q = new(piece)
	} else {
		e.freePiece = q.next
	}
	*q = v
	if p != nil {
		q.next, p.next = p.next, q
	} else {
		q.next, r.head = r.head, q
	}
	if q.next != nil {
		q.next.prev = q
	} else {
		r.tail = q
	}
	r.octets += q.held()
	r.memory += q.memory()
	e.reassembly += q.memory()
	return q
}

// note makes b, joined with every reported range it touches, the most recent
// block (RFC 2018 section 4).
func (r *reassembly) note(b block) {
	kept, fresh := 0, 1
	var keep [maxBlocks]block
	for i, o := range r.blocks[:r.nblocks] {
		if o.left <= b.right && b.left <= o.right {
			b.left, b.right = min(b.left, o.left), max(b.right, o.right)
			continue
		}
		if i < r.fresh {
			fresh++
		}
		keep[kept] = o
		kept++
	}
	r.blocks[0] = b
	r.nblocks = 1 + copy(r.blocks[1:], keep[:kept])
	r.fresh = min(fresh, r.nblocks)
}

// pop returns the first piece if it begins at or below next; the caller
// passes it to free.
func (r *reassembly) pop(next uint64) *piece {
	p := r.head
	if p == nil || p.off > next {
		return nil
	}
	if r.head = p.next; r.head != nil {
		r.head.prev = nil
	} else {
		r.tail = nil
	}
	r.octets -= p.held()
	r.memory -= p.memory()
	return p
}

func (r *reassembly) free(e *Engine, p *piece) {
	e.reassembly -= p.memory()
	if p.f != nil {
		p.f.Release()
	}
	*p = piece{next: e.freePiece}
	e.freePiece = p
}

// trim forgets the reported ranges that are in order now.
func (r *reassembly) trim(next uint64) {
	kept, fresh := 0, 0
	for i, b := range r.blocks[:r.nblocks] {
		if b.left > next {
			r.blocks[kept] = b
			kept++
			if i < r.fresh {
				fresh++
			}
		}
	}
	r.nblocks, r.fresh = kept, fresh
}

// pending reports whether an acknowledgement has ranges to report.
func (r *reassembly) pending() bool { return r.nblocks > 0 || r.ndsacks > 0 }

// fill writes the SACK option: a duplicate first, then the most recent ranges.
// Ranges that no acknowledgement has reported yet come first the next time.
func (r *reassembly) fill(o *tcp.Options, base tcp.Seq) {
	limit := len(o.SACK)
	if o.HasTS {
		limit = 3 // what fits beside the timestamps
	}
	put := func(b block) {
		o.SACK[o.NSACK] = tcp.SACKBlock{Left: base + tcp.Seq(b.left), Right: base + tcp.Seq(b.right)}
		o.NSACK++
	}
	if r.ndsacks > 0 {
		put(r.dsacks[0])
		r.ndsacks = copy(r.dsacks[:], r.dsacks[1:r.ndsacks])
	}
	n := min(limit-o.NSACK, r.nblocks)
	for _, b := range r.blocks[:n] {
		put(b)
	}
	if r.fresh > n {
		var rest [maxBlocks]block
		copy(rest[:], r.blocks[:n])
		copy(r.blocks[:], r.blocks[n:r.nblocks])
		copy(r.blocks[r.nblocks-n:], rest[:n])
	}
	r.fresh = max(0, r.fresh-n)
}

func (r *reassembly) release(e *Engine) {
	for p := r.head; p != nil; {
		next := p.next
		r.free(e, p)
		p = next
	}
	*r = reassembly{}
}
