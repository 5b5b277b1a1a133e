package toe

import (
	"net/netip"

	"tapir/nic/pacing"
	"tapir/nic/toe/packet"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// starve notes that the pool has no frame.
func (e *Engine) starve() {
	e.stats.Drops.Count(drop.NoBuffer)
	e.starved = true
}

// send hands f, which holds segs segments, to the output, for a station unless that is zero; by
// accounts for it.
func (e *Engine) send(f *frame.Frame, dst netip.Addr, station ether.Addr, segs int, by *pacing.Node, now frame.Time) {
	if by.Counts() {
		all, _ := pacing.Octets(f, e.sched.Header)
		by.Spend(all)
	}
	e.stats.FramesOut++
	e.stats.SegsOut += uint64(segs)
	if !station.IsZero() {
		e.links.TransmitTo(f, dst, station, now)
		return
	}
	e.out.Transmit(f, dst, now)
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
	var tos uint8
	th.Flags, tos = c.ecn.Segment(flags, c.par.TOS, n > 0 && off == c.snd.Nxt())
	f := e.packets.New(src, dst, &th, n, c.ipID, tos)
	if f == nil {
		e.starve()
		return false
	}
	if n > 0 {
		c.h.Render(off, f.Extend(n))
		e.stats.BytesOut += uint64(n)
	}
	e.packets.Seal(f, src, dst, gso)
	segs := 1
	if gso > 0 {
		segs = (n + gso - 1) / gso
	}
	c.ecn.Sent(th.Flags)
	c.ipID += uint16(segs)
	c.count.segsOut += uint64(segs)
	c.lastOut = now
	if flags.Has(tcp.ACK) {
		c.rcv.Acked()
	}
	if c.record.On {
		c.record.Out(f, src, dst, now)
	}
	e.send(f, dst, c.station, segs, c.e.sched.Accounts(c.rate, c.par.TOS, n > 0), now)
	return true
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
	return uint16(e.cfg.MTU - packet.HeaderLen(local) - tcp.HeaderLen)
}

// windowField is the window of a segment that is no SYN.
func (c *Conn) windowField() uint16 { return uint16(min(c.rcvWindow()>>c.rcv.Scale, 0xffff)) }
