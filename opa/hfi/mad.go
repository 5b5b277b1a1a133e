package hfi

import (
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Attach adds an agent (kept) that is offered every MAD for queue pair 0 or 1,
// and polled with the port.
func (p *Port) Attach(a mad.Agent) { p.agents = append(p.agents, a) }

// SendMAD queues b (borrowed), a MAD, for a far end's queue pair, from the same
// one: it is the mad.Send that agents get. Subnet management passes on SC 15 as
// soon as the link is up, with the permissive LID as source while the port has
// none; everything else only while the port is active, with the P_Key of the
// management partition. The port's own LID is reached too, and who asks
// everybody asks itself. What cannot be sent is counted and answered by false.
func (p *Port) SendMAD(to mad.Address, b []byte) bool {
	r := p.sendMAD(to, b)
	if r != frame.DropNone {
		p.counts.TxDrops.Count(r)
	}
	return r == frame.DropNone
}

func (p *Port) sendMAD(to mad.Address, b []byte) frame.DropReason {
	subnet := to.QP == opa.QPSubnet
	switch {
	case p.state == Down || !subnet && p.state != Active:
		return opa.DropPort
	case len(b) > opa.MaxMAD:
		return drop.Oversize
	case !subnet && to.LID == opa.Permissive:
		return opa.DropDLID
	}
	h := opa.Header9B{SLID: p.lid, DLID: to.LID, SC: to.SL, SL: to.SL, PKey: p.managementPKey(),
		DestQP: to.QP, SrcQP: to.QP, QKey: opa.QKeyGSI, PSN: p.psn}
	vl := to.SL & 7
	if subnet {
		h.SC, h.QKey, vl = opa.SCManagement, 0, managementVL
		if h.SLID == 0 {
			h.SLID = opa.Permissive
		}
	}
	f := p.pool.Get(opa.Size9B(len(b)))
	if f == nil {
		return drop.NoBuffer
	}
	f.Append(b)
	if r := p.packMAD(f, &h, vl); r != frame.DropNone {
		f.Release()
		return r
	}
	p.psn++
	return frame.DropNone
}

// managementPKey is full membership in the management partition if the port
// has it, else limited.
func (p *Port) managementPKey() uint16 {
	if slices.Contains(p.used, opa.PKeyManagement|opa.PKeyFull) {
		return opa.PKeyManagement | opa.PKeyFull
	}
	return opa.PKeyManagement
}

// packMAD makes f a packet and queues it; on failure f is still the caller's.
func (p *Port) packMAD(f *frame.Frame, h *opa.Header9B, vl uint8) frame.DropReason {
	if r := opa.Encapsulate9B(f, h, p.cfg.ICRC); r != frame.DropNone {
		return r
	}
	if r := p.cfg.Framing.Wrap9B(f); r != frame.DropNone {
		return r
	}
	switch {
	case p.ours(h.DLID):
		if !p.looped.Push(f, p.cfg.QueueFrames) {
			return drop.TxQueue
		}
		return frame.DropNone
	case h.DLID == opa.Permissive:
		p.loopCopy(f)
	}
	return p.enqueue(f, vl, p.engine(vl, 0))
}

// loopCopy lets the port hear what it says to everybody.
func (p *Port) loopCopy(f *frame.Frame) {
	c := p.pool.Get(f.Len())
	if c == nil {
		p.counts.RxDrops.Count(drop.NoBuffer)
		return
	}
	c.Append(f.Bytes())
	if !p.looped.Push(c, p.cfg.QueueFrames) {
		p.counts.RxDrops.Count(drop.TxQueue)
		c.Release()
	}
}

// receive9B judges a 9B packet and offers its MAD to all agents.
func (p *Port) receive9B(b []byte, self bool) frame.DropReason {
	m, r := opa.Parse9B(b, p.cfg.ICRC)
	if r != frame.DropNone {
		return r
	}
	qp, slid, dlid := m.DestQP(), m.SLID(), m.DLID()
	switch {
	case p.ours(slid) && !self:
		return opa.DropLooped
	case !p.ours(dlid) && dlid != opa.Permissive:
		return opa.DropNotOurLID
	case qp > opa.QPGeneral:
		return opa.DropL4
	case qp == opa.QPSubnet && m.SC() != opa.SCManagement, qp == opa.QPGeneral && m.QKey() != opa.QKeyGSI:
		return drop.Malformed
	case qp == opa.QPGeneral && p.state != Active:
		return opa.DropPort
	case qp == opa.QPGeneral && !opa.PKeyAllowed(p.used, m.PKey(), m.SC()):
		return opa.DropPKey
	}
	if len(p.agents) == 0 {
		return drop.Unused
	}
	p.counts.MADs++
	for _, a := range p.agents {
		a.Receive(m.Payload(), mad.Address{LID: slid, QP: m.SrcQP(), SL: m.SL()}, p.now, p.SendMAD)
	}
	return frame.DropNone
}
