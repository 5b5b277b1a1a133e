package ptpsim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/conf"
	"tapir/lab/conf/ptpconf"
	"tapir/lab/conf/swconf"
	"tapir/ptp"
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
	if err := conf.Decode(body, "a scenario with `nodes:` and `links:`", f.fields()); err != nil {
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

// fields are what a scenario has.
func (f *scenario) fields() []conf.Field {
	return []conf.Field{
		{Name: "seed", Expect: "a number", Set: conf.Uint64(&f.Seed)},
		{Name: "duration", Expect: "a duration such as 30m", Set: conf.Duration(&f.Duration)},
		{Name: "skip", Expect: "a duration that statistics leave out, such as 5m", Set: conf.Duration(&f.Skip)},
		{Name: "sample", Expect: "the time between two points of the series, such as 1s",
			Set: conf.Duration(&f.Sample)},
		{Name: "within", Expect: "the bound of convergence, such as 100ns", Set: conf.Duration(&f.Within)},
		{Name: "reference", Expect: "the name of a node", Set: conf.String(&f.Reference)},
		{Name: "profile", Expect: "a profile such as default-e2e, gptp or g8275.1",
			Set: conf.Parsed(&f.profile, ptp.ParseProfile)},
		{Name: "transport", Expect: "L2, UDPv4 or UDPv6", Set: conf.Unmarshaled(&f.carry)},
		{Name: "nodes", Node: func(n conf.Node) error {
			return n.Each(0, "expected a list of nodes", func(n conf.Node, _ int) error {
				node := nodeFile{at: n}
				err := conf.Decode(n, "the settings of a node", node.fields())
				f.nodes = append(f.nodes, node)
				return err
			})
		}},
		{Name: "links", Node: func(n conf.Node) error {
			return n.Each(0, "expected a list of links", func(n conf.Node, _ int) error {
				var l linkFile
				if err := conf.Decode(n, "the settings of a link", l.fields()); err != nil {
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
		{Name: "events", Node: func(n conf.Node) error {
			return n.Each(0, "expected a list of events", func(n conf.Node, _ int) error {
				e := eventFile{at: n}
				err := conf.Decode(n, "the settings of an event", e.fields())
				f.events = append(f.events, e)
				return err
			})
		}},
	}
}

// fields are those of a node, of its clock and of its instance.
func (n *nodeFile) fields() []conf.Field {
	fields := append([]conf.Field{
		{Name: "name", Expect: "a name of letters, digits, `-`, `_` and `.`", Set: conf.Parsed(&n.Name, parseName)},
		{Name: "profile", Expect: "a profile such as default-e2e, gptp or g8275.1",
			Set: conf.ParsedNew(&n.profile, ptp.ParseProfile)},
		{Name: "transport", Expect: "L2, UDPv4 or UDPv6", Set: func(s string) error {
			n.carry = new(transport.Kind)
			return n.carry.UnmarshalText([]byte(s))
		}},
		{Name: "vlan", Expect: "a VLAN id from 1 to 4094", Set: conf.Number(&n.VLAN, 1, 4094)},
		{Name: "local", Expect: "true or false", Set: conf.Bool(&n.Local)},
		{Name: "offset", Expect: "by how much the clock is ahead at the start, such as 1.23ms",
			Set: conf.Parsed(&n.Offset, conf.ParseDuration)},
		{Name: "tx_stamp_delay", Expect: "how long after a frame its stamp is known, such as 50us",
			Set: conf.Duration(&n.TxStampDelay)},
		{Name: "unicast_masters", Expect: "names of nodes", Many: true, Set: conf.Append(&n.UnicastMasters, parseName)},
		{Name: "switch", Node: func(v conf.Node) error {
			n.Switch = new(swconf.Config)
			return conf.Decode(v, "the settings of a switch", switchFields(n.Switch))
		}},
		{Name: "ports", Node: func(v conf.Node) error {
			return v.Each(0, "expected a list with the settings of ports", func(p conf.Node, _ int) error {
				n.ports = append(n.ports, p)
				return conf.Decode(p, "the settings of a port", ptpconf.Port(new(ptp.PortConfig)))
			})
		}},
	}, ptpconf.Clock(&n.Clock)...)
	scratch := ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1)
	for _, f := range ptpconf.Instance(&scratch) {
		if slices.ContainsFunc(fields, func(o conf.Field) bool { return o.Name == f.Name }) {
			continue // by the names of nodes, not by addresses
		}
		check := f.Set
		f.Set = func(s string) error {
			n.settings = append(n.settings, func(c *ptp.Config) error {
				return conf.Set(ptpconf.Instance(c), f.Name, s)
			})
			return check(s)
		}
		fields = append(fields, f)
	}
	return fields
}

func parseName(s string) (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if s == "" || len(s) > 32 || strings.Trim(s, letters) != "" {
		return "", conf.ErrValue
	}
	return s, nil
}

// linkFile is a link of the file.
type linkFile struct {
	LinkConfig
	ends []string
}

func (l *linkFile) fields() []conf.Field {
	return append([]conf.Field{
		{Name: "ends", Expect: "the names of two nodes, such as [gm, slave]", Many: true,
			Set: conf.Append(&l.ends, parseName)},
	}, changeable(&l.LinkConfig)...)
}

// changeable are the settings of a link that an event can change.
func changeable(l *LinkConfig) []conf.Field {
	const probability = "a probability such as 0.01 or 1%"
	return []conf.Field{
		{Name: "delay", Expect: "the delay of each direction, such as 500ns", Set: conf.Duration(&l.Delay)},
		{Name: "asymmetry", Expect: "by how much the way from the first end is longer, such as 100ns",
			Set: conf.Parsed(&l.Asymmetry, conf.ParseDuration)},
		{Name: "pdv", Expect: "a delay variation such as exp:10us, gauss:2us or 0-50us",
			Set: conf.Parsed(&l.PDV, swconf.ParseDelay)},
		{Name: "loss", Expect: probability, Set: conf.Parsed(&l.Loss, parseProbability)},
		{Name: "duplicate", Expect: probability, Set: conf.Parsed(&l.Duplicate, parseProbability)},
		{Name: "reorder", Expect: probability, Set: conf.Parsed(&l.Reorder, parseProbability)},
		{Name: "reorder_by", Expect: "how much later a reordered frame comes, such as 20us",
			Set: conf.Duration(&l.ReorderBy)},
		{Name: "corrupt", Expect: probability, Set: conf.Parsed(&l.Corrupt, parseProbability)},
	}
}

func parseProbability(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	p, err := strconv.ParseFloat(number, 64)
	if percent {
		p /= 100
	}
	if err == nil && !(p >= 0 && p <= 1) {
		err = conf.ErrValue
	}
	return p, err
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
	n.Transport = *cmp.Or(n.carry, &f.carry)
	err := cmp.Or(
		expect(n.Name != "", "name: expected a name, such as gm"),
		expect(f.node(n.Name) < 0, "name: two nodes are called %s", n.Name),
		expect(f.known(n.UnicastMasters), "unicast_masters: expected names of nodes, not %s",
			strings.Join(n.UnicastMasters, ", ")),
		expect(n.links > 0, "node %s has no link", n.Name))
	if err == nil && n.Switch != nil {
		err = n.finishSwitch()
	}
	if err != nil || n.Switch != nil {
		return n.at.Place(err)
	}
	n.PTP = ptp.NewConfig(*cmp.Or(n.profile, &f.profile), msg.ClockIdentity{}, n.links)
	for _, set := range n.settings {
		if err := set(&n.PTP); err != nil {
			return n.at.Errorf("%v", err)
		}
	}
	if len(n.ports) > n.links {
		return n.ports[n.links].Errorf("ports: node %s has %d links only", n.Name, n.links)
	}
	for i, p := range n.ports {
		if err := conf.Decode(p, "the settings of a port", ptpconf.Port(&n.PTP.Ports[i])); err != nil {
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
	err := cmp.Or(
		expect(n.settings == nil && n.ports == nil, "node %s: what a switch does is set below `switch:`", n.Name),
		expect(len(n.Switch.Ports) <= n.links, "node %s: settings of %d ports, but %d links", n.Name,
			len(n.Switch.Ports), n.links))
	check := *n.Switch
	check.Name, check.Ports = n.Name, make([]swconf.PortConfig, n.links)
	if invalid := check.Validate(); err == nil && invalid != nil {
		err = fmt.Errorf("node %w", invalid)
	}
	return err
}
