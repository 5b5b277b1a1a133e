package ibcm

import (
	"fmt"
	"net/netip"

	"tapir/nic/cm"
	"tapir/nic/roce"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// incoming is a message in hand.
type incoming struct {
	e    *Engine
	d    *roce.Datagram
	h    ib.Header
	data []byte
	// Of a request: the queue pair that it asks this side for, and its partition.
	typ       qpattr.Type
	pkeyIndex uint16
}

// handle gives the message to who deals with it.
func (in *incoming) handle(now frame.Time) {
	switch in.h.Attr {
	case ib.AttrREQ:
		in.req(now)
	case ib.AttrREP:
		in.rep(now)
	case ib.AttrREJ:
		in.rej(now)
	case ib.AttrDREQ:
		in.dreq(now)
	case ib.AttrSIDRREQ:
		in.sidrReq()
	case ib.AttrSIDRREP:
		in.sidrRep()
	case ib.AttrLAP: // alternate paths are not offered
		m := ib.ParseIDs(in.data)
		in.answer(ib.AttrAPR, &ib.APR{LocalID: m.RemoteID, RemoteID: m.LocalID, Status: ib.APRUnsupported})
	case ib.AttrAPR: // of a LAP that this side never sends
		in.e.stats.Unmatched++
	default:
		in.short(now)
	}
}

// short is RTU, MRA and DREP.
func (in *incoming) short(now frame.Time) {
	c := in.find()
	switch {
	case c == nil:
		in.e.stats.Unmatched++
	case in.h.Attr == ib.AttrRTU && c.state == repSent:
		c.established(clone(ib.ParseIDs(in.data).Private))
	case in.h.Attr == ib.AttrDREP && c.state == dreqSent:
		c.wait(now)
	case in.h.Attr == ib.AttrMRA && (c.state == reqSent || c.state == mraReceived || c.state == repSent):
		if c.state == reqSent {
			c.state = mraReceived
		}
		m := ib.ParseMRA(in.data)
		in.e.timers.Set(&c.timer, now.Add(duration(m.Timeout)+c.patience()))
	default:
		in.e.stats.Duplicates[in.h.Attr-ib.AttrREQ]++
	}
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

// find is the connection that the communication ids name, nil if there is none.
func (in *incoming) find() *conn {
	m := ib.ParseIDs(in.data)
	c := in.e.conns[m.RemoteID]
	if c == nil || c.sidr || c.path.DGID != in.d.From.DGID {
		return nil
	}
	if c.remote != m.LocalID && c.state != reqSent && c.state != mraReceived {
		return nil
	}
	return c
}

// answer sends a message back to where in came from.
func (in *incoming) answer(attr uint16, m message) {
	in.e.transmit(&in.d.From, in.d.PKeyIndex, in.e.encode(attr, in.h.TID, m))
}

func (in *incoming) reject(local, remote uint32, about uint8, why ib.RejectReason, info []byte) {
	in.answer(ib.AttrREJ, &ib.REJ{LocalID: local, RemoteID: remote, About: about, Reason: why, Info: info})
}

// req is a peer's request.
func (in *incoming) req(now frame.Time) {
	e, m := in.e, ib.ParseREQ(in.data)
	if c := e.peers[peerKey{m.CAGUID, m.LocalID}]; c != nil && c.guid == m.CAGUID {
		in.again(c)
		return
	}
	refuse := func(why ib.RejectReason, info []byte) { in.reject(0, m.LocalID, ib.AboutREQ, why, info) }
	if old := e.remoteQPs[peerKey{m.CAGUID, m.QPN}]; old != nil && old.state != timeWait {
		e.stats.Stale++
		refuse(ib.RejectStale, nil)
		if old.state == up || old.state == draining {
			old.Disconnect(true, now)
		}
		return
	}
	space, port, ok := ib.ServicePort(m.ServiceID)
	cma, err := ib.ParseCMA(m.Private)
	var a *acceptor
	if ok && err == nil {
		a = e.listener(space, cma.Dst.Unmap(), port)
	}
	var served, member bool
	in.typ, served = answering(&m)
	in.pkeyIndex, member = e.env.Dev.MatchPKey(m.PKey)
	switch {
	case !served:
		refuse(ib.RejectInvalidTransport, nil)
	case a == nil:
		refuse(ib.RejectInvalidServiceID, nil)
	case m.Primary.LocalGID != in.d.From.DGID || m.Primary.RemoteGID != in.d.To:
		refuse(ib.RejectPrimaryGID, nil)
	case !member: // no reason of the standard names the partition
		e.env.Dev.CountBadPKey()
		refuse(ib.RejectUnsupported, nil)
	case qpattr.MTUOctets(m.MTU) == 0 || qpattr.MTUOctets(m.MTU) > e.env.MTU():
		refuse(ib.RejectInvalidMTU, []byte{qpattr.MTUCode(e.env.MTU()) << 4})
	case a.paused || a.waiting >= a.l.Backlog():
		// the peer asks again
	default:
		in.admit(a, &m, &cma, port, now)
	}
}

// admit reports a request to the application.
func (in *incoming) admit(a *acceptor, m *ib.REQ, cma *ib.CMA, port uint16, now frame.Time) {
	e := in.e
	c := e.newConn(reqReceived)
	c.remote, c.guid, c.tid, c.path = m.LocalID, m.CAGUID, in.h.TID, in.d.From
	c.typ, c.pkeyIndex = in.typ, in.pkeyIndex
	c.path.TClass, c.path.HopLimit, c.path.FlowLabel = m.Primary.TrafficClass, hopLimit, m.Primary.FlowLabel
	c.path.SL = m.Primary.SL & 7
	c.peer = cm.Peer{QPN: m.QPN, Retry: m.Retry, RNRRetry: m.RNRRetry, FlowControl: m.FlowControl, SRQ: m.SRQ}
	c.peerPSN, c.mtu, c.timeout = m.PSN, m.MTU, m.Primary.AckTimeout
	c.ird, c.ord = m.Initiator, m.Responder
	c.acceptor = a
	a.waiting++
	e.peers[peerKey{c.guid, c.remote}] = c
	e.remoteQPs[peerKey{c.guid, m.QPN}] = c
	local := netip.AddrPortFrom(cma.Dst.Unmap(), port)
	remote := netip.AddrPortFrom(cma.Src.Addr().Unmap(), cma.Src.Port())
	c.id = e.env.CM.Request(a.l, c, local, remote, clone(m.Private[ib.CMALen:]), uint16(c.ird), uint16(c.ord))
	e.timers.Set(&c.timer, now.Add(duration(m.RemoteTimeout)/2))
}

// again is a request that has come before.
func (in *incoming) again(c *conn) {
	in.e.stats.Duplicates[in.h.Attr-ib.AttrREQ]++
	switch c.state {
	case repSent, refused, sidrAnswered:
		c.repeat()
	case mraSent:
		c.excuse(ib.AboutREQ)
	}
}

// rep is the answer to a request of this side.
func (in *incoming) rep(now frame.Time) {
	m := ib.ParseREP(in.data)
	c := in.find()
	switch {
	case c == nil:
		in.e.stats.Unmatched++
		in.reject(m.RemoteID, m.LocalID, ib.AboutREP, ib.RejectInvalidCommID, nil)
		return
	case c.state == up:
		in.e.stats.Duplicates[in.h.Attr-ib.AttrREQ]++
		c.sendOnce(ib.AttrRTU, &ib.IDs{LocalID: c.local, RemoteID: c.remote})
		return
	case c.state == repReceived:
		in.e.stats.Duplicates[in.h.Attr-ib.AttrREQ]++
		c.excuse(ib.AboutREP)
		return
	case c.state != reqSent && c.state != mraReceived:
		in.e.stats.Duplicates[in.h.Attr-ib.AttrREQ]++
		return
	}
	if c.qp != nil && c.qp.Type() == qpattr.XRCInitiator {
		m.QPN = m.EECN
	}
	c.remote, c.guid, c.peerPSN = m.LocalID, m.CAGUID, m.PSN
	c.peer.QPN, c.peer.RNRRetry, c.peer.FlowControl, c.peer.SRQ = m.QPN, m.RNRRetry, m.FlowControl, m.SRQ
	c.ird, c.ord = min(c.ird, m.Initiator), min(c.ord, m.Responder)
	c.state = repReceived
	in.e.peers[peerKey{c.guid, c.remote}] = c
	in.e.remoteQPs[peerKey{c.guid, m.QPN}] = c
	if private := clone(m.Private); c.id.Params().ManualEstablish {
		in.e.timers.Set(&c.timer, now.Add(duration(in.e.cfg.ResponseTimeout)/2))
		c.id.Replied(private, uint16(c.ird), uint16(c.ord))
	} else {
		c.complete(private)
	}
}

// complete is Establish for an application that leaves it to the manager.
func (c *conn) complete(private []byte) {
	if err := c.readyToSend(); err != nil {
		c.sendREJ(ib.AboutREP, ib.RejectNoQP, nil)
		c.failQP()
		c.finish(err)
		return
	}
	c.state = up
	c.e.timers.Remove(&c.timer)
	c.send(ib.AttrRTU, &ib.IDs{LocalID: c.local, RemoteID: c.remote})
	c.id.Complete(private, uint16(c.ird), uint16(c.ord))
}

// rej refuses what this side has asked or answered.
func (in *incoming) rej(now frame.Time) {
	m := ib.ParseREJ(in.data)
	c := in.find()
	if c == nil && m.Reason == ib.RejectTimeout { // the peer may not know this side's id
		c = in.byGUID(&m)
	}
	if c == nil {
		in.e.stats.Unmatched++
		return
	}
	switch c.state {
	case reqSent, mraReceived, repReceived, reqReceived, mraSent, repSent:
	case up: // the peer never learned that it is
		c.failQP()
		c.id.SetReason(rejection(m.Reason))
		c.id.Disconnecting(cm.ErrReset)
		c.wait(now)
		return
	default:
		in.e.stats.Duplicates[in.h.Attr-ib.AttrREQ]++
		return
	}
	ev := cm.Event{Type: cm.Rejected, Err: fmt.Errorf("%w: %v", cm.ErrRejected, m.Reason), Code: uint16(m.Reason),
		PrivateData: clone(m.Private)}
	switch m.Reason {
	case ib.RejectInvalidServiceID:
		ev.Type, ev.Err, ev.PrivateData = cm.Refused, cm.ErrRefused, nil
	case ib.RejectTimeout:
		ev.Type, ev.Err, ev.PrivateData = cm.TimedOut, cm.ErrTimedOut, nil
	}
	c.failQP()
	c.id.SetReason(rejection(m.Reason))
	c.id.FailWith(ev)
	c.finish(ev.Err)
}

// byGUID finds the request that a peer gives up.
func (in *incoming) byGUID(m *ib.REJ) *conn {
	if len(m.Info) < 8 {
		return nil
	}
	var guid uint64
	for _, b := range m.Info[:8] {
		guid = guid<<8 | uint64(b)
	}
	return in.e.peers[peerKey{guid, m.LocalID}]
}

// dreq ends a connection, one that is unknown too: the peer's DREP was lost.
func (in *incoming) dreq(now frame.Time) {
	m := ib.ParseDREQ(in.data)
	in.answer(ib.AttrDREP, &ib.IDs{LocalID: m.RemoteID, RemoteID: m.LocalID})
	c := in.find()
	if c == nil {
		in.e.stats.Unmatched++
		return
	}
	switch c.state {
	case repSent: // its RTU was lost
		c.established(nil)
		c.wait(now)
	case up, draining, dreqSent:
		if c.id != nil {
			c.id.SetReason(dreqReceived)
		}
		c.wait(now)
	default:
		in.e.stats.Duplicates[in.h.Attr-ib.AttrREQ]++
	}
}
