package verbs

import "fmt"

// AllocRDD would make a reliable datagram domain, which no device has any more:
// ErrUnsupported, the status EOPNOTSUPP of the user ABI.
func (p *PD) AllocRDD() error {
	return fmt.Errorf("allocate RD domain: there are no reliable datagrams: %w", ErrUnsupported)
}
