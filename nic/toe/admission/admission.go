// Package admission bounds the connections that peers open: by listener, local
// port, remote host and in all (RFC 9293 section 3.9.1, RFC 4987).
package admission

import "net/netip"

// Limits are the bounds that all listeners share.
type Limits struct {
	Conns, PerPort, PerHost  int // whatever their state
	HalfPerPort, HalfPerHost int // not established
}

// Limiter counts the connections that were opened passively.
type Limiter struct {
	Limits
	ports map[uint16]load
	hosts map[netip.Addr]load
}

// load counts the connections of a port or remote host.
type load struct{ half, open int }

// NewLimiter returns an empty one.
func NewLimiter(l Limits) Limiter {
	return Limiter{Limits: l, ports: map[uint16]load{}, hosts: map[netip.Addr]load{}}
}

// Hosts is how many remote hosts have a connection.
func (b *Limiter) Hosts() int { return len(b.hosts) }

// Backlog is a listener's part of the counting.
type Backlog struct {
	Port    uint16
	Backlog int  // half-open connections
	Max     int  // half-open and open ones; 0: no bound
	Paused  bool // none is let in
	// Queued, if set, tells how many open ones the application has not accepted, which
	// then count against the backlog, too.
	Queued func() int
	// Movable, if set, tells how many of these could make room for others: a SYN
	// is still answered when the backlog is full of them.
	Movable func() int

	Half, Open int // counted by a Limiter
}

// Verdict says what becomes of a SYN.
type Verdict uint8

const (
	Refuse Verdict = iota // dropped: the peer sends again
	Keep                  // a half-open connection
	Cookie                // nothing is kept: answered by a cookie, or dropped
)

// Admit decides on a SYN from remote to d, while conns connections exist.
func (b *Limiter) Admit(d *Backlog, remote netip.Addr, conns int) Verdict {
	switch {
	case d.Paused || b.Crowded(d, remote, conns) || d.full(-d.movable()):
		return Refuse
	case d.Half >= d.Backlog || b.ports[d.Port].half >= b.HalfPerPort ||
		b.hosts[Host(remote)].half >= b.HalfPerHost || d.full(d.Half):
		return Cookie
	}
	return Keep
}

// Crowded reports whether d may not have one more connection from remote,
// whatever its state, while conns exist.
func (b *Limiter) Crowded(d *Backlog, remote netip.Addr, conns int) bool {
	p, h := b.ports[d.Port], b.hosts[Host(remote)]
	return conns >= b.Conns || d.Max > 0 && d.Half+d.Open >= d.Max ||
		p.half+p.open >= b.PerPort || h.half+h.open >= b.PerHost
}

// Full reports whether the backlog is full of connections that nobody has
// accepted.
func (d *Backlog) Full() bool { return d.full(0) }

func (d *Backlog) movable() int {
	if d.Movable == nil {
		return 0
	}
	return d.Movable()
}

func (d *Backlog) full(more int) bool { return d.Queued != nil && d.Queued()+more >= d.Backlog }

// HalfOpen counts one more half-open connection from remote.
func (b *Limiter) HalfOpen(d *Backlog, remote netip.Addr) { b.count(d, remote, 1, 0) }

// Opened counts a half-open one as open.
func (b *Limiter) Opened(d *Backlog, remote netip.Addr) { b.count(d, remote, -1, 1) }

// Left ends the counting of one, half-open or not.
func (b *Limiter) Left(d *Backlog, remote netip.Addr, half bool) {
	if half {
		b.count(d, remote, -1, 0)
	} else {
		b.count(d, remote, 0, -1)
	}
}

func (b *Limiter) count(d *Backlog, remote netip.Addr, half, open int) {
	d.Half, d.Open = d.Half+half, d.Open+open
	from := Host(remote)
	p, h := b.ports[d.Port], b.hosts[from]
	p.half, p.open, h.half, h.open = p.half+half, p.open+open, h.half+half, h.open+open
	if b.ports[d.Port] = p; p == (load{}) {
		delete(b.ports, d.Port)
	}
	if b.hosts[from] = h; h == (load{}) {
		delete(b.hosts, from)
	}
}

// Host is who is limited by address: an IPv4 address, or the 64-bit prefix
// that one IPv6 host can use as a whole.
func Host(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}
