package real

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
)

// Killed implements steps.World.
func (b *bed) Killed(node string) bool { return b.nodes[node].dead.Load() }

// unlessKilled returns err, or that the node was killed, which explains more.
func (b *bed) unlessKilled(node string, err error) error {
	if b.Killed(node) {
		return steps.Killed(node)
	}
	return err
}

// AdjustPHC implements steps.World.
func (b *bed) AdjustPHC(ctx context.Context, s *topo.Step) error {
	return b.ask(s.On, func(c *ctl.Client) error {
		if s.Drifts {
			return c.PHCAdjFine(ctx, s.PPB*65536/1000)
		}
		return c.PHCAdjTime(ctx, int64(s.Shift))
	})
}

// Kill implements steps.World: it ends a node's process at once.
func (b *bed) Kill(nic string) {
	n := b.nodes[nic]
	n.setDead(true)
	n.proc.Kill()
	if n.ptp != nil {
		<-n.ptp
		n.ptp = nil
	}
}

// setDead tells of the node, and the functions of a card, whether it was killed.
func (n *node) setDead(dead bool) {
	for _, x := range slices.Concat(n.functions, []*node{n}) {
		x.dead.Store(dead)
	}
}

// Restart implements steps.World. A NIC keeps its MAC address, but draws other
// numbers, also if it has a seed: the same would look like its old connections.
func (b *bed) Restart(ctx context.Context, nic string) error {
	n := b.nodes[nic]
	n.lives++
	n.again = nil
	if n.NIC.Seed != nil {
		n.again = []string{fmt.Sprint("--seed=", *n.NIC.Seed+uint64(n.lives))}
	}
	for word := range strings.FieldsSeq(n.proc.Line("ready " + n.Name)) {
		if mac, ok := strings.CutPrefix(word, "mac="); ok && n.Kind == topo.NIC {
			n.again = append(n.again, "--mac="+mac)
		}
	}
	if err := n.start(ctx, b); err != nil {
		return err
	}
	n.setDead(false)
	if err := b.negotiate(ctx, b.cablesOf(n)); err != nil {
		return err
	}
	if n.PTP == nil {
		return nil
	}
	return b.startClock(ctx, n)
}
