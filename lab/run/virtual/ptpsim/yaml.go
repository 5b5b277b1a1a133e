package ptpsim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/lab/conf/ptpconf"
	"tapir/lab/conf/swconf"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// Load reads a scenario. A mistake in it is a *conf.Error.
func Load(path string) (Config, error) {
	return conf.Load(path, Parse)
}

// Parse is Load of a file already read; path is for messages only.
func Parse(path string, data []byte) (Config, error) {
	body, err := conf.Read(path, data, "a scenario with `nodes:` and `links:`")
	if err != nil {
		return Config{}, err
	}
	f := scenario{profile: ptp.DefaultE2E}
	if err := conf.Decode(body, &f, "a scenario with `nodes:` and `links:`", scenarioKeys); err != nil {
		return Config{}, err
	}
	if len(f.nodes) == 0 {
		return Config{}, body.Errorf("nodes: expected a list with at least one node")
	}
	return f.config(body)
}

// scenario is a file while it is read: a node's ports are known only when the
// links are.
type scenario struct {
	Config
	profile ptp.Profile
	carry   transport.Kind
	nodes   []nodeFile
	linkAt  []conf.Node
	events  []eventFile
}

// nodeFile is a node of the file.
type nodeFile struct {
	NodeConfig
	at       conf.Node
	profile  *ptp.Profile
	carry    *transport.Kind
	settings []func(*ptp.Config) error
	ports    []conf.Node
	links    int
}

var scenarioKeys = []conf.Field[scenario]{
	{Name: "seed", Expect: "a number", Set: func(f *scenario, s string) (err error) {
		f.Seed, err = strconv.ParseUint(s, 0, 64)
		return err
	}},
	conf.DurationField("duration", "a duration such as 30m", false, func(f *scenario) *time.Duration {
		return &f.Duration
	}), conf.DurationField("skip", "a duration that statistics leave out, such as 5m", false,
		func(f *scenario) *time.Duration {
			return &f.Skip
		}),
	conf.DurationField("sample", "the time between two points of the series, such as 1s", false,
		func(f *scenario) *time.Duration {
			return &f.Sample
		}), conf.DurationField("within", "the bound of convergence, such as 100ns", false,
		func(f *scenario) *time.Duration {
			return &f.Within
		}),
	{Name: "reference", Expect: "the name of a node", Set: func(f *scenario, s string) error {
		f.Reference = s
		return nil
	}},
	{Name: "profile", Expect: "a profile such as default-e2e, gptp or g8275.1",
		Set: func(f *scenario, s string) (err error) {
			f.profile, err = ptp.ParseProfile(s)
			return err
		}},
	{Name: "transport", Expect: "L2, UDPv4 or UDPv6", Set: func(f *scenario, s string) error {
		return f.carry.UnmarshalText([]byte(s))
	}},
	{Name: "nodes", Node: func(f *scenario, n conf.Node) error {
		return each(n, "a list of nodes", func(n conf.Node) error {
			node := nodeFile{at: n}
			err := conf.Decode(n, &node, "the settings of a node", nodeKeys)
			f.nodes = append(f.nodes, node)
			return err
		})
	}},
	{Name: "links", Node: func(f *scenario, n conf.Node) error {
		return each(n, "a list of links", func(n conf.Node) error {
			var l linkFile
			if err := conf.Decode(n, &l, "the settings of a link", linkKeys); err != nil {
				return err
			}
			if len(l.ends) != 2 {
				return n.Errorf("ends: expected the names of two nodes, such as [gm, slave]")
			}
			l.Ends = [2]string(l.ends)
			if err := l.validate(); err != nil {
				return n.Errorf("%v", err)
			}
			f.Links, f.linkAt = append(f.Links, l.LinkConfig), append(f.linkAt, n)
			return nil
		})
	}},
	{Name: "events", Node: func(f *scenario, n conf.Node) error {
		return each(n, "a list of events", func(n conf.Node) error {
			e := eventFile{at: n}
			err := conf.Decode(n, &e, "the settings of an event", eventKeys)
			f.events = append(f.events, e)
			return err
		})
	}},
}

