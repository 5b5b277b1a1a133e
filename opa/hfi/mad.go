package hfi

import (
	"cmp"
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
// partition that to names. The port's own LID is reached too, and who asks
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
	h := opa.Header9B{SLID: p.lid, DLID: to.LID, SC: to.SL, SL: to.SL, PKey: p.member(to.PKey),
		DestQP: to.QP, SrcQP: to.QP, QKey: opa.QKeyGSI, PSN: p.psn}
	vl := to.SL & 7
	if subnet {
		h.SC, h.QKey, vl = opa.SCManagement, 0, managementVL
		if h.SLID == 0 {
			h.SLID = opa.Permissive
		}
	}
	// The headers of a MAD and those of the longest framing.
	const more = max(0, opa.HeaderLen9B+opa.MaxOverhead-frame.DefaultHeadroom)
	f := p.pool.Get(more + max(opa.Size9B(len(b)), opa.SizeMAD(len(b))))
	if f == nil {
		return drop.NoBuffer
	}
	f.Extend(more)
	f.TrimFront(more)
	f.Append(b)
	if r := p.packMAD(f, &h, vl); r != frame.DropNone {
		f.Release()
		return r
	}
	p.psn++
	return frame.DropNone
}

// member is full membership in the partition of key, 0 for that of management,
// if the port has it, else limited.
func (p *Port) member(key uint16) uint16 {
	key = cmp.Or(key, opa.PKeyManagement) &^ opa.PKeyFull
	if slices.Contains(p.used, key|opa.PKeyFull) {
		return key | opa.PKeyFull
	}
	return key
}

// DeliverMAD offers b (borrowed), a MAD for a queue pair of the port itself, to its
// agents, also while the link is down: what a program asks its own port for never
// leaves it. Answers go to send, which hears SendMAD's arguments.
func (p *Port) DeliverMAD(qp uint32, b []byte, send mad.Send) {
	from := mad.Address{LID: p.lid, QP: qp}
	if p.lid == 0 {
		from.LID = opa.Permissive
	}
	for _, a := range p.agents {
		a.Receive(b, from, p.now, send)
	}
}

// packMAD makes f a packet and queues it; on failure f is still the caller's. It is a
// 9B packet unless one of the LIDs lies beyond those.
func (p *Port) packMAD(f *frame.Frame, h *opa.Header9B, vl uint8) frame.DropReason {
	_, from := h.SLID.To9B()
	_, to := h.DLID.To9B()
	r := frame.DropNone
	if from && to {
		if r = opa.Encapsulate9B(f, h, p.cfg.ICRC); r == frame.DropNone {
			r = p.cfg.Framing.Wrap9B(f)
		}
	} else {
		h16 := opa.Header{SLID: h.SLID, DLID: h.DLID, SC: h.SC, PKey: h.PKey}
		if r = opa.EncapsulateMAD(f, &h16, h.DestQP, h.SrcQP, p.cfg.ICRC); r == frame.DropNone {
			r = p.cfg.Framing.Wrap16B(f)
		}
	}
	if r != frame.DropNone {
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
	case p.cca.Active(): // it must not wait behind delayed data
		if !p.urgent.Push(f, p.cfg.QueueFrames) {
			return drop.TxQueue
		}
		return frame.DropNone
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

// datagram is a MAD as it came, in a packet of either format.
type datagram struct {
	from       mad.Address
	dlid       opa.LID
	qp         uint32
	sc         uint8
	pkey       uint16
	key        bool // the Q_Key is that of general management, or the format has none
	fecn, becn bool
	payload    []byte
}

// receive9B takes a 9B packet.
func (p *Port) receive9B(b []byte, self bool) frame.DropReason {
	m, r := opa.Parse9B(b, p.cfg.ICRC)
	if r != frame.DropNone {
		return r
	}
	return p.receiveMAD(&datagram{from: mad.Address{LID: m.SLID(), QP: m.SrcQP(), SL: m.SL()}, dlid: m.DLID(),
		qp: m.DestQP(), sc: m.SC(), pkey: m.PKey(), key: m.QKey() == opa.QKeyGSI, fecn: m.FECN(), becn: m.BECN(),
		payload: m.Payload()}, self)
}

// receiveMAD16B takes a 16B packet with a MAD. There is no service level in it: that
// of the service class stands for it.
func (p *Port) receiveMAD16B(b []byte, self bool) frame.DropReason {
	m, r := opa.ParseMAD(b, p.cfg.ICRC)
	if r != frame.DropNone {
		return r
	}
	d := datagram{from: mad.Address{LID: m.SLID(), QP: m.SrcQP(), SL: m.SC()}, dlid: m.DLID(), qp: m.DestQP(),
		sc: m.SC(), pkey: m.PKey(), key: true, fecn: m.FECN(), becn: m.BECN(), payload: m.Payload()}
	if d.sc == opa.SCManagement {
		d.from.SL = 0
	}
	return p.receiveMAD(&d, self)
}

// receiveMAD judges a MAD and offers it to all agents.
func (p *Port) receiveMAD(d *datagram, self bool) frame.DropReason {
	switch {
	case p.ours(d.from.LID) && !self:
		return opa.DropLooped
	case !p.ours(d.dlid) && d.dlid != opa.Permissive:
		return opa.DropNotOurLID
	case d.qp > opa.QPGeneral:
		return opa.DropL4
	case d.qp == opa.QPSubnet && d.sc != opa.SCManagement, d.qp == opa.QPGeneral && !d.key:
		return drop.Malformed
	case d.qp == opa.QPGeneral && p.state != Active:
		return opa.DropPort
	case d.qp == opa.QPGeneral && !opa.PKeyAllowed(p.used, d.pkey, d.sc):
		return opa.DropPKey
	}
	if len(p.agents) == 0 {
		return drop.Unused
	}
	p.counts.MADs++
	if d.qp == opa.QPGeneral {
		d.from.PKey = d.pkey
	}
	p.congested(d.from.LID, d.dlid, d.sc, d.pkey, d.fecn, d.becn)
	for _, a := range p.agents {
		a.Receive(d.payload, d.from, p.now, p.SendMAD)
	}
	return frame.DropNone
}
