package verbs

import "fmt"

// What an RNIC has not got is refused with ErrUnsupported, the status
// EOPNOTSUPP of the user ABI: iWARP has neither datagrams nor multicast.

// AllocRDD would make a reliable datagram domain.
func (p *PD) AllocRDD() error {
	return fmt.Errorf("allocate RD domain: an RNIC has no reliable datagrams: %w", ErrUnsupported)
}

// AllocXRCD would make a domain of extended reliable connections.
func (c *Context) AllocXRCD() error {
	return fmt.Errorf("allocate XRC domain: an RNIC has no XRC: %w", ErrUnsupported)
}

// CreateAH would make an address handle.
func (p *PD) CreateAH(GID) error {
	return fmt.Errorf("create AH: an RNIC has no datagrams to address: %w", ErrUnsupported)
}

// AttachMcast would join a multicast group.
func (q *QP) AttachMcast(GID) error {
	return fmt.Errorf("attach QP %d to a multicast group: an RNIC has none: %w", q.num, ErrUnsupported)
}

// DetachMcast would leave a multicast group.
func (q *QP) DetachMcast(GID) error {
	return fmt.Errorf("detach QP %d from a multicast group: an RNIC has none: %w", q.num, ErrUnsupported)
}
