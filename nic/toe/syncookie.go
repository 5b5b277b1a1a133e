package toe

import (
	"net/netip"

	"tapir/nic/toe/ecn"
	"tapir/nic/toe/isn"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// sendCookie answers a SYN without keeping anything (RFC 4987 section 3.6).
func (l *Listener) sendCookie(h *tcp.Header, local, remote netip.AddrPort, now frame.Time) {
	e, o := l.e, &h.Opts
	l.cookieAt = now
	e.stats.CookiesSent++
	ans := tcp.Header{
		Seq: e.cfg.Secret.Cookie(local, remote, h, now), Ack: h.Seq.Add(1), Flags: tcp.SYN | tcp.ACK,
		Window: uint16(min(e.cfg.RcvWnd, 0xffff)),
	}
	ans.Opts.MSS = e.announcedMSS(local.Addr())
	if o.HasTS { // only the timestamp can keep more than the MSS
		if o.HasWS {
			ans.Opts.HasWS, ans.Opts.WS = true, wndScale(e.cfg.RcvWnd)
		}
		ans.Opts.SACKPermitted = o.SACKPermitted
		granted := ecn.Granted(l.params().ECN, h.Flags)
		if granted {
			ans.Flags |= tcp.ECE
		}
		ts := isn.CookieTimestamp(h, granted, tsClock(now)+e.cfg.Secret.Hash(local, remote, "ts"))
		ans.Opts.HasTS, ans.Opts.TSVal, ans.Opts.TSEcr = true, ts, o.TSVal
	}
	e.answers.Add(local, remote, ans, e.par.TOS)
}

// takeCookie makes a connection from the ACK that answers a cookie, nil if it
// does not. The segment still is to be handled by the connection. wait says
// that there is no room for it yet: the peer will send again.
func (l *Listener) takeCookie(h *tcp.Header, local, remote netip.AddrPort, now frame.Time) (c *Conn, wait bool) {
	e := l.e
	if l.cookieAt == 0 || now.Sub(l.cookieAt) > isn.CookieLife || h.Flags&(tcp.SYN|tcp.RST|tcp.ACK) != tcp.ACK {
		return nil, false
	}
	syn, ok := e.cfg.Secret.TakeCookie(local, remote, h, now)
	switch {
	case !ok || e.passive.Crowded(&l.backlog, remote.Addr(), len(e.conns)):
		return nil, false
	case l.full(remote, now):
		return nil, true
	}
	c = e.newConn(local, remote, StateSynReceived, now)
	c.halfOpen(l)
	c.snd.ISS = uint32(h.Ack) - 1
	c.takeSyn(&syn, now)
	e.stats.CookiesTaken++
	return c, false
}
