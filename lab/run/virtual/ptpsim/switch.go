package ptpsim

import (
	"tapir/lab/conf"
	"tapir/lab/conf/swconf"
	"tapir/lab/node/sw"
	"tapir/wire/frame"
)

// buildSwitch makes a node's switch, once the links are known.
func (n *Node) buildSwitch() (err error) {
	c := *n.cfg.Switch
	c.Name = n.Name
	c.Ports = make([]swconf.PortConfig, len(n.ends))
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
	n.Switch, err = sw.New(c, sw.Env{Pool: n.s.world.Pool, Links: links, Clock: n.Clock})
	return err
}

// switchKeys are the settings of a switch.
var switchKeys = append([]conf.Field[swconf.Config]{
	{Name: "ports", Node: func(c *swconf.Config, n conf.Node) error {
		return each(n, "a list with the settings of ports", func(n conf.Node) error {
			c.Ports = append(c.Ports, swconf.PortConfig{})
			return conf.Decode(n, &c.Ports[len(c.Ports)-1], "the settings of a port", swconf.PortKeys)
		})
	}},
}, swconf.Keys...)
