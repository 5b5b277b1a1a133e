package nic

import (
	"bytes"
	"net/netip"
	"slices"

	"tapir/nic/toe"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// replayComment marks the records that Replay writes.
const replayComment = "replayed for dissection"

// Replay hands t the saved first packets of every live connection, in the
// order of their passing, so that a capture begun now can be dissected. They
// carry the stamps of their time and no number. What still waits for its
// neighbor has not passed yet: t will see it do so.
func (d *Device) Replay(t frame.Tracer) {
	type saved struct {
		toe.SavedPacket
		remote netip.Addr
	}
	var all []saved
	d.toe.Conns(func(c *toe.Conn) bool {
		remote := c.Remote().Addr()
		for _, p := range c.Context() {
			if p.Dir == frame.Inbound || !d.waits(p.Data, remote) {
				all = append(all, saved{p, remote})
			}
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b saved) int { return int(min(max(a.At-b.At, -1), 1)) })
	for _, p := range all {
		h, station := d.header, d.stationOf(p.remote)
		h.Dst, h.Type = station, ether.TypeIPv4
		if p.remote.Is6() {
			h.Type = ether.TypeIPv6
		}
		if p.Dir == frame.Inbound {
			h.Src, h.Dst = station, d.cfg.MAC
		}
		data := append(h.AppendTo(make([]byte, 0, h.Len()+len(p.Data))), p.Data...)
		t.Trace(&frame.Record{Port: frame.Wire, Dir: p.Dir, Data: data, Stamp: d.stamping.phc.At(p.At), System: d.system.At(p.At), Notes: frame.Say(replayComment)})
	}
}

// waits tells whether an IP packet to dst is held back until its next hop is
// known.
func (d *Device) waits(packet []byte, dst netip.Addr) bool {
	n := d.neighbors.byIP[d.nextHop(dst)]
	return n != nil && slices.ContainsFunc(n.pending, func(o outgoing) bool { return bytes.Equal(o.f.Bytes(), packet) })
}
