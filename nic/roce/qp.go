package roce

import (
	"tapir/nic/roce/dcqcn"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/timer"
)

// qp is the transport's side of a queue pair: requester and responder.
type qp struct {
	e      *Engine
	v      *verbs.QP
	typ    qpattr.Type
	route  route
	mtu    uint32
	class  ib.Opcode // of its packets' opcodes
	parked bool      // in Engine.parked
	queued bool      // in Engine.ready
	gone   bool
	heard  bool // from the peer
	timer  timer.Entry[*qp]
	req    requester
	res    responder
	count  Counters

	limiter *dcqcn.Limiter // nil: none
	cnpDue  bool           // a CNP waits to be sent
	cnpAt   frame.Time     // before which no other one is
}

// Counters counts what one queue pair has done.
type Counters struct {
	PacketsOut, PacketsIn, PacketsAgain, Retries, Timeouts, NaksIn, NaksOut, RNRNaksIn, RNRNaksOut uint64
	Duplicates, OutOfSequence, CNPsOut, CNPsIn                                                     uint64
}

// Info is the state of a queue pair's transport.
type Info struct {
	Counters
	NextPSN, UnackedPSN, ExpectedPSN uint32
	MSN                              uint32
	InFlight                         int // packets sent and not acknowledged
	RetriesLeft                      int
	ReadsOut                         int // Reads and atomics outstanding
	SourcePort                       uint16
	Hop                              Hop
	Limiter                          *dcqcn.State // nil: none
	// Stuck since: the oldest packet waits for an acknowledgement without end.
	Stuck bool
}

// InfoOf returns the state of v's transport; false if it is not a queue pair of a
// RoCE engine.
func InfoOf(v *verbs.QP) (Info, bool) {
	q, ok := v.Endpoint().(*qp)
	if !ok {
		return Info{}, false
	}
	r := &q.req
	i := Info{
		Counters: q.count, NextPSN: r.max, UnackedPSN: r.una, ExpectedPSN: q.res.expected, MSN: q.res.msn,
		InFlight: int(sub(r.high, r.una)), RetriesLeft: int(r.retries), ReadsOut: r.reads,
		SourcePort: q.route.port, Hop: q.route.hop,
	}
	if q.limiter != nil {
		s := q.limiter.State()
		i.Limiter = &s
	}
	i.Stuck = i.InFlight > 0 && v.Attr().Timeout == 0 && q.typ != qpattr.UC
	return i, true
}

// reliable tells whether requests are acknowledged.
func (q *qp) reliable() bool { return q.typ != qpattr.UC && q.typ != qpattr.UD }

// kick gives the queue pair a turn in the next Poll.
func (q *qp) kick() {
	if !q.queued && !q.gone {
		q.queued = true
		q.e.ready = append(q.e.ready, q)
	}
}

// Posted implements verbs.Endpoint.
func (q *qp) Posted() { q.kick() }

// Destroyed implements verbs.Endpoint.
func (q *qp) Destroyed() {
	q.e.flushWrites()
	q.reset()
	q.gone = true
}

// Modified implements verbs.Endpoint.
func (q *qp) Modified(old verbs.State) {
	q.e.flushWrites()
	switch s := q.v.State(); s {
	case verbs.RTR:
		q.startResponder()
	case verbs.RTS:
		if old == verbs.RTR {
			q.startRequester()
		}
		q.req.draining, q.req.halted = false, false
		q.kick()
	case verbs.SQD:
		if old == verbs.SQD { // the path may be another one
			q.resolve()
		} else {
			q.req.draining = true
		}
		q.kick()
	case verbs.Reset, verbs.Err:
		q.reset()
	}
}

// reset ends what is under way.
func (q *qp) reset() {
	q.e.timers.Set(&q.timer, frame.Never)
	q.req.forget()
	q.res.forget()
	q.heard = false
	q.e.unlimit(q)
}

// startResponder begins to receive.
func (q *qp) startResponder() {
	a := q.v.Attr()
	q.mtu = uint32(a.PathMTU)
	q.class = [qpattr.NumTypes]ib.Opcode{ib.TransportRC, ib.TransportUC, ib.TransportUD, ib.TransportXRC,
		ib.TransportXRC}[q.typ]
	if q.typ == qpattr.UD {
		return
	}
	q.resolve()
	q.e.limit(q)
	q.res.start(a.RQPSN, int(a.MaxDestRdAtomic))
}

// startRequester begins to send.
func (q *qp) startRequester() {
	a := q.v.Attr()
	q.req.start(a.SQPSN)
	q.reload()
}

// resolve makes the headers of the queue pair's path.
func (q *qp) resolve() {
	a := q.v.Attr()
	entry, _ := q.e.gid(a.Path.SGIDIndex)
	path := a.Path
	if entry.Type != verbs.RoCEv1 && q.e.congestion.Enable {
		path.TClass = path.TClass&^ip.ECNMask | ip.ECT0
	}
	q.route.set(&path, entry, q.v.QPN(), a.DestQPN)
}

// pkey is the partition key that the queue pair uses.
func (q *qp) pkey() uint16 { return q.e.dev.PKeys()[q.v.Attr().PKeyIndex] }

// fail moves the queue pair to Err.
func (q *qp) fail() {
	q.v.Transition(verbs.Err)
	q.req.forget()
	q.res.forget()
	q.e.timers.Set(&q.timer, frame.Never)
	if q.res.nak.due {
		q.kick()
	}
}

// memoryGone ends a queue pair because memory that was placed into is gone.
func (q *qp) memoryGone() {
	if q.v.State() == verbs.Err || q.v.State() == verbs.Reset {
		return
	}
	responding{q}.refuse(ib.NAKRemoteOperation, q.res.expected, verbs.EventQPFatal, verbs.StatusLocalProtection)
}

// output is a turn: responses first, then requests, of which the peer may wait for one, then
// the acknowledgement that is due. It reports whether there is more to send now.
func (q *qp) output(now frame.Time) (more bool) {
	if q.e.park(q) {
		return false
	}
	t, res := turn{turnFrames, turnOctets}, responding{q}
	if res.sendReplies(&t, now) {
		return !q.held(now)
	}
	t.frames-- // for the acknowledgement
	if s := q.v.State(); s == verbs.RTS || s == verbs.SQD {
		more = q.sendRequests(&t, now)
	}
	t.frames = max(1, t.frames+1)
	t.octets = max(1, t.octets)
	return res.sendAcknowledgement(&t, now) || more
}

// turn is what a queue pair may still send before the next one's turn.
type turn struct{ frames, octets int }

// over tells whether the turn is over or nothing can be sent.
func (t *turn) over(e *Engine) bool {
	return t.frames <= 0 || t.octets <= 0 || e.starved || e.env.Out.Room() <= 0
}
