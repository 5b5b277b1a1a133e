package nic

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"tapir/nic/nicdrop"
	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/headers"
	"tapir/wire/icmp"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// The way in, in packet order:
//
//  1. port      number, stamp, counters; at the end the capture record.
//     With coalescing, and without a host TAP, frames that are not
//     the TCP engine's wait here for their interrupt (composeirq.go)
//     With one, what is plainly the operating system's takes a shortcut from
//     here (shortcut.go)
//  2. ether     header, VLAN, station filter
//  3. arp       neighbors learned and answered
//  4. ip        header, addresses; fragments wait until whole (fragment.go)
//  5. upper     TCP to the TCP engine, and from there to mpa, ddp, rdmap and
//     the memory; ICMP and neighbor discovery (icmp.go); UDP
//
// With a host TAP every stage leaves what is not the engine's to the
// operating system: see refuse.

// inbound is the frame in hand.
type inbound struct {
	f      *frame.Frame
	eth    ether.Header
	packet []byte // the IP packet, trimmed to its length
	ip     ip.Header
	body   []byte        // what follows the IP header
	off    frame.Offload // what the sender left undone on body
	drop   frame.DropReason
	whole  *datagram // the fragments that body was made from
	// offloaded: the TCP engine's, not a frame of the Ethernet queue.
	offloaded bool
}

// verdict says what becomes of the frame in hand.
type verdict uint8

const (
	consumed verdict = iota // used and to be released
	dropped                 // for the reason in inbound.drop
	toHost                  // the operating system's
	kept                    // held for reassembly
)

// Receive takes frames that came in on a port. It never transmits.
func (d *Device) Receive(p frame.Port, frames []*frame.Frame, now frame.Time) {
	d.now = now
	for _, f := range frames {
		switch {
		case p == frame.Host:
			d.receiveHost(f)
		case d.wire.looped: // whose receiver hears only its own transmitter
			d.drops.Count(nicdrop.Port)
			f.Release()
		default:
			d.receiveWire(f)
		}
	}
	d.reportReceived()
}

// arrived is stage 1: the frame passes port p.
func (d *Device) arrived(p *port, f *frame.Frame) {
	p.rxID++
	p.rxFrames++
	p.rxBytes += uint64(f.Len())
	if p.name == frame.Wire {
		p.rx.count(f)
	}
	at := d.now
	if f.Seen != 0 && f.Seen != frame.Never {
		at = f.Seen
	}
	f.ID, f.Stamp = p.rxID, d.stamping.phc.At(at)
}

// receiveHost passes a frame of the operating system on, unless it would
// disturb a connection of the TCP engine.
func (d *Device) receiveHost(f *frame.Frame) {
	if d.toSecondHost(f) {
		return
	}
	d.arrived(&d.host, f)
	if d.engineOwns(f.Bytes()) {
		d.drops.Count(nicdrop.Owned)
		d.trace(&d.host, frame.Inbound, f, nil, nicdrop.Owned)
		f.Release()
		return
	}
	d.trace(&d.host, frame.Inbound, f, nil, frame.DropNone)
	if d.stamping.on {
		d.request(f)
	}
	d.fromHost(f)
}

// engineOwns tells whether a frame of the operating system is a TCP segment on
// a connection or port of the engine. The placeholder socket keeps programs
// away from those, but not the kernel itself: it may still answer with a RST
// what arrived just before the engine took the port.
func (d *Device) engineOwns(b []byte) bool {
	local, remote, ok := headers.TCPEnds(b)
	return ok && d.isLocal(local.Addr()) && d.toe.Owns(local, remote)
}

func (d *Device) receiveWire(f *frame.Frame) {
	d.arrived(&d.wire, f)
	if d.wire.closed {
		d.drops.Count(nicdrop.Port)
		d.trace(&d.wire, frame.Inbound, f, nil, nicdrop.Port)
		d.wake(f.Bytes())
		f.Release()
		return
	}
	if !d.awaits(f) {
		d.handleWire(f)
	}
}

// handleWire is what follows stage 1, for a frame of the wire.
func (d *Device) handleWire(f *frame.Frame) {
	if d.stamping.on {
		d.sighted(f)
	}
	if d.hostsOwn(f) {
		d.passUp(f)
		return
	}
	d.in = inbound{f: f, off: f.Offload}
	v, failed := d.withoutFirst(f)
	if !failed {
		v = d.etherIn(f.Bytes())
	}
	if !d.in.offloaded && !d.interrupts.holds && d.function == nil {
		d.interrupts.received++
	}
	notes, drop := d.notes.Take()
	if v == dropped {
		drop = d.in.drop
		d.drops.Count(drop)
	}
	d.trace(&d.wire, frame.Inbound, f, notes, drop)
	switch {
	case d.in.whole != nil:
		d.settle(d.in.whole, v)
	case v == toHost:
		d.toFunction(f)
	case v != kept:
		f.Release()
	}
	d.in = inbound{}
}

