package toe

import (
	"net/netip"
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// waiting is a connection in TIME-WAIT: what it takes to answer old segments
// and to let a new connection follow.
type waiting struct {
	key      waitKey
	snd, rcv tcp.Seq // SND.NXT and RCV.NXT
	tsRecent uint32
	at       frame.Time // end of TIME-WAIT
	quietAt  frame.Time // answers are counted from here
	port     *reservation
	next     int32 // in the order of their ends, or of free records
	prev     int32
	tsOff    uint32
	window   uint16
	answers  uint8
	flags    waitFlags
}

type waitFlags uint8

const (
	waitTS   waitFlags = 1 << iota // timestamps are in use
	waitIPv4                       // the addresses are IPv4
)

// waitKey is a 4-tuple in 36 octets.
type waitKey struct {
	local, remote         [16]byte
	localPort, remotePort uint16
}

func waitKeyOf(t tuple) waitKey {
	return waitKey{t.local.Addr().As16(), t.remote.Addr().As16(), t.local.Port(), t.remote.Port()}
}

func (w *waiting) tuple() tuple {
	l, r := netip.AddrFrom16(w.key.local), netip.AddrFrom16(w.key.remote)
	if w.flags&waitIPv4 != 0 {
		l, r = l.Unmap(), r.Unmap()
	}
	return tuple{netip.AddrPortFrom(l, w.key.localPort), netip.AddrPortFrom(r, w.key.remotePort)}
}

// waitList holds the records in one slab, oldest first. Every stay has the
// same length, so that the order of entry is the order of ends.
type waitList struct {
	index      map[waitKey]int32
	recs       []waiting
	head, tail int32 // -1: none
	free       int32
}

func (l *waitList) find(t tuple) *waiting {
	if len(l.index) == 0 {
		return nil
	}
	if i, ok := l.index[waitKeyOf(t)]; ok {
		return &l.recs[i]
	}
	return nil
}

// add stores w as the newest record.
func (l *waitList) add(w waiting) {
	if l.index == nil {
		*l = waitList{index: make(map[waitKey]int32), head: -1, tail: -1, free: -1}
	}
	i := l.free
	if i >= 0 {
		l.free = l.recs[i].next
		l.recs[i] = w
	} else {
		i = int32(len(l.recs))
		l.recs = append(l.recs, w)
	}
	l.index[w.key] = i
	l.link(i)
}

// link puts record i at the end of the order.
func (l *waitList) link(i int32) {
	w := &l.recs[i]
	w.prev, w.next = l.tail, -1
	if l.tail >= 0 {
		l.recs[l.tail].next = i
	} else {
		l.head = i
	}
	l.tail = i
}

func (l *waitList) unlink(i int32) {
	w := &l.recs[i]
	if w.prev >= 0 {
		l.recs[w.prev].next = w.next
	} else {
		l.head = w.next
	}
	if w.next >= 0 {
		l.recs[w.next].prev = w.prev
	} else {
		l.tail = w.prev
	}
}

// remove forgets w. The last one takes the slab with it.
func (l *waitList) remove(w *waiting) {
	i := l.index[w.key]
	l.unlink(i)
	delete(l.index, w.key)
	w.port.drop()
	*w = waiting{next: l.free}
	if l.free = i; len(l.index) == 0 {
		*l = waitList{}
	}
}

// renew starts w's stay again.
func (l *waitList) renew(w *waiting, at frame.Time) {
	i := l.index[w.key]
	l.unlink(i)
	w.at = at
	l.link(i)
}

// oldest is the record that ends first, nil if there is none.
func (l *waitList) oldest() *waiting {
	if len(l.index) == 0 {
		return nil
	}
	return &l.recs[l.head]
}

// next is when the first record ends.
func (l *waitList) deadline() frame.Time {
	if w := l.oldest(); w != nil {
		return w.at
	}
	return frame.Never
}

func (l *waitList) expire(now frame.Time) {
	for w := l.oldest(); w != nil && w.at <= now; w = l.oldest() {
		l.remove(w)
	}
}

// enterTimeWait replaces the connection by a record and acknowledges the
// peer's FIN.
func (c *Conn) enterTimeWait(now frame.Time) {
	e := c.e
	w := waiting{
		key: waitKeyOf(tuple{c.local, c.remote}), at: now.Add(e.cfg.TimeWait),
		snd: c.sndSeq(c.nxt), rcv: c.rcvSeq(c.rcvNxt), tsRecent: c.tsRecent, tsOff: c.tsOff,
		port: c.port.share(), window: c.windowField(),
	}
	if c.tsOK {
		w.flags |= waitTS
	}
	if c.local.Addr().Is4() {
		w.flags |= waitIPv4
	}
	if len(e.waits.index) >= e.cfg.MaxTimeWait {
		e.waits.remove(e.waits.oldest())
		e.stats.TimeWaitOverflows++
	}
	e.waits.add(w)
	if c.wantAck {
		e.answerWaiting(&w, now)
	}
	e.forget(c)
	c.state, c.saved = StateTimeWait, nil
	c.reportClosed(0, now)
}

// answerWaiting acknowledges a segment to a connection in TIME-WAIT.
func (e *Engine) answerWaiting(w *waiting, now frame.Time) {
	t := w.tuple()
	h := tcp.Header{Seq: w.snd, Ack: w.rcv, Flags: tcp.ACK, Window: w.window}
	if w.flags&waitTS != 0 {
		h.Opts.HasTS, h.Opts.TSVal, h.Opts.TSEcr = true, tsClock(now)+w.tsOff, w.tsRecent
	}
	e.answer(t.local, t.remote, h)
}

// challengeWaiting is answerWaiting at most 10 times per second.
func (e *Engine) challengeWaiting(w *waiting, now frame.Time) {
	if now.Sub(w.quietAt) >= time.Second || w.quietAt == 0 {
		w.quietAt, w.answers = now, 0
	}
	if w.answers < challengesPerSecond {
		w.answers++
		e.stats.ChallengeAcks++
		e.answerWaiting(w, now)
	}
}

// inTimeWait handles a segment with n sequence numbers to w. It returns true
// if the segment opens a new connection in w's place.
func (e *Engine) inTimeWait(w *waiting, h *tcp.Header, n int, now frame.Time) (reuse bool) {
	off, f := int(h.Seq.Sub(w.rcv)), h.Flags
	switch {
	case f.Has(tcp.RST):
		if off == 0 {
			e.stats.ResetsIn++
			e.waits.remove(w)
			return false
		}
		if off > 0 && off < e.cfg.RcvWnd {
			e.challengeWaiting(w, now)
		}
	case f.Has(tcp.SYN):
		if w.reusedBy(h) && e.listener(w.tuple().local) != nil {
			return true
		}
		e.challengeWaiting(w, now)
	case !f.Has(tcp.ACK):
		e.drop(frame.DropTCPState)
		return false
	case f.Has(tcp.FIN) && off+n <= 0:
		e.waits.renew(w, now.Add(e.cfg.TimeWait))
		e.challengeWaiting(w, now)
	case n > 0 || off < 0 || off >= e.cfg.RcvWnd || h.Ack.Sub(w.snd) > 0:
		e.challengeWaiting(w, now)
	default:
		return false
	}
	why := frame.DropTCPSequence
	if n > 0 && off+n <= 0 {
		why = frame.DropTCPDuplicate
	}
	e.drop(why)
	return false
}

// reusedBy reports whether a SYN may replace w: it is newer by timestamp (RFC
// 6191 section 2) or by sequence number (RFC 9293 section 3.10.7.4).
func (w *waiting) reusedBy(h *tcp.Header) bool {
	if h.Flags.Has(tcp.ACK) {
		return false
	}
	if w.flags&waitTS != 0 && h.Opts.HasTS && h.Opts.TSVal != w.tsRecent {
		return int32(h.Opts.TSVal-w.tsRecent) > 0
	}
	return w.rcv.Less(h.Seq)
}

// follow lets an active open take w's place once a timestamp can tell its
// segments from older ones (RFC 6191 section 2).
func (e *Engine) follow(t tuple, now frame.Time) bool {
	w := e.waits.find(t)
	return w == nil || w.flags&waitTS != 0 && now.Sub(w.at)+e.cfg.TimeWait >= reuseAfter
}

const reuseAfter = time.Second

// replace removes t's record, if there is one, and begins the new connection
// c above the sequence numbers of the old one (RFC 1122 section 4.2.2.13).
func (e *Engine) replace(c *Conn) {
	w := e.waits.find(tuple{c.local, c.remote})
	if w == nil {
		return
	}
	if tcp.Seq(c.iss).LessEq(w.snd) {
		c.iss = uint32(w.snd) + 1
	}
	e.waits.remove(w)
}
