package toe

import "net/netip"

// load counts the passively opened connections of a port or remote host.
type load struct{ half, open int }

// host is who is limited by address: an IPv4 address, or the 64-bit prefix
// that one IPv6 host can use as a whole.
func host(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}

// crowded reports whether listener l may not have one more connection from
// remote, whatever its state.
func (e *Engine) crowded(l *Listener, remote netip.Addr) bool {
	p, h := e.ports[l.local.Port()], e.hosts[host(remote)]
	return len(e.conns) >= e.cfg.MaxConns || l.maxConns > 0 && l.pending+l.open >= l.maxConns ||
		p.half+p.open >= e.cfg.MaxConnsPerPort || h.half+h.open >= e.cfg.MaxConnsPerHost
}

// backlogFull reports whether l may not keep one more half-open connection
// from remote.
func (e *Engine) backlogFull(l *Listener, remote netip.Addr) bool {
	return l.pending >= l.backlog || e.ports[l.local.Port()].half >= e.cfg.MaxHalfOpenPerPort ||
		e.hosts[host(remote)].half >= e.cfg.MaxHalfOpenPerHost
}

// halfOpen makes c one of l's connections, not established yet.
func (c *Conn) halfOpen(l *Listener) {
	c.listener, c.passive, c.half, c.port, c.par = l, true, true, l.port.share(), l.par
	l.pending++
	c.tally(1, 0)
}

// opened counts c as established.
func (c *Conn) opened() {
	c.half = false
	c.listener.pending--
	c.listener.open++
	c.tally(-1, 1)
}

// left ends the counting of c.
func (c *Conn) left() {
	switch {
	case c.listener == nil:
		return
	case c.half:
		c.listener.pending--
		c.tally(-1, 0)
	default:
		c.listener.open--
		c.tally(0, -1)
	}
	c.listener = nil
}

// tally changes the load of c's port and host.
func (c *Conn) tally(half, open int) {
	port, from := c.listener.local.Port(), host(c.remote.Addr())
	p, h := c.e.ports[port], c.e.hosts[from]
	p.half, p.open, h.half, h.open = p.half+half, p.open+open, h.half+half, h.open+open
	if c.e.ports[port] = p; p == (load{}) {
		delete(c.e.ports, port)
	}
	if c.e.hosts[from] = h; h == (load{}) {
		delete(c.e.hosts, from)
	}
}
