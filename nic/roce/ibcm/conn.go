package ibcm

import (
	"fmt"
	"time"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/enum"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/timer"
)

// state is where a connection stands (section 12.9.7).
type state uint8

const (
	reqSent     state = iota
	mraReceived       // the peer's application is slow
	repReceived       // this side's application completes it
	reqReceived
	mraSent // this side's application is slow
	repSent
	up
	draining // queued work goes before DREQ
	dreqSent
	timeWait
	refused // a request was; duplicates are refused again
	sidrReqSent
	sidrReqReceived
	sidrAnswered // duplicates are answered again
)

var stateNames = [...]string{
	"REQ_SENT", "MRA_REQ_RCVD", "REP_RCVD", "REQ_RCVD", "MRA_REQ_SENT", "REP_SENT", "ESTABLISHED", "DRAINING",
	"DREQ_SENT",
	"TIMEWAIT", "REJECTED", "SIDR_REQ_SENT", "SIDR_REQ_RCVD", "SIDR_REP_SENT",
}

func (s state) String() string { return enum.Name(stateNames[:], s, "state %d") }

// conn is one connection, or the search for one datagram service. It implements
// cm.FabricConn.
type conn struct {
	e         *Engine
	id        *cm.ID // nil: nobody's any more
	state     state
	active    bool
	sidr      bool
	local     uint32 // communication ids
	remote    uint32
	tid       uint64
	guid      uint64 // the peer's
	path      qpattr.Path
	pkeyIndex uint16 // of the port's partition key
	qp        *verbs.QP
	typ       qpattr.Type // that a request asks this side for
	psn       uint32      // with which the peer is to begin (section 12.7): this side's messages say it
	peerPSN   uint32      // with which this side begins: the peer's say it
	mtu       uint8       // code
	timeout   uint8       // local ACK timeout
	peer      cm.Peer
	ird, ord  uint8
	service   uint64
	acceptor  *acceptor // whose backlog it counts in; nil: none's
	slow      time.Duration

	last  []byte // what is sent again, or answers duplicates
	left  uint8  // retries
	timer timer.Entry[*conn]
}

// Peer implements cm.FabricConn.
func (c *conn) Peer() cm.Peer {
	p := c.peer
	p.Path = c.path
	return p
}

// QPAttr implements cm.FabricConn. The attributes are those of
// rdma_init_qp_attr(3).
func (c *conn) QPAttr(to verbs.State) (a qpattr.Attr, mask qpattr.Mask, err error) {
	known := c.state == repReceived || c.state == reqReceived || c.state == mraSent || c.state == repSent ||
		c.state == up || c.sidr
	switch {
	case !known || to != verbs.RTR && to != verbs.RTS:
		return a, 0, fmt.Errorf("attributes for %v in %v: %w", to, c.state, cm.ErrState)
	case c.sidr && to == verbs.RTR:
		a.PKeyIndex = c.pkeyIndex
		return a, qpattr.State | qpattr.PKeyIndex, nil
	case c.sidr:
		a.SQPSN = c.psn
		return a, qpattr.State | qpattr.SQPSN, nil
	case to == verbs.RTR:
		a = qpattr.Attr{Path: c.path, PathMTU: qpattr.MTUOctets(c.mtu), DestQPN: c.peer.QPN, RQPSN: c.psn,
			MaxDestRdAtomic: c.ird, PKeyIndex: c.pkeyIndex}
		return a, qpattr.State | qpattr.PKeyIndex | qpattr.AV | qpattr.PathMTU | qpattr.DestQPN | qpattr.RQPSN |
			qpattr.MaxDestRdAtomic | qpattr.MinRNRTimer, nil
	}
	a = qpattr.Attr{SQPSN: c.peerPSN, Timeout: c.timeout, RetryCount: c.peer.Retry, RNRRetry: c.peer.RNRRetry,
		MaxRdAtomic: c.ord}
	return a, qpattr.State | qpattr.Timeout | qpattr.RetryCount | qpattr.RNRRetry | qpattr.SQPSN |
		qpattr.MaxRdAtomic, nil
}

// readyToReceive and readyToSend move the queue pair to RTR, and by RTR to RTS.
func (c *conn) readyToReceive() error { return c.moveQP(verbs.RTR) }
func (c *conn) readyToSend() error    { return c.moveQP(verbs.RTR, verbs.RTS) }

// moveQP makes the moves that the queue pair's owner leaves to the manager.
func (c *conn) moveQP(states ...verbs.State) error {
	if c.id == nil || c.id.Params().OwnerMoves || c.qp == nil {
		return nil
	}
	for _, to := range states {
		a, mask, err := c.QPAttr(to)
		if err != nil {
			return err
		}
		a.MinRNRTimer = minRNRTimer
		const requester = qpattr.RetryCount | qpattr.RNRRetry | qpattr.MaxRdAtomic
		switch c.qp.Type() {
		case qpattr.UC:
			mask &^= qpattr.MaxDestRdAtomic | qpattr.MinRNRTimer | qpattr.Timeout | requester
		case qpattr.XRCInitiator:
			mask &^= qpattr.MaxDestRdAtomic | qpattr.MinRNRTimer
		case qpattr.XRCTarget:
			mask &^= requester
		}
		if err := c.qp.ModifyAttr(to, &a, mask); err != nil {
			return err
		}
	}
	return nil
}