// each calls f for each element of a list.
func each(n conf.Node, what string, f func(conf.Node) error) error {
	list, ok := n.List()
	if !ok {
		return n.Errorf("expected %s", what)
	}
	for _, e := range list {
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// nodeKeys are those of a node, of its clock and of its instance.
var nodeKeys = func() []conf.Field[nodeFile] {
	keys := []conf.Field[nodeFile]{
		{Name: "name", Expect: "a name of letters, digits, `-`, `_` and `.`", Set: func(n *nodeFile, s string) error {
			n.Name = s
			return checkName(s)
		}},
		{Name: "profile", Expect: "a profile such as default-e2e, gptp or g8275.1",
			Set: func(n *nodeFile, s string) error {
				p, err := ptp.ParseProfile(s)
				n.profile = &p
				return err
			}},
		{Name: "transport", Expect: "L2, UDPv4 or UDPv6", Set: func(n *nodeFile, s string) error {
			n.carry = new(transport.Kind)
			return n.carry.UnmarshalText([]byte(s))
		}},
		conf.NumberField("vlan", "a VLAN id from 1 to 4094", func(n *nodeFile) *uint16 { return &n.VLAN }, 1, 4094),
		conf.BoolField("local", "true or false", func(n *nodeFile) *bool { return &n.Local }),
		conf.DurationField("offset", "by how much the clock is ahead at the start, such as 1.23ms", true,
			func(n *nodeFile) *time.Duration {
				return &n.Offset
			}), conf.DurationField("tx_stamp_delay", "how long after a frame its stamp is known, such as 50us", false,
			func(n *nodeFile) *time.Duration {
				return &n.TxStampDelay
			}),
		{Name: "unicast_masters", Expect: "names of nodes", Many: true, Set: func(n *nodeFile, s string) error {
			n.UnicastMasters = append(n.UnicastMasters, s)
			return checkName(s)
		}},
		{Name: "switch", Node: func(n *nodeFile, v conf.Node) error {
			n.Switch = new(swconf.Config)
			return conf.Decode(v, n.Switch, "the settings of a switch", switchKeys)
		}},
		{Name: "ports", Node: func(n *nodeFile, v conf.Node) (err error) {
			return each(v, "a list with the settings of ports", func(p conf.Node) error {
				n.ports = append(n.ports, p)
				return conf.Decode(p, new(ptp.PortConfig), "the settings of a port", ptpconf.Port)
			})
		}},
	}
	keys = append(keys, conf.Part(ptpconf.Clock, func(n *nodeFile) *clock.Config { return &n.Clock })...)
	for _, k := range ptpconf.Instance {
		if slices.ContainsFunc(keys, func(o conf.Field[nodeFile]) bool { return o.Name == k.Name }) {
			continue // by the names of nodes, not by addresses
		}
		keys = append(keys, conf.Field[nodeFile]{Name: k.Name, Expect: k.Expect, Many: k.Many,
			Set: func(n *nodeFile, s string) error {
				n.settings = append(n.settings, func(c *ptp.Config) error { return k.Set(c, s) })
				scratch := ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1)
				return k.Set(&scratch, s)
			}})
	}
	return keys
}()

func checkName(s string) error {
	if s == "" || len(s) > 32 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") !=
		"" {
		return conf.ErrValue
	}
	return nil
}

// linkFile is a link of the file.
type linkFile struct {
	LinkConfig
	ends []string
}

var linkKeys = append([]conf.Field[linkFile]{
	{Name: "ends", Expect: "the names of two nodes, such as [gm, slave]", Many: true,
		Set: func(l *linkFile, s string) error {
			l.ends = append(l.ends, s)
			return checkName(s)
		}},
}, changeableLink(func(l *linkFile) *LinkConfig { return &l.LinkConfig })...)

// changeableLink are the settings of a link that an event can change.
func changeableLink[T any](of func(*T) *LinkConfig) []conf.Field[T] {
	keys := []conf.Field[LinkConfig]{
		conf.DurationField("delay", "the delay of each direction, such as 500ns", false,
			func(l *LinkConfig) *time.Duration {
				return &l.Delay
			}),
		conf.DurationField("asymmetry", "by how much the way from the first end is longer, such as 100ns", true,
			func(l *LinkConfig) *time.Duration {
				return &l.Asymmetry
			}),
		{Name: "pdv", Expect: "a delay variation such as exp:10us, gauss:2us or 0-50us",
			Set: func(l *LinkConfig, s string) (err error) {
				l.PDV, err = swconf.ParseDelay(s)
				return err
			}},
		probabilityKey("loss", func(l *LinkConfig) *float64 { return &l.Loss }),
		probabilityKey("duplicate", func(l *LinkConfig) *float64 { return &l.Duplicate }),
		probabilityKey("reorder", func(l *LinkConfig) *float64 { return &l.Reorder }),
		conf.DurationField("reorder_by", "how much later a reordered frame comes, such as 20us", false,
			func(l *LinkConfig) *time.Duration {
				return &l.ReorderBy
			}), probabilityKey("corrupt", func(l *LinkConfig) *float64 { return &l.Corrupt }),
	}
	return conf.Part(keys, of)
}

func probabilityKey(name string, of func(*LinkConfig) *float64) conf.Field[LinkConfig] {
	return conf.Field[LinkConfig]{Name: name, Expect: "a probability such as 0.01 or 1%",
		Set: func(l *LinkConfig, s string) error {
			number, percent := strings.CutSuffix(s, "%")
			p, err := strconv.ParseFloat(number, 64)
			if percent {
				p /= 100
			}
			if err != nil || !(p >= 0 && p <= 1) {
				return conf.ErrValue
			}
			*of(l) = p
			return nil
		}}
}

// config puts the parts together.
func (f *scenario) config(body conf.Node) (Config, error) {
	for i, l := range f.Links {
		for _, end := range l.Ends {
			n := slices.IndexFunc(f.nodes, func(n nodeFile) bool { return n.Name == end })
			if n < 0 {
				return Config{}, f.linkAt[i].Errorf("ends: there is no node %s", end)
			}
			f.nodes[n].links++
		}
	}
	for i := range f.nodes {
		if err := f.nodes[i].finish(f); err != nil {
			return Config{}, err
		}
		f.Nodes = append(f.Nodes, f.nodes[i].NodeConfig)
	}
	for i := range f.events {
		if err := f.events[i].finish(f); err != nil {
			return Config{}, err
		}
	}
	s, err := New(f.Config)
	if err != nil {
		return Config{}, body.Errorf("%v", err)
	}
	s.Close()
	return f.Config, nil
}

// known tells that all names are those of nodes.
func (f *scenario) known(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(f.nodes, func(n nodeFile) bool { return n.Name == name })
	})
}

