package l2

import (
	"encoding/binary"

	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// Csum is what the device found out about a packet's checksums.
type Csum uint8

// The findings.
const (
	CsumNone Csum = iota // not looked at: no TCP or UDP, a fragment, or nobody asked
	CsumGood
	CsumBad
)

// verify checks the checksums of the packet in f, and says on f that they need
// no second look.
func (p *packet) verify(f *frame.Frame) Csum {
	n := p.look()
	switch {
	case !n.ports:
		return CsumNone
	case p.off.NeedsCsum || p.off.DataValid:
		return CsumGood
	case !n.v6 && ip.Checksum(p.b[n.l3:n.l4], 0) != 0:
		return CsumBad
	}
	body := p.b[n.l4:n.end]
	if n.proto == ip.ProtoUDP && binary.BigEndian.Uint16(body[6:]) == 0 {
		return CsumNone
	}
	pseudo := ip.Sum(n.addrs(p.b), uint32(n.proto)+uint32(len(body)))
	if ip.Checksum(body, pseudo) != 0 {
		return CsumBad
	}
	f.DataValid = true
	return CsumGood
}

// judge counts what was found out: a driver delivers such packets all the same.
func (q *RxQueue) judge(p *packet, c Csum) {
	switch {
	case c == CsumBad:
		q.Stats.HWErrors++
	case p.look().fragment:
		q.Stats.IPFragments++
	}
}

// fits reports whether the work that a frame leaves to the device can be done.
func (p *packet) fits() bool {
	o := &p.off
	if o.NeedsCsum && int(o.CsumStart)+int(o.CsumOffset)+2 > len(p.b) {
		return false
	}
	if o.GSO == frame.GSONone {
		return true
	}
	n := p.look()
	if o.GSOSize == 0 || !o.NeedsCsum || !n.ports || n.proto != ip.ProtoTCP || n.v6 != (o.GSO == frame.GSOTCPv6) {
		return false
	}
	header := int(p.b[n.l4+12]>>4) * 4
	return n.end-n.l4 >= tcp.HeaderLen && header >= tcp.HeaderLen && n.l4+header <= n.end
}

// put passes a frame to the port, cut into segments with checksums if the port
// does not do that.
func (fn *Function) put(q *TxQueue, f *frame.Frame, port frame.Link) {
	switch {
	case fn.cfg.Superframes || f.GSO == frame.GSONone && !f.NeedsCsum:
		port.Transmit(f)
	case f.GSO == frame.GSONone:
		finish(f)
		port.Transmit(f)
	default:
		if r := fn.cut(f); r != frame.DropNone {
			fn.dropOut(q, f, r)
			return
		}
		f.Release()
		fn.drain(port)
	}
}

// finish completes a partial checksum.
func finish(f *frame.Frame) {
	b := f.Bytes()[f.CsumStart:]
	sum := ip.Checksum(b, 0)
	if sum == 0 {
		sum = 0xffff // zero would mean "none" in UDP; both are the same number
	}
	binary.BigEndian.PutUint16(b[f.CsumOffset:], sum)
	f.Offload = frame.Offload{}
}

// cut puts the segments of a super-frame into fn.segments: all or none.
func (fn *Function) cut(f *frame.Frame) frame.DropReason {
	n, err := fn.splitter.Begin(f.Offload, f.Bytes())
	if err != nil {
		return frame.DropOffload
	}
	defer fn.splitter.End()
	for i := range n {
		g := fn.cfg.Pool.Get(fn.splitter.Len(i))
		if g == nil {
			fn.segments.Discard()
			return frame.DropNoBuffer
		}
		fn.splitter.Put(g.Extend(fn.splitter.Len(i)), i)
		fn.segments.Push(g, maxSegments)
	}
	return frame.DropNone
}

// maxSegments bounds the segments of a frame: one octet in each.
const maxSegments = 1 << 16

// drain passes the segments of a cut frame on while the port has room.
func (fn *Function) drain(port frame.Link) (waiting bool) {
	for fn.segments.Len() > 0 {
		if port.Room() <= 0 {
			return true
		}
		port.Transmit(fn.segments.Pop())
	}
	return false
}
