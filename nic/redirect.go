package nic

import (
	"encoding/binary"
	"net/netip"
	"time"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

const (
	maxRedirects = 64
	redirectLife = 10 * time.Minute
)

// redirect is a first hop that a gateway has named for one destination (RFC
// 1122 section 3.2.2.2, RFC 4861 section 8.3).
type redirect struct {
	dst, hop netip.Addr
	until    frame.Time
}

// redirectIn takes note of a better first hop. Only the present first hop may
// name one, and only about a connection of the engine's: what the operating
// system sends is its own affair, so it gets every redirect too.
func (d *Device) redirectIn(m *icmp.Message) verdict {
	in := &d.in
	r, err := m.Redirect()
	if err != nil {
		return d.refuse(drop.Malformed)
	}
	if in.ip.Version == 6 && in.ip.TTL != icmp.NDHopLimit {
		return d.refuse(drop.Malformed) // came from off the link
	}
	if in.ip.Src != d.nextHop(r.Dst) || !d.mayHop(&r) || !d.quotesOurs(r.Packet) {
		return d.refuse(drop.Unused)
	}
	d.setRedirect(redirect{r.Dst, r.Hop, d.now.Add(redirectLife)})
	if d.host.link != nil {
		return toHost
	}
	return consumed
}

// mayHop tells whether r names a station of the link that is not us.
func (d *Device) mayHop(r *icmp.Redirect) bool {
	return !d.isLocal(r.Hop) && (d.onLink(r.Hop) || r.Hop.IsLinkLocalUnicast() || r.Hop.Is6() && r.Hop == r.Dst)
}

// quotesOurs tells whether packet is a segment of a connection of the
// engine's.
func (d *Device) quotesOurs(packet []byte) bool {
	h, seg, err := ip.ParseQuoted(packet)
	if err != nil || h.Proto != ip.ProtoTCP || h.FragOffset != 0 || len(seg) < 8 || !d.isLocal(h.Src) {
		return false
	}
	return d.toe.Owns(netip.AddrPortFrom(h.Src, binary.BigEndian.Uint16(seg)), netip.AddrPortFrom(h.Dst, binary.BigEndian.Uint16(seg[2:])))
}

// setRedirect enters r in place of the one for the same destination, or of
// the oldest when there are too many.
func (d *Device) setRedirect(r redirect) {
	oldest := 0
	for i := range d.redirects {
		switch {
		case d.redirects[i].dst == r.dst:
			d.redirects[i] = r
			return
		case d.redirects[i].until < d.redirects[oldest].until:
			oldest = i
		}
	}
	if len(d.redirects) < maxRedirects {
		d.redirects = append(d.redirects, r)
		return
	}
	d.redirects[oldest] = r
}

// redirected is the first hop that a gateway has named for dst, the zero
// address if none has.
func (d *Device) redirected(dst netip.Addr) netip.Addr {
	for i := range d.redirects {
		if r := &d.redirects[i]; r.dst == dst && r.until > d.now {
			return r.hop
		}
	}
	return netip.Addr{}
}

// dropRedirects forgets the redirects to a hop that does not answer.
func (d *Device) dropRedirects(hop netip.Addr) {
	kept := d.redirects[:0]
	for _, r := range d.redirects {
		if r.hop != hop {
			kept = append(kept, r)
		}
	}
	d.redirects = kept
}
