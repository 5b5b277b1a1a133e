package l2

import (
	"encoding/binary"
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// The way out, in packet order:
//
//  1. queue     the driver posts frames and rings the doorbell; rates (rate.go)
//  2. check     lengths, source address, protocols that are the port's own
//  3. tag       what the driver or the default VLAN asks for
//  4. switch    other vports of the function (tx switching)
//  5. offload   segments and checksums, if the port wants them (offload.go)
//  6. port      the link

// TxBD is what the driver says about a frame.
type TxBD struct {
	InsertVLAN bool
	VLAN       uint16 // tag control information of the tag to insert
}

// outgoing is a frame in a transmit queue.
type outgoing struct {
	f *frame.Frame
	TxBD
}

// Post takes a frame into the queue, unless that is full: the driver waits then.
// The device sees it when the doorbell has rung.
func (q *TxQueue) Post(f *frame.Frame, bd TxBD) bool {
	if q.fn == nil || !q.ready.push(outgoing{f, bd}) {
		q.Stats.Stopped++
		return false
	}
	return true
}

// Doorbell tells the device of all frames that were posted.
func (q *TxQueue) Doorbell() {
	if q.fn != nil {
		q.fn.rung += q.ready.n - q.rung
		q.rung = q.ready.n
	}
}

// Len is the number of frames that wait in the queue.
func (q *TxQueue) Len() int { return q.ready.n }

// Room is how many frames more the queue takes.
func (q *TxQueue) Room() int { return q.size - q.ready.n }

// Transmit passes frames of the transmit queues in turn to the port while it
// has room, and reports whether some had to stay for want of it. Those that a
// rate holds back stay until NextTx.
func (fn *Function) Transmit(port frame.Link) (waiting bool) {
	if fn.cutter.Drain(port) {
		return true
	}
	for q := fn.next(); q != nil; q = fn.next() {
		if port.Room() <= 0 || fn.cutter.Segments.Len() > 0 {
			return true
		}
		o, _ := q.ready.pop()
		q.rung--
		fn.rung--
		fn.spend(q, o.f)
		fn.send(q, o, port)
		if fn.cfg.Fire != nil {
			fn.cfg.Fire(q.SB, q.PI)
		}
		if fn.turn++; fn.turn >= len(fn.txq) {
			fn.turn = 0
		}
	}
	return false
}

// send takes a frame of a queue from stage 2 on.
func (fn *Function) send(q *TxQueue, o outgoing, port frame.Link) {
	v := q.vport
	r := fn.pkt.parse(o.f)
	if r == frame.DropNone {
		r = fn.check(v, o)
	}
	if r == frame.DropNone {
		r = fn.tag(v, &o)
	}
	if r != frame.DropNone {
		q.stats.stats.TxErrDropPkts++
		fn.dropOut(q, o.f, r)
		return
	}
	q.Stats.Sent++
	q.stats.stats.sent(fn.pkt.dst, o.f.Len())
	if v.txSwitching && fn.classify(tx, v) == frame.DropNone {
		if !fn.pkt.dst.IsMulticast() {
			fn.switched(q, o.f)
			return
		}
		if g := fn.copy(o.f); g != nil {
			fn.switched(q, g)
		} else {
			fn.count(q, o.f, drop.NoBuffer)
		}
	}
	fn.pkt.Frame = nil
	fn.put(q, o.f, port)
}

// switched takes a frame that other vports of the function accept.
func (fn *Function) switched(q *TxQueue, f *frame.Frame) {
	if fn.cfg.Switched != nil {
		fn.cfg.Switched(q.vport.id, f)
	}
	if r := fn.deliverAll(f); r != frame.DropNone {
		fn.dropOut(q, f, r)
	}
	fn.pkt.Frame = nil
}

// dropOut takes a frame that is not sent.
func (fn *Function) dropOut(q *TxQueue, f *frame.Frame, r frame.DropReason) {
	fn.count(q, f, r)
	f.Release()
}

// count counts a frame (borrowed) of a queue that is not sent, or not copied.
func (fn *Function) count(q *TxQueue, f *frame.Frame, r frame.DropReason) {
	fn.drops[tx].Count(r)
	q.stats.drops[tx].Count(r)
	if fn.cfg.Drop != nil {
		fn.cfg.Drop(Tx, f, r)
	}
}

// check is stage 2: what the firmware does not send. It asserts on what the vport's
// Errors name.
func (fn *Function) check(v *vport, o outgoing) frame.DropReason {
	p := &fn.pkt
	e := &v.start.Errors
	switch {
	case !p.fits():
		return nicdrop.Offload
	case p.size() > v.mtu+ether.HeaderLen+p.Tags*ether.TagLen:
		return fn.mistake(v, e.BigPacket, drop.Oversize)
	case v.antiSpoofing && !fn.owns(v, p.src):
		return fn.mistake(v, e.AntiSpoofing, nicdrop.AntiSpoofing)
	case v.checkMAC && linkLocal(p.dst), v.checkType && (p.Type == ether.TypeMACControl || p.Type == ether.TypeLLDP):
		return fn.mistake(v, e.ControlFrame, nicdrop.Control)
	case v.defaultVLAN.Enable && v.defaultVLAN.Only && (p.Tags > 0 || o.InsertVLAN):
		return fn.mistake(v, e.IllegalInbandMode, drop.WrongVLAN)
	case p.Tags > 0 && o.InsertVLAN:
		return fn.mistake(v, e.VLANInsertWithInband, drop.WrongVLAN)
	case o.InsertVLAN && o.VLAN&maxVLAN == maxVLAN:
		return fn.mistake(v, e.IllegalVLANMode, drop.WrongVLAN)
	}
	return frame.DropNone
}

// mistake counts an assertion if one is asked for.
func (fn *Function) mistake(v *vport, asserts bool, r frame.DropReason) frame.DropReason {
	if asserts {
		_ = fn.assert("vport %d transmits: %v", v.id, r)
	}
	return r
}

// linkLocal: the addresses that no bridge forwards (IEEE 802.1Q table 8-1).
func linkLocal(a ether.Addr) bool {
	return a[0] == 1 && a[1] == 0x80 && a[2] == 0xc2 && a[3] == 0 && a[4] == 0 && a[5] < 0x10
}

// HasStation tells whether an address is in a filter of a vport.
func (fn *Function) HasStation(a ether.Addr) bool {
	return fn.tables[rx].find(FilterMAC, makeKey(FilterMAC, a, 0)).any()
}

// owns tells whether an address is in a filter of the vport.
func (fn *Function) owns(v *vport, a ether.Addr) bool {
	for i := range v.filters {
		if f := &v.filters[i]; f.typ != FilterVLAN && f.mac == a {
			return true
		}
	}
	return false
}

// tag is stage 3. A frame in hand gets the tag that its driver asks for, or
// that of the default VLAN if it has none.
func (fn *Function) tag(v *vport, o *outgoing) frame.DropReason {
	p := &fn.pkt
	tci := o.VLAN
	switch {
	case o.InsertVLAN:
	case v.defaultVLAN.Enable && p.Tags == 0:
		tci = uint16(v.defaultVLAN.Priority)<<13 | v.defaultVLAN.VLAN
	default:
		return frame.DropNone
	}
	if o.f.Headroom() < ether.TagLen {
		return drop.NoBuffer
	}
	o.f.Prepend(ether.TagLen)
	b := o.f.Bytes()
	copy(b[:12], b[ether.TagLen:])
	binary.BigEndian.PutUint16(b[12:], ether.TypeVLAN)
	binary.BigEndian.PutUint16(b[14:], tci)
	shift(&o.f.Offload, ether.TagLen)
	return p.parse(o.f)
}
