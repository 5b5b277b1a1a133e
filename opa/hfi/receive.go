package hfi

import (
	"slices"

	"tapir/opa"
	"tapir/wire/frame"
)

// Receive takes frames that came in from the fabric. It never transmits.
func (p *Port) Receive(frames []*frame.Frame, now frame.Time) {
	p.now = now
	for _, f := range frames {
		p.receive(f, false)
	}
}

// Number is the number of the next frame that comes in: of one that is not for the
// port too, if it is shown to the tracer.
func (p *Port) Number() uint64 {
	p.rxID++
	return p.rxID
}

// receive is stage 1. self: the frame never left the port.
func (p *Port) receive(f *frame.Frame, self bool) {
	f.ID = p.Number()
	p.counts.RxPackets++
	p.counts.RxBytes += uint64(f.Len())
	if p.tracer != nil {
		p.scratch = append(p.scratch[:0], f.Bytes()...)
	}
	at := p.now
	if f.Seen != 0 && f.Seen != frame.Never {
		at = f.Seen
	}
	r, client := p.open(f, self)
	if client == nil {
		if r != frame.DropNone {
			p.counts.RxDrops.Count(r)
		}
		p.traceIn(f.ID, at, r)
		f.Release()
		return
	}
	id := f.ID
	p.traceIn(id, at, client.Deliver(opa.Packet(f.Bytes()), f, p.now))
}

// open takes the packet out of its framing and judges it. It returns the
// client of the netdev that it is for; without one the frame is finished.
func (p *Port) open(f *frame.Frame, self bool) (frame.DropReason, opa.NetdevClient) {
	if p.state == Down {
		return opa.DropPort, nil
	}
	format, r := opa.Unwrap(f)
	if r != frame.DropNone {
		return r, nil
	}
	b := f.Bytes()
	switch {
	case format == opa.Format9B:
		return p.receive9B(b, self), nil
	case len(b) >= opa.MinPacket && opa.Packet(b).L4() == opa.L4FM:
		return p.receiveMAD16B(b, self), nil
	case p.state != Active:
		return opa.DropPort, nil
	case opa.IsCNP(b):
		return p.receiveCNP(b), nil
	}
	return p.receive16B(f)
}

func (p *Port) receive16B(f *frame.Frame) (frame.DropReason, opa.NetdevClient) {
	m, r := opa.Parse(f.Bytes(), p.cfg.ICRC)
	if r != frame.DropNone {
		return r, nil
	}
	dlid := m.DLID()
	switch {
	case p.ours(m.SLID()):
		return opa.DropLooped, nil
	case !p.ours(dlid) && p.listened[dlid] == 0:
		return opa.DropNotOurLID, nil
	case !opa.PKeyAllowed(p.used, m.PKey(), m.SC()):
		return opa.DropPKey, nil
	}
	vesw := m.VESW()
	n := p.byVESW[vesw]
	if n == nil || !n.open {
		return opa.DropVESW, nil
	}
	if !dlid.IsUnicast() && !slices.Contains(n.mlids, dlid) {
		return opa.DropNotOurLID, nil
	}
	p.congested(m.SLID(), dlid, m.SC(), m.PKey(), m.FECN(), m.BECN())
	f.Queue = p.context(vesw, m.Entropy())
	return frame.DropNone, n.client
}
