package toe

import (
	"net/netip"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// Unreachable handles an ICMP error about a segment from local to remote with
// sequence number seq (RFC 5927: it must be in flight). mtu is the next hop's
// MTU if the packet was too big, else 0; hard tells a lasting error. An error
// ends only a connection that is being opened (RFC 5927 section 6.1);
// otherwise it is remembered as the reason of a later timeout.
func (e *Engine) Unreachable(local, remote netip.AddrPort, seq uint32, hard bool, mtu int, now frame.Time) {
	c := e.conns[tuple{canonical(local), canonical(remote)}]
	if c == nil {
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
