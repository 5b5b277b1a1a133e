package topo

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"tapir/lab/conf"
	"tapir/lab/conf/hficonf"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/ptpconf"
	"tapir/lab/conf/swconf"
	"tapir/lab/conf/targetconf"
)

// draft is a Lab while it is read. What refers to something else is checked
// when all has been read.
type draft struct {
	*Lab
	checks   []pending
	ends     []pending
	part     int         // of the file: the node, link or step that is being read or checked
	keys     []conf.Node // of the nodes
	linkKeys []conf.Node
	groups   map[string][]string // nodes of entries with a count
	broken   bool                // a node or link has a mistake
	mistakes *[]error            // all that were found so far; nil: the first one ends the reading
}

func (d *draft) fields() []conf.Field {
	return []conf.Field{
		{Name: "name", Expect: nameExpect + " (default: the file's)", Set: conf.Name(&d.Name)},
		{Name: "clock", Expect: "real: namespaces and TAPs, or virtual: seeded, without any (default real)",
			Schema: conf.Choice(clocks...), Set: conf.Word(&d.Clock, clocks...)},
		{Name: "seed", Expect: "a number that the faults are drawn from", Set: conf.Uint64(&d.Seed)},
		d.wireField(&d.Wire),
		{Name: "nodes", Node: d.addNodes},
		{Name: "links", Node: d.addLinks},
		{Name: "steps", Node: d.addSteps},
	}
}

const fileIs = "a lab: `nodes:`, `links:` and `steps:`"

// Parse is Load of a file already read; path is for messages and the default
// name.
func Parse(path string, data []byte) (*Lab, error) { return parse(path, data, nil) }

func parse(path string, data []byte, mistakes *[]error) (*Lab, error) {
	body, err := conf.Read(path, data, fileIs)
	if err != nil {
		return nil, err
	}
	d := draft{Lab: &Lab{File: path, Name: defaultName(path), Clock: Real, rules: map[string]map[string]bool{}},
		groups: map[string][]string{}, mistakes: mistakes}
	if err := conf.Decode(body, fileIs, d.fields()); err != nil {
		return nil, err
	}
	if d.broken {
		return d.Lab, nil
	}
	if len(d.Nodes) == 0 {
		return nil, body.Errorf("a lab has `nodes:`")
	}
	if err := d.expand(); err != nil {
		return nil, err
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		d.part++
		if err := d.note(kindOf(n.Kind).finish(&d, n, d.keys[i])); err != nil {
			return nil, err
		}
		d.later(func() error { return d.checkNode(n, d.keys[i]) })
	}
	d.findFabrics()
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	return d.Lab, nil
}

// Extend adds a step to a lab that has been read, in the file's words, such as
// {fault: a-b, loss: 10%}.
func (l *Lab) Extend(step string) error {
	n, err := conf.Read("step", []byte(step), "a step, such as `run: ping -c 1 10.0.0.2`")
	if err != nil {
		return err
	}
	steps, limits := l.Steps, len(l.limits)
	d := draft{Lab: l}
	err = d.addStep(n)
	if err == nil {
		err = d.check()
	}
	for _, x := range l.limits[limits:] {
		if err == nil && x.clock == l.Clock {
			err = x.err
		}
	}
	if l.limits = l.limits[:limits]; err != nil {
		l.Steps = steps
	}
	return err
}

// kind is a kind of nodes with what they are made of.
type kind struct {
	kind   Kind
	fields func(*Node) []conf.Field
	// finish completes and checks a node when all of the file has been read.
	finish func(d *draft, n *Node, key conf.Node) error
}

var kinds []kind

func init() { // finish comes back to kinds
	kinds = []kind{
		{NIC, (*Node).nicFields, finishNIC},
		{Target, (*Node).targetFields, finishNIC},
		{Card, (*Node).cardFields, finishCard},
		{Host, func(n *Node) []conf.Field { return append(n.hostFields(), n.atField()) }, finishHost},
		{Switch, func(n *Node) []conf.Field { return conf.Without(n.sw.Fields(), "name", "ports") },
			(*draft).finishSwitch},
		{HFI, (*Node).hfiFields, (*draft).finishHFI},
		{Manager, (*Node).managerFields, (*draft).finishManager},
		{Gateway, (*Node).gatewayFields, (*draft).finishHFI},
		{Peer, (*Node).peerFields, finishPeer},
	}
}

