package toe

import (
	"net/netip"

	"tapir/wire/frame"
)

// AcceptFunc decides on a connection whose handshake has just been completed.
// It returns the connection's handler, or nil to refuse with a RST.
type AcceptFunc func(c *Conn, now frame.Time) Handler

// Listener waits for connections to one port.
type Listener struct {
	e       *Engine
	local   netip.AddrPort
	backlog int
	pending int // connections in SYN-RECEIVED
	accept  AcceptFunc
	port    *reservation
	par     *Params
}

// Listen opens local for passive opens; an unspecified address means every
// address of that family, the IPv6 one both families. At most backlog
// handshakes are pending at a time; further SYNs are dropped. Errors are
// *Error (AddrInUse, BadAddr).
func (e *Engine) Listen(local netip.AddrPort, backlog int, accept AcceptFunc) (*Listener, error) {
	local = canonical(local)
	if !local.IsValid() || local.Port() == 0 || local.Addr().IsMulticast() {
		return nil, &Error{Kind: BadAddr, Local: local}
	}
	for _, l := range e.listeners {
		if l.local == local {
			return nil, &Error{Kind: AddrInUse, Local: local}
		}
	}
	port, err := e.reserve(local)
	if err != nil {
		return nil, &Error{Kind: AddrInUse, Local: local, Err: err}
	}
	l := &Listener{e: e, local: local, backlog: max(backlog, 1), accept: accept, port: port, par: &e.cfg.Params}
	e.listeners = append(e.listeners, l)
	return l, nil
}

// Local is the address listened on.
func (l *Listener) Local() netip.AddrPort { return l.local }

// Close ends listening. Handshakes that are still pending are reset at the
// next Poll; established connections stay. A second Close does nothing.
func (l *Listener) Close() {
	for i, o := range l.e.listeners {
		if o == l {
			l.e.listeners = append(l.e.listeners[:i:i], l.e.listeners[i+1:]...)
			l.port.drop()
			break
		}
	}
	for c := l.e.head; c != nil; c = c.next {
		if c.listener == l && c.state == StateSynReceived {
			c.Abort()
		}
	}
}

// listener returns who listens on local: the exact address before a wildcard.
func (e *Engine) listener(local netip.AddrPort) (best *Listener) {
	for _, l := range e.listeners {
		if l.local.Port() != local.Port() {
			continue
		}
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
