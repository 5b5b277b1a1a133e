package l2

import (
	"encoding/binary"

	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// The way in, in packet order:
//
//  1. ether     header and tags (packet.go)
//  2. classify  which vports accept it (classify.go)
//  3. vport     MTU, time to live
//  4. steer     n-tuple rules, RSS, the vport's first queue
//  5. offload   tunnel recognized, checksum verified (offload.go), tag removed
//  6. tpa       segments of a TCP stream are put together (tpa.go)
//  7. queue     buffers, completion, status block

// Receive takes a frame of the port, unless it answers with why no vport has
// taken it: then the frame stays the caller's.
func (fn *Function) Receive(f *frame.Frame) frame.DropReason { return fn.receive(rx, f) }

// ReceiveLocal is Receive for a frame that a neighbor on the port sends: vports accept it
// as what others of the function send.
func (fn *Function) ReceiveLocal(f *frame.Frame) frame.DropReason { return fn.receive(tx, f) }

func (fn *Function) receive(d dir, f *frame.Frame) frame.DropReason {
	r := fn.pkt.parse(f)
	if r == frame.DropNone {
		r = fn.classify(d, nil)
	}
	if r == frame.DropNone {
		r = fn.deliverAll(f)
	}
	if r != frame.DropNone {
		fn.drops[rx].Count(r)
	}
	fn.pkt.Frame = nil
	return r
}

// Accepts tells whether a vport accepts a frame (borrowed) of one side: of the port, or
// of a neighbor. Frames come in flows: for a station that nobody was last time it costs
// one comparison.
func (fn *Function) Accepts(side Sides, f *frame.Frame) bool {
	b := f.Bytes()
	return len(b) >= ether.HeaderLen && binary.BigEndian.Uint64(b)>>16 != fn.foreign[side>>1] && fn.accepts(side, f)
}

func (fn *Function) accepts(side Sides, f *frame.Frame) bool {
	d := dir(side >> 1)
	if len(fn.started) == 0 {
		return false
	}
	dst := ether.Addr(f.Bytes()[:6])
	if k := makeKey(FilterMAC, dst, 0); !fn.inside && fn.strangers == 0 && !dst.IsMulticast() &&
		fn.tables[d].pairs == 0 && !fn.tables[d].find(FilterMAC, k).any() {
		fn.foreign[d] = k.mac
		return false
	}
	ok := fn.pkt.parse(f) == frame.DropNone && fn.classify(d, nil) == frame.DropNone
	fn.pkt.Frame = nil
	return ok
}

// Takers appends the vports that accept the frame that was classified last, by Accepts or
// before Config.Switched is called.
func (fn *Function) Takers(ids []int) []int {
	for _, v := range fn.to {
		ids = append(ids, v.id)
	}
	return ids
}

// deliverAll passes the frame in hand to all that accept it: the last takes it,
// the others get copies. It stays the caller's if nobody has taken any.
func (fn *Function) deliverAll(f *frame.Frame) (reason frame.DropReason) {
	taken, mine := false, false
	last := len(fn.to) - 1
	for i, v := range fn.to {
		g := f
		if i < last {
			g = fn.copy(f)
		}
		r := fn.deliver(v, g)
		switch {
		case r == frame.DropNone:
			taken = true
			mine = i == last
			continue
		case i < last && g != nil:
			g.Release()
		}
		v.drops[rx].Count(r)
		reason = r
	}
	switch {
	case !taken:
		return reason
	case !mine:
		f.Release()
	}
	return frame.DropNone
}

// deliver takes f, the packet in hand, for a vport, unless it answers why not.
func (fn *Function) deliver(v *vport, f *frame.Frame) frame.DropReason {
	p := &fn.pkt
	switch {
	case f == nil:
		return drop.NoBuffer
	case p.size() > v.mtu+Overhead:
		v.stats.PacketTooBigDiscard++
		return drop.Oversize
	case v.start.DropTTL0 && p.network().Version != 0 && p.TTL == 0:
		v.stats.TTL0Discard++
		return nicdrop.TTL
	}
	var cqe CQE
	q, r := fn.steer(v, &cqe)
	if r != frame.DropNone {
		return r
	}
	if fn.tunnelled {
		cqe.Tunnel = fn.tunnelOf(p)
	}
	if v.checksum {
		cqe.Csum = p.verify(f)
		q.judge(p, cqe.Csum)
	}
	v.strip(p, f, &cqe)
	if v.tpa.on && fn.aggregate(v, q, f, cqe) {
		return frame.DropNone
	}
	return q.receive(p.dst, f, cqe)
}

// steer is the queue that the packet in hand goes to, unless a rule drops it.
func (fn *Function) steer(v *vport, cqe *CQE) (q *RxQueue, r frame.DropReason) {
	if fn.rules.profile != ProfileNone {
		if q, r = fn.rule(v); r != frame.DropNone {
			return nil, r
		}
	}
	if len(v.rxq) > 1 {
		by, hash, kind := v.rss.queue(&fn.pkt)
		cqe.Hash, cqe.HashType = hash, kind
		if q == nil {
			q = by
		}
	}
	if q == nil {
		q = v.rxq[0]
	}
	return q, frame.DropNone
}

// receive takes a frame for the station dst, unless it answers why not.
func (q *RxQueue) receive(dst ether.Addr, f *frame.Frame, cqe CQE) frame.DropReason {
	n := f.Len()
	if r := q.complete(f, cqe); r != frame.DropNone {
		q.stats.stats.NoBuffDiscards++
		return r
	}
	q.stats.stats.received(dst, n)
	return frame.DropNone
}

// strip removes the tag if that is asked for.
func (v *vport) strip(p *packet, f *frame.Frame, cqe *CQE) {
	switch {
	case p.Tags > 0 && (v.innerRemoval || v.silent):
		b := f.Bytes()
		copy(b[ether.TagLen:], b[:12])
		f.TrimFront(ether.TagLen)
		shift(&f.Offload, -ether.TagLen)
		if !v.silent {
			cqe.Tagged, cqe.VLAN = true, p.TCI
		}
	case p.Tags == 0 && v.defaultVLAN.Enable:
		cqe.Tagged, cqe.VLAN = true, v.defaultVLAN.VLAN
	}
}

// shift moves what is left to do behind n octets of header more.
func shift(off *frame.Offload, n int) {
	if off.NeedsCsum {
		off.CsumStart += uint16(n)
	}
	if off.GSO != frame.GSONone {
		off.HdrLen += uint16(n)
	}
}

// complete takes f into the buffers that are posted, unless there are too few.
func (q *RxQueue) complete(f *frame.Frame, cqe CQE) frame.DropReason {
	n := q.buffers(f.Len())
	if n > MaxRxBuffers && cqe.Segments == 0 {
		q.Stats.Discarded++
		return drop.Oversize
	}
	if n > q.posted || !q.done.push(completion{f, cqe}) {
		q.Stats.Discarded++
		return drop.HostQueue
	}
	q.posted -= n
	q.held += n
	if q.fn.cfg.Fire != nil {
		q.fn.cfg.Fire(q.SB, q.PI)
	}
	return frame.DropNone
}

// copy returns a copy of a frame, nil if the pool has none.
func (fn *Function) copy(f *frame.Frame) *frame.Frame {
	g := fn.cfg.Pool.Get(f.Len())
	if g == nil {
		return nil
	}
	g.Append(f.Bytes())
	g.Offload, g.ID, g.Stamp, g.Seen, g.Queue = f.Offload, f.ID, f.Stamp, f.Seen, f.Queue
	return g
}
