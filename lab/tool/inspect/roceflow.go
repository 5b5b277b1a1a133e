package inspect

import (
	"bytes"
	"fmt"
	"strings"

	"tapir/wire/ib"
)

// Bounds of what is kept and believed about a direction.
const (
	roceFar  = 1 << 20 // PSNs: nobody has so many under way
	roceKept = 1 << 14 // requests
)

// psnSub is the distance from b to a, PSNs of 24 bits.
func psnSub(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

func psnAdd(a, n uint32) uint32 { return (a + n) & ib.PSNMask }

// roceDir is the packets of one direction: requests to a queue pair, and responses to those
// of the other direction, which is its peer.
type roceDir struct {
	key    roceKey
	flow   *Flow
	side   int
	flowed bool
	peer   *roceDir

	pkey  uint16
	known bool // where the requests begin
	begun bool
	mtu   uint32 // 0: not known yet
	retry int    // 0: not known
	first uint32
	high  uint32 // PSN behind the last one
	top   *roceRec
	recs  map[uint32]*roceRec // by their PSN
	ends  map[uint32]*roceRec // by the PSN behind them
	kept  []uint32
	reads []*roceRec // Read requests, those that are sent again too

	una    uint32 // oldest PSN that is not acknowledged
	tries  int    // times that it was sent since
	beyond *roceAnswer
	fatal  *roceAnswer // NAK that ends the connection
	most   *roceAnswer // acknowledgement of the highest PSN
	naked  *roceAnswer // the latest NAK of a sequence error
	why    string      // not all could be judged

	above *roceAbove
	fed   uint32     // PSN of the next request for it
	data  []byte     // of the Send under way
	lacks bool       // not all of it was kept
	asked []*roceRec // Reads that it was told of and that are not answered
}

// roceAnswer is a response that may turn out to be wrong.
type roceAnswer struct {
	psn    uint32
	packet int
	times  int // that the request was sent until then
	msn    uint32
	hash   uint64
}

// roceRec is a request.
type roceRec struct {
	ib.Packet
	n      uint32 // PSNs that it uses; 0: not known yet
	size   int
	packet int
	times  int
	hash   uint64
	total  uint64 // octets of the message up to here
	whole  bool   // total is known
	data   []byte // payload of a Send, for the protocol above
	cut    bool   // by the capture
	dma    uint32
	chain  *roceChain
	msn    uint32 // messages of its chain up to here
}

// roceChain is a run of requests without a gap. base is the MSN in front of it.
type roceChain struct {
	base  uint32
	told  bool // once
	known bool
}

// sending tells whether o belongs to Sends; Writes have the other messages of several packets.
func sending(o ib.Opcode) bool {
	op := o.Op()
	return op <= ib.OpSendOnlyImm || op == ib.OpSendLastInvalidate || op == ib.OpSendOnlyInvalidate
}

// ends tells whether a packet is the last of its message.
func (r *roceRec) ends() bool {
	place := r.Opcode.Operation().Place
	return place == ib.Only || place == ib.Last
}

func isRead(o ib.Opcode) bool   { return o.Op() == ib.OpReadRequest }
func isAtomic(o ib.Opcode) bool { return o.Op() == ib.OpCompareSwap || o.Op() == ib.OpFetchAdd }

// psns is how many PSNs a Read of n octets uses; 0: the MTU is not known.
func (d *roceDir) psns(n uint32) uint32 {
	switch {
	case n <= 256:
		return 1
	case d.mtu == 0:
		return 0
	}
	return (n + d.mtu - 1) / d.mtu
}

// covering is the request that uses psn, nil if it was not seen.
func (d *roceDir) covering(psn uint32) *roceRec {
	if r := d.recs[psn]; r != nil {
		return r
	}
	for k := len(d.reads) - 1; k >= 0 && k >= len(d.reads)-256; k-- {
		if r := d.reads[k]; r.n > 0 && psnSub(psn, r.PSN) >= 0 && psnSub(psn, r.PSN) < int32(r.n) {
			return r
		}
	}
	return nil
}

// clean tells whether all requests up to now were seen.
func (d *roceDir) clean() bool { return d.why == "" }

// gap notes that the capture lacks something of the direction.
func (d *roceDir) gap(packet int, what string) {
	if d.why == "" {
		d.why = fmt.Sprintf("%s: not all of it was judged from packet %d on", what, packet)
	}
}

// full judges the payload of a packet by its place in the message.
func (d *roceDir) full(i *Inspector, r *rocePacket) bool {
	n, place := uint32(r.size), r.Opcode.Operation().Place
	if place == ib.First || place == ib.Middle {
		power := n >= 256 && n <= 4096 && n&(n-1) == 0
		if d.mtu == 0 && power {
			d.learn(n)
		}
		if !power || n != d.mtu {
			i.violate(roceFull, r.in.Number, d.flow, "%s with %d octets, MTU %d", r.Opcode, n, d.mtu)
			return false
		}
	}
	if n > 4096 || d.mtu > 0 && n > d.mtu || place == ib.Last && n == 0 {
		i.violate(roceRest, r.in.Number, d.flow, "%s with %d octets, MTU %d", r.Opcode, n, d.mtu)
		return false
	}
	return true
}

// learn takes the MTU from a packet.
func (d *roceDir) learn(mtu uint32) {
	for _, x := range []*roceDir{d, d.peer} {
		if x == nil || x.mtu != 0 {
			continue
		}
		x.mtu = mtu
		for _, r := range x.reads {
			if r.n == 0 {
				x.span(r, x.psns(r.RETH.Len))
			}
		}
	}
}

// span sets how many PSNs a Read uses.
func (d *roceDir) span(r *roceRec, n uint32) {
	r.n = n
	end := psnAdd(r.PSN, n)
	if d.recs[r.PSN] == r {
		d.ends[end] = r
	}
	if psnSub(end, d.high) > 0 {
		d.high = end
	}
}

// request takes a request.
func (d *roceDir) request(i *Inspector, r *rocePacket) {
	if !d.full(i, r) {
		return
	}
	if !d.begun {
		d.begun = true
		if !d.known {
			d.first, d.high, d.una = r.PSN, r.PSN, r.PSN
		}
	}
	d.guess(r)
	delta := psnSub(r.PSN, d.high)
	switch {
	case delta > roceFar || delta < -roceFar || d.known && psnSub(r.PSN, d.first) < 0:
		i.violate(rocePSN, r.in.Number, d.flow, "PSN %d, the next is %d", r.PSN, d.high)
		return
	case delta < 0 && d.again(i, r):
		return
	}
	rec := &roceRec{Packet: r.Packet, size: r.size, packet: r.in.Number, times: 1, hash: r.hash, n: 1}
	if d.above != nil && sending(r.Opcode) {
		rec.data, rec.cut = bytes.Clone(r.Payload), r.cut
	}
	rec.Payload = nil
	if isRead(r.Opcode) {
		rec.n = d.psns(r.RETH.Len)
		d.reads = append(d.reads, rec)
		if len(d.reads) > 2*roceKept {
			d.reads = append(d.reads[:0], d.reads[roceKept:]...)
		}
	}
	d.keep(rec)
	if d.top == nil || psnSub(rec.PSN, d.top.PSN) > 0 {
		d.top = rec
	}
	if end := psnAdd(rec.PSN, max(rec.n, 1)); psnSub(end, d.high) > 0 {
		d.high = end
	}
	d.oldest(i, r)
	d.link(i, rec)
	if b := d.beyond; b != nil && b.psn == r.PSN && d.clean() {
		d.beyond = nil
		// With the right MSN only the capture has them in a wrong order.
		if c := rec.chain; c != nil && c.known && psnAdd(c.base, rec.msn) != b.msn {
			i.violate(roceAckPSN, b.packet, d.flow, "PSN %d, sent first in packet %d", b.psn, r.in.Number)
		}
	}
	if op := r.Opcode.Operation(); op.Place == ib.Only || op.Place == ib.Last {
		n := uint64(r.size)
		if rec.whole {
			n = rec.total
		}
		name := strings.Replace(strings.Replace(op.Name, " Only", "", 1), " Last", "", 1)
		d.flow.Sides[d.side].message(name, n)
	}
	d.feed(r.in.Number)
}

// guess finds the length of a Read in PSNs by the request behind it.
func (d *roceDir) guess(r *rocePacket) {
	if len(d.reads) == 0 {
		return
	}
	last := d.reads[len(d.reads)-1]
	if last.n != 0 || d.top != last {
		return
	}
	for mtu := uint32(256); mtu <= 4096; mtu *= 2 {
		n := (last.RETH.Len + mtu - 1) / mtu
		if psnAdd(last.PSN, n) == r.PSN {
			if n > 1 && last.RETH.Len/n >= mtu/2 {
				d.learn(mtu)
			}
			if last.n == 0 {
				d.span(last, n)
			}
			return
		}
	}
}

// keep holds a request.
func (d *roceDir) keep(rec *roceRec) {
	d.recs[rec.PSN] = rec
	if rec.n > 0 {
		d.ends[psnAdd(rec.PSN, rec.n)] = rec
	}
	if d.kept = append(d.kept, rec.PSN); len(d.kept) < 2*roceKept {
		return
	}
	for _, psn := range d.kept[:roceKept] {
		if x := d.recs[psn]; x != nil && psnSub(d.high, psn) > roceKept {
			delete(d.recs, psn)
			delete(d.ends, psnAdd(psn, x.n))
		}
	}
	d.kept = append(d.kept[:0], d.kept[roceKept:]...)
}

// again takes a request whose PSN is not above those before, and reports whether it was seen.
func (d *roceDir) again(i *Inspector, r *rocePacket) bool {
	rec := d.covering(r.PSN)
	switch {
	case rec == nil:
		return false
	case rec.hash == r.hash: // the network has doubled the frame
		return true
	}
	d.flow.Sides[d.side].Retransmissions++
	d.oldest(i, r)
	rec.times++
	rec.hash = r.hash
	k := uint32(psnSub(r.PSN, rec.PSN))
	h, _ := r.Opcode.Headers()
	same := rec.Opcode == r.Opcode && rec.size == r.size
	switch {
	case isRead(r.Opcode) && isRead(rec.Opcode):
		done := k * d.mtu
		same = r.RETH.RKey == rec.RETH.RKey && r.RETH.VA == rec.RETH.VA+uint64(done) && r.RETH.Len == rec.RETH.Len-done
		if k > 0 && same {
			x := &roceRec{Packet: r.Packet, packet: r.in.Number, times: 1, hash: r.hash, n: d.psns(r.RETH.Len),
				chain: rec.chain, msn: rec.msn}
			d.reads = append(d.reads, x)
		}
	case k > 0:
		same = false
	case h&ib.HasRETH != 0:
		same = same && r.RETH == rec.RETH
	case h&ib.HasAtomicETH != 0:
		same = same && r.Atomic == rec.Atomic
	}
	if h&ib.HasImm != 0 && r.Imm != rec.Imm || h&ib.HasIETH != 0 && r.Invalidate != rec.Invalidate {
		same = false
	}
	if !same {
		i.violate(roceChanged, r.in.Number, d.flow, "PSN %d is %s here and %s in packet %d", r.PSN, r.Opcode,
			rec.Opcode, rec.packet)
	}
	return true
}

// oldest counts how often the oldest PSN that is not acknowledged is sent.
func (d *roceDir) oldest(i *Inspector, r *rocePacket) {
	if r.PSN != d.una {
		return
	}
	if d.tries++; d.retry > 0 && d.tries == d.retry+2 {
		i.violate(roceRetry, r.in.Number, d.flow, "PSN %d, retry count %d", r.PSN, d.retry)
	}
}

// link puts a request between those next to it and judges their order.
func (d *roceDir) link(i *Inspector, rec *roceRec) {
	pred := d.ends[rec.PSN]
	if pred == nil && d.known && rec.PSN == d.first {
		rec.chain = &roceChain{known: true}
		if p := rec.Opcode.Operation().Place; p == ib.Middle || p == ib.Last {
			i.violate(roceOrder, rec.packet, d.flow, "%s begins the connection", rec.Opcode)
		}
	}
	for rec != nil && d.follows(i, pred, rec) {
		if rec.n == 0 {
			return
		}
		pred, rec = rec, d.recs[psnAdd(rec.PSN, rec.n)]
		if rec != nil && rec.chain == pred.chain {
			return
		}
	}
}

// follows judges rec behind pred, nil if that was not seen, and counts on.
func (d *roceDir) follows(i *Inspector, pred, rec *roceRec) bool {
	place := rec.Opcode.Operation().Place
	begins := place == ib.First || place == ib.Only
	if pred != nil && (pred.ends() != begins || !begins && sending(pred.Opcode) != sending(rec.Opcode)) {
		i.violate(roceOrder, rec.packet, d.flow, "%s behind %s", rec.Opcode, pred.Opcode)
		pred = nil
	}
	if rec.chain == nil {
		rec.chain = &roceChain{}
	}
	rec.msn = 0
	if pred != nil {
		rec.chain, rec.msn = pred.chain, pred.msn
	}
	if rec.ends() {
		rec.msn++
	}
	switch {
	case begins:
		rec.whole, rec.total, rec.dma = true, uint64(rec.size), rec.RETH.Len
	case pred != nil && pred.whole:
		rec.whole, rec.total, rec.dma = true, pred.total+uint64(rec.size), pred.dma
	}
	op := rec.Opcode.Op()
	write := op >= ib.OpWriteFirst && op <= ib.OpWriteOnlyImm
	if rec.whole && write && (rec.total > uint64(rec.dma) || rec.ends() && rec.total != uint64(rec.dma)) {
		i.violate(roceLength, rec.packet, d.flow, "%d octets, DMALen %d", rec.total, rec.dma)
		rec.whole = false
	}
	return true
}

// finish judges what was left open.
func (d *roceDir) finish() {
	d.above.finish(d)
	if b := d.beyond; b != nil {
		d.gap(b.packet, "requests are missing from the capture")
	}
	if d.begun && d.clean() {
		for at := d.first; psnSub(at, d.high) < 0 && psnSub(d.high, at) < roceKept; {
			rec := d.covering(at)
			if rec == nil {
				d.gap(d.flow.First, "requests are missing from the capture")
				break
			}
			at = psnAdd(at, max(rec.n, 1))
		}
	}
	if d.why != "" && d.flow.State == Replayed {
		d.flow.State, d.flow.Why = Partly, d.why
	}
}
