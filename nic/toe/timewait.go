package toe

import (
	"cmp"
	"net/netip"
	"time"

	"tapir/nic/toe/timewait"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// enterTimeWait replaces the connection by a record and acknowledges the
// peer's FIN. That of a listener's connection leaves the port to the OS.
func (c *Conn) enterTimeWait(now frame.Time) {
	e := c.e
	w := timewait.Record{
		At: now.Add(cmp.Or(c.par.TimeWait, e.cfg.TimeWait)), Snd: c.snd.Seq(c.snd.Nxt()), Rcv: c.rcv.Seq(c.rcv.Next()),
		TSRecent: c.rcv.TS.Recent, TSOff: c.tsOff, Window: c.windowField(),
	}
	if !c.passive {
		w.Port = c.port.Share() // or the operating system could choose it for the same remote end
	}
	w.SetConn(c.local, c.remote, c.rcv.TS.On)
	if e.waits.Len() >= e.cfg.MaxTimeWait {
		e.waits.Remove(e.waits.Oldest())
		e.stats.TimeWaitOverflows++
	}
	e.waits.Add(w)
	if c.rcv.Due {
		e.answerWaiting(&w, now)
	}
	e.forget(c)
	c.state = StateTimeWait
	c.record.Forget()
	c.reportClosed(0, now)
}

// answerWaiting acknowledges a segment to a connection in TIME-WAIT.
func (e *Engine) answerWaiting(w *timewait.Record, now frame.Time) {
	local, remote := w.Addrs()
	e.answers.Add(local, remote, w.Ack(tsClock(now)), e.par.TOS)
}

// challengeWaiting is answerWaiting at most 10 times per second.
func (e *Engine) challengeWaiting(w *timewait.Record, now frame.Time) {
	if w.MayAnswer(challengesPerSecond, now) {
		e.stats.ChallengeAcks++
		e.answerWaiting(w, now)
	}
}

// inTimeWait handles a segment to local with n sequence numbers, for w. It returns true
// if the segment opens a new connection in w's place, to a listener or the OS.
func (e *Engine) inTimeWait(w *timewait.Record, local netip.AddrPort, h *tcp.Header, n int,
	now frame.Time) (reuse bool) {
	off, f := int(h.Seq.Sub(w.Rcv)), h.Flags
	switch {
	case f.Has(tcp.RST):
		if off == 0 {
			e.stats.ResetsIn++
			e.waits.Remove(w)
			return false
		}
		if off > 0 && off < e.cfg.RcvWnd {
			e.challengeWaiting(w, now)
		}
	case f.Has(tcp.SYN):
		if e.waits.Reopen(w, h, e.listener(local) != nil, e.cfg.Reserve != nil) {
			return true
		}
		e.challengeWaiting(w, now)
	case !f.Has(tcp.ACK):
		e.drop(drop.TCPState)
		return false
	case f.Has(tcp.FIN) && off+n <= 0:
		e.waits.Renew(w, now.Add(e.cfg.TimeWait))
		e.challengeWaiting(w, now)
	case n > 0 || off < 0 || off >= e.cfg.RcvWnd || h.Ack.Sub(w.Snd) > 0:
		e.challengeWaiting(w, now)
	default:
		return false
	}
	why := drop.TCPSequence
	if n > 0 && off+n <= 0 {
		why = drop.TCPDuplicate
	}
	e.drop(why)
	return false
}

// follow lets an active open take w's place once a timestamp can tell its
// segments from older ones (RFC 6191 section 2).
func (e *Engine) follow(t tuple, now frame.Time) bool {
	w := e.waits.Find(t.local, t.remote)
	return w == nil || w.Timestamps() && now.Sub(w.At)+e.cfg.TimeWait >= reuseAfter
}

const reuseAfter = time.Second

// replace removes t's record, if there is one, and begins the new connection
// c above the sequence numbers of the old one (RFC 1122 section 4.2.2.13).
func (e *Engine) replace(c *Conn) {
	w := e.waits.Find(c.local, c.remote)
	if w == nil {
		return
	}
	if tcp.Seq(c.snd.ISS).LessEq(w.Snd) {
		c.snd.ISS = uint32(w.Snd) + 1
	}
	e.waits.Remove(w)
}
