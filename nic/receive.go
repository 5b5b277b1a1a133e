package nic

import (
	"tapir/nic/ip"
	"tapir/nic/nicdrop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/headers"
)

// The way in, in packet order:
//
//  1. port      number, stamp, counters; at the end the capture record
//     (package port). What is more than the function may receive waits. With
//     coalescing, and without a host TAP, frames that are not the TCP engine's wait
//     here for their interrupt. With a host TAP, what is plainly the operating
//     system's goes to stage 4 from here
//  2. ip        Ethernet header, VLAN and station; ARP, IP, ICMP; fragments
//     (receive.go of package ip)
//  3. transport TCP segments to the TCP engine (transport.go), and from there to
//     mpa, ddp, rdmap and the memory; PTP messages to package ptp
//  4. host      what is nobody's in the NIC goes to the host function
//
// The way out goes from the engines through transmit.go of package ip to the
// port.

// Receive takes frames that came in on a port. It never transmits.
func (d *Device) Receive(p frame.Port, frames []*frame.Frame, now frame.Time) {
	d.begin(now)
	for _, f := range frames {
		switch {
		case p == frame.Host:
			d.receiveHost(f, now)
		case d.Wire.Deaf(): // whose receiver hears only its own transmitter
			d.Common.Drops.Count(nicdrop.Port)
			f.Release()
		default:
			d.receiveWire(f, now)
		}
	}
	d.endBatch(now)
}

// endBatch tells the hardware of what came to the NIC's own Ethernet queue.
func (d *Device) endBatch(now frame.Time) {
	n := d.received
	d.received = 0
	d.Hardware.Batch(n, now)
}

// receiveHost passes a frame of the operating system on, unless it would
// disturb a connection of the TCP engine.
func (d *Device) receiveHost(f *frame.Frame, now frame.Time) {
	if d.os.Diverts(f) {
		return
	}
	d.Host.Arrived(f, now)
	if d.admit(f, now, true) {
		d.os.FromHost(f)
	}
}

// admit looks at a frame of the operating system; false: it was not allowed, and
// is gone.
func (d *Device) admit(f *frame.Frame, now frame.Time, trace bool) bool {
	if d.IP.OwnsSent(f.Bytes()) {
		d.Host.Refuse(f, nicdrop.Owned, now)
		return false
	}
	if trace {
		d.Host.Trace(frame.Inbound, f, nil, frame.DropNone, now)
	}
	if d.PTP.On() {
		d.PTP.Request(f, now)
	}
	return true
}

// receiveWire is stage 1 for a frame of the wire.
func (d *Device) receiveWire(f *frame.Frame, now frame.Time) {
	d.Wire.Arrived(f, now)
	if d.Wire.Closed {
		d.Common.Drops.Count(nicdrop.Port)
		d.Wire.Trace(frame.Inbound, f, nil, nicdrop.Port, now)
		d.Hardware.Closed(f.Bytes(), now)
		f.Release()
		return
	}
	if ether.IsMACControl(f.Bytes()) {
		d.Wire.Control(f, d.cfg.MAC, now)
		return
	}
	if ether.IsLLDP(f.Bytes()) {
		if taken, why := d.Hardware.LLDP(f.Bytes(), now); taken {
			d.Wire.Finish(f, why, now)
			return
		}
	}
	if !d.Wire.Hold(f, now) {
		receiveAdmitted(d, f, now)
	}
}

// admitReceived takes in the frames that have waited for the function's turn.
func admitReceived(d *Device, now frame.Time) {
	for f := d.Wire.Next(); f != nil; f = d.Wire.Next() {
		receiveAdmitted(d, f, now)
	}
	d.endBatch(now)
}

// receiveAdmitted is stage 1 for what the function may have.
func receiveAdmitted(d *Device, f *frame.Frame, now frame.Time) {
	if d.holds {
		if _, _, ok := headers.TCPEnds(f.Bytes()); !ok && d.Hardware.Hold(f, now) {
			return
		}
	}
	d.handleWire(f, now)
}

// handleWire is what follows stage 1.
func (d *Device) handleWire(f *frame.Frame, now frame.Time) {
	if d.PTP.On() {
		d.PTP.Sighted(f, now)
	}
	if d.IP.PlainlyHosts(f) {
		notes, _ := d.Common.Notes.Take()
		d.Wire.Trace(frame.Inbound, f, notes, frame.DropNone, now)
		d.os.FromWire(f)
		return
	}
	l := d.IP.For(f)
	p := l.Take(f, now)
	if d.tcp.Failed {
		d.rxDegraded(p)
	} else {
		l.Receive(p)
	}
	if !p.Offloaded {
		d.received++
	}
	notes, reason := d.Common.Notes.Take()
	if p.Verdict == ip.Dropped {
		reason = p.Reason
		d.Common.Drops.Count(reason)
	}
	d.Wire.Trace(frame.Inbound, f, notes, reason, now)
	l.Done(p)
}

// rxDegraded gives a verdict on a frame of the wire while the offloads have failed:
// a segment of the TCP engine is dropped, the rest is the operating system's.
func (d *Device) rxDegraded(p *ip.Packet) {
	p.Verdict = ip.ToHost
	if !d.Host.Exists() || d.IP.OwnsReceived(p.Frame.Bytes()) {
		p.Verdict = p.Discard(nicdrop.Engine)
	}
}

// turnBack receives what the wire's loopback has turned back, and tells whether
// there was anything.
func (d *Device) turnBack(now frame.Time) bool {
	if !d.Wire.TurnBack(func(f *frame.Frame) { d.receiveWire(f, now) }) {
		return false
	}
	d.endBatch(now)
	return true
}