func kindOf(k Kind) *kind {
	return &kinds[slices.IndexFunc(kinds, func(o kind) bool { return o.kind == k })]
}

func finishNIC(d *draft, n *Node, key conf.Node) error {
	c := n.NIC
	c.HostTAP = "eth0" // as in every lab in real time
	d.finishVFs(n, key)
	return cmp.Or(key.Place(c.Validate()), d.finishTarget(n, key))
}

// finishSwitch completes a switch as far as a file can.
func (d *draft) finishSwitch(n *Node, key conf.Node) (err error) {
	ports := max(2, d.countLinks(n.Name)) // fewer are told elsewhere
	for i := range ports {
		n.sw.Ports = append(n.sw.Ports, swconf.PortConfig{Name: SwitchPort(i)})
	}
	n.Switch, err = n.sw.Finish()
	n.Switch.Ports = nil
	return key.Place(err)
}

// SwitchPort is the name of a switch's port: links are counted in the order of
// the file, from 0.
func SwitchPort(link int) string { return fmt.Sprint("p", link) }

// nicFields are the settings of a NIC but for those that the lab decides.
func (n *Node) nicFields() []conf.Field {
	ofLab := []string{"name", "tap", "wire", "tap_fd", "tap_ip", "host_tap", "ip_from_host", "firmware"}
	return append(conf.Without(n.NIC.Fields(), ofLab...),
		n.ptpField(),
		conf.Field{Name: "count", Expect: fmt.Sprintf(
			"how many NICs: NAME1, NAME2 and so on, whose addresses count on (1 to %d)", maxCount),
			Set: conf.Int(&n.count, 1, maxCount)})
}

// cardFields are the settings of a device with several functions but for those that the
// lab decides. The links of the node are its ports.
func (n *Node) cardFields() []conf.Field {
	return conf.Without(n.card.Fields(), "name", "tap", "wire", "tap_fd", "tap_ip", "host_tap", "ip_from_host",
		"firmware", "ports")
}

// functions are the NICs of a card.
func (n *Node) functions() (list []Node, err error) {
	n.card.Name = n.Name
	all, err := n.card.Finish()
	for _, c := range all {
		if c.Card == nil {
			return nil, fmt.Errorf("%s: a card has functions, such as [{ip: 10.0.0.1/24}, {ip: 10.0.0.2/24}]", n.Name)
		}
		list = append(list, Node{Name: c.Name, Kind: NIC, NIC: c, Card: n.Name})
	}
	return list, err
}

// finishCard has nothing to do: the functions are nodes.
func finishCard(*draft, *Node, conf.Node) error { return nil }

// ptpField are the settings of the PTP instance of a NIC or HFI.
func (n *Node) ptpField() conf.Field {
	return conf.Field{Name: "ptp", Schema: ptpconf.Schema(), Node: func(v conf.Node) (err error) {
		if err := ptpconf.Check(v); err != nil {
			return err
		}
		n.PTP, err = yaml.Marshal(v.Value())
		return err
	}}
}

func (n *Node) hostFields() []conf.Field {
	return []conf.Field{
		{Name: "ip", Expect: "an IPv4 address with prefix length, such as 10.0.0.9/24", Many: true,
			Set: conf.Append(&n.IP, conf.Prefixes(netip.Addr.Is4))},
		{Name: "ip6", Expect: "an IPv6 address with prefix length, such as fd00::9/64", Many: true,
			Set: conf.Append(&n.IP, conf.Prefixes(netip.Addr.Is6))},
	}
}

