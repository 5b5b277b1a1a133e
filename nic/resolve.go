package nic

import (
	"net/netip"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Route tells how packets to remote would leave: from which of the NIC's
// addresses, and how well that fits, as the length in bits of the prefix that
// covers remote; 0 means by a gateway. ok is false if there is no way.
func (d *Device) Route(remote netip.Addr) (source netip.Addr, bits int, ok bool) {
	if !d.nextHop(remote).IsValid() {
		return source, 0, false
	}
	for _, p := range d.addrs {
		if p.Contains(remote) {
			bits = max(bits, p.Bits())
		}
	}
	source = d.Source(remote)
	return source, bits, source.IsValid()
}

// resolution is someone who waits for the station of a next hop.
type resolution struct {
	hop  netip.Addr
	done func(mac ether.Addr, now frame.Time)
}

// Resolve asks for the station that packets to remote go to, and again until
// it answers: then done is called, by the next Dispatch if the answer is known.
// cancel, which may be called at any time, ends the asking. ok is false, and
// nothing happens, if there is no way to remote.
func (d *Device) Resolve(remote netip.Addr, done func(mac ether.Addr, now frame.Time)) (cancel func(), ok bool) {
	hop := d.nextHop(remote)
	if !hop.IsValid() {
		return nil, false
	}
	r := &resolution{hop, done}
	d.resolving = append(d.resolving, r)
	n := d.neighbors.find(hop)
	switch {
	case d.isLocal(hop):
		d.Verbs.Enqueue(resolved{d, r, d.cfg.MAC})
	case n == nil:
		d.neighbors.arm(d.newNeighbor(hop), d.now) // asked for in Poll, the time of all output
	case n.state != incomplete:
		d.Verbs.Enqueue(resolved{d, r, n.mac})
	}
	return func() { d.forgetResolution(r) }, true
}

// forgetResolution reports whether r was still waiting.
func (d *Device) forgetResolution(r *resolution) bool {
	for i, have := range d.resolving {
		if have == r {
			d.resolving = append(d.resolving[:i], d.resolving[i+1:]...)
			return true
		}
	}
	return false
}

// settleResolutions tells those who wait for hop, in the next Dispatch.
func (d *Device) settleResolutions(hop netip.Addr, mac ether.Addr) {
	for _, r := range d.resolving {
		if r.hop == hop {
			d.Verbs.Enqueue(resolved{d, r, mac})
		}
	}
}

// awaited tells whether someone waits for the station of hop.
func (d *Device) awaited(hop netip.Addr) bool {
	for _, r := range d.resolving {
		if r.hop == hop {
			return true
		}
	}
	return false
}

// resolved is an answer on its way to who asked.
type resolved struct {
	d   *Device
	r   *resolution
	mac ether.Addr
}

// Run implements verbs.Runner.
func (a resolved) Run(now frame.Time) {
	if a.d.forgetResolution(a.r) {
		a.r.done(a.mac, now)
	}
}
