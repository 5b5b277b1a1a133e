package nic

import (
	"fmt"
	"net/netip"

	"tapir/wire/drop"
	"tapir/wire/ether"
)

// loopback holds packets to the NIC's own addresses. They turn back behind
// the TCP engine's Poll and never reach the wire, as on an operating system's
// loopback interface.
type loopback struct {
	waiting, running []outgoing
	packets          uint64
}

// toSelf takes o.f, an IP packet to one of our own addresses.
func (d *Device) toSelf(o outgoing) {
	if len(d.looped.waiting) >= queueFrames {
		d.dropOut(&d.wire, o, drop.TxQueue)
		return
	}
	o.f.Linearize()
	d.looped.waiting = append(d.looped.waiting, o)
}

// turnBack hands the packets that wait to the receiving side and reports
// whether there were any.
func (d *Device) turnBack() bool {
	l := &d.looped
	if len(l.waiting) == 0 {
		return false
	}
	l.waiting, l.running = l.running[:0], l.waiting
	for i, o := range l.running {
		l.running[i] = outgoing{}
		l.packets++
		d.receiveLooped(o)
	}
	return true
}

func (d *Device) receiveLooped(o outgoing) {
	b := o.f.Bytes()
	d.in = inbound{f: o.f, off: o.f.Offload, eth: ether.Header{Src: d.cfg.MAC, Dst: d.cfg.MAC, Type: ether.TypeIPv4}}
	if b[0]>>4 == 6 {
		d.in.eth.Type = ether.TypeIPv6
	}
	v := d.ipIn(b)
	d.notes.Take()
	switch v {
	case dropped:
		d.drops.Count(d.in.drop)
	case toHost: // which has a loopback interface of its own
		d.drops.Count(drop.NoListener)
	}
	switch {
	case d.in.whole != nil:
		d.settle(d.in.whole, dropped)
	case v != kept:
		o.f.Release()
	}
	d.in = inbound{}
}

// allow refuses RDMA connections to addresses that settings exclude.
func (d *Device) allow(remote netip.Addr) error {
	if d.cfg.NoLoopback && d.isLocal(remote) {
		return fmt.Errorf("%v is the NIC's own address and loopback_enabled is 0", remote)
	}
	return nil
}