// passUp hands a frame to the operating system that no stage needs to see.
func (d *Device) passUp(f *frame.Frame) {
	notes, _ := d.notes.Take()
	d.trace(&d.wire, frame.Inbound, f, notes, frame.DropNone)
	d.toFunction(f)
}

// settle releases the fragments of a datagram or passes them on.
func (d *Device) settle(g *datagram, v verdict) {
	for _, p := range g.pieces {
		if v == toHost {
			d.toFunction(p.f)
		} else {
			p.f.Release()
		}
	}
}

// drop discards the frame in hand.
func (d *Device) drop(r frame.DropReason) verdict {
	d.in.drop = r
	return dropped
}

// refuse discards the frame in hand, unless an operating system behind the
// host TAP is there to judge it.
func (d *Device) refuse(r frame.DropReason) verdict {
	if d.host.link != nil {
		return toHost
	}
	return d.drop(r)
}

// etherIn is stage 2.
func (d *Device) etherIn(b []byte) verdict {
	h, n, err := ether.Parse(b)
	if err != nil {
		return d.refuse(drop.Truncated)
	}
	d.in.eth = h
	switch {
	case h.Src.IsMulticast():
		return d.refuse(drop.Source)
	case !d.ourVLAN(&h):
		return d.refuse(drop.WrongVLAN)
	case !d.ourStation(h.Dst):
		return d.refuse(drop.NotOurMAC)
	}
	switch h.Type {
	case ether.TypePTP:
		if v, ok := d.ptpIn(); ok {
			return v
		}
	case ether.TypeIPv4, ether.TypeIPv6:
		return d.ipIn(b[n:])
	case ether.TypeARP:
		return d.arpIn(b[n:])
	case ether.TypeLoopback:
		return d.loopbackIn(b[n:])
	}
	return d.refuse(drop.EtherType)
}

// ourVLAN reports whether the frame's tags are those of our VLAN; an untagged
// port takes priority tags too (IEEE 802.1Q section 6.9).
func (d *Device) ourVLAN(h *ether.Header) bool {
	switch h.NTags {
	case 0:
		return d.cfg.VLAN == 0
	case 1:
		return h.Tags[0].VID() == d.cfg.VLAN
	}
	return false
}

func (d *Device) ourStation(dst ether.Addr) bool {
	if !dst.IsMulticast() {
		return dst == d.cfg.MAC
	}
	if dst.IsBroadcast() || dst == d.allNodes {
		return true
	}
	for _, g := range d.groups {
		if g == dst {
			return true
		}
	}
	return false
}

// arpIn is stage 3 (RFC 826, RFC 5227).
func (d *Device) arpIn(b []byte) verdict {
	p, err := arp.Parse(b)
	switch {
	case err != nil:
		return d.refuse(parseDrop(err))
	case p.SenderMAC == d.cfg.MAC:
		return d.refuse(drop.Unused) // our own, come back
	case p.SenderMAC.IsMulticast() || p.SenderMAC.IsZero():
		return d.refuse(drop.Source)
	}
	forUs := d.isLocal(p.TargetIP)
	switch {
	case d.isLocal(p.SenderIP):
		d.conflict(p.SenderIP, p.SenderMAC)
	case p.Op == arp.Reply && forUs:
		d.confirm(p.SenderIP, p.SenderMAC)
	default:
		d.learn(p.SenderIP, p.SenderMAC, forUs)
	}
	if d.host.link != nil {
		return toHost
	}
	if p.Op == arp.Request && forUs {
		d.sendARP(arp.Packet{Op: arp.Reply, SenderMAC: d.cfg.MAC, SenderIP: p.TargetIP,
			TargetMAC: p.SenderMAC, TargetIP: p.SenderIP}, p.SenderMAC)
	}
	return consumed
}

// conflict takes note of another station with an address of ours.
func (d *Device) conflict(a netip.Addr, mac ether.Addr) {
	d.conflicts++
	if d.notes.On {
		d.notes.Addf("address conflict: %v is also used by %v", a, mac)
	}
}

