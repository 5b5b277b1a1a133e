package roce

import (
	"time"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

const (
	windowPackets = 128       // most packets that wait for an acknowledgement
	windowOctets  = 512 << 10 // the same with super-frames, whose packets are cheap
	smallPacket   = 128       // shorter ones count as much
	ackEvery      = 32        // packets of a message until one asks for an acknowledgement
	rnrForever    = 7
	// The ACK timer runs for the time of the attributes, and longer without progress: section 9.7.6.1.3
	// allows four times as much. A peer's processor may be busy with something else.
	maxBackoff = 2
	maxEarly   = 8 // doublings of the time until an adaptive retransmission
)

// sub is the distance from b to a, PSNs of 24 bits.
func sub(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// add is PSN a plus n.
func add(a, n uint32) uint32 { return (a + n) & ib.PSNMask }

// record is a request that has PSNs and is not complete.
type record struct {
	seq    uint64 // of its SendWQE
	first  uint32 // PSN
	count  uint32 // of PSNs
	got    uint32 // of a Read: response packets received
	reads  bool   // Read or atomic: the responses use the PSNs
	status verbs.Status
	kept   []byte // the message, if its memory has gone
}

// requester is the sending half of a queue pair.
//
// PSNs from una to high were sent and are not acknowledged; the cursor is the next
// to send; max is the first that no request has.
type requester struct {
	ring                   []record
	head, tail             uint32
	at                     uint32 // record of the cursor; tail: none
	una, cursor, high, max uint32
	retries, rnrRetries    uint8
	reads                  int           // Reads and atomics that have no response
	naked                  bool          // a NAK or a gap has set the cursor back, without progress since
	wait                   frame.Time    // of a receiver not ready; 0: none
	expiry                 frame.Time    // of the ACK timer; 0: not running
	rtt                    time.Duration // smoothed; 0: not known
	timed                  uint32        // the PSN whose acknowledgement is the next sample of rtt
	timedAt                frame.Time    // when it was sent; 0: none is timed
	early                  frame.Time    // of the adaptive retransmission; 0: none
	earlies                uint8         // without progress since
	draining, halted       bool
}

func (r *requester) rec(i uint32) *record { return &r.ring[i&uint32(len(r.ring)-1)] }

func (r *requester) start(psn uint32) {
	r.una, r.cursor, r.high, r.max = psn, psn, psn, psn
}

// forget drops what is under way.
func (r *requester) forget() {
	for i := r.head; i != r.tail; i++ {
		r.rec(i).kept = nil
	}
	r.head, r.tail, r.at, r.reads = 0, 0, 0, 0
	r.cursor, r.high, r.max = r.una, r.una, r.una
	r.naked, r.halted, r.draining, r.wait, r.expiry = false, false, false, 0, 0
	r.rtt, r.timedAt, r.early, r.earlies = 0, 0, 0, 0
}

func (r *requester) push(rec record) {
	if int(r.tail-r.head) == len(r.ring) {
		ring := make([]record, max(4, 2*len(r.ring)))
		for i := r.head; i != r.tail; i++ {
			ring[i&uint32(len(ring)-1)] = *r.rec(i)
		}
		r.ring = ring
	}
	*r.rec(r.tail) = rec
	r.tail++
}

// reload sets the retry counters to what the attributes say.
func (q *qp) reload() {
	a := q.v.Attr()
	q.req.retries, q.req.rnrRetries = a.RetryCount, a.RNRRetry
}

// packetsOf is how many PSNs a message of n octets has.
func (q *qp) packetsOf(n uint64) uint32 {
	return max(1, uint32((n+uint64(q.mtu)-1)/uint64(q.mtu)))
}

// window is how many packets may wait for an acknowledgement when those of a message of n octets
// are sent.
func (q *qp) window(n uint64) int32 {
	if q.e.env.Segments() > 1 {
		return max(windowPackets, int32(windowOctets/max(min(uint32(n), q.mtu), smallPacket)))
	}
	return windowPackets
}

// next begins the next request of the send queue, if there is one that may begin.
func (q *qp) next() bool {
	r := &q.req
	if r.draining || r.halted {
		return false
	}
	w := q.v.NextSend()
	if w == nil {
		return false
	}
	rec := record{seq: w.Seq, first: r.max, count: 1, reads: w.Opcode.Reads()}
	if rec.reads && r.reads >= int(q.v.Attr().MaxRdAtomic) && q.v.Attr().MaxRdAtomic > 0 {
		return false // goes on when a response has come
	}
	switch fault := q.v.Resolve(w); {
	case fault != verbs.FaultNone:
		rec.status = verbs.StatusLocalProtection
	case rec.reads && q.v.Attr().MaxRdAtomic == 0:
		rec.status = verbs.StatusLocalQPOp
	case w.Length > maxMessage:
		rec.status = verbs.StatusLocalLength
	}
	q.v.BeginSend()
	if rec.status != verbs.StatusSuccess {
		rec.count, r.halted = 0, true
		r.push(rec)
		return false
	}
	if !w.Opcode.Atomic() {
		rec.count = q.packetsOf(w.Length)
	}
	if rec.reads {
		r.reads++
	} else {
		q.v.Lend(w)
	}
	r.push(rec)
	r.max = add(r.max, rec.count)
	return true
}

// maxMessage is the longest message (section 9.7.7).
const maxMessage = 1 << 31

// sendRequests sends from the cursor on, and reports whether there is more to send now.
func (q *qp) sendRequests(t *turn, now frame.Time) (more bool) {
	r := &q.req
	if r.wait > now {
		return false
	}
	r.wait = 0
	if q.typ == qpattr.UD {
		return q.sendDatagrams(t, now)
	}
	for {
		if r.at == r.tail && !q.next() || r.rec(r.at).status != verbs.StatusSuccess {
			break
		}
		if q.reliable() && sub(r.cursor, r.una) >= q.window(q.v.SendWQE(r.rec(r.at).seq).Length) {
			break
		}
		if q.held(now) {
			break
		}
		if t.over(q.e) {
			more = true
			break
		}
		if !q.sendFrame(t, now) {
			more = q.e.starved
			break
		}
	}
	q.endOfTurn(now)
	return more
}

// endOfTurn sees to what follows from what was sent.
func (q *qp) endOfTurn(now frame.Time) {
	r := &q.req
	if r.halted && r.head != r.tail && r.rec(r.head).status != verbs.StatusSuccess {
		q.failRequest(r.rec(r.head).status)
		return
	}
	if r.draining && r.head == r.tail {
		r.draining = false
		r.halted = true // until the owner moves the queue pair
		if q.v.Attr().SQDNotify {
			q.e.dev.Async(verbs.AsyncEvent{Type: verbs.EventSQDrained, QP: q.v})
		}
	}
	if r.high != r.una && r.expiry == 0 {
		q.armTimer(now)
	}
}

// armTimer starts the ACK timer again, or stops it when nothing waits.
func (q *qp) armTimer(now frame.Time) {
	r := &q.req
	r.expiry, r.early = 0, 0
	if a := q.v.Attr(); a.Timeout != 0 && r.high != r.una && q.reliable() {
		t := max(ib.Timeout(a.Timeout), time.Microsecond)
		if a.RetryCount > r.retries {
			t <<= min(a.RetryCount-r.retries, maxBackoff)
		}
		r.expiry = now.Add(t)
		q.armEarly(now)
	}
	q.setTimer()
}

// leastEarly is how soon the adaptive retransmission comes at the soonest: a peer may have no
// processor for so long.
const leastEarly = 5 * time.Millisecond

// armEarly starts the adaptive retransmission, unless the ACK timer fires as soon. The ACK timer
// of a connection is a second or so, and all that is left where the packet was lost that a NAK
// has asked for: a responder says no more until it comes (section 9.7.4.1.2).
func (q *qp) armEarly(now frame.Time) {
	r := &q.req
	r.early = 0
	if r.rtt == 0 {
		return
	}
	if at := now.Add(max(leastEarly, 4*r.rtt) << min(r.earlies, maxEarly)); at < r.expiry {
		r.early = at
	}
}

// timePSN begins to measure a round trip with a packet that is sent for the first time.
func (r *requester) timePSN(psn uint32, now frame.Time) {
	if r.timedAt == 0 {
		r.timed, r.timedAt = psn, now
	}
}

// timeACK ends the measurement when psn, before which all is acknowledged, is behind it.
func (r *requester) timeACK(psn uint32, now frame.Time) {
	if r.timedAt == 0 || sub(psn, r.timed) <= 0 {
		return
	}
	sample := max(now.Sub(r.timedAt), 1)
	if r.timedAt = 0; r.rtt == 0 {
		r.rtt = sample
	}
	r.rtt += (sample - r.rtt) / 8
}

// setTimer makes the first of the deadlines count.
func (q *qp) setTimer() {
	at := frame.Never
	if q.req.expiry != 0 {
		at = q.req.expiry
	}
	if q.limiter != nil {
		at = min(at, q.limiter.Deadline())
	}
	for _, t := range [...]frame.Time{q.req.wait, q.req.early} {
		if t != 0 {
			at = min(at, t)
		}
	}
	q.e.timers.Set(&q.timer, at)
}

// expired runs the timers that are due.
func (q *qp) expired(now frame.Time) {
	r := &q.req
	if r.wait != 0 && r.wait <= now {
		r.wait = 0
		q.kick()
	}
	if l := q.limiter; l != nil && l.Deadline() <= now {
		l.Woken()
		q.kick()
	}
	if r.expiry == 0 || r.expiry > now {
		if r.early != 0 && r.early <= now {
			// Who is told to pause cannot expect an answer in time.
			paused := q.e.env.Holds != nil && q.e.env.Holds(&q.route.hop)
			if !paused {
				r.earlies++
			}
			if q.armEarly(now); !paused {
				q.e.stats.Adaptive++
				q.goBack(r.una)
			}
		}
		q.setTimer()
		return
	}
	r.expiry = 0
	q.count.Timeouts++
	q.e.stats.Timeouts++
	if q.retry(r.una, verbs.StatusRetryExceeded, &r.retries) {
		r.naked = false
		q.armTimer(now)
	}
}

// retry goes back to psn and takes one from the counter; if that is 0, the oldest
// request fails with status.
func (q *qp) retry(psn uint32, status verbs.Status, left *uint8) bool {
	if *left == 0 {
		q.failRequest(status)
		return false
	}
	*left--
	q.goBack(psn)
	return true
}

// goBack sets the cursor to psn, which is not acknowledged.
func (q *qp) goBack(psn uint32) {
	r := &q.req
	q.count.Retries++
	q.e.stats.Retries++
	r.cursor = psn
	r.timedAt = 0 // which of the two is acknowledged is not to be seen
	r.seek()
	q.kick()
}

// seek finds the record of the cursor. Within a Read it goes on behind the responses
// received.
func (r *requester) seek() {
	r.at = r.tail
	for i := r.head; i != r.tail; i++ {
		if rec := r.rec(i); (r.cursor-rec.first)&ib.PSNMask < rec.count {
			r.at = i
			if rec.reads {
				r.cursor = add(rec.first, rec.got)
			}
			return
		}
	}
}

// failRequest completes the oldest request with an error. The queue pair goes to Err,
// or to SQE if it is not of a reliable type.
func (q *qp) failRequest(status verbs.Status) {
	r := &q.req
	if r.head != r.tail {
		q.v.FinishSend(r.rec(r.head).seq, status)
	}
	if q.reliable() {
		q.fail()
		return
	}
	q.req.forget()
	q.v.Transition(verbs.SQE)
}

// Reclaim implements verbs.Endpoint.
func (q *qp) Reclaim(mr *verbs.MR) {
	q.e.flushWrites()
	r := &q.req
	for i := r.head; i != r.tail; i++ {
		rec := r.rec(i)
		w := q.v.SendWQE(rec.seq)
		if w == nil || rec.reads || rec.kept != nil || rec.status != verbs.StatusSuccess || !w.Uses(mr) {
			continue
		}
		kept := make([]byte, w.Length)
		if w.Fetch(kept, 0) == nil {
			rec.kept = kept
		}
	}
}
