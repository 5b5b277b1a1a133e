package real

import (
	"context"
	"fmt"
	"slices"
	"sync"

	lifecycle "tapir/lab/node"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
	"tapir/nic/linkmode"
)

// speaker is whose control socket speaks for an end of a link, if that negotiates: for
// the port of a card that of the first function there. The ports of kernels, guests and
// fabrics do not, nor does ideal hardware: nil.
func (c *cable) speaker(end int) *node {
	n := c.ends[end]
	if n.Kind == topo.Card {
		i := slices.IndexFunc(n.functions, func(f *node) bool { return n.names[f.NIC.Port] == c.ports[end] })
		if i < 0 {
			return nil
		}
		n = n.functions[i]
	}
	if n.Kind == topo.Switch || n.Kind == topo.NIC && n.NIC.FastLinQ() != nil {
		return n
	}
	return nil
}

// negotiations are what the ends of a link tell each other, until one starts again.
type negotiations struct {
	mu      sync.Mutex
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// end returns when nobody tells anything any more.
func (t *negotiations) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel()
	}
	t.running.Wait()
}

// cablesOf are the links of a node.
func (b *bed) cablesOf(n *node) (all []*cable) {
	for _, c := range b.cables {
		if slices.Contains(c.ends[:], n) {
			all = append(all, c)
		}
	}
	return all
}

// negotiate has the ends of links tell each other what they offer, now and whenever
// that changes. This process carries it, by the control sockets of both ends.
func (b *bed) negotiate(ctx context.Context, cables []*cable) error {
	return lifecycle.Each(cables, func(c *cable) error {
		if c.speaker(0) == nil || c.speaker(1) == nil || c.ends[0].dead.Load() || c.ends[1].dead.Load() {
			return nil
		}
		c.talks.end()
		c.talks.mu.Lock()
		defer c.talks.mu.Unlock()
		var offers [2]linkmode.Ability
		ends := []int{0, 1}
		if c.speaker(1).Kind == topo.Switch { // its port begins again when the other end has
			ends = []int{1, 0}
		}
		for _, i := range ends {
			if err := b.exchange(ctx, c, i, nil, &offers[i]); err != nil {
				return fmt.Errorf("link %s: negotiation: %w", c.Name, err)
			}
		}
		talking, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c.talks.cancel = cancel
		for i := range c.ends {
			if c.speaker(i).Kind == topo.NIC { // what a switch offers does not change
				c.talks.running.Go(func() { b.renegotiate(talking, c, i, &offers[i]) })
			}
		}
		return nil
	})
}

// renegotiate tells the other end what an end offers whenever that is not what it was,
// until one of them is gone.
func (b *bed) renegotiate(ctx context.Context, c *cable, end int, offer *linkmode.Ability) {
	for b.exchange(ctx, c, end, offer, offer) == nil {
		b.log.Printf("link %s: %s negotiates again", c.Name, c.ends[end].Name)
	}
}

// exchange waits until an end offers something that is not known, and tells the other.
func (b *bed) exchange(ctx context.Context, c *cable, end int, known, offer *linkmode.Ability) error {
	err := b.ask(c.speaker(end).Name, func(s *ctl.Client) (err error) {
		*offer, err = s.LinkOffer(ctx, c.ports[end], known)
		return err
	})
	if err != nil {
		return err
	}
	return b.ask(c.speaker(1-end).Name, func(s *ctl.Client) error { return s.LinkPartner(ctx, c.ports[1-end], *offer) })
}
