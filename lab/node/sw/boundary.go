package sw

import (
	"cmp"
	"errors"

	"tapir/lab/conf/swconf"
	"tapir/ptp"
	"tapir/ptp/mgmt"
	"tapir/ptp/transport"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// boundary is a boundary clock in a switch: it ends the PTP messages of its
// transport. Those of others pass as any frame does.
type boundary struct {
	s        *Switch
	instance *ptp.Instance
	mgmt     *mgmt.Server
	carry    []transport.Port
	hops     map[transport.Addr]ether.Addr // who has sent messages
	now      frame.Time
	buf      []byte
	drops    BoundaryDrops
}

// BoundaryDrops counts the messages that did not reach the instance, or the
// wire.
type BoundaryDrops struct {
	Checksum uint64 // UDP checksum wrong
	NoHop    uint64 // to an address that nobody has
}

// maxHops bounds the addresses that are remembered.
const maxHops = 1024

// errMissed is why an event message has no egress stamp.
var errMissed = errors.New("the frame was not seen to leave")

func newBoundary(s *Switch) (*boundary, error) {
	cfg := s.cfg.Instance()
	b := &boundary{s: s, hops: map[transport.Addr]ether.Addr{}}
	for i := range s.cfg.Ports {
		b.carry = append(b.carry, s.cfg.Carriage(i))
	}
	var err error
	if b.instance, err = ptp.New(cfg, s.env.Clock, b); err != nil {
		return nil, err
	}
	info := mgmt.Config{Product: "Tapir;switch;" + s.cfg.Name}
	for i := range s.cfg.Ports {
		p := mgmt.PortInfo{Interface: cmp.Or(s.cfg.Ports[i].TAP, s.cfg.Ports[i].Name), MAC: b.carry[i].MAC,
			PHCIndex: -1}
		if b.carry[i].Kind != transport.Ethernet {
			p.Address.IP = b.carry[i].IP
		}
		info.Ports = append(info.Ports, p)
	}
	b.mgmt = mgmt.New(info, b.instance)
	b.instance.Manage(b.mgmt)
	b.instance.Observe(b.mgmt)
	return b, nil
}

func (b *boundary) receive(port int, f *frame.Frame, now frame.Time) (tag, frame.DropReason, bool) {
	b.now = now
	p, err := transport.Decapsulate(f.Bytes())
	switch {
	case err == transport.ErrChecksum:
		b.drops.Checksum++
		return tag{}, drop.L4Checksum, false
	case err != nil || p.Kind != b.carry[port].Kind:
		return tag{}, frame.DropNone, true
	case !p.Header.Dst.IsMulticast() && p.Header.Dst != b.carry[port].MAC:
		return tag{}, frame.DropNone, true
	}
	if _, known := b.hops[p.Src]; known || len(b.hops) < maxHops {
		b.hops[p.Src] = p.Header.Src
	}
	meta := ptp.Meta{Src: p.Src, Now: now}
	if p.Event && f.Seen != frame.Never {
		meta.Stamp, meta.Stamped = b.s.env.Clock.At(f.Seen), true
	}
	b.instance.Receive(port, p.Body, meta)
	return tag{}, frame.DropNone, false
}

// Send is for the instance.
func (b *boundary) Send(port int, m ptp.Outgoing) {
	var hop ether.Addr
	if m.Dst != (transport.Addr{}) && !m.Dst.IsMulticast() {
		known := false
		if hop, known = b.hops[m.Dst]; !known {
			b.drops.NoHop++
			b.lost(port, m.ID)
			return
		}
	}
	b.buf = b.carry[port].Append(b.buf[:0], m.Body, m.Dst, hop)
	f := b.s.env.Pool.Get(len(b.buf))
	if f == nil {
		b.s.ports[port].counts.TxDrops.Count(drop.NoBuffer)
		b.lost(port, m.ID)
		return
	}
	f.Append(b.buf)
	if m.OneStep {
		transport.OneStep(f.Bytes(), b.s.env.Clock.At(m.Now), m.Since)
	}
	if m.ID != 0 {
		f.ID = m.ID<<swconf.PortBits | uint64(port)
	}
	b.s.transmit(port, f)
}

func (b *boundary) lost(port int, id uint64) {
	if id != 0 {
		b.instance.TxStamp(port, id, 0, errMissed, b.now)
	}
}

// depart has nothing to do: no frame gets a tag.
func (b *boundary) depart(port int, f *frame.Frame, _ tag, _ frame.Time) { b.s.transmit(port, f) }

func (b *boundary) sent(id uint64, at frame.Time) bool {
	port := int(id & (1<<swconf.PortBits - 1))
	if at == frame.Never {
		b.lost(port, id>>swconf.PortBits)
		return true
	}
	b.instance.TxStamp(port, id>>swconf.PortBits, b.s.env.Clock.At(at), nil, b.now)
	return true
}

func (b *boundary) poll(now frame.Time) frame.Time {
	b.now = now
	b.mgmt.Poll(now)
	return b.instance.Poll(now)
}

func (b *boundary) close() {}
