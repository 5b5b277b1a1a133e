package virtual

import (
	"tapir/lab/host/fault"
	"tapir/lab/run/steps"
)

// findQP implements fault.FindQP.
func (l *lab) findQP(nic string, c fault.Connection) (uint32, error) {
	n := l.node(nic)
	switch {
	case n.dead:
		return 0, nil
	case c.DestQP == 0:
		return steps.QPOf(n.dev.ShowQP(), c), nil
	case n.dev.RoCE == nil:
		return 0, nil
	}
	return steps.RoCEQPOf(n.dev.ShowRoCEQP(), c), nil
}