// atField gives the interfaces of a host with several links their addresses.
func (n *Node) atField() conf.Field {
	return conf.Field{Name: "at", Schema: conf.Schema{"type": "object",
		"additionalProperties": conf.Schema{"anyOf": []conf.Schema{{"type": "string"},
			conf.ListOf(conf.Schema{"type": "string"})}}},
		Node: func(v conf.Node) error {
			entries, err := v.Map("addresses by link, such as {a-h: 10.0.0.9/24}")
			if err != nil {
				return err
			}
			n.At = map[string][]netip.Prefix{}
			for _, e := range entries {
				texts, _ := e.Value.Texts()
				for _, s := range texts {
					p, err := netip.ParsePrefix(s)
					if err != nil {
						return e.Value.Errorf("at: expected an address with prefix length, such as 10.0.0.9/24 or " +
							"fd00::9/64")
					}
					n.At[e.Name] = append(n.At[e.Name], p)
					n.IP = append(n.IP, p)
				}
			}
			return nil
		}}
}

// finishHost looks for the links that a host has addresses at.
func finishHost(d *draft, n *Node, key conf.Node) error {
	for _, name := range slices.Sorted(maps.Keys(n.At)) {
		if l := d.Lab.Link(name); l == nil || !slices.Contains(l.Ends[:], n.Name) {
			return key.Errorf("%s: at: it has no link %s", n.Name, name)
		}
	}
	return key.ErrorIf(n.At != nil && (n.has("ip") || n.has("ip6")), "%s: ip and at exclude each other", n.Name)
}

// peerFields are the settings of a guest.
func (n *Node) peerFields() []conf.Field {
	return append([]conf.Field{
		{Name: "siw",
			Expect: "parameters of the siw driver such as peer_to_peer=1 (default the stock driver)", Many: true,
			Set: func(s string) error {
				n.Peer.Siw = append(n.Peer.Siw, s)
				return conf.ModuleParameter(s)
			}},
		{Name: "memory", Expect: "MiB from 256 to 65536 (default 512)", Set: conf.Int(&n.Peer.Memory, 256, 1<<16)},
		conf.Truth("kvm", "true: it runs on the processor, not emulated", &n.Peer.KVM),
	}, n.hostFields()...)
}

func finishPeer(_ *draft, n *Node, key conf.Node) error {
	return key.ErrorIf(len(n.IP) == 0, "%s: no address: give ip, such as 10.0.0.2/24, or ip6", n.Name)
}

func (d *draft) addNodes(n conf.Node) error {
	entries, err := n.Map("nodes by their names, such as `a: {kind: nic, ip: 10.0.0.1/24}`")
	if err != nil {
		return err
	}
	for _, e := range entries {
		err := d.addNode(e)
		d.broken = d.broken || err != nil
		if err := d.note(err); err != nil {
			return err
		}
	}
	return nil
}

func (d *draft) addNode(e conf.Entry) error {
	d.part++
	if err := checkName(e.Name); err != nil {
		return e.Key.Errorf("%s: %v", e.Name, err)
	}
	node, err := readNode(e)
	if err != nil {
		return err
	}
	return d.add(node, e.Key)
}

func readNode(e conf.Entry) (n Node, err error) {
	n.Name, n.NIC.Name, n.HFI.Name = e.Name, e.Name, e.Name
	n.em, n.sw = hficonf.NewEMDraft(), &swconf.Draft{Config: swconf.Config{Name: e.Name}}
	n.card = new(nicconf.Draft)
	entries, err := e.Value.Map("the settings of a node, with its kind")
	if err != nil {
		return n, err
	}
	i := slices.IndexFunc(entries, func(e conf.Entry) bool { return e.Name == "kind" })
	if i < 0 {
		return n, e.Key.Errorf("%s: a node has a kind: %s", e.Name, kindNames())
	}
	text, _ := entries[i].Value.Text()
	for _, k := range kinds {
		if string(k.kind) != text {
			continue
		}
		n.Kind = k.kind
		if err := conf.Decode(e.Value, "the settings of a "+text, k.withKind(&n)); err != nil {
			return n, err
		}
		n.keep(entries)
		return n, nil
	}
	return n, entries[i].Value.Errorf("kind: expected one of %s", kindNames())
}

