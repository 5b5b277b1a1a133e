package roce

import (
	"math"
	"time"

	"tapir/nic/roce/dcqcn"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// congestion is the congestion control of an engine (annex A17.9): it notifies senders of
// packets with CE, and has queue pairs send more slowly that it is notified of.
type congestion struct {
	dcqcn.Params
	free []*dcqcn.Limiter // that no queue pair has; the last is given first
	// first is the queue of the first limiter, which the Ethernet function shares; each other
	// queue is of one queue pair.
	first dcqcn.Shared
	cnps  []*qp // that owe their peers a CNP
	route route // of the CNP in hand
}

// lineOverhead is what a packet takes of the line beside its IP packet: preamble, Ethernet
// header, FCS and the gap to the next.
const lineOverhead = 38

// startCongestion reserves limiters.
func (e *Engine) startCongestion(p dcqcn.Params) {
	c := &e.congestion
	if c.Params = p.WithDefaults(); p.Enable && !p.NoReaction {
		c.free = dcqcn.NewLimiters(&c.Params)
		c.first.Limiter = c.free[len(c.free)-1]
	}
}

// Limiters is how many rate limiters are free.
func (e *Engine) Limiters() int { return len(e.congestion.free) }

// capable tells whether the queue pair's packets are ECN-capable: those of RoCE v1 have no
// IP header.
func (q *qp) capable() bool { return q.e.congestion.Enable && !q.route.v1 && q.typ != qpattr.UD }

// limit gives the queue pair a limiter, if one is free.
func (e *Engine) limit(q *qp) {
	c := &e.congestion
	n := len(c.free)
	if n == 0 || q.limiter != nil || !q.capable() {
		return
	}
	q.limiter, c.free = c.free[n-1], c.free[:n-1]
	if q.limiter == c.first.Limiter {
		c.first.Taken = true
	}
	mbps := c.MaxRate
	if link := e.env.Speed(); mbps == 0 || mbps > link {
		mbps = link
	}
	q.limiter.Start(uint64(mbps) * 1e6)
}

// unlimit gives the limiter back.
func (e *Engine) unlimit(q *qp) {
	if c := &e.congestion; q.limiter != nil {
		if c.free = append(c.free, q.limiter); c.first.Limiter == q.limiter {
			c.first = dcqcn.Shared{Limiter: q.limiter}
		}
		q.limiter = nil
	}
}

// EthernetRoom is for how many of room frames of the Ethernet function there is room in the
// queue of the first queue pair with a limiter, which they share. Poll says when there is more.
func (e *Engine) EthernetRoom(room int, now frame.Time) int {
	return e.congestion.first.EthernetRoom(room, now)
}

// EthernetSent accounts for a frame of the Ethernet function with its octets on the wire.
func (e *Engine) EthernetSent(octets int, now frame.Time) {
	e.congestion.first.EthernetSent(octets, now)
}

// marked sees to a packet with CE: the notification point. What carries no data is no cause of
// congestion.
func (e *Engine) marked(q *qp, p *ib.Packet, now frame.Time) {
	c := &e.congestion
	e.stats.ECNMarked++
	if len(p.Payload) == 0 || c.NoNotification || q.cnpDue || q.cnpAt > now {
		return
	}
	q.cnpDue = true
	c.cnps = append(c.cnps, q)
}

// sendCNPs sends the notifications that are due, and returns what is left of the frames.
func (e *Engine) sendCNPs(budget int, now frame.Time) int {
	c := &e.congestion
	n := 0
	for ; n < len(c.cnps) && budget > 0 && e.env.Out.Room() > 0; n++ {
		q := c.cnps[n]
		if s := q.v.State(); !q.gone && s >= verbs.RTR && s != verbs.Err {
			if !e.sendCNP(q, now) {
				break
			}
			budget--
		}
		q.cnpDue = false
	}
	rest := copy(c.cnps, c.cnps[n:])
	clear(c.cnps[rest:])
	c.cnps = c.cnps[:rest]
	return budget
}

// sendCNP sends a congestion notification packet to the peer.
func (e *Engine) sendCNP(q *qp, now frame.Time) bool {
	a := q.v.Attr()
	c := &e.congestion
	entry, _ := e.gid(a.Path.SGIDIndex)
	path := a.Path
	path.TClass, path.SL = c.CNPDSCP<<2, c.CNPPriority
	c.route.set(&path, entry, q.v.QPN(), a.DestQPN)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.CNP, MigReq: true, BECN: true, PKey: q.pkey(), DestQP: a.DestQPN}}
	var out writer
	if !e.begin(&out, &c.route, p.HeaderLen()+ib.ICRCLen, 0) {
		return false
	}
	out.packet(&p, 0)
	out.seal(&p, 0, nil)
	if e.env.Notes.On {
		q.noteOther(&p)
	}
	e.end(&out, 0, now)
	q.cnpAt = now.Add(time.Duration(c.CNPTimeout) * time.Microsecond)
	e.stats.CNPsOut++
	q.count.CNPsOut++
	return true
}

// notified takes a congestion notification packet: the reaction point.
func (e *Engine) notified(q *qp, p *packet, now frame.Time) frame.DropReason {
	if e.env.Notes.On {
		q.noteOther(&p.Packet)
	}
	if q.limiter == nil {
		e.stats.CNPsIgnored++
		return e.drop(drop.Unused)
	}
	e.stats.CNPsHandled++
	q.count.CNPsIn++
	q.limiter.CNP(now)
	return frame.DropNone
}

// held tells whether data of the queue pair has to wait for its limiter, whose deadline its
// timer then has. The ACK timer begins again: what asks for an acknowledgement may be what waits.
func (q *qp) held(now frame.Time) bool {
	if q.limiter == nil || !q.limiter.Holds(now) {
		return false
	}
	if c := &q.e.congestion; c.first.Limiter == q.limiter {
		c.first.Refused()
	}
	if q.req.expiry != 0 {
		q.armTimer(now)
	} else {
		q.setTimer()
	}
	return true
}

// spend accounts for data that leaves.
func (q *qp) spend(w *writer, now frame.Time) {
	if q.limiter != nil {
		q.limiter.Spend(w.f.Len()+w.packets*lineOverhead+(w.packets-1)*w.r.length, now)
		if c := &q.e.congestion; c.first.Limiter == q.limiter {
			c.first.Sent()
		}
	}
}

// burst is how many packets of so many octets a frame holds at most.
func (q *qp) burst(size uint32) uint32 {
	if q.limiter == nil {
		return math.MaxUint32
	}
	return uint32(min(max(1, q.limiter.Burst()/int(size)), math.MaxUint32))
}
