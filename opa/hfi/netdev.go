package hfi

import (
	"slices"

	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// netdev is the hardware-dependent half of one network device.
type netdev struct {
	port   *Port
	client opa.NetdevClient
	fabric uint16
	vesw   uint16 // 0: none
	open   bool
	mlids  []opa.LID
}

// AllocRDMANetdev gives out a netdev whose packets go to client (kept). It
// fails with opa.ErrNetdevs when the port has none left.
func (p *Port) AllocRDMANetdev(client opa.NetdevClient) (opa.RDMANetdev, error) {
	if len(p.netdevs) >= p.cfg.Netdevs {
		return nil, opa.ErrNetdevs
	}
	n := &netdev{port: p, client: client}
	p.netdevs = append(p.netdevs, n)
	return n, nil
}

// FreeRDMANetdev takes a netdev back and forgets its client. Freed again it is
// ignored.
func (p *Port) FreeRDMANetdev(rn opa.RDMANetdev) {
	i := slices.IndexFunc(p.netdevs, func(n *netdev) bool { return n == rn })
	if i < 0 {
		return
	}
	n := p.netdevs[i]
	n.SetMulticast(nil)
	if n.vesw != 0 {
		p.byVESW[n.vesw] = nil
	}
	n.vesw, n.open = 0, false
	p.netdevs = slices.Delete(p.netdevs, i, i+1)
}

// SetID implements opa.RDMANetdev.
func (n *netdev) SetID(fabric, vesw uint16) error {
	vesw &= opa.MaxVESW
	if other := n.port.byVESW[vesw]; vesw != 0 && other != nil && other != n {
		return opa.ErrVESWInUse
	}
	if n.vesw != 0 {
		n.port.byVESW[n.vesw] = nil
	}
	n.fabric, n.vesw = fabric, vesw
	if vesw == 0 {
		n.open = false
		return nil
	}
	n.port.byVESW[vesw] = n
	return nil
}

// SetMulticast implements opa.RDMANetdev.
func (n *netdev) SetMulticast(mlids []opa.LID) {
	for _, l := range n.mlids {
		if n.port.listened[l]--; n.port.listened[l] == 0 {
			delete(n.port.listened, l)
		}
	}
	n.mlids = append(n.mlids[:0], mlids...)
	for _, l := range n.mlids {
		n.port.listened[l]++
	}
}

// Open implements opa.RDMANetdev.
func (n *netdev) Open() error {
	if n.vesw == 0 {
		return opa.ErrNoVESW
	}
	n.open = true
	return nil
}

// Stop implements opa.RDMANetdev.
func (n *netdev) Stop() { n.open = false }

// Transmit implements opa.RDMANetdev.
func (n *netdev) Transmit(f *frame.Frame, vl uint8) frame.DropReason {
	p := n.port
	if r := n.transmit(f, vl); r != frame.DropNone {
		p.counts.TxDrops.Count(r)
		p.traceOut(f, r)
		f.Release()
		return r
	}
	return frame.DropNone
}

func (n *netdev) transmit(f *frame.Frame, vl uint8) frame.DropReason {
	p := n.port
	switch {
	case !n.open || p.state != Active:
		return opa.DropPort
	case f.Len() > p.MTU():
		return drop.Oversize
	}
	entropy := opa.Packet(f.Bytes()).Entropy()
	if r := p.cfg.Framing.Wrap(f, n.fabric); r != frame.DropNone {
		return r
	}
	return p.enqueue(f, vl, p.engine(vl, entropy))
}

// engine is the send engine for a packet: the virtual lane chooses a group of
// them, the entropy one of the group.
func (p *Port) engine(vl uint8, entropy uint16) uint16 {
	const groups = 8 // data lanes
	perLane := max(p.cfg.Engines/groups, 1)
	return (uint16(vl)*uint16(perLane) + entropy&uint16(perLane-1)) & uint16(p.cfg.Engines-1)
}

// context is the receive context for a packet, as the receive-side mapping of
// the hfi1 driver chooses it.
func (p *Port) context(vesw, entropy uint16) uint16 {
	return (vesw ^ entropy) & 7 & uint16(p.cfg.Contexts-1)
}
