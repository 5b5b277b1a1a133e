package real

import (
	"context"
	"slices"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
	"tapir/nic/iwarp"
)

// Listens implements steps.World.
func (b *bed) Listens(ctx context.Context, nic string, port uint16) (bool, error) {
	var ceps []iwarp.CEPInfo
	err := b.ask(nic, func(c *ctl.Client) error { return c.Show(ctx, "cep", &ceps) })
	return steps.Listens(ceps, port), err
}

// LinkCounts implements steps.World.
func (b *bed) LinkCounts(link string) topo.LinkCounts { return b.links[link].counts() }

// Counters implements steps.World. A host has none.
func (b *bed) Counters(ctx context.Context, node string, vesw uint16) (rows []result.Counter, err error) {
	if slices.Contains(silent, b.nodes[node].Kind) { // the functions of a card have them
		return nil, nil
	}
	err = b.ask(node, func(c *ctl.Client) (err error) {
		if vesw != 0 {
			rows, err = vportCounters(ctx, c, node, vesw)
			return err
		}
		if err := c.Show(ctx, "counters", &rows); err != nil {
			return steps.Never(err)
		}
		return nil
	})
	return rows, err
}
