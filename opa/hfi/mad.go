package hfi

import (
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// MAD is a management datagram with what goes beside it in its packet.
type MAD struct {
	SLID, DLID opa.LID // of one to be sent, SLID 0 is the port's own
	SrcQP      uint32
	DestQP     uint32
	PKey       uint16 // of one to be sent, 0 is membership in the management partition
	SL         uint8  // 0 to 15
	Data       []byte // at most 2048 octets, borrowed
}

// Agent handles the MADs of a queue pair that concern it.
type Agent interface {
	// ReceiveMAD looks at m (borrowed) and reports whether it was for this
	// agent. Answers it may send at once with SendMAD.
	ReceiveMAD(m *MAD, now frame.Time) bool
}

// AttachMAD adds an agent (kept) to queue pair 0 or 1, any other panics. A MAD
// goes to the first one that takes it, in the order in which they came.
func (p *Port) AttachMAD(qp uint32, a Agent) { p.agents[qp] = append(p.agents[qp], a) }

// Attach adds an agent (kept) that is offered every MAD, and polled with the
// port. What it sends goes to its far end's queue pair from the same one, as
// SendMAD sends it.
func (p *Port) Attach(a mad.Agent) { p.managers = append(p.managers, a) }

// offer shows a MAD to all agents that Attach added.
func (p *Port) offer(b []byte, from mad.Address) {
	for _, a := range p.managers {
		a.Receive(b, from, p.now, p.sendFor)
	}
}

// sendFor is the mad.Send of the agents. Who asks everybody asks itself too.
func (p *Port) sendFor(to mad.Address, b []byte) bool {
	m := MAD{DLID: to.LID, SrcQP: to.QP, DestQP: to.QP, SL: to.SL, Data: b}
	return p.SendMAD(&m) == frame.DropNone
}

// managementPKey is full membership in the management partition if the port
// has it, else limited.
func (p *Port) managementPKey() uint16 {
	if slices.Contains(p.used, opa.PKeyManagement|opa.PKeyFull) {
		return opa.PKeyManagement | opa.PKeyFull
	}
	return opa.PKeyManagement
}

// SendMAD queues m (borrowed). Subnet management, DestQP 0, passes on SC 15 as
// soon as the link is up, and with the permissive LID as source while the port
// has none; everything else only while the port is active. The port's own LID
// is reached too. It returns DropPort, DropOversize for a MAD of more than
// 2048 octets, DropSLID or DropDLID for a LID without 16-bit form, DropTxQueue
// or DropNoBuffer, counted.
func (p *Port) SendMAD(m *MAD) frame.DropReason {
	r := p.sendMAD(m)
	if r != frame.DropNone {
		p.counts.TxDrops.Count(r)
	}
	return r
}

func (p *Port) sendMAD(m *MAD) frame.DropReason {
	subnet := m.DestQP == opa.QPSubnet
	switch {
	case p.state == Down || !subnet && p.state != Active:
		return frame.DropPort
	case len(m.Data) > opa.MaxMAD:
		return frame.DropOversize
	case !subnet && m.DLID == opa.Permissive:
		return frame.DropDLID
	}
	h := opa.Header9B{SLID: m.SLID, DLID: m.DLID, SC: m.SL, SL: m.SL, PKey: m.PKey,
		DestQP: m.DestQP, SrcQP: m.SrcQP, QKey: opa.QKeyGSI, PSN: p.psn}
	if h.SLID == 0 {
		h.SLID = p.lid
	}
	if h.PKey == 0 {
		h.PKey = p.managementPKey()
	}
	vl := m.SL & 7
	if subnet {
		h.SC, h.QKey, vl = opa.SCManagement, 0, managementVL
		if h.SLID == 0 {
			h.SLID = opa.Permissive
		}
	}
	f := p.pool.Get(opa.Size9B(len(m.Data)))
	if f == nil {
		return frame.DropNoBuffer
	}
	f.Append(m.Data)
	if r := p.packMAD(f, &h, vl); r != frame.DropNone {
		f.Release()
		return r
	}
	p.psn++
	return frame.DropNone
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
			return frame.DropTxQueue
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
		p.counts.RxDrops.Count(frame.DropNoBuffer)
		return
	}
	c.Append(f.Bytes())
	if !p.looped.Push(c, p.cfg.QueueFrames) {
		p.counts.RxDrops.Count(frame.DropTxQueue)
		c.Release()
	}
}

// receive9B judges a 9B packet and hands its MAD to an agent.
func (p *Port) receive9B(b []byte, self bool) frame.DropReason {
	m, r := opa.Parse9B(b, p.cfg.ICRC)
	if r != frame.DropNone {
		return r
	}
	qp, slid, dlid := m.DestQP(), m.SLID(), m.DLID()
	switch {
	case p.ours(slid) && !self:
		return frame.DropLooped
	case !p.ours(dlid) && dlid != opa.Permissive:
		return frame.DropNotOurLID
	case qp > opa.QPGeneral:
		return frame.DropL4
	case qp == opa.QPSubnet && m.SC() != opa.SCManagement, qp == opa.QPGeneral && m.QKey() != opa.QKeyGSI:
		return frame.DropMalformed
	case qp == opa.QPGeneral && p.state != Active:
		return frame.DropPort
	case qp == opa.QPGeneral && !opa.PKeyAllowed(p.used, m.PKey(), m.SC()):
		return frame.DropPKey
	}
	p.counts.MADs++
	d := MAD{SLID: slid, DLID: dlid, SrcQP: m.SrcQP(), DestQP: qp, PKey: m.PKey(), SL: m.SL(), Data: m.Payload()}
	for _, a := range p.agents[qp] {
		if a.ReceiveMAD(&d, p.now) {
			return frame.DropNone
		}
	}
	if len(p.managers) == 0 {
		return frame.DropUnused
	}
	p.offer(d.Data, mad.Address{LID: slid, QP: d.SrcQP, SL: d.SL})
	return frame.DropNone
}
