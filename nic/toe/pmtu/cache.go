// Package pmtu finds the MTU of a path: what has been learned about each
// destination (RFC 1191, RFC 8201), and the search for a larger one by probes
// (RFC 4821).
package pmtu

import (
	"net/netip"

	"tapir/wire/frame"
)

// Cache holds what has been learned about the MTU towards destinations
// (RFC 8201 section 5.2), at most maxPaths of them.
type Cache struct {
	byAddr map[netip.Addr]Path
	order  []netip.Addr // oldest entry first
}

// Path is what is known of one destination.
type Path struct {
	MTU int
	At  frame.Time // when it was learned
}

const maxPaths = 1024

// Len is the number of destinations.
func (p *Cache) Len() int { return len(p.order) }

// Find returns what is known of destination a.
func (p *Cache) Find(a netip.Addr) (Path, bool) {
	path, ok := p.byAddr[a]
	return path, ok
}

// Learn stores the MTU towards a; mtu 0 forgets it.
func (p *Cache) Learn(a netip.Addr, mtu int, now frame.Time) {
	if _, known := p.byAddr[a]; known {
		for i, o := range p.order {
			if o == a {
				p.order = append(p.order[:i], p.order[i+1:]...)
				break
			}
		}
		delete(p.byAddr, a)
	}
	if mtu == 0 {
		return
	}
	if len(p.order) == maxPaths {
		delete(p.byAddr, p.order[0])
		p.order = append(p.order[:0], p.order[1:]...)
	}
	if p.byAddr == nil {
		p.byAddr = make(map[netip.Addr]Path)
	}
	p.byAddr[a] = Path{mtu, now}
	p.order = append(p.order, a)
}
