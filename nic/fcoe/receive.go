package fcoe

import (
	"errors"

	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// Receive takes a frame of FIP or FCoE: its header and what follows, borrowed. It returns
// the reason for which the frame is dropped.
func (n *Node) Receive(h ether.Header, body []byte, now frame.Time) (why frame.DropReason) {
	switch {
	case n.stopped:
		why = drop.Unused
	case h.Type == fip.EtherType:
		why = n.receiveFIP(h, body, now)
	default:
		why = n.receiveFCoE(h, body, now)
	}
	if why != frame.DropNone {
		n.dropped(why)
	}
	return why
}

// dropped counts a frame that is.
func (n *Node) dropped(why frame.DropReason) {
	n.stats[Dropped]++
	n.env.Sessions.Dropped(why)
}

// receiveFIP takes a FIP frame.
func (n *Node) receiveFIP(h ether.Header, body []byte, now frame.Time) frame.DropReason {
	n.stats[FIPIn]++
	m, err := fip.Parse(body)
	switch {
	case errors.Is(err, fip.ErrShort):
		return drop.Truncated
	case err != nil:
		return drop.Malformed
	case n.cfg.VN2VN:
		return n.vn.receive(h, &m, now)
	}
	return n.fabric.receive(h, &m, now)
}

// receiveFCoE takes a frame of Fibre Channel.
func (n *Node) receiveFCoE(eh ether.Header, body []byte, now frame.Time) frame.DropReason {
	_, _, b, err := fcoe.Parse(body)
	switch {
	case errors.Is(err, fcoe.ErrCRC):
		n.stats[CRCErrors]++
		return drop.FCCRC
	case errors.Is(err, fcoe.ErrShort):
		return drop.Truncated
	case err != nil:
		return drop.Malformed
	}
	h, payload, err := fc.Parse(b)
	if err != nil || len(payload) > fc.MaxPayload {
		return drop.Malformed
	}
	n.count(&h, len(payload), false)
	p := n.port(h.D)
	switch {
	case p == nil || eh.Dst != p.mac:
		return drop.NotOurMAC
	case !n.from(eh.Src, h.S):
		return drop.FCSource
	}
	return p.receive(&h, payload, now)
}

// from tells that a frame of an identifier may come from an address.
func (n *Node) from(src ether.Addr, id fc.ID) bool {
	if n.cfg.VN2VN {
		return src == fip.VN2VNMap.MAC(id)
	}
	return n.fabric.fcf != nil && src == n.fabric.fcf.MAC
}

// receive takes a frame for the port.
func (p *Port) receive(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	switch {
	case h.FCtl&fc.FromResponder != 0:
		return p.answered(h, payload, now)
	case h.RCtl == fc.ELSRequest && h.Type == fc.TypeELS:
		p.els(h, payload, now)
		return frame.DropNone
	case h.RCtl == fc.Abort:
		p.abort(h, now)
		return frame.DropNone
	case h.Type != fc.TypeFCP:
		return drop.Unused
	}
	r := p.remote(h.S)
	if r == nil || r.state != Ready {
		p.logout(h.S, ether.Addr{}) // FCP-4 section 6.2: the initiator logs in again
		return drop.FCLogin
	}
	p.n.env.Sessions.Traffic(r.handle, h.RCtl, len(payload), false)
	switch h.RCtl {
	case fc.UnsolicitedCmd:
		return r.command(h, payload, now)
	case fc.SolicitedData:
		return r.dataOut(h, payload, now)
	}
	r.violation(ErrFrameType)
	return drop.Unused
}

// answered takes a frame of an exchange of the node's.
func (p *Port) answered(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	x := p.n.exchanges[h.OXID]
	if x == nil || x.port != p || x.to != h.S {
		return drop.FCExchange
	}
	if x.request != nil {
		return x.request.answered(h, payload, now)
	}
	p.n.endExchange(x)
	x.done(h, payload, now)
	return frame.DropNone
}
