package real

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ui/record"
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
	if node == record.Lab {
		rows := map[string]any{}
		for _, k := range b.cables {
			rows[k.Name] = b.linkNow(k)
		}
		return map[string]any{"link": rows}
	}
	n, all := b.nodes[node], map[string]any{}
	if slices.Contains(silent, n.Kind) {
		return nil
	}
	_ = b.ask(node, func(c *ctl.Client) error { // what cannot be told is left out
		for _, kind := range ctl.Recorded {
			var rows json.RawMessage
			if c.Show(ctx, kind, &rows) != nil {
				continue
			}
			if kind == ctl.Kinds[0] && n.Kind == topo.Manager {
				kind = "manager"
			}
			all[kind] = rows
		}
		return nil
	})
	return all
}

// tablesEvery is how often the tables of a node are sampled at first; of many nodes each less often.
const tablesEvery = 500 * time.Millisecond

// watchTables samples the tables of all nodes until ctx ends, if the lab is recorded.
func (b *bed) watchTables(ctx context.Context) {
	if b.opt.Out == "" {
		return
	}
	var names []string
	for _, n := range b.order {
		names = append(names, n.Name)
	}
	b.tables = record.NewTables(names, tablesEvery*time.Duration(1+len(names)/4))
	go func() {
		for b.Sleep(ctx, b.tables.Next()-b.Now()) == nil {
			b.tables.Take(b.Now(), func(name string) map[string]any { return b.Tables(ctx, name) })
		}
	}()
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
