package ip

import (
	"net/netip"
	"slices"
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
func (l *Layer) redirectIn(p *Packet, m *icmp.Message) Verdict {
	r, err := m.Redirect()
	if err != nil {
		return p.Refuse(drop.Malformed)
	}
	if p.IP.Version == 6 && p.IP.TTL != icmp.NDHopLimit {
		return p.Refuse(drop.Malformed) // came from off the link
	}
	if p.IP.Src != l.NextHop(r.Dst) || !l.mayHop(&r) || !l.quotesOurs(r.Packet) {
		return p.Refuse(drop.Unused)
	}
	l.setRedirect(redirect{r.Dst, r.Hop, p.Now.Add(redirectLife)})
	l.haveMoved()
	return p.keep()
}

// mayHop tells whether r names a station of the link that is not us.
func (l *routes) mayHop(r *icmp.Redirect) bool {
	return !l.IsLocal(r.Hop) && (covers(l.addrs, r.Hop) || r.Hop.IsLinkLocalUnicast() || r.Hop.Is6() && r.Hop == r.Dst)
}

// quotesOurs tells whether packet is one of a connection of the engine's.
func (l *Layer) quotesOurs(packet []byte) bool {
	h, payload, err := ip.ParseQuoted(packet)
	if err != nil {
		return false
	}
	t, n := l.quoted(&h, payload)
	return t != nil && t.Owns(n.Local, n.Remote)
}

// setRedirect enters r in place of the one for the same destination, or of
// the oldest when there are too many.
func (l *routes) setRedirect(r redirect) {
	oldest := 0
	for i := range l.redirects {
		switch {
		case l.redirects[i].dst == r.dst:
			l.redirects[i] = r
			return
		case l.redirects[i].until < l.redirects[oldest].until:
			oldest = i
		}
	}
	if len(l.redirects) < maxRedirects {
		l.redirects = append(l.redirects, r)
		return
	}
	l.redirects[oldest] = r
}

// redirected is the first hop that a gateway has named for dst, the zero
// address if none has.
func (l *routes) redirected(dst netip.Addr) netip.Addr {
	for i := range l.redirects {
		if r := &l.redirects[i]; r.dst == dst {
			return r.hop
		}
	}
	return netip.Addr{}
}

// forgetRedirects forgets the redirects that match.
func (l *routes) forgetRedirects(match func(r redirect) bool) {
	before := len(l.redirects)
	if l.redirects = slices.DeleteFunc(l.redirects, match); len(l.redirects) != before {
		l.haveMoved()
	}
}
