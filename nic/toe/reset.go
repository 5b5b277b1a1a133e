package toe

import (
	"net/netip"

	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// reset is a RST to be sent for a segment that no connection wants.
type reset struct {
	local, remote netip.AddrPort
	seq, ack      tcp.Seq
	flags         tcp.Flags
}

// maxResets bounds the RSTs waiting for a Poll.
const maxResets = 64

func (e *Engine) queueReset(r reset) {
	if len(e.resets) < maxResets {
		e.resets = append(e.resets, r)
	}
}

// Reset queues a RST in answer to a segment that Segment did not own, for the
// next Poll (RFC 9293 section 3.10.7.1). A RST is not answered.
func (e *Engine) Reset(h *ip.Header, seg []byte) {
	th, data, err := tcp.Parse(seg)
	if err != nil || th.Flags.Has(tcp.RST) || !usable(h.Src) || !usable(h.Dst) || th.SrcPort == 0 {
		return
	}
	r := reset{
		local:  netip.AddrPortFrom(h.Dst, th.DstPort),
		remote: netip.AddrPortFrom(h.Src, th.SrcPort),
		seq:    th.Ack, flags: tcp.RST,
	}
	if !th.Flags.Has(tcp.ACK) {
		n := len(data)
		if th.Flags.Has(tcp.SYN) {
			n++
		}
		if th.Flags.Has(tcp.FIN) {
			n++
		}
		r.seq, r.ack, r.flags = 0, th.Seq.Add(n), tcp.RST|tcp.ACK
	}
	e.queueReset(r)
}

// sendResets sends what queueReset has gathered, as far as there is room.
func (e *Engine) sendResets() {
	sent := 0
	for _, r := range e.resets {
		if e.out.Room() <= 0 {
			break
		}
		th := tcp.Header{
			SrcPort: r.local.Port(), DstPort: r.remote.Port(),
			Seq: r.seq, Ack: r.ack, Flags: r.flags,
		}
		f := e.packet(r.local.Addr(), r.remote.Addr(), &th, 0, 0, e.cfg.TOS)
		if f == nil {
			break
		}
		e.seal(f, r.local.Addr(), r.remote.Addr(), 0)
		e.stats.ResetsOut++
		e.send(f, r.remote.Addr(), 1)
		sent++
	}
	e.resets = e.resets[:copy(e.resets, e.resets[sent:])]
}

// Unreachable handles an ICMP error about a segment from local to remote with
// sequence number seq (RFC 5927: it must be in flight). mtu is the next hop's
// MTU if the packet was too big, else 0; hard tells a lasting error. An error
// ends only a connection that is being opened (RFC 5927 section 6.1);
// otherwise it is remembered as the reason of a later timeout.
func (e *Engine) Unreachable(local, remote netip.AddrPort, seq uint32, hard bool, mtu int, now frame.Time) {
	c := e.conns[tuple{canonical(local), canonical(remote)}]
	if c == nil || c.state == StateTimeWait {
		return
	}
	opening := c.state == StateSynSent || c.state == StateSynReceived
	off := c.sndOffset(tcp.Seq(seq))
	if opening && off != -1 || !opening && (off < int64(c.una) || off >= int64(c.nxt)) {
		return
	}
	switch {
	case mtu > 0:
		c.reduceMTU(mtu)
	case opening && hard:
		c.finish(Unreachable, now)
	default:
		c.softErr = Unreachable
	}
}

// reduceMTU takes a smaller path MTU (RFC 1191, RFC 8201) and sends again, in
// smaller segments, what was too big.
func (c *Conn) reduceMTU(mtu int) {
	floor := 1280
	if c.local.Addr().Is4() {
		floor = 552
	}
	if mtu = max(mtu, floor); mtu >= c.mtu {
		return
	}
	c.mtu = mtu
	c.updateMSS()
	c.recut()
	c.Kick()
}

// recut splits every segment in flight that is too big now, at the Source's
// record boundaries as far as they allow.
func (c *Conn) recut() {
	old := c.segs
	c.segs = segRing{}
	for i := range old.n {
		s := *old.at(i)
		if s.flags&(segSacked|segFin) != 0 || int(s.n) <= c.mss {
			c.segs.push(c.e, s)
			continue
		}
		if s.flags&segLost == 0 {
			c.setLost(&s)
		}
		for end := s.end(); s.off < end; s.off += uint64(s.n) {
			n := c.h.Next(s.off, c.mss)
			s.n = uint32(min(uint64(max(1, min(n, c.mss))), end-s.off))
			c.segs.push(c.e, s)
		}
	}
	old.release(c.e)
	c.loss.next, c.loss.force = c.una, true
}
