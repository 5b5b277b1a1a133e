package toe

import (
	"net/netip"
	"time"

	"tapir/nic/toe/pmtu"
	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

const (
	blackHoleTime = 30 * time.Second // from a suspected black hole to the first probe
	blackHoleRTOs = 3                // timeouts in a row that make suspicious
	blackHoleMTU  = 1064             // RFC 4821 section 7.2: 1024 octets of payload
	minMTU4       = 552
	minMTU6       = 1280
)

// usePath takes the MTU known for the destination.
func (c *Conn) usePath(now frame.Time) {
	c.mtu = c.e.cfg.MTU
	if p, ok := c.e.paths.Find(c.remote.Addr()); ok {
		c.mtu = min(c.mtu, p.MTU)
		c.snd.Search = pmtu.Begin(p.At.Add(c.e.cfg.PathMTUAge))
	}
}

// SetMTU changes the largest IP packet sent, in octets, as Config.MTU does:
// connections that send larger ones cut theirs anew, a larger one counts for
// those opened from now on.
func (e *Engine) SetMTU(octets int, now frame.Time) {
	e.cfg.MTU = boundMTU(octets)
	for c := e.head; c != nil; c = c.next {
		if c.mtu > e.cfg.MTU {
			c.cutTo(max(e.cfg.MTU, c.minMTU()), now.Add(e.cfg.PathMTUAge))
		}
	}
}

// SetMaxSegs changes how many segments a frame holds from now on, up to
// Config.MaxSegs.
func (e *Engine) SetMaxSegs(n int) { e.maxSegs = min(n, e.cfg.MaxSegs) }

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
	off := c.snd.Offset(tcp.Seq(seq))
	if opening && off != -1 || !opening && (off < int64(c.snd.Una()) || off >= int64(c.snd.Nxt())) {
		return
	}
	switch {
	case mtu > 0:
		c.reduceMTU(mtu, now.Add(e.cfg.PathMTUAge), now)
	case opening && hard:
		c.finish(Unreachable, now)
	default:
		c.softErr = Unreachable
	}
}

// minMTU is the least path MTU that is believed.
func (c *Conn) minMTU() int {
	if c.local.Addr().Is4() {
		return minMTU4
	}
	return minMTU6
}

// reduceMTU takes a smaller path MTU (RFC 1191, RFC 8201) and sends again, in
// smaller segments, what was too big. A larger one is looked for from begin
// on.
func (c *Conn) reduceMTU(mtu int, begin, now frame.Time) {
	if mtu = max(mtu, c.minMTU()); mtu >= c.mtu {
		if c.snd.Search.Told(mtu) {
			c.snd.Recut(c.mss, c.h)
			c.Kick()
		}
		return
	}
	c.e.paths.Learn(c.remote.Addr(), mtu, now)
	c.cutTo(mtu, begin)
}

// cutTo makes packets no longer than mtu and sends again what was longer.
func (c *Conn) cutTo(mtu int, begin frame.Time) {
	c.mtu = mtu
	c.snd.Search = pmtu.Begin(begin)
	c.updateMSS()
	c.snd.Recut(c.mss, c.h)
	c.Kick()
}

// suspectBlackHole reduces the MTU when full segments time out again and
// again (RFC 4821 section 7.7), and takes what others have learned meanwhile.
func (c *Conn) suspectBlackHole(now frame.Time) {
	if p, ok := c.e.paths.Find(c.remote.Addr()); ok && p.MTU < c.mtu {
		c.reduceMTU(p.MTU, p.At.Add(c.e.cfg.PathMTUAge), now)
		return
	}
	if c.backoff < blackHoleRTOs || c.backoff%blackHoleRTOs != 0 {
		return
	}
	mtu := c.minMTU()
	if c.mtu > blackHoleMTU && mtu < blackHoleMTU {
		mtu = blackHoleMTU
	}
	if int(c.snd.Seg(0).N)+c.headerLen() > mtu {
		c.e.stats.BlackHoles++
		c.reduceMTU(mtu, now.Add(blackHoleTime), now)
	}
}

// topMTU is the largest packet that may be of use.
func (c *Conn) topMTU() int { return min(c.e.cfg.MTU, c.peerMSS+c.headerLen()) }

// firstLen is nextLen for the first segment of a turn, which may be an MTU
// probe.
func (c *Conn) firstLen(now frame.Time) int {
	size := 0
	if c.snd.Phase == recovery.Open && !c.override {
		size = c.snd.Search.Due(c.mtu, c.topMTU(), c.e.cfg.PathMTUAge, now)
	}
	if size == 0 {
		return c.nextLen(c.snd.Nxt())
	}
	limit := c.mss + size - c.mtu
	if uint64(limit) > c.maxWnd/2 || !c.fits(0, limit, now) {
		return c.nextLen(c.snd.Nxt())
	}
	return max(0, min(c.h.Next(c.snd.Nxt(), limit), limit))
}

// mtuAcked takes the larger MTU once the probe is acknowledged.
func (c *Conn) mtuAcked(now frame.Time) {
	size := c.snd.Search.Acked(c.snd.Una())
	if size == 0 {
		return
	}
	c.mtu = size
	c.updateMSS()
	if c.mtu >= c.topMTU() {
		c.e.paths.Learn(c.remote.Addr(), 0, now)
	} else {
		c.e.paths.Learn(c.remote.Addr(), c.mtu, now)
	}
}
