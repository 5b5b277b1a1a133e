package l2

import (
	"encoding/binary"

	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/virtio"
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
	n := p.network()
	switch {
	case !n.ports:
		return CsumNone
	case p.off.NeedsCsum || p.off.DataValid:
		return CsumGood
	case n.Version == 4 && ip.Checksum(p.Frame[n.L3:n.L4], 0) != 0:
		return CsumBad
	}
	body := p.Frame[n.L4:n.End]
	if n.Proto == ip.ProtoUDP && binary.BigEndian.Uint16(body[6:]) == 0 {
		return CsumNone
	}
	pseudo := ip.Sum(n.Addrs(), uint32(n.Proto)+uint32(len(body)))
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
	case p.network().Fragment:
		q.Stats.IPFragments++
	}
}

// fits reports whether the work that a frame leaves to the device can be done.
func (p *packet) fits() bool {
	o := &p.off
	if o.NeedsCsum && int(o.CsumStart)+int(o.CsumOffset)+2 > len(p.Frame) {
		return false
	}
	if o.GSO == frame.GSONone {
		return true
	}
	n := p.network()
	if o.GSO == frame.GSOUDP {
		return o.GSOSize > 0 && o.NeedsCsum && n.ports && n.Proto == ip.ProtoUDP
	}
	if o.GSOSize == 0 || !o.NeedsCsum || !n.ports || n.Proto != ip.ProtoTCP ||
		(n.Version == 6) != (o.GSO == frame.GSOTCPv6) {
		return false
	}
	header := int(p.Frame[n.L4+12]>>4) * 4
	return n.End-n.L4 >= tcp.HeaderLen && header >= tcp.HeaderLen && n.L4+header <= n.End
}

// put passes a frame to the port, cut into segments with checksums if the port
// does not do that.
func (fn *Function) put(q *TxQueue, f *frame.Frame, port frame.Link) {
	switch {
	case fn.cfg.Superframes && !fn.pf.Cuts() || f.GSO == frame.GSONone && !f.NeedsCsum:
		port.Transmit(f)
	case f.GSO == frame.GSONone:
		Complete(f)
		port.Transmit(f)
	default:
		if r := fn.cutter.Cut(fn.cfg.Pool, f); r != frame.DropNone {
			fn.dropOut(q, f, r)
			return
		}
		f.Release()
		fn.cutter.Drain(port)
	}
}

// Complete completes a partial checksum, which lies in the frame.
func Complete(f *frame.Frame) {
	b := f.Bytes()[f.CsumStart:]
	sum := ip.Checksum(b, 0)
	if sum == 0 {
		sum = 0xffff // zero would mean "none" in UDP; both are the same number
	}
	binary.BigEndian.PutUint16(b[f.CsumOffset:], sum)
	f.Offload = frame.Offload{}
}

// Cutter cuts super-frames. Its zero value is ready.
type Cutter struct {
	splitter virtio.Splitter
	// Segments are those of frames that were cut.
	Segments frame.Queue
}

// Cut adds the segments of a super-frame to c.Segments: all, or none with a
// reason. It borrows the frame.
func (c *Cutter) Cut(pool frame.Pool, f *frame.Frame) frame.DropReason {
	n, err := c.splitter.Begin(f.Offload, f.Bytes())
	if err != nil {
		return nicdrop.Offload
	}
	defer c.splitter.End()
	waiting := c.Segments.Len()
	for i := range n {
		g := pool.Get(c.splitter.Len(i))
		if g == nil {
			c.Segments.Truncate(waiting)
			return drop.NoBuffer
		}
		c.splitter.Put(g.Extend(c.splitter.Len(i)), i)
		g.ID, g.Stamp, g.Seen, g.Queue = f.ID, f.Stamp, f.Seen, f.Queue
		c.Segments.Push(g, waiting+maxSegments)
	}
	return frame.DropNone
}

// maxSegments bounds the segments of a frame: one octet in each.
const maxSegments = 1 << 16

// Drain passes segments on while the link has room, and reports whether some
// had to stay.
func (c *Cutter) Drain(link frame.Link) (waiting bool) {
	for c.Segments.Len() > 0 {
		if link.Room() <= 0 {
			return true
		}
		link.Transmit(c.Segments.Pop())
	}
	return false
}
