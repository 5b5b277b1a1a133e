package hfi

import (
	"tapir/opa"
	"tapir/opa/cca"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Congestion control. A switch that is congested sets FECN in what passes. The port
// that receives it answers with a congestion notification, which bears BECN; the port
// that sent it then waits between packets, as package cca says. Service levels are
// service classes here.

// Congestion is the port's congestion control.
func (p *Port) Congestion() *cca.Control { return &p.cca }

// congested takes in the marks of a good packet.
func (p *Port) congested(slid, dlid opa.LID, sc uint8, pkey uint16, fecn, becn bool) {
	if becn {
		p.counts.BECN++
		p.cca.Notified(sc, slid, p.now)
	}
	if fecn {
		p.counts.FECN++
		if dlid.IsUnicast() && slid.IsUnicast() {
			p.notify(opa.Header{SLID: dlid, DLID: slid, SC: sc, PKey: pkey})
		}
	}
}

// notify queues a congestion notification. It overtakes what waits on the lanes, as
// data may have to wait for a notification from the other end.
func (p *Port) notify(h opa.Header) {
	f := p.pool.Get(opa.SizeCNP)
	if f == nil {
		p.counts.TxDrops.Count(drop.NoBuffer)
		return
	}
	opa.PutCNP(f.Extend(opa.SizeCNP), h, p.cfg.ICRC)
	r := p.cfg.Framing.Wrap16B(f)
	if r == frame.DropNone && !p.urgent.Push(f, p.cfg.QueueFrames) {
		r = drop.TxQueue
	}
	if r != frame.DropNone {
		p.counts.TxDrops.Count(r)
		f.Release()
		return
	}
	p.counts.TxCNP++
}

// receiveCNP takes a congestion notification.
func (p *Port) receiveCNP(b []byte) frame.DropReason {
	m, r := opa.ParseCNP(b, p.cfg.ICRC)
	switch {
	case r != frame.DropNone:
		return r
	case p.ours(m.SLID()):
		return opa.DropLooped
	case !p.ours(m.DLID()):
		return opa.DropNotOurLID
	case !opa.PKeyAllowed(p.used, m.PKey(), m.SC()):
		return opa.DropPKey
	}
	p.counts.RxCNP++
	p.congested(m.SLID(), m.DLID(), m.SC(), m.PKey(), false, true)
	return frame.DropNone
}

// delayed tells whether the packet that is first on a lane has to wait for the
// injection delay of its service level; p.held is then when the first such wait ends.
func (p *Port) delayed(vl int) bool {
	if !p.cca.Active() || vl == managementVL {
		return false
	}
	sc, _, _ := opa.ServiceClass(p.queues[vl].First().Bytes())
	at, ready := p.cca.Ready(sc, p.now)
	if !ready {
		p.held = min(p.held, at)
	}
	return !ready
}
