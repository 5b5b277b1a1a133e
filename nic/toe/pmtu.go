package toe

import (
	"net/netip"
	"time"

	"tapir/nic/toe/pmtu"
	"tapir/nic/toe/ports"
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
func (s *sender) usePath(now frame.Time) {
	s.mtu = s.c.e.cfg.MTU
	if p, ok := s.c.e.paths.Find(s.c.remote.Addr()); ok {
		s.mtu = min(s.mtu, p.MTU)
		s.snd.Search = pmtu.Begin(p.At.Add(s.c.e.cfg.PathMTUAge))
	}
}

// SetMTU changes the largest IP packet sent, in octets, as Config.MTU does:
// connections that send larger ones are segmented again; a larger one counts for
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
	c := e.conns[tuple{ports.Canonical(local), ports.Canonical(remote)}]
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
func (s *sender) minMTU() int {
	if s.c.local.Addr().Is4() {
		return minMTU4
	}
	return minMTU6
}

// reduceMTU takes a smaller path MTU (RFC 1191, RFC 8201) and sends again, in
// smaller segments, what was too big. A larger one is looked for from begin
// on.
func (s *sender) reduceMTU(mtu int, begin, now frame.Time) {
	if mtu = max(mtu, s.minMTU()); mtu >= s.mtu {
		if s.snd.Search.Told(mtu) {
			s.snd.Recut(s.mss, s.c.h)
			s.c.Kick()
		}
		return
	}
	s.c.e.paths.Learn(s.c.remote.Addr(), mtu, now)
	s.hole = noHole // a router has told
	s.cutTo(mtu, begin)
}

// cutTo makes packets no longer than mtu and sends again what was longer.
func (s *sender) cutTo(mtu int, begin frame.Time) {
	s.mtu = mtu
	s.snd.Search = pmtu.Begin(begin)
	s.updateMSS()
	s.snd.Recut(s.mss, s.c.h)
	s.c.Kick()
}

// suspectBlackHole tries a smaller MTU when full segments time out again and
// again (RFC 4821 section 7.7), and takes what others have learned meanwhile. A
// peer that is silent looks the same: see holeAcked.
func (s *sender) suspectBlackHole(now frame.Time) {
	if p, ok := s.c.e.paths.Find(s.c.remote.Addr()); ok && p.MTU < s.mtu {
		s.reduceMTU(p.MTU, p.At.Add(s.c.e.cfg.PathMTUAge), now)
		return
	}
	if s.backoff < blackHoleRTOs || s.backoff%blackHoleRTOs != 0 {
		return
	}
	mtu := s.minMTU()
	if s.mtu > blackHoleMTU && mtu < blackHoleMTU {
		mtu = blackHoleMTU
	}
	if int(s.snd.Seg(0).N)+s.c.headerLen() > mtu {
		s.hole = holeSuspected
		s.cutTo(mtu, now.Add(blackHoleTime))
	}
}

// hole is what a connection knows of a suspected black hole.
type hole uint8

const (
	noHole        hole = iota
	holeSuspected      // smaller segments are sent, nothing has been acknowledged since
	holeProbed         // they are acknowledged; the search tells whether larger ones are
)

// holeAcked looks at once whether large segments pass, when the peer has
// acknowledged smaller ones: it may only have been silent.
func (s *sender) holeAcked(now frame.Time) {
	if s.hole == holeSuspected {
		s.hole = holeProbed
		s.snd.Search = pmtu.Begin(now)
	}
}

// concludeHole follows the search. Large segments are lost where smaller ones
// pass: that is a black hole, and counts for all connections to the peer.
func (s *sender) concludeHole(now frame.Time) {
	if s.hole == holeProbed && s.snd.Search.Failed() {
		s.hole = noHole
		s.c.e.stats.BlackHoles++
		s.c.e.paths.Learn(s.c.remote.Addr(), s.mtu, now)
		s.snd.Search = pmtu.Begin(now.Add(blackHoleTime))
	}
}

// topMTU is the largest packet that may be of use.
func (s *sender) topMTU() int { return min(s.c.e.cfg.MTU, s.peerMSS+s.c.headerLen()) }

// firstLen is nextLen for the first segment of a turn, which may be an MTU
// probe.
func (s *sender) firstLen(now frame.Time) int {
	s.concludeHole(now)
	size := 0
	if s.snd.Phase == recovery.Open && !s.override {
		size = s.snd.Search.Due(s.mtu, s.topMTU(), s.c.e.cfg.PathMTUAge, now)
	}
	if size == 0 {
		return s.nextLen(s.snd.Nxt())
	}
	limit := s.mss + size - s.mtu
	if uint64(limit) > s.maxWnd/2 || !s.fits(0, limit, now) {
		return s.nextLen(s.snd.Nxt())
	}
	return max(0, min(s.c.h.Next(s.snd.Nxt(), limit), limit))
}

// mtuAcked takes the larger MTU once the probe is acknowledged.
func (s *sender) mtuAcked(now frame.Time) {
	size := s.snd.Search.Acked(s.snd.Una())
	if size == 0 {
		return
	}
	s.mtu, s.hole = size, noHole
	s.updateMSS()
	if s.mtu >= s.topMTU() {
		s.c.e.paths.Learn(s.c.remote.Addr(), 0, now)
	} else {
		s.c.e.paths.Learn(s.c.remote.Addr(), s.mtu, now)
	}
}
