package ptpsim

import (
	"cmp"
	"slices"
	"strings"

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
	copy(c.Ports, n.cfg.Switch.Ports)
	c.Seed = cmp.Or(c.Seed, n.seed())
	c.Transport = n.cfg.Transport
	links := make([]frame.Link, len(n.ends))
	for i, e := range n.ends {
		links[i] = e
	}
	n.Switch, err = sw.New(c, sw.Env{Pool: n.s.world.Pool, Links: links, Clock: n.Clock})
	return err
}

// marking are the names of the settings for CE.
var marking = []string{"ecn_kmin", "ecn_kmax", "ecn_pmax"}

// portFields are the settings of a port of a switch, bound to p.
func portFields(p *swconf.PortConfig) []conf.Field { return conf.Without(p.Fields(), marking...) }

// switchFields are the settings of a switch, bound to c. Nobody here obeys PAUSE, has
// priorities or reacts to FECN and CE.
func switchFields(c *swconf.Config) []conf.Field {
	return append([]conf.Field{{Name: "ports", Node: func(n conf.Node) error {
		return n.Each(0, "expected a list with the settings of ports", func(n conf.Node, _ int) error {
			var p swconf.PortConfig
			err := conf.Decode(n, "the settings of a port", portFields(&p))
			c.Ports = append(c.Ports, p)
			return err
		})
	}}}, slices.DeleteFunc(c.Fields(), func(f conf.Field) bool {
		for _, q := range slices.Concat(c.Queues.Fields(), c.LLDP.Fields(), c.Routing.Fields()) {
			if f.Name == q.Name {
				return true
			}
		}
		return f.Name == "pause" || f.Name == "fcf" || strings.HasPrefix(f.Name, "fecn_") ||
			slices.Contains(marking, f.Name)
	})...)
}
