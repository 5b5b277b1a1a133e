package vnic

import (
	"slices"

	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Deliver takes f, which holds p, a packet for this vport's vESW.
func (n *Netdev) Deliver(p opa.Packet, f *frame.Frame, now frame.Time) frame.DropReason {
	if p.FECN() {
		n.stats.FECN++
	}
	if p.BECN() {
		n.stats.BECN++
	}
	r := n.receive(p, f, now)
	if r != frame.DropNone {
		n.stats.RxDrops.Count(r)
		f.Release()
	}
	return r
}

// receive passes one frame on to the host, or returns why it cannot; f is then
// still the caller's.
func (n *Netdev) receive(p opa.Packet, f *frame.Frame, now frame.Time) frame.DropReason {
	if !n.running {
		return opa.DropState
	}
	b := p.Frame()
	if r := n.check(p, b); r != frame.DropNone {
		return r
	}
	var in inner
	in.parse(b)
	slid := p.SLID()
	if r := n.fromFabric(&in, slid); r != frame.DropNone {
		return r
	}
	if n.policy.Gateway {
		if r := n.toNetwork(&in, p); r != frame.DropNone {
			return r
		}
	}
	if !p.DLID().IsUnicast() && !n.rxStorm.Take(now) {
		return opa.DropStorm
	}
	if n.policy.Learn && n.places(&in, slid) {
		n.learn(&in, slid, now)
	}
	if n.policy.Suppress {
		n.noteNeighbor(&in, now)
	}
	if n.policy.Relay && n.relay(p, f, &in, now) {
		return frame.DropNone
	}
	if n.policy.Filter && !in.flow.Group && !n.ours(&in, now) {
		return drop.NotOurMAC
	}
	if n.host == nil || n.toHost.Len() >= n.policy.HostQueue {
		return drop.HostQueue
	}
	n.stats.Rx.size(len(b))
	n.stats.Rx.good(in.flow.Group, in.flow.Tagged)
	opa.Decapsulate(f)
	n.deliver(f)
	return frame.DropNone
}

// check is stage 2, the packet as a whole.
func (n *Netdev) check(p opa.Packet, b []byte) frame.DropReason {
	switch slid := p.SLID(); {
	case !opa.PKeyMatch(n.cfg.PKey, p.PKey()):
		return opa.DropPKey
	case slid == n.slid || slid == n.port.lower.LID():
		return opa.DropLooped
	}
	switch {
	case len(b) < opa.MinFrame:
		n.stats.Rx.size(len(b))
		return opa.DropRunt
	case len(b) > n.mtu+encapsulated:
		n.stats.Rx.size(len(b))
		return drop.Oversize
	}
	return frame.DropNone
}

// fromFabric is stage 3: a source address must be one of a station, not ours,
// and come from where the Ethernet Manager put it. An address that names a
// port of this vESW can only come from there, one with a source-MAC entry only
// from the LID in it.
func (n *Netdev) fromFabric(in *inner, slid opa.LID) frame.DropReason {
	if in.src.IsMulticast() || in.src.IsZero() {
		return drop.Source
	}
	if in.src == n.mac {
		return opa.DropSpoofed
	}
	if m, local := opa.ParseLMAC(in.src); local && m.Names(n.cfg.FabricID, n.cfg.VESWID) && m.LID != slid {
		return opa.DropSpoofed
	}
	if lid, named, restricted := n.table.Source(in.src); restricted && named && lid != 0 && lid != slid {
		return opa.DropSpoofed
	}
	return frame.DropNone
}

// relay passes a frame that was sent to this port for a station known behind
// another one on to it, as from its source, and reports whether it took f. A
// frame is relayed once: its age tells.
func (n *Netdev) relay(p opa.Packet, f *frame.Frame, in *inner, now frame.Time) bool {
	if in.flow.Group || !p.DLID().IsUnicast() || p.Age() != 0 {
		return false
	}
	lid, ok := n.table.Lookup(in.dst)
	if !ok || lid == 0 {
		lid = n.whereIs(in, now)
	}
	if lid == 0 || lid == n.slid || lid == p.DLID() || lid == p.SLID() {
		return false
	}
	h := p.Header()
	h.DLID, h.Age, h.FECN, h.BECN = lid, 1, false, false
	_, vl := n.cfg.QoS.Select(&in.flow)
	opa.Decapsulate(f)
	f, r := n.encapsulate(f, &h)
	if r != frame.DropNone {
		n.stats.RxDrops.Count(r)
		f.Release()
		return true
	}
	if r = n.lower.Transmit(f, vl); r != frame.DropNone {
		n.stats.RxDrops.Count(r)
		return true
	}
	n.stats.Relayed++
	return true
}

// ours reports whether the unicast destination is on the host's side.
func (n *Netdev) ours(in *inner, now frame.Time) bool {
	if in.dst == n.mac || slices.Contains(n.lists.unicast, in.dst) {
		return true
	}
	lid, ok := n.stations.find(keyOf(in.dst, in.vid), now)
	return ok && lid == hostSide
}

// deliver takes f, an Ethernet frame, and queues it for the host; the queue
// has room, or f is an answer that may be lost.
func (n *Netdev) deliver(f *frame.Frame) {
	if n.host == nil || !n.toHost.Push(f, n.policy.HostQueue) {
		n.stats.RxDrops.Count(drop.HostQueue)
		f.Release()
		return
	}
	if !n.queued {
		n.queued = true
		n.port.waiting = append(n.port.waiting, n)
	}
}

// flush hands the host what waits, as far as it has room, and reports whether
// anything is left.
func (n *Netdev) flush(now frame.Time) bool {
	for n.toHost.Len() > 0 {
		if n.host == nil {
			n.stats.RxDrops[drop.HostQueue] += uint64(n.toHost.Discard())
			break
		}
		if n.host.Room() <= 0 {
			return true
		}
		f := n.toHost.Pop()
		n.stats.HostTx++
		n.trace(frame.Outbound, f.Bytes(), frame.DropNone, now)
		n.host.Transmit(f)
	}
	n.queued = false
	return false
}
