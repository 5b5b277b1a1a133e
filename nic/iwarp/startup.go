package iwarp

import (
	"errors"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// awaitRequest makes the responder's side. What the device can do is offered
// to the application, which chooses when it accepts.
func (c *conn) awaitRequest(now frame.Time) {
	l, cfg := c.e.dev.Limits(), c.e.mpaConfig(cm.Params{})
	cfg.IRD, cfg.ORD = reads(uint16(l.MaxIRD), 0, l.MaxIRD), reads(uint16(l.MaxORD), 0, l.MaxORD)
	c.responder = mpa.NewResponder(cfg)
	c.phase = waitRequest
	c.e.arm(c, now.Add(c.e.cfg.RequestTimeout))
}

// Established implements toe.Handler: the initiator sends its request.
func (c *conn) Established(_ *toe.Conn, now frame.Time) {
	if c.phase != connecting {
		return
	}
	c.phase = waitReply
	c.e.arm(c, now.Add(c.e.cfg.ReplyTimeout))
	c.sendRaw(c.initiator.AppendRequest(nil))
}

// sendRaw queues a start-up frame.
func (o *outbound) sendRaw(b []byte) {
	r := o.log.room(o.c)
	r.size, r.count, r.data, r.kind = uint32(len(b)), 1, b, raw
	o.log.push(r)
	o.c.logFrame(b)
	o.c.tcp.Kick()
}

// request handles stream bytes for the responder.
func (c *conn) request(data []byte, now frame.Time) {
	n, done, err := c.responder.Receive(data)
	switch {
	case err != nil:
		c.err = err
		if r := c.responder.Refusal(); len(r) > 0 {
			c.part(r, now)
			return
		}
		c.tcp.Abort()
	case done && n < len(data):
		// RFC 5044 section 7.1.3: nothing may follow the request before the
		// reply.
		c.err = &mpa.Error{Code: mpa.Startup, Detail: "octets behind the request"}
		c.tcp.Abort()
	case done:
		c.phase = offered
		c.spoke()
		c.e.arm(c, frame.Never)
		r := c.responder.Request()
		c.logAgreed("MPA request", &r)
		c.id = c.e.cm.Request(c.acceptor.l, c, c.tcp.Local(), c.tcp.Remote(), r.PrivateData, r.IRD, r.ORD)
		c.peerReads(&r)
	}
}

// peerReads passes the peer's own IRD and ORD on.
func (c *conn) peerReads(r *mpa.Result) {
	if r.Enhanced {
		c.id.SetPeerReads(r.PeerIRD, r.PeerORD)
	}
}

// accept answers the request and enters full operation, or fails before.
func (c *conn) accept() error {
	p := c.id.Params()
	l := c.e.dev.Limits()
	c.responder.Limit(reads(p.IRD, c.e.cfg.IRD, l.MaxIRD), reads(p.ORD, c.e.cfg.ORD, l.MaxORD))
	b, err := c.responder.AppendAccept(nil, p.PrivateData)
	if err == nil {
		err = p.QP.Offload()
	}
	if err != nil {
		return err
	}
	c.classify()
	c.sendRaw(b)
	c.bind(p.QP)
	r := c.responder.Result()
	c.begin(r, 0)
	c.gated = true
	if r.PeerToPeer && r.RTR&mpa.RTRSend != 0 {
		c.stream.ExpectRTR(rdmap.Send)
	}
	c.qp.Transition(verbs.RTS)
	if r.PeerToPeer {
		return nil
	}
	if p.MaySendFirst {
		c.mayBegin()
	}
	c.established()
	return nil
}

// established tells the responder's application; in the peer-to-peer model
// that happens when the ready-to-receive indication is in.
func (c *conn) established() { c.id.Complete(nil, c.result.IRD, c.result.ORD) }

// part sends a last start-up frame. FIN follows when the peer has it (Acked):
// Linux TCP tells of a FIN before it tells of the octets that came with it, and
// siw then loses the reply.
func (c *conn) part(b []byte, now frame.Time) {
	c.sendRaw(b)
	c.phase = closing
	c.e.arm(c, now.Add(c.e.cfg.CloseTimeout))
}

// reply handles stream bytes for the initiator and returns what lies behind
// the reply.
func (c *conn) reply(data []byte, now frame.Time) []byte {
	n, done, err := c.initiator.Receive(data)
	switch {
	case err != nil:
		c.refused(err, now)
		return nil
	case !done:
		return nil
	}
	r := c.initiator.Result()
	c.logAgreed("MPA reply", &r)
	c.begin(r, len(data)-n)
	if r.PeerToPeer {
		c.stream.SendRTR(rtrOpcodes[r.RTR])
	}
	c.tcp.SaveContext(false)
	c.peerReads(&r)
	if c.id.Params().ManualEstablish {
		c.gated, c.held = true, true
		c.id.Replied(r.PrivateData, r.IRD, r.ORD)
	} else {
		c.ready(now)
	}
	return data[n:]
}

// ready lets the initiator's FPDUs go, the ready-to-receive indication first.
func (c *conn) ready(now frame.Time) {
	c.gated, c.held = false, false
	c.hold(now)
	c.startNudger()
	c.qp.Transition(verbs.RTS)
	c.id.Complete(c.result.PrivateData, c.result.IRD, c.result.ORD)
	c.tcp.Kick()
}

// refused ends an active open that MPA did not let through.
func (c *conn) refused(err error, now frame.Time) {
	c.err = err
	c.because(err)
	var rejected *mpa.Rejected
	if errors.As(err, &rejected) {
		c.err = cm.ErrRejected
		if rejected.Enhanced {
			c.id.SetPeerReads(rejected.IRD, rejected.ORD)
		}
		c.id.Fail(cm.Rejected, cm.ErrRejected, rejected.PrivateData)
		c.close(now)
		return
	}
	c.id.Fail(cm.Failed, err, nil)
	var m *mpa.Error
	if errors.As(err, &m) && m.Code >= mpa.LocalCatastrophic && c.initiator.Result().Enhanced {
		// RFC 6581 sections 8 and 9.3: codes 5 to 7 are reported in a Terminate.
		c.begin(c.initiator.Result(), 0)
		c.stream.Fail(&rdmap.Error{Layer: rdmap.LayerLLP, Code: uint8(m.Code)})
		c.counters.Terminates++
		c.close(now)
		return
	}
	c.tcp.Abort()
}
