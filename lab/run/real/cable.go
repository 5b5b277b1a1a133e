package real

import (
	"errors"
	"fmt"

	"tapir/lab/host/fault"
	"tapir/lab/host/link"
	"tapir/lab/run/steps"
	"tapir/lab/topo"
	"tapir/nic/tap"
)

// cable is a link of the lab.
type cable struct {
	*topo.Link
	wire  *link.Cable
	ends  [2]*node
	far   [2]tap.Queue       // where the cable ends, each in the namespace of the node
	fault [2]link.Impairment // now, of frames from either end, as if it were up
	down  bool
	armed bool      // it has an engine for rules
	mtu   int       // octets of IP
	part  *part     // of the lab's capture; nil if there is none
	ports [2]string // names that nodes have for their ends; empty: the kernel's
	talks negotiations
}

// addLink makes the ports of a link, and the cable between them.
func (b *bed) addLink(t *topo.Link) (*cable, error) {
	c := &cable{Link: t, fault: t.Fault}
	mtu, vnet := t.MTU, false
	for i, name := range t.Ends {
		c.ends[i] = b.nodes[name]
		vnet = vnet || c.ends[i].vnet()
		if t.MTU == 0 {
			mtu = max(mtu, c.ends[i].mtu(t))
		}
	}
	if mtu == 0 {
		mtu = 1500
	}
	for i, n := range c.ends {
		var err error
		if c.ports[i], c.far[i], err = b.plug(n, t, mtu, vnet); err != nil {
			if i == 1 {
				c.far[0].Close()
			}
			return nil, err
		}
		if n.Kind == topo.NIC && n.NIC.MTU == 0 && t.MTU != 0 {
			n.flags = append(n.flags, fmt.Sprintf("--mtu=%d", mtu))
		}
	}
	cfg := link.CableConfig{A: c.far[0], B: c.far[1], ToB: c.fault[0], ToA: c.fault[1], MTU: mtu,
		Seed: b.lab.SeedOf(t)}
	var err error
	cfg.Rules, err = steps.Rules(b.lab, t, b.findQP)
	if c.armed = cfg.Rules != nil; err != nil {
		return nil, errors.Join(err, c.far[0].Close(), c.far[1].Close())
	}
	cfg.Struck = func(s fault.Strike) { b.log.Printf("%s: %v", t.Name, s) }
	c.mtu = mtu
	if b.opt.Wanted(b.lab, t) {
		if err := b.recordLink(c); err != nil {
			return nil, errors.Join(err, c.far[0].Close(), c.far[1].Close())
		}
		cfg.Tracer = c.part.link
		c.ends[0].captured, c.ends[1].captured = c, c
	}
	if t.Compensate {
		if err := c.observe(&cfg); err != nil {
			return nil, errors.Join(err, c.far[0].Close(), c.far[1].Close())
		}
	}
	if c.wire, err = link.NewCable(cfg); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// observe has the kernel stamp PTP event messages at the cable's ends, where those are TAPs.
func (c *cable) observe(cfg *link.CableConfig) error {
	cfg.Compensate = true
	for i, q := range c.far {
		if _, ok := q.(*tap.TAP); !ok {
			continue
		}
		err := c.ends[i].ns.Do(func() error {
			o, err := tap.Observe(q.Name())
			if err == nil {
				cfg.Seen[i] = o
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("compensate: %w", err)
		}
	}
	return nil
}

// set makes f happen to frames from now on.
func (c *cable) set(f [2]link.Impairment) error {
	c.fault = f
	f[0].Down, f[1].Down = c.down, c.down
	return c.wire.Set(f[0], f[1])
}

// change does what a step of verb Fault says.
func (b *bed) change(c *cable, s *topo.Step) error {
	if len(s.Rules) > 0 && !c.armed {
		e := fault.New(b.lab.SeedOf(c.Link), c.Ends)
		e.FindQPs(b.findQP)
		if err := c.wire.Arm(e); err != nil {
			return err
		}
		c.armed = true
	}
	return errors.Join(c.set(s.Fault), c.wire.SetRules(s.Rules))
}

// plug takes the link down or up.
func (c *cable) plug(down bool) error {
	c.down = down
	err := c.set(c.fault)
	for i, n := range c.ends {
		err = errors.Join(err, n.unplug(c, i, down))
	}
	return err
}

// counts are the link's counters.
func (c *cable) counts() topo.LinkCounts {
	a, b := c.wire.Faults()
	_, late := c.wire.Delivered()
	return topo.LinkCounts{Frames: a.Frames + b.Frames, Lost: a.Lost + b.Lost, Duplicated: a.Duplicated + b.Duplicated,
		Corrupted: a.Corrupted + b.Corrupted, Reordered: a.Reordered + b.Reordered, Refused: a.Refused + b.Refused,
		Late: late.Late(), Rules: c.wire.Rules()}
}

// close ends the cable.
func (c *cable) close() error {
	if c.wire == nil {
		return nil
	}
	if err := c.wire.Close(); err != nil {
		return fmt.Errorf("link %s: %w", c.Name, err)
	}
	return nil
}
