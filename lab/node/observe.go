package node

import (
	"fmt"

	"tapir/nic/loop"
	"tapir/nic/tap"
)

// observe starts or ends the observation of the wire TAP. It runs on the
// loop's thread.
func (n *Node) observe(p *loop.Port, on bool) error {
	if !on {
		p.Observe(nil)
		return nil
	}
	return n.kernel.ns.Do(func() error {
		o, err := tap.Observe(n.wire.Name())
		if err != nil {
			return fmt.Errorf("%s: PTP: %w", n.cfg.Name, err)
		}
		p.Observe(o)
		return nil
	})
}