// withKind are the settings of a node of that kind, and the kind itself.
func (k *kind) withKind(n *Node) []conf.Field {
	return append([]conf.Field{{Name: "kind", Schema: conf.Choice(string(k.kind)),
		Set: func(string) error { return nil }}}, k.fields(n)...)
}

func kindNames() string {
	return strings.Join(texts(kinds, func(k kind) string { return string(k.kind) }), ", ")
}

// keep notes the settings, which have been read, as flags and for ConfigFile.
func (n *Node) keep(entries []conf.Entry) {
	for _, e := range entries {
		if e.Name == "kind" || e.Name == "ptp" && n.Kind != Switch {
			continue
		}
		n.settings = append(n.settings, yaml.MapItem{Key: e.Name, Value: e.Value.Value()})
		values, _ := e.Value.Texts()
		if e.Name == "sriov" || n.Target != nil && targetconf.Is(e.Name) { // see VFFlags
			continue
		}
		n.Flags = append(n.Flags, "--"+strings.ReplaceAll(e.Name, "_", "-")+"="+strings.Join(values, ","))
	}
}

// has tells whether the file has a setting of the node.
func (n *Node) has(name string) bool {
	return slices.ContainsFunc(n.settings, func(m yaml.MapItem) bool { return m.Key == name })
}

func (d *draft) countLinks(name string) (links int) {
	for _, l := range d.Links {
		if slices.Contains(l.Ends[:], name) {
			links++
		}
	}
	return links
}

// checkNode counts a node's links and looks for who has its addresses.
func (d *draft) checkNode(n *Node, key conf.Node) error {
	links := d.countLinks(n.Name)
	if n.Kind == Card {
		return d.checkCard(n, links, key)
	}
	several := n.Card != "" || n.Kind == Switch || n.Kind == Gateway || n.Kind == Host && n.At != nil
	if err := cmp.Or(
		key.ErrorIf(n.Kind == Switch && links < 2, "%s: a switch has two links or more, not %d", n.Name, links),
		key.ErrorIf(!several && links > 1, "%s: a %s has one port, not %d: put a switch between", n.Name,
			n.Kind, links),
		key.ErrorIf(n.Card != "" && links > 0, "%s: a function has no link of its own: %s has", n.Name, n.Card),
		key.ErrorIf(!several && n.Kind != Host && links == 0, "%s: it has no link", n.Name),
		d.checkFabric(n, key),
	); err != nil {
		return err
	}
	for i := range d.Nodes {
		other := &d.Nodes[i]
		if other.Name == n.Name {
			break
		}
		for _, c := range n.claims() {
			if slices.Contains(other.claims(), c) {
				return key.Errorf("%s: %s has the address %v, too", n.Name, other.Name, c.addr)
			}
		}
	}
	return nil
}

// checkCard counts the links of a card: they are its ports, in the file's order.
func (d *draft) checkCard(n *Node, links int, key conf.Node) error {
	functions := d.FunctionsOf(n.Name)
	c := functions[0].NIC.Card
	for _, f := range functions {
		if f.NIC.Port >= links {
			return key.Errorf("%s: %s is on port %d, and the card has %d links: the first is port 0", n.Name, f.Name,
				f.NIC.Port, links)
		}
	}
	if c.Ideal {
		return key.ErrorIf(links > len(c.Ports), "%s: %d links: its functions have %d ports: give a function the last "+
			"one", n.Name, links, len(c.Ports))
	}
	return key.ErrorIf(links > c.Mode.Ports, "%s: %d links: port mode %s has %d ports", n.Name, links, c.Mode.Name,
		c.Mode.Ports)
}

// claim is an address in a network: a vESW, or Ethernet, which is 0.
type claim struct {
	vesw uint16
	addr netip.Addr
}

func (n *Node) claims() (all []claim) {
	for _, v := range n.HFI.VNICs {
		for _, p := range v.IP {
			all = append(all, claim{v.VESW, p.Addr()})
		}
	}
	if n.Kind != HFI {
		for _, p := range n.Addrs() {
			all = append(all, claim{0, p.Addr()})
		}
	}
	return all
}