// ipIn is stage 4.
func (d *Device) ipIn(b []byte) verdict {
	in := &d.in
	h, body, err := ip.Parse(b)
	if err != nil {
		return d.refuse(parseDrop(err))
	}
	in.ip, in.body = h, body
	in.packet = b[:h.HeaderLen()+len(body)]
	switch {
	case (h.Version == 4) != (in.eth.Type == ether.TypeIPv4):
		return d.refuse(drop.Malformed)
	case len(in.packet) > d.cfg.MTU && in.off.GSO == frame.GSONone:
		return d.refuse(drop.Oversize)
	case h.SourceRouted():
		return d.refuse(drop.IPOptions)
	case !validSource(h.Src):
		return d.refuse(drop.Source)
	case !d.forUs(h.Dst):
		return d.refuse(drop.NotOurIP)
	case h.IsFragment():
		return d.fragmentIn()
	}
	return d.upper()
}

// validSource reports whether a packet may come from a. The unspecified IPv6
// address is that of a station that is looking for duplicates.
func validSource(a netip.Addr) bool {
	if a.Is4() {
		v := a.As4()
		return !a.IsMulticast() && !a.IsLoopback() && v[0] != 0 && v[0] < 240
	}
	return !a.IsMulticast() && !a.IsLoopback() && !a.Is4In6()
}

// forUs reports whether a is one of our addresses or groups.
func (d *Device) forUs(a netip.Addr) bool {
	if !a.IsMulticast() {
		return d.isLocal(a)
	}
	if a == allNodes || d.ptpGroup(a) {
		return true
	}
	for _, p := range d.addrs {
		if p.Addr().Is6() && icmp.SolicitedNode(p.Addr()) == a {
			return true
		}
	}
	return false
}

// upper is stage 5.
func (d *Device) upper() verdict {
	h := &d.in.ip
	switch {
	case h.Proto == ip.ProtoTCP:
		return d.tcpIn()
	case h.Proto == ip.ProtoICMP && h.Version == 4:
		return d.icmp4In()
	case h.Proto == ip.ProtoICMPv6 && h.Version == 6:
		return d.icmp6In()
	case h.Proto == ip.ProtoUDP:
		return d.udpIn()
	}
	return d.refuse(drop.IPProtocol)
}

func (d *Device) tcpIn() verdict {
	in := &d.in
	if len(in.body) < tcp.HeaderLen {
		return d.refuse(drop.Truncated)
	}
	if in.ip.Dst.IsMulticast() || in.eth.Dst.IsMulticast() || in.ip.Src.IsUnspecified() {
		return d.refuse(drop.Source) // RFC 1122 section 4.2.3.10
	}
	if d.host.link != nil {
		remote := netip.AddrPortFrom(in.ip.Src, binary.BigEndian.Uint16(in.body))
		local := netip.AddrPortFrom(in.ip.Dst, binary.BigEndian.Uint16(in.body[2:]))
		if !d.toe.Owns(local, remote) {
			return toHost
		}
	}
	in.offloaded = true
	if d.toe.Segment(&in.ip, in.body, in.off, d.now) {
		return consumed
	}
	d.toe.Reset(&in.ip, in.body)
	return d.drop(drop.NoListener)
}

// udpIn answers that nothing listens: the only UDP service in the NIC is PTP.
func (d *Device) udpIn() verdict {
	in := &d.in
	if v, ok := d.ptpIn(); ok {
		return v
	}
	if d.host.link != nil {
		return toHost
	}
	if len(in.body) < 8 {
		return d.drop(drop.Truncated)
	}
	if !d.udpChecksumOK() {
		return d.drop(drop.L4Checksum)
	}
	if in.ip.Version == 4 {
		d.sendError(icmp.Unreachable4, icmp.PortUnreachable4)
	} else {
		d.sendError(icmp.Unreachable6, icmp.PortUnreachable6)
	}
	return d.drop(drop.NoListener)
}

// udpChecksumOK verifies the checksum of a UDP datagram, unless the datagram
// never left this machine or has none (RFC 768).
func (d *Device) udpChecksumOK() bool {
	in := &d.in
	if in.off.NeedsCsum || in.off.DataValid || in.ip.Version == 4 && binary.BigEndian.Uint16(in.body[6:]) == 0 {
		return true
	}
	return ip.Checksum(in.body, ip.PseudoSum(in.ip.Src, in.ip.Dst, ip.ProtoUDP, len(in.body))) == 0
}

// parseDrop is the drop reason for an error of a wire package.
func parseDrop(err error) frame.DropReason {
	switch {
	case errors.Is(err, ip.ErrTruncated), errors.Is(err, arp.ErrTruncated), errors.Is(err, icmp.ErrTruncated):
		return drop.Truncated
	case errors.Is(err, ip.ErrChecksum):
		return drop.IPChecksum
	}
	return drop.Malformed
}
