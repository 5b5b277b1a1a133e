package ucma

import (
	"slices"
	"syscall"
)

// The ports that bind to port 0 gives out: the dynamic ones (RFC 6335 section
// 6).
const (
	firstPort = 49152
	lastPort  = 65535
)

// ports knows which ids are bound to which port of which NICs: who is bound to
// no address in particular has it on all NICs of its program.
type ports struct {
	owners map[uint16][]*binding
	last   uint16 // given out
}

// binding is an id's share in a port.
type binding struct {
	addr      sockaddr // with the port
	on        []*Device
	reuse     bool
	afOnly    bool // IPv6 only, or IPv4
	automatic bool // the port was not the program's choice
}

func newPorts() ports { return ports{owners: map[uint16][]*binding{}, last: lastPort} }

// bind takes a port for b: that of its address, or if that is 0 a free one.
// Errors: EADDRINUSE, EADDRNOTAVAIL.
func (s *Server) bind(b *binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.addr.port == 0 {
		b.automatic = true
		if b.addr.port = s.ports.pick(); b.addr.port == 0 {
			return syscall.EADDRNOTAVAIL
		}
	}
	if err := s.ports.conflict(b, b.reuse); err != nil {
		return err
	}
	s.ports.owners[b.addr.port] = append(s.ports.owners[b.addr.port], b)
	return nil
}

// claim makes b a binding that admits no other: what LISTEN needs. Errors as
// of bind.
func (s *Server) claim(b *binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ports.conflict(b, false); err != nil {
		return err
	}
	b.reuse = false
	return nil
}

// share changes whether b lets others have its port, too.
func (s *Server) share(b *binding, reuse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.reuse = reuse
}

// release gives b's port back.
func (s *Server) release(b *binding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.ports.owners[b.addr.port]
	for i, have := range list {
		if have == b {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if s.ports.owners[b.addr.port] = list; len(list) == 0 {
		delete(s.ports.owners, b.addr.port)
	}
}

// pick chooses a port that nobody has, 0 if there is none: not the one given
// out last, so that one is not used again at once.
func (p *ports) pick() uint16 {
	for range lastPort - firstPort + 1 {
		if p.last++; p.last < firstPort { // after the last one comes 0
			p.last = firstPort
		}
		if len(p.owners[p.last]) == 0 {
			return p.last
		}
	}
	return 0
}

// conflict tells why b cannot have its port beside those who have it.
func (p *ports) conflict(b *binding, reuse bool) error {
	for _, o := range p.owners[b.addr.port] {
		switch {
		case o == b, !b.meets(o), reuse && o.reuse, b.afOnly && o.afOnly && b.addr.family != o.addr.family:
		case b.addr.any() || o.addr.any():
			return syscall.EADDRNOTAVAIL
		case b.addr.addr == o.addr.addr:
			return syscall.EADDRINUSE
		}
	}
	return nil
}

// meets tells whether two bindings have a NIC in common.
func (b *binding) meets(o *binding) bool {
	return slices.ContainsFunc(b.on, func(n *Device) bool { return slices.Contains(o.on, n) })
}
