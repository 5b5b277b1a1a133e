package real

import (
	"context"
	"net/netip"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/topo"
)

// Listens implements steps.World.
func (b *bed) Listens(ctx context.Context, nic string, port uint16) (bool, error) {
	client, err := b.dial(nic)
	if err != nil {
		return false, err
	}
	defer client.Close()
	var ceps []struct {
		Phase string         `json:"phase"`
		Local netip.AddrPort `json:"local"`
	}
	err = client.Show(ctx, "cep", &ceps)
	for _, c := range ceps {
		if c.Phase == "listening" && c.Local.Port() == port {
			return true, nil
		}
	}
	return false, err
}

// LinkCounts implements steps.World.
func (b *bed) LinkCounts(link string) topo.LinkCounts { return b.links[link].counts() }

// Counters implements steps.World. A host has none.
func (b *bed) Counters(ctx context.Context, node string, vesw uint16) (rows []result.Counter, err error) {
	if b.nodes[node].proc == nil {
		return nil, nil
	}
	client, err := b.dial(node)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if vesw != 0 {
		return vportCounters(ctx, client, node, vesw)
	}
	if err := client.Show(ctx, "counters", &rows); err != nil {
		return nil, steps.Never(err)
	}
	return rows, nil
}
