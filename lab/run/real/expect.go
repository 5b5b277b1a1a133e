package real

import (
	"context"
	"encoding/json"
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
func (b *bed) LinkCounts(link string) (n topo.LinkCounts) {
	if c := b.links[link]; c != nil { // else somebody else joins the nodes
		n = c.counts()
	}
	return n
}

// Tables implements steps.World.
func (b *bed) Tables(ctx context.Context, node string) map[string]any {
	if b.nodes[node].Kind != topo.Manager {
		return nil
	}
	all := map[string]any{}
	_ = b.ask(node, func(c *ctl.Client) error { // what cannot be told is left out
		var own json.RawMessage
		if c.Show(ctx, ctl.Kinds[0], &own) == nil {
			all["manager"] = own
		}
		for _, kind := range []string{"vesw", "member", "mac", "port"} {
			var rows json.RawMessage
			if c.Show(ctx, kind, &rows) == nil {
				all[kind] = rows
			}
		}
		return nil
	})
	return all
}

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
