package toe

import (
	"encoding/binary"
	"net/netip"

	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// packet returns a frame that holds the IP and TCP headers and room for n
// octets of payload, nil if the pool has none.
func (e *Engine) packet(src, dst netip.Addr, th *tcp.Header, n int, id uint16, tos uint8) *frame.Frame {
	h := ip.Header{
		Version: 6, TOS: tos, TTL: e.cfg.TTL, Proto: ip.ProtoTCP, Src: src, Dst: dst,
		PayloadLen: th.Len() + n,
	}
	if src.Is4() {
		h.Version, h.DF, h.ID = 4, true, id
	}
	hl := h.HeaderLen()
	f := e.pool.Get(hl + h.PayloadLen)
	if f == nil {
		e.stats.Drops.Count(frame.DropNoBuffer)
		e.starved = true
		return nil
	}
	b := f.Extend(hl + th.Len())
	h.Put(b)
	th.Put(b[hl:])
	return f
}

// ipHeaderLen is the length of the IP header that packet writes.
func ipHeaderLen(a netip.Addr) int {
	if a.Is4() {
		return ip.HeaderLen4
	}
	return ip.HeaderLen6
}

// seal makes the checksum of f complete, or partial with the rest described
// in f.Offload if frames may be super-frames. gso is the payload of each
// segment, 0 for a frame that is one segment.
func (e *Engine) seal(f *frame.Frame, src, dst netip.Addr, gso int) {
	b, hl := f.Bytes(), ipHeaderLen(src)
	if e.cfg.MaxSegs == 1 {
		putChecksum(b[hl:], src, dst)
		return
	}
	partial := ip.Fold(ip.PseudoSum(src, dst, ip.ProtoTCP, f.Len()-hl))
	binary.BigEndian.PutUint16(b[hl+tcp.ChecksumOffset:], partial)
	f.Offload = frame.Offload{NeedsCsum: true, CsumStart: uint16(hl), CsumOffset: tcp.ChecksumOffset}
	if gso > 0 {
		f.GSO = frame.GSOTCPv6
		if src.Is4() {
			f.GSO = frame.GSOTCPv4
		}
		f.GSOSize = uint16(gso)
		f.HdrLen = uint16(hl + int(b[hl+12]>>4)*4)
	}
}

// putChecksum computes the checksum of the TCP segment seg in place.
func putChecksum(seg []byte, src, dst netip.Addr) {
	field := seg[tcp.ChecksumOffset:]
	binary.BigEndian.PutUint16(field, 0)
	binary.BigEndian.PutUint16(field, ip.Checksum(seg, ip.PseudoSum(src, dst, ip.ProtoTCP, len(seg))))
}

// send hands f, which holds segs segments, to the output.
func (e *Engine) send(f *frame.Frame, dst netip.Addr, segs int) {
	e.stats.FramesOut++
	e.stats.SegsOut += uint64(segs)
	e.out.Transmit(f, dst)
}

// transmit sends the n stream octets at off, as segments of gso octets each
// if gso is not 0, with sequence number seq. Everything sent acknowledges
// what was received; SACK blocks go in segments without data only. It returns
// false if the pool is exhausted.
func (c *Conn) transmit(seq tcp.Seq, flags tcp.Flags, off uint64, n, gso int, now frame.Time) bool {
	e := c.e
	th := tcp.Header{
		SrcPort: c.local.Port(), DstPort: c.remote.Port(),
		Seq: seq, Flags: flags,
		Window: c.windowField(),
	}
	if flags.Has(tcp.ACK) {
		th.Ack = c.rcv.Seq(c.rcv.Next())
	}
	switch {
	case flags.Has(tcp.SYN):
		c.synOptions(&th, now)
	case c.rcv.TS.On:
		th.Opts.HasTS, th.Opts.TSVal, th.Opts.TSEcr = true, c.tsNow(now), c.rcv.TS.Recent
	}
	if n == 0 && c.snd.SACK && flags == tcp.ACK {
		c.rcv.Held.Fill(&th.Opts, c.rcv.Seq(0))
	}
	src, dst := c.local.Addr(), c.remote.Addr()
	tos, cwr, capable := c.par.TOS, c.ecn.cwr, false
	if th.Flags, capable = c.markECN(flags, n > 0 && off == c.snd.Nxt()); c.ecn.on {
		if tos &^= ecnMask; capable {
			tos |= ect0
		}
	}
	f := e.packet(src, dst, &th, n, c.ipID, tos)
	if f == nil {
		c.ecn.cwr = cwr
		return false
	}
	if n > 0 {
		c.fill(f, off, n, gso)
		e.stats.BytesOut += uint64(n)
	}
	e.seal(f, src, dst, gso)
	segs := 1
	if gso > 0 {
		segs = (n + gso - 1) / gso
	}
	c.ipID += uint16(segs)
	c.count.segsOut += uint64(segs)
	c.lastOut = now
	if flags.Has(tcp.ACK) {
		c.rcv.Acked()
	}
	if c.saving {
		c.saveOut(f, now)
	}
	e.send(f, dst, segs)
	return true
}

// fill puts the n stream octets at off behind the headers of f. A super-frame
// only borrows them where it can.
func (c *Conn) fill(f *frame.Frame, off uint64, n, gso int) {
	if l, ok := c.h.(Lender); ok && gso > 0 {
		f.Attach(l.Lend(off, n))
		return
	}
	c.h.Render(off, f.Extend(n))
}

// synOptions sets the options and the unscaled window of a SYN; a SYN-ACK
// only has what the SYN offered.
func (c *Conn) synOptions(th *tcp.Header, now frame.Time) {
	th.Window = uint16(min(c.e.cfg.RcvWnd, 0xffff))
	o := &th.Opts
	o.MSS = c.e.announcedMSS(c.local.Addr())
	o.HasWS, o.WS = true, c.rcv.Scale
	o.SACKPermitted = c.snd.SACK
	if c.rcv.TS.On {
		o.HasTS, o.TSVal, o.TSEcr = true, c.tsNow(now), c.rcv.TS.Recent
	}
	if th.Flags.Has(tcp.ACK) && !c.peerScales {
		o.HasWS = false
	}
}

// announcedMSS is the MSS option of a SYN from local.
func (e *Engine) announcedMSS(local netip.Addr) uint16 {
	return uint16(e.cfg.MTU - ipHeaderLen(local) - tcp.HeaderLen)
}

// windowField is the window of a segment that is no SYN.
func (c *Conn) windowField() uint16 { return uint16(min(c.rcvWindow()>>c.rcv.Scale, 0xffff)) }

// saveOut keeps a copy of a packet about to be sent, its checksum completed.
func (c *Conn) saveOut(f *frame.Frame, now frame.Time) {
	if f.GSO != frame.GSONone {
		c.saving = false
		return
	}
	c.save(frame.Outbound, now, f.Bytes())
	if n := len(c.saved); c.saving && f.NeedsCsum {
		putChecksum(c.saved[n-1].Data[f.CsumStart:], c.local.Addr(), c.remote.Addr())
	}
}
