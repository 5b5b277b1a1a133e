package ptpsim

import (
	"strconv"
	"time"

	"tapir/lab/conf"
	"tapir/lab/sw"
	"tapir/wire/frame"
)

// buildSwitch makes a node's switch, once the links are known.
func (n *Node) buildSwitch() (err error) {
	c := *n.cfg.Switch
	c.Name = n.Name
	c.Ports = make([]sw.PortConfig, len(n.ends))
	for i := range c.Ports {
		if i < len(n.cfg.Switch.Ports) {
			c.Ports[i] = n.cfg.Switch.Ports[i]
		}
	}
	if c.Seed == 0 {
		c.Seed = n.seed()
	}
	c.Transport = n.cfg.Transport
	links := make([]frame.Link, len(n.ends))
	for i, e := range n.ends {
		links[i] = e
	}
	n.Switch, err = sw.New(c, sw.Env{Pool: n.s.world.pool, Links: links, Clock: n.Clock})
	return err
}

// switchKeys are the settings of a switch.
var switchKeys = []conf.Field[sw.Config]{
	{Name: "mode", Expect: "plain, e2e-tc, p2p-tc or bc", Set: func(c *sw.Config, s string) (err error) {
		c.Mode, err = sw.ParseMode(s)
		return err
	}},
	{Name: "delay", Expect: "a queueing delay such as exp:10us or 0-500us", Set: func(c *sw.Config, s string) (err error) {
		c.Delay, err = sw.ParseDelay(s)
		return err
	}},
	{Name: "queue", Expect: "a number of frames from 1 to 65536", Set: func(c *sw.Config, s string) error {
		n, err := strconv.ParseUint(s, 0, 17)
		if c.Queue = int(n); err != nil || n == 0 || n > 1<<16 {
			return errValue
		}
		return nil
	}},
	boolKey("one_step", func(c *sw.Config) *bool { return &c.OneStep }),
	boolKey("syntonize", func(c *sw.Config) *bool { return &c.Syntonize }),
	{Name: "domain", Expect: "a domain number from 0 to 255", Set: func(c *sw.Config, s string) error {
		n, err := strconv.ParseUint(s, 0, 8)
		c.Domain = uint8(n)
		return err
	}},
	{Name: "pdelay_req_interval", Expect: "log2 of an interval in seconds, from -7 to 5", Set: func(c *sw.Config, s string) error {
		n, err := strconv.ParseInt(s, 0, 8)
		if c.PdelayInterval = int8(n); err != nil || n < -7 || n > 5 {
			return errValue
		}
		return nil
	}},
	{Name: "group_fwd_mask", Expect: "a mask such as 0x4000", Set: func(c *sw.Config, s string) error {
		n, err := strconv.ParseUint(s, 0, 16)
		c.GroupFwdMask = uint16(n)
		return err
	}},
	{Name: "ports", Node: func(c *sw.Config, n conf.Node) error {
		return each(n, "a list with the settings of ports", func(n conf.Node) error {
			c.Ports = append(c.Ports, sw.PortConfig{})
			return conf.Decode(n, &c.Ports[len(c.Ports)-1], "the settings of a port", switchPortKeys)
		})
	}},
}

var switchPortKeys = []conf.Field[sw.PortConfig]{
	{Name: "delay", Expect: "a queueing delay such as exp:10us or 0-500us", Set: func(p *sw.PortConfig, s string) error {
		d, err := sw.ParseDelay(s)
		p.Delay = &d
		return err
	}},
	signedKey("delay_asymmetry", "a duration such as 120ns or -1.5us", func(p *sw.PortConfig) *time.Duration { return &p.Asymmetry }),
}

func boolKey[T any](name string, of func(*T) *bool) conf.Field[T] {
	return conf.Field[T]{Name: name, Expect: "true or false", Set: func(v *T, s string) (err error) {
		*of(v), err = strconv.ParseBool(s)
		return err
	}}
}
