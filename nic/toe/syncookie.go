package toe

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// A SYN cookie (RFC 4987 section 3.6) keeps a half-open connection in the
// sequence number of the SYN-ACK: 29 bits of a keyed hash over the 4-tuple,
// the peer's sequence number and the time, and 3 bits for its MSS. What the
// SYN offered beyond that is kept in the low 6 bits of our timestamp, which
// the peer echoes: window scale (4 bits, 15: none), SACK, ECN.

// cookiePeriod is how long a cookie is fresh: it is taken back in the same
// period and the one after.
const cookiePeriod = 64 * time.Second

// cookieMSS are the values that 3 bits stand for.
var cookieMSS = [8]uint16{216, 536, 1220, 1400, 1440, 1460, 4312, 8940}

const (
	cookieSACK  = 1 << 4
	cookieECN   = 1 << 5
	cookieNoWS  = 15
	cookieMask  = 63
	cookieShift = 3
)

// sendCookie answers a SYN without keeping anything.
func (l *Listener) sendCookie(h *tcp.Header, local, remote netip.AddrPort, now frame.Time) {
	e, o := l.e, &h.Opts
	l.cookieAt = now
	e.stats.CookiesSent++
	idx := uint32(0)
	for i, m := range cookieMSS {
		if m <= max(o.MSS, cookieMSS[0]) {
			idx = uint32(i)
		}
	}
	t := tuple{local, remote}
	ans := tcp.Header{
		Seq: tcp.Seq(e.cookie(t, h.Seq, now, idx)), Ack: h.Seq.Add(1), Flags: tcp.SYN | tcp.ACK,
		Window: uint16(min(e.cfg.RcvWnd, 0xffff)),
	}
	ans.Opts.MSS = e.announcedMSS(local.Addr())
	if o.HasTS {
		bits := uint32(cookieNoWS)
		if o.HasWS {
			bits = min(uint32(o.WS), 14)
			ans.Opts.HasWS, ans.Opts.WS = true, wndScale(e.cfg.RcvWnd)
		}
		if ans.Opts.SACKPermitted = o.SACKPermitted; o.SACKPermitted {
			bits |= cookieSACK
		}
		if h.Flags.Has(tcp.ECE|tcp.CWR) && l.par.ECN != ECNOff {
			bits |= cookieECN
			ans.Flags |= tcp.ECE
		}
		ts := tsClock(now) + e.hash(t, "ts")
		if v := ts&^cookieMask | bits; int32(v-ts) <= 0 {
			ts = v
		} else {
			ts = v - cookieMask - 1
		}
		ans.Opts.HasTS, ans.Opts.TSVal, ans.Opts.TSEcr = true, ts, o.TSVal
	}
	e.answer(local, remote, ans)
}

// takeCookie makes a connection from the ACK that answers a cookie, nil if it
// does not. The segment still is to be handled by the connection.
func (l *Listener) takeCookie(h *tcp.Header, local, remote netip.AddrPort, now frame.Time) *Conn {
	e := l.e
	if l.cookieAt == 0 || now.Sub(l.cookieAt) > 2*cookiePeriod || h.Flags&(tcp.SYN|tcp.RST|tcp.ACK) != tcp.ACK {
		return nil
	}
	iss, irs := uint32(h.Ack)-1, h.Seq-1
	t, idx := tuple{local, remote}, iss&(1<<cookieShift-1)
	before := max(0, now.Add(-cookiePeriod))
	if iss != e.cookie(t, irs, now, idx) && iss != e.cookie(t, irs, before, idx) {
		return nil
	}
	if e.crowded(l, remote.Addr()) {
		return nil
	}
	syn := tcp.Header{Seq: irs, Flags: tcp.SYN, Window: h.Window}
	syn.Opts.MSS = cookieMSS[idx]
	if h.Opts.HasTS {
		bits := h.Opts.TSEcr & cookieMask
		syn.Opts.HasTS, syn.Opts.TSVal = true, h.Opts.TSVal
		syn.Opts.SACKPermitted = bits&cookieSACK != 0
		if ws := bits & 15; ws != cookieNoWS {
			syn.Opts.HasWS, syn.Opts.WS = true, uint8(ws)
		}
		if bits&cookieECN != 0 {
			syn.Flags |= tcp.ECE | tcp.CWR
		}
	}
	c := e.newConn(local, remote, StateSynReceived, now)
	c.halfOpen(l)
	c.iss = iss
	c.takeSyn(&syn, now)
	e.stats.CookiesTaken++
	return c
}

// cookie is the sequence number of a SYN-ACK to a SYN with number irs.
func (e *Engine) cookie(t tuple, irs tcp.Seq, at frame.Time, idx uint32) uint32 {
	var b [32 + 4 + 4 + 8 + 4]byte
	copy(b[:], e.secret[:])
	binary.BigEndian.PutUint32(b[32:], e.hash(t, "cookie"))
	binary.BigEndian.PutUint32(b[36:], uint32(irs))
	binary.BigEndian.PutUint64(b[40:], uint64(at)/uint64(cookiePeriod))
	binary.BigEndian.PutUint32(b[48:], idx)
	sum := sha256.Sum256(b[:])
	return binary.LittleEndian.Uint32(sum[:])<<cookieShift | idx
}
