package virtual

import (
	"net/netip"

	"tapir/lab/run/steps"
)

// findQP implements fault.FindQP.
func (l *lab) findQP(nic string, ends [2]netip.AddrPort) (uint32, error) {
	n := l.node(nic)
	if n.dead {
		return 0, nil
	}
	return steps.QPOf(n.dev.ShowQP(), ends), nil
}
