package iwarp

import (
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
	"tapir/wire/timer"
)

// phase is where a connection stands.
type phase uint8

const (
	connecting  phase = iota // TCP handshake of an active open
	waitRequest              // responder: MPA request incomplete
	offered                  // responder: the application decides
	waitReply                // initiator: MPA reply incomplete
	full                     // full operation: FPDUs both ways
	closing                  // nothing new is accepted; bytes may still leave
	ended
)

var phaseNames = [...]string{
	"connecting", "wait request", "offered", "wait reply", "full operation", "closing", "ended",
}

func (p phase) String() string { return phaseNames[p] }

// conn is one connection: TCP's handler below a queue pair.
type conn struct {
	e        *Engine
	num      uint32
	tcp      *toe.Conn
	acceptor *acceptor  // passive
	queued   bool       // in acceptor.queue
	silent   bool       // in acceptor.silent
	since    frame.Time // passive: when TCP was established
	id       *cm.ID
	qp       *verbs.QP
	phase    phase

	initiator *mpa.Initiator // during start-up only
	responder *mpa.Responder
	result    mpa.Result

	outbound
	inbound
	stream *rdmap.Stream
	gated  bool // hold FPDUs: responder until the initiator's first one
	held   bool // gated by Config.FirstDelay
	begins bool // gated until Config.SendFirst is over
	local  bool // a work request of this side is the fault
	// revision is what the initiator asks for.
	revision uint8
	mute     bool // the peer closed instead of answering the MPA request

	peerClosed bool // its FIN has come

	draining bool  // close gracefully once the send queue is empty
	finished bool  // that has come: FIN follows what is unsent
	aborting bool  // reset the connection once the Terminate is out
	err      error // why it ended

	until    frame.Time    // when start-up or a graceful close has taken too long
	after    time.Duration // set: it begins to count with the next poll
	nudger   nudger
	timer    timer.Entry[*conn] // the first of the two
	progress uint64             // stream octets acknowledged or received when last checked
	counters Counters
	endpoint *endpoint // of the queue pair
}

// bind gives the connection its queue pair.
func (c *conn) bind(qp *verbs.QP) {
	c.qp, c.endpoint = qp, endpointOf(qp)
	c.endpoint.conn = c
	if qp.RateLimit() > 0 {
		c.tcp.SetRate(qp.RateLimit())
	}
}

// classify gives the connection's packets the class that its id names.
func (c *conn) classify() {
	if tos := c.id.Params().TOS; tos != 0 {
		par := c.tcp.Params()
		par.TOS = tos
		c.tcp.SetParams(par)
	}
}

func (e *Engine) newConn() *conn {
	e.made++
	c := &conn{e: e, num: e.made, until: frame.Never, nudger: nudger{at: frame.Never}}
	c.outbound.c, c.inbound.c = c, c
	c.timer = timer.Entry[*conn]{Owner: c, ID: uint64(c.num)}
	c.retain.memory = &e.memory
	e.conns.Add(c.num, c)
	return c
}

// forget removes a connection of which nothing is left.
func (e *Engine) forget(c *conn) {
	c.phase = ended
	c.leaveQueue()
	c.stopNudger()
	e.arm(c, frame.Never)
	if c.stream != nil {
		c.counters.addStream(c.stream)
		c.rx.Reset(nil)
	}
	e.totals.add(&c.counters)
	c.log.release(c)
	c.retain.release()
	c.endLoans()
	c.dropOOO()
	e.conns.Remove(c.num)
	if p := c.endpoint; c.qp != nil {
		p.past.add(&c.counters)
		if p.conn == c {
			p.conn = nil
		}
	}
	if c.id != nil && c.id.Conn() == cm.Conn(c) {
		c.id.Attach(nil)
	}
}

// begin enters full operation with what was negotiated. behind is the number
// of octets received that follow start-up.
func (c *conn) begin(r mpa.Result, behind int) {
	c.result = r
	c.initiator, c.responder = nil, nil
	c.tx = r.Tx()
	c.rx = mpa.NewReceiver(r.Rx(), &c.e.memory)
	c.stream = rdmap.NewStream((*upper)(c), rdmap.Limits{IRD: int(r.IRD), ORD: int(r.ORD)})
	c.base = c.log.end
	c.rxBase = c.rxOff - uint64(behind)
	c.copies = !r.CRC && c.e.cfg.NoZeroCopy
	c.shares = !r.CRC && !c.e.cfg.NoZeroCopy
	c.phase = full
	c.e.arm(c, frame.Never)
}

var rtrOpcodes = map[mpa.RTR]rdmap.Opcode{
	mpa.RTRSend: rdmap.Send, mpa.RTRWrite: rdmap.Write, mpa.RTRRead: rdmap.ReadRequestOp,
}

// hold keeps an initiator's FPDUs back for Config.FirstDelay.
func (c *conn) hold(now frame.Time) {
	if d := c.e.cfg.FirstDelay; d > 0 {
		c.gated, c.held = true, true
		c.e.arm(c, now.Add(d))
	}
}

// mayBegin lets a responder's FPDUs go after Config.SendFirst, if the
// initiator's first does not come before.
func (c *conn) mayBegin() {
	if d := c.e.cfg.SendFirst; d > 0 {
		c.begins = true
		c.e.armAfter(c, d)
	}
}

// begun ends that wait: the initiator has sent.
func (c *conn) begun() {
	if c.begins && !c.draining {
		c.e.arm(c, frame.Never)
	}
	c.begins = false
}

// release lets FPDUs go.
func (c *conn) release(now frame.Time) {
	c.gated, c.held, c.begins = false, false, false
	if c.draining {
		c.e.arm(c, now.Add(c.e.cfg.CloseTimeout))
	}
	c.tcp.Kick()
}

// progressed tells whether anything has moved since the last call: a long
// queue may take longer than CloseTimeout to drain.
func (c *conn) progressed() bool {
	i := c.tcp.Info()
	moved := i.SndUna
	if !c.finished {
		moved += i.RcvNxt // answers to Reads
	}
	if moved == c.progress {
		return false
	}
	c.progress = moved
	return true
}

// expired runs when the deadline passes: the peer is silent, start-up took
// too long, or a graceful close did.
func (c *conn) expired(now frame.Time) {
	if c.nudger.at <= now {
		c.nudge(now)
	}
	if c.until > now {
		c.e.rearm(c)
		return
	}
	if c.after > 0 {
		c.e.arm(c, now.Add(c.after))
		return
	}
	c.e.arm(c, frame.Never)
	if (c.held || c.begins) && c.phase == full {
		c.release(now)
		return
	}
	if c.draining && c.progressed() {
		c.e.arm(c, now.Add(c.e.cfg.CloseTimeout))
		return
	}
	switch c.phase {
	case waitReply:
		c.err = cm.ErrTimedOut
		c.because(c.err)
		c.id.Fail(cm.TimedOut, c.err, nil)
	case waitRequest:
		c.err = cm.ErrTimedOut
	case offered: // the peer has closed meanwhile
		c.err = cm.ErrClosing
	case full: // a graceful close turns abortive
		c.err = cm.ErrTimedOut
	}
	c.tcp.Abort()
}