// finish makes the node's configuration, now that its links are known.
func (n *nodeFile) finish(f *scenario) error {
	profile := f.profile
	if n.profile != nil {
		profile = *n.profile
	}
	if n.Transport = f.carry; n.carry != nil {
		n.Transport = *n.carry
	}
	switch {
	case n.Name == "":
		return n.at.Errorf("name: expected a name, such as gm")
	case slices.ContainsFunc(f.Nodes, func(o NodeConfig) bool { return o.Name == n.Name }):
		return n.at.Errorf("name: two nodes are called %s", n.Name)
	case !f.known(n.UnicastMasters):
		return n.at.Errorf("unicast_masters: expected names of nodes, not %s", strings.Join(n.UnicastMasters, ", "))
	case n.links == 0:
		return n.at.Errorf("node %s has no link", n.Name)
	}
	if n.Switch != nil {
		return n.finishSwitch()
	}
	n.PTP = ptp.NewConfig(profile, msg.ClockIdentity{}, n.links)
	for _, set := range n.settings {
		if err := set(&n.PTP); err != nil {
			return n.at.Errorf("%v", err)
		}
	}
	if len(n.ports) > n.links {
		return n.ports[n.links].Errorf("ports: node %s has %d links only", n.Name, n.links)
	}
	for i, p := range n.ports {
		if err := conf.Decode(p, &n.PTP.Ports[i], "the settings of a port", ptpconf.Port); err != nil {
			return err
		}
	}
	check := n.PTP
	check.ClockIdentity = msg.ClockIdentity{7: 1}
	if err := check.Validate(); err != nil {
		return n.at.Errorf("node %s: %v", n.Name, err)
	}
	return nil
}

// finishSwitch checks a switch.
func (n *nodeFile) finishSwitch() error {
	if n.settings != nil || n.ports != nil {
		return n.at.Errorf("node %s: what a switch does is set below `switch:`", n.Name)
	}
	check := *n.Switch
	if len(check.Ports) > n.links {
		return n.at.Errorf("node %s: settings of %d ports, but %d links", n.Name, len(check.Ports), n.links)
	}
	check.Name, check.Ports = n.Name, make([]swconf.PortConfig, n.links)
	if err := check.Validate(); err != nil {
		return n.at.Errorf("node %v", err)
	}
	return nil
}
