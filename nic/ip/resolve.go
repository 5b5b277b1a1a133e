package ip

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"tapir/nic/port"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Route tells how packets to remote would leave: from which of the NIC's
// addresses, and how well that fits, as the length in bits of the prefix that
// covers remote; 0 means by a gateway. ok is false if there is no way.
func (l *routes) Route(remote netip.Addr) (source netip.Addr, bits int, ok bool) {
	if !l.NextHop(remote).IsValid() {
		return source, 0, false
	}
	for _, p := range l.addrs {
		if p.Contains(remote) {
			bits = max(bits, p.Bits())
		}
	}
	source = l.Source(remote)
	return source, bits, source.IsValid()
}

// SourceFor is Source with an error that says how to mend it.
func (l *routes) SourceFor(remote netip.Addr) (netip.Addr, error) {
	if !l.NextHop(remote).IsValid() {
		return netip.Addr{}, fmt.Errorf("no route to %v: no prefix of the NIC covers it and no gateway is set", remote)
	}
	return l.Source(remote), nil
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
func (l *Layer) Resolve(remote netip.Addr, done func(mac ether.Addr, now frame.Time)) (cancel func(), ok bool) {
	hop := l.NextHop(remote)
	if !hop.IsValid() {
		return nil, false
	}
	r := &resolution{hop, done}
	l.resolving = append(l.resolving, r)
	n := l.neighbors.find(hop)
	switch {
	case l.IsLocal(hop):
		l.env.Enqueue(resolved{l, r, l.MAC})
	case n == nil:
		l.neighbors.next = 0 // asked for in Poll, the time of all output
	case n.state != incomplete:
		l.env.Enqueue(resolved{l, r, n.mac})
	}
	return func() { l.resolving.forget(r) }, true
}

// resolutions are those under way.
type resolutions []*resolution

// forget reports whether r was still waiting.
func (l *resolutions) forget(r *resolution) bool {
	i := slices.Index(*l, r)
	if i >= 0 {
		*l = slices.Delete(*l, i, i+1)
	}
	return i >= 0
}

// answerResolutions tells those who wait for hop, in the next Dispatch.
func (l *Layer) answerResolutions(hop netip.Addr, mac ether.Addr) {
	for _, r := range l.resolving {
		if r.hop == hop {
			l.env.Enqueue(resolved{l, r, mac})
		}
	}
}

// askAwaited makes entries of the next hops that somebody has begun to wait for.
func (l *Layer) askAwaited(now frame.Time) {
	for _, r := range l.resolving {
		if !l.IsLocal(r.hop) && l.neighbors.find(r.hop) == nil {
			l.neighbors.arm(l.newNeighbor(r.hop, now), now)
		}
	}
}

// awaits tells whether someone waits for the station of hop.
func (l resolutions) awaits(hop netip.Addr) bool {
	return slices.ContainsFunc(l, func(r *resolution) bool { return r.hop == hop })
}

// resolved is an answer on its way to who asked.
type resolved struct {
	l   *Layer
	r   *resolution
	mac ether.Addr
}

// Run implements Runner.
func (a resolved) Run(now frame.Time) {
	if a.l.resolving.forget(a.r) {
		a.r.done(a.mac, now)
	}
}

// Station is the link-layer address through which a is reached, the zero address
// if it is not known.
func (l *Layer) Station(a netip.Addr) ether.Addr {
	if n := l.neighbors.byIP[l.NextHop(a)]; n != nil {
		return n.mac
	}
	return ether.Addr{}
}

// Saved is the frame in which an IP packet passed the wire from or to remote;
// false: it still waits for its next hop.
func (l *Layer) Saved(packet []byte, dir frame.Direction, remote netip.Addr) (data []byte, passed bool) {
	if n := l.neighbors.byIP[l.NextHop(remote)]; n != nil && dir == frame.Outbound {
		same := func(o port.Out) bool { return bytes.Equal(o.Frame.Bytes(), packet) }
		if slices.ContainsFunc(n.pending, same) {
			return nil, false
		}
	}
	h, station := l.header, l.Station(remote)
	h.Dst, h.Type = station, etherType(packet)
	if dir == frame.Inbound {
		h.Src, h.Dst = station, l.MAC
	}
	return append(h.AppendTo(make([]byte, 0, h.Len()+len(packet))), packet...), true
}
