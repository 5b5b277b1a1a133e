package toe

import (
	"cmp"
	"net/netip"
	"slices"

	"tapir/nic/toe/admission"
	"tapir/nic/toe/ports"
	"tapir/wire/frame"
	"tapir/wire/roster"
)

// AcceptFunc decides on a connection whose handshake has just been completed.
// It returns the connection's handler, or nil to refuse with a RST.
type AcceptFunc func(c *Conn, now frame.Time) Handler

// Listener waits for connections to one port.
type Listener struct {
	e        *Engine
	local    netip.AddrPort
	backlog  admission.Backlog
	cookieAt frame.Time // when the last SYN cookie was sent; 0: never
	accept   AcceptFunc
	makeRoom func(from netip.Addr, now frame.Time) bool
	port     *ports.Reservation
	par      *Params             // nil: the engine's
	pending  roster.Roster[Conn] // handshakes not completed
}

// Listen opens local for passive opens; an unspecified address means every
// address of that family, the IPv6 one both families. At most backlog
// handshakes are pending at a time; further SYNs are answered with SYN cookies
// (RFC 4987), or dropped with Config.NoSynCookies. Errors are
// *Error (AddrInUse, BadAddr).
func (e *Engine) Listen(local netip.AddrPort, backlog int, accept AcceptFunc) (*Listener, error) {
	local = ports.Canonical(local)
	if !local.IsValid() || local.Port() == 0 || local.Addr().IsMulticast() {
		return nil, &Error{Kind: BadAddr, Local: local}
	}
	for _, l := range e.listening(local.Port()) {
		if l.local == local {
			return nil, &Error{Kind: AddrInUse, Local: local}
		}
	}
	port, err := e.ports.Reserve(local)
	if err != nil {
		return nil, &Error{Kind: AddrInUse, Local: local, Err: err}
	}
	l := &Listener{e: e, local: local, accept: accept, port: port}
	l.backlog = admission.Backlog{Port: local.Port(), Backlog: max(backlog, 1)}
	at, _ := e.portAt(local.Port())
	e.listeners = slices.Insert(e.listeners, at, l)
	return l, nil
}

// Local is the address listened on.
func (l *Listener) Local() netip.AddrPort { return l.local }

// SetMaxConns bounds the connections, pending ones included, that came
// through the listener and are still open; further SYNs are dropped. 0 is no
// bound.
func (l *Listener) SetMaxConns(n int) { l.backlog.Max = n }

// Queue is the upper layer's part of a listener: connections that are
// established and that the application has not accepted.
type Queue struct {
	Len func() int // all of them
	// Silent is how many of them might make room for another one, MakeRoom has
	// one do so for a connection from that host, which may fail.
	Silent   func() int
	MakeRoom func(from netip.Addr, now frame.Time) bool
}

// SetQueue makes established connections that the application has not accepted
// count against the backlog, too. While the backlog is full of them, and none makes room, SYNs and the
// ACKs that end a handshake are dropped, which peers send again.
func (l *Listener) SetQueue(q Queue) {
	l.backlog.Queued, l.backlog.Movable, l.makeRoom = q.Len, q.Silent, q.MakeRoom
}

// full reports whether there is no room for one more established connection
// from remote.
func (l *Listener) full(remote netip.AddrPort, now frame.Time) bool {
	return l.backlog.Full() && !(l.makeRoom != nil && l.makeRoom(admission.Host(remote.Addr()), now))
}

// Host is who c counts for where connections are limited by address: the peer's
// IPv4 address, or the 64-bit prefix that one IPv6 host can use as a whole.
func (c *Conn) Host() netip.Addr { return admission.Host(c.remote.Addr()) }

// Pause makes the listener drop new SYNs, which peers send again, until it is
// called with false. Handshakes that have begun go on.
func (l *Listener) Pause(on bool) { l.backlog.Paused = on }

// Close ends listening. Handshakes that are still pending are reset at the
// next Poll; established connections stay. A second Close does nothing.
func (l *Listener) Close() {
	at, _ := l.e.portAt(l.local.Port())
	if i := slices.Index(l.e.listening(l.local.Port()), l); i >= 0 {
		l.e.listeners = slices.Delete(l.e.listeners, at+i, at+i+1)
		l.port.Drop()
	}
	for _, c := range l.pending.All() {
		c.Abort()
	}
}

// listener returns who listens on local: the exact address before a wildcard.
func (e *Engine) listener(local netip.AddrPort) (best *Listener) {
	for _, l := range e.listening(local.Port()) {
		switch a := l.local.Addr(); {
		case a == local.Addr():
			return l
		case !a.IsUnspecified(), a.Is4() && !local.Addr().Is4():
		case best == nil || a.Is4() == local.Addr().Is4():
			best = l
		}
	}
	return best
}

// portAt is where the listeners of a port begin in the list, or would.
func (e *Engine) portAt(port uint16) (int, bool) {
	return slices.BinarySearchFunc(e.listeners, port, func(l *Listener, port uint16) int {
		return cmp.Compare(l.local.Port(), port)
	})
}

// listening are the listeners of a port, one for each address.
func (e *Engine) listening(port uint16) []*Listener {
	at, _ := e.portAt(port)
	end := at
	for end < len(e.listeners) && e.listeners[end].local.Port() == port {
		end++
	}
	return e.listeners[at:end]
}

// params are those of the connections that l accepts from now on.
func (l *Listener) params() *Params { return cmp.Or(l.par, l.e.par) }

// halfOpen makes c one of l's connections, not established yet.
func (c *Conn) halfOpen(l *Listener) {
	c.listener, c.passive, c.half, c.port, c.par = l, true, true, l.port.Share(), l.params()
	l.pending.Add(uint32(c.place.Deadline.ID), c)
	c.e.passive.HalfOpen(&l.backlog, c.remote.Addr())
}

// opened counts c as established.
func (c *Conn) opened() {
	c.notPending()
	c.e.passive.Opened(&c.listener.backlog, c.remote.Addr())
}

// left ends the counting of c.
func (c *Conn) left() {
	if l := c.listener; l != nil {
		c.e.passive.Left(&l.backlog, c.remote.Addr(), c.half)
		c.notPending()
		c.listener = nil
	}
}

// notPending ends the handshake of c, one way or the other.
func (c *Conn) notPending() {
	if c.half {
		c.half = false
		c.listener.pending.Remove(uint32(c.place.Deadline.ID))
	}
}
