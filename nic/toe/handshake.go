package toe

import (
	"net/netip"

	"tapir/nic/toe/admission"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// openActive sends the first SYN at the next Poll.
func (c *Conn) openActive(now frame.Time) {
	c.rcv.TS.On, c.snd.SACK = true, true
	c.sendSyn(now)
}

// sendSyn makes a SYN or SYN-ACK due and starts its timer.
func (c *Conn) sendSyn(now frame.Time) {
	c.wantSyn = true
	c.arm(now, c.rto())
	c.Kick()
	c.schedule()
}

// segment handles a segment to listener l that belongs to no connection (RFC
// 9293 section 3.10.7.2). It returns the new connection, nil if there is none.
// The ACK that answers a SYN cookie is still to be handled by it.
func (l *Listener) segment(h *tcp.Header, local, remote netip.AddrPort, now frame.Time) *Conn {
	e := l.e
	switch {
	case h.Flags.Has(tcp.RST):
		e.drop(drop.TCPState)
		return nil
	case h.Flags.Has(tcp.ACK):
		c, wait := l.takeCookie(h, local, remote, now)
		if wait {
			e.drop(drop.Backlog)
		}
		if c != nil || wait {
			return c
		}
		e.drop(drop.TCPState)
		e.answers.Reset(local, remote, h, 0, e.par.TOS)
		return nil
	case !h.Flags.Has(tcp.SYN):
		e.drop(drop.TCPState)
		return nil
	}
	switch e.passive.Admit(&l.backlog, remote.Addr(), len(e.conns)) {
	case admission.Cookie:
		if !e.cfg.NoSynCookies {
			l.sendCookie(h, local, remote, now)
			return nil
		}
		fallthrough
	case admission.Refuse:
		e.drop(drop.Backlog)
		return nil
	}
	c := e.newConn(local, remote, StateSynReceived, now)
	c.halfOpen(l)
	e.replace(c)
	c.takeSyn(h, now)
	c.sendSyn(now)
	return c
}

// takeSyn reads the peer's SYN: its sequence number, window and options.
// What it does not offer is not used (RFC 7323 sections 2.2 and 3.2, RFC 2018
// section 2).
func (c *Conn) takeSyn(h *tcp.Header, now frame.Time) {
	o := &h.Opts
	c.rcv.IRS = uint32(h.Seq)
	c.wnd, c.maxWnd, c.wl1, c.wl2 = uint64(h.Window), uint64(h.Window), -1, 0
	if o.MSS != 0 {
		c.peerMSS = max(int(o.MSS), minPeerMSS)
	}
	c.ecn.TakeSyn(c.par.ecn(), h.Flags)
	c.snd.SACK = o.SACKPermitted
	c.rcv.TS.Begin(h, now)
	c.sndScale, c.peerScales = o.WS, o.HasWS
	if !o.HasWS {
		c.sndScale, c.rcv.Scale = 0, 0
	}
	c.updateMSS()
}

// minPeerMSS bounds what a tiny MSS option can make us do.
const minPeerMSS = 48

// inSynSent handles a segment in SYN-SENT (RFC 9293 section 3.10.7.3).
func (c *Conn) inSynSent(h *tcp.Header, now frame.Time) {
	acked := h.Flags.Has(tcp.ACK)
	if acked && c.snd.Offset(h.Ack) != 0 {
		c.e.drop(drop.TCPSequence)
		if !h.Flags.Has(tcp.RST) {
			c.e.answers.Reset(c.local, c.remote, h, 0, c.e.par.TOS)
		}
		return
	}
	switch {
	case h.Flags.Has(tcp.RST):
		if !acked {
			c.e.drop(drop.TCPState)
			return
		}
		c.e.stats.ResetsIn++
		c.finish(Refused, now)
	case !h.Flags.Has(tcp.SYN):
		c.e.drop(drop.TCPState)
	case acked:
		c.takeSyn(h, now)
		c.rcv.Due = true
		c.establish(now)
		c.Kick()
	default: // simultaneous open
		c.takeSyn(h, now)
		c.state = StateSynReceived
		c.backoff = 0
		c.sendSyn(now)
	}
}

// handshakeDone handles the ACK field in SYN-RECEIVED and reports whether the
// connection is established.
func (c *Conn) handshakeDone(h *tcp.Header, ack int64, now frame.Time) bool {
	if ack != 0 {
		c.e.drop(drop.TCPSequence)
		c.e.answers.Reset(c.local, c.remote, h, 0, c.e.par.TOS)
		return false
	}
	if l := c.listener; l != nil {
		if l.full(c.remote, now) { // the peer sends again, or answers our next SYN-ACK
			c.e.drop(drop.Backlog)
			return false
		}
		c.opened()
		c.state = StateEstablished
		if c.h = l.accept(c, now); c.h == nil {
			c.wantAbort = true
			c.Kick()
			return false
		}
		c.e.stats.PassiveOpens++
	}
	c.establish(now)
	return !c.wantAbort
}

// crossed reports whether a segment is the peer's SYN-ACK of a simultaneous
// open. Its number lies before the window, yet it establishes the connection
// (RFC 9293 section 3.5, figure 7).
func (c *Conn) crossed(h *tcp.Header, off, ack int64) bool {
	const bits = tcp.SYN | tcp.ACK | tcp.RST | tcp.FIN
	return c.state == StateSynReceived && !c.passive && off == -1 && ack == 0 &&
		h.Flags&bits == tcp.SYN|tcp.ACK
}

// establish begins the data phase.
func (c *Conn) establish(now frame.Time) {
	c.state = StateEstablished
	if c.backoff == 0 && c.synAt != 0 {
		c.addRTT(now.Sub(c.synAt))
	}
	c.cc.Open(c.mss, c.backoff > 0)
	c.backoff, c.softErr = 0, 0
	c.wantSyn = false
	c.rtoAt = frame.Never
	c.lastIn, c.lastOut = now, now
	if c.par.KeepAlive > 0 {
		c.stateAt = now.Add(c.par.KeepAlive)
	}
	c.h.Established(c, now)
}
