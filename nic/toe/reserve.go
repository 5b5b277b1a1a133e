package toe

import "net/netip"

// reservation is a local port taken from the operating system, shared by a
// listener and the connections that came through it.
type reservation struct {
	users   int
	release func()
}

// reserve takes local; nil without Config.Reserve.
func (e *Engine) reserve(local netip.AddrPort) (*reservation, error) {
	if e.cfg.Reserve == nil {
		return nil, nil
	}
	release, err := e.cfg.Reserve(local)
	if err != nil {
		return nil, err
	}
	return &reservation{users: 1, release: release}, nil
}

// share counts one more user of r.
func (r *reservation) share() *reservation {
	if r != nil {
		r.users++
	}
	return r
}

// Drop gives the port back with its last user.
func (r *reservation) Drop() {
	if r == nil {
		return
	}
	if r.users--; r.users == 0 {
		r.release()
	}
}