// failQP ends the work of the queue pair, unless its owner does.
func (c *conn) failQP() {
	if c.qp != nil && c.id != nil && !c.id.Params().OwnerMoves {
		_ = c.qp.Modify(verbs.Err) // a queue pair that was destroyed has no work
	}
}

// reads is a number of Reads of cm.Params.
func (c *conn) reads(n uint16, limit int, def uint8) uint8 {
	switch n {
	case 0:
		return uint8(min(int(def), limit))
	case cm.NoReads:
		return 0
	}
	return uint8(min(int(n), limit, 255))
}

// request sends a message that wants an answer; sent again until it comes.
func (c *conn) request(attr uint16, m message, now frame.Time) {
	c.left = c.e.cfg.Retries
	c.send(attr, m)
	c.e.timers.Set(&c.timer, now.Add(c.patience()))
}

// patience is how long an answer may take.
func (c *conn) patience() time.Duration {
	return duration(c.e.cfg.ResponseTimeout) + 2*duration(c.e.cfg.PacketLifetime)
}

// send sends a message and keeps it for duplicates.
func (c *conn) send(attr uint16, m message) {
	c.last = c.e.encode(attr, c.tid, m)
	c.e.transmit(&c.path, c.pkeyIndex, c.last)
}

// sendOnce sends a message that leaves the one to be repeated alone.
func (c *conn) sendOnce(attr uint16, m message) {
	c.e.transmit(&c.path, c.pkeyIndex, c.e.encode(attr, c.tid, m))
}

// repeat sends the last message again.
func (c *conn) repeat() {
	c.e.stats.Again[attrOf(c.last)-ib.AttrREQ]++
	c.e.transmit(&c.path, c.pkeyIndex, c.last)
}

// expired is called when the timer has run down.
func (c *conn) expired(now frame.Time) {
	switch c.state {
	case reqSent, mraReceived, repSent, dreqSent, sidrReqSent:
		if c.left > 0 {
			c.left--
			c.repeat()
			c.e.timers.Set(&c.timer, now.Add(c.patience()))
			return
		}
		c.exhausted(now)
	case reqReceived:
		c.excuse(ib.AboutREQ)
		c.state = mraSent
	case repReceived:
		c.excuse(ib.AboutREP)
	case draining:
		c.drain(now)
	case timeWait, refused, sidrAnswered:
		c.finish(nil)
	}
}

// exhausted ends what the peer has not answered.
func (c *conn) exhausted(now frame.Time) {
	switch c.state {
	case dreqSent:
		c.wait(now)
		return
	case repSent:
		c.sendREJ(ib.AboutREP, ib.RejectTimeout, nil)
	case reqSent, mraReceived:
		c.sendREJ(ib.AboutREQ, ib.RejectTimeout, nil)
	}
	c.failQP()
	if c.id != nil {
		c.id.SetReason(noAnswer)
		c.id.Fail(cm.TimedOut, cm.ErrTimedOut, nil)
	}
	c.finish(cm.ErrTimedOut)
}

// excuse asks the peer for time.
func (c *conn) excuse(about uint8) {
	c.sendOnce(ib.AttrMRA, &ib.MRA{LocalID: c.local, RemoteID: c.remote, About: about, Timeout: mraTimeout})
}

func (c *conn) sendREJ(about uint8, why ib.RejectReason, private []byte) {
	rej := ib.REJ{LocalID: c.local, RemoteID: c.remote, About: about, Reason: why, Private: private}
	if why == ib.RejectTimeout { // who has no id of this side's knows it by its GUID
		rej.Info = putGUID(c.e.guid)
	}
	c.send(ib.AttrREJ, &rej)
}

// established completes the accepting side. Until then its queue pair is in RTR (section
// 12.9.7.2), where the first packet raises EventCommEstablished.
func (c *conn) established(private []byte) {
	_ = c.moveQP(verbs.RTS) // one that has failed stays in Err
	c.state = up
	c.e.timers.Remove(&c.timer)
	c.leaveQueue()
	if c.id != nil {
		c.id.Complete(private, uint16(c.ird), uint16(c.ord))
	}
}

// leaveQueue ends the waiting in a listener's backlog.
func (c *conn) leaveQueue() {
	if c.acceptor != nil {
		c.acceptor.waiting--
		c.acceptor = nil
	}
}

// finish ends all.
func (c *conn) finish(err error) {
	c.leaveQueue()
	c.e.forget(c)
	if id := c.id; id != nil {
		c.id = nil
		id.Attach(nil)
		id.Finish(err)
	}
}

// wait enters TIMEWAIT: packets of the connection may still be on their way.
func (c *conn) wait(now frame.Time) {
	c.failQP()
	c.state = timeWait
	if c.id != nil {
		c.id.Disconnecting(nil)
	}
	c.e.timers.Set(&c.timer, now.Add(2*duration(c.e.cfg.PacketLifetime)+duration(ackDelay)))
}

// drainPause is how often the send queue is looked at before a graceful end.
const drainPause = time.Millisecond

// drain sends DREQ once nothing is left to send, or it has waited long enough.
func (c *conn) drain(now frame.Time) {
	if c.qp.State() == verbs.RTS && c.qp.SendsPending() > 0 && c.slow < c.patience() {
		c.slow += drainPause
		c.e.timers.Set(&c.timer, now.Add(drainPause))
		return
	}
	c.state = dreqSent
	c.request(ib.AttrDREQ, &ib.DREQ{LocalID: c.local, RemoteID: c.remote, RemoteQPN: c.peer.QPN}, now)
}
