package ibcm

import (
	"fmt"
	"net/netip"

	"tapir/nic/cm"
	"tapir/wire/ib"
)

// sidrReq is a peer's search for a datagram service.
func (in *incoming) sidrReq() {
	e, m := in.e, ib.ParseSIDRREQ(in.data)
	if c := e.sidrs[sidrKey{in.d.From.DGID, m.RequestID}]; c != nil {
		in.again(c)
		return
	}
	space, port, ok := ib.ServicePort(m.ServiceID)
	cma, err := ib.ParseCMA(m.Private)
	var a *acceptor
	if ok && err == nil {
		a = e.listener(space, cma.Dst.Unmap(), port)
	}
	pkeyIndex, member := e.env.Dev.MatchPKey(m.PKey)
	switch {
	case a == nil || !member:
		in.answer(ib.AttrSIDRREP, &ib.SIDRREP{RequestID: m.RequestID, Status: ib.SIDRUnsupported,
			ServiceID: m.ServiceID})
		return
	case a.paused || a.waiting >= a.l.Backlog():
		return // the peer asks again
	}
	c := e.newConn(sidrReqReceived)
	c.sidr, c.remote, c.tid, c.path = true, m.RequestID, in.h.TID, in.d.From
	c.pkeyIndex, c.service = pkeyIndex, m.ServiceID
	c.path.HopLimit = hopLimit
	c.acceptor = a
	a.waiting++
	e.sidrs[sidrKey{c.path.DGID, c.remote}] = c
	local := netip.AddrPortFrom(cma.Dst.Unmap(), port)
	remote := netip.AddrPortFrom(cma.Src.Addr().Unmap(), cma.Src.Port())
	c.id = e.env.CM.Request(a.l, c, local, remote, clone(m.Private[ib.CMALen:]), 0, 0)
}

var sidrStatus = [...]string{"", "unsupported service id", "rejected by the service", "no queue pair",
	"redirected", "unsupported version"}

// sidrRep answers a search of this side.
func (in *incoming) sidrRep() {
	m := ib.ParseSIDRREP(in.data)
	c := in.e.conns[m.RequestID]
	if c == nil || c.state != sidrReqSent || c.path.DGID != in.d.From.DGID {
		in.e.stats.Unmatched++
		return
	}
	in.e.timers.Remove(&c.timer)
	if m.Status != ib.SIDROK {
		ev := cm.Event{Type: cm.Rejected, Err: cm.ErrRejected, Code: uint16(m.Status), PrivateData: clone(m.Private)}
		if int(m.Status) < len(sidrStatus) {
			ev.Err = fmt.Errorf("%w: %s", cm.ErrRejected, sidrStatus[m.Status])
		}
		if m.Status == ib.SIDRUnsupported {
			ev.Type, ev.Err = cm.Refused, cm.ErrRefused
		}
		c.id.SetReason(sidrRefused)
		c.id.FailWith(ev)
		c.finish(ev.Err)
		return
	}
	c.state = sidrAnswered
	c.peer.QPN, c.peer.QKey = m.QPN, m.QKey
	if err := c.readyToSend(); err != nil {
		c.finish(err)
		return
	}
	c.id.Complete(clone(m.Private), 0, 0)
}
