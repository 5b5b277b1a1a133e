package topo

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tapir/lab/conf"
	"tapir/lab/conf/perfconf"
	rdma "tapir/nic/verbs"
	"tapir/wire/ether"
)

// maxCount bounds the NICs of one entry.
const maxCount = 10_000

// members are the names of the nodes that a name or list stands for: of each name its own,
// or those of an entry with a count.
func (d *draft) members(names string) (all []string) {
	for name := range strings.SplitSeq(names, listSep) {
		if group := d.groups[name]; group != nil {
			all = append(all, group...)
		} else {
			all = append(all, name)
		}
	}
	return all
}

// listSep is between the names of a list.
const listSep = ", "

// add adds a node, or as many as its entry says.
func (d *draft) add(n Node, key conf.Node) error {
	if n.Kind == Card {
		functions, err := n.functions()
		var names []string
		for _, f := range functions {
			names = append(names, f.Name)
		}
		for _, f := range append([]Node{n}, functions...) {
			d.Nodes, d.keys = append(d.Nodes, f), append(d.keys, key)
		}
		d.groups[n.Name] = names
		return key.Place(err)
	}
	if n.count == 0 {
		d.Nodes, d.keys = append(d.Nodes, n), append(d.keys, key)
		return nil
	}
	if n.NIC.MAC != (ether.Addr{}) {
		return key.Errorf("%s: mac: %d NICs cannot have the same", n.Name, n.count)
	}
	if len(n.NIC.VLANIP) > 0 {
		return key.Errorf("%s: vlan_ip: %d NICs cannot have the same", n.Name, n.count)
	}
	var names []string
	for i := range n.count {
		m := n
		m.Name = fmt.Sprint(n.Name, i+1)
		m.NIC.Name = m.Name
		var bad, bad6 error
		m.NIC.IP, bad = countOn(n.NIC.IP, i)
		m.NIC.IP6, bad6 = countOn(n.NIC.IP6, i)
		if err := cmp.Or(checkName(m.Name), bad, bad6); err != nil {
			return key.Errorf("%s: %v", m.Name, err)
		}
		m.Flags = m.renumbered()
		names = append(names, m.Name)
		d.Nodes, d.keys = append(d.Nodes, m), append(d.keys, key)
	}
	d.groups[n.Name] = names
	return nil
}

// countOn are the i-th addresses behind those of list.
func countOn(list []netip.Prefix, i int) (all []netip.Prefix, err error) {
	for _, p := range list {
		b := p.Addr().AsSlice()
		carry := i
		for k := len(b) - 1; k >= 0 && carry > 0; k-- {
			carry += int(b[k])
			b[k], carry = byte(carry), carry>>8
		}
		a, _ := netip.AddrFromSlice(b)
		if !p.Contains(a) {
			return nil, fmt.Errorf("%v is the last address: a prefix is needed that holds all", p)
		}
		all = append(all, netip.PrefixFrom(a, p.Bits()))
	}
	return all, nil
}

// renumbered are the node's flags with its own addresses.
func (n *Node) renumbered() (flags []string) {
	for _, f := range n.Flags {
		name, _, _ := strings.Cut(f, "=")
		switch name {
		case "--count":
			continue
		case "--ip":
			f = "--ip=" + list(n.NIC.IP)
		case "--ip6":
			f = "--ip6=" + list(n.NIC.IP6)
		}
		flags = append(flags, f)
	}
	return flags
}

func list(all []netip.Prefix) string { return strings.Join(texts(all, netip.Prefix.String), ",") }

// linked are the nodes that a link of name joins: the members of an entry, and a card
// itself.
func (d *draft) linked(name string) []string {
	if n := d.Node(name); n != nil {
		return []string{name}
	}
	return d.members(name)
}

// expand makes the links of entries with a count: one for each of their NICs.
func (d *draft) expand() error {
	var links []Link
	for i, l := range d.Links {
		a, b := d.linked(l.Ends[0]), d.linked(l.Ends[1])
		if len(a) == 1 && len(b) == 1 {
			links = append(links, l)
			continue
		}
		pairs, err := pairUp(a, b)
		if err != nil {
			return d.linkKeys[i].Errorf("%v", err)
		}
		for _, p := range pairs {
			m := l
			m.Ends = p
			m.Name = p[0] + "-" + p[1]
			links = append(links, m)
		}
	}
	d.Links = links
	return nil
}

// pairUp joins names one to one; a single one is joined with all.
func pairUp(a, b []string) (pairs [][2]string, err error) {
	if len(a) > 1 && len(b) > 1 && len(a) != len(b) {
		return nil, fmt.Errorf("%d NICs and %d: expected as many, or one", len(a), len(b))
	}
	for i := range max(len(a), len(b)) {
		pairs = append(pairs, [2]string{a[i%len(a)], b[i%len(b)]})
	}
	return pairs, nil
}

// Pair is the two sides of a workload of a perf step.
type Pair struct {
	Client, Server string
	Job            perfconf.Job // of the client
}

// personality is that of a NIC, IWARP of other nodes.
func (n *Node) personality() rdma.Personality { return n.NIC.NIC.RDMA.Personality }

// pairs are who talks to whom: one to one, or all to one, on ports that count
// on; the NICs of one entry each to the next.
func (d *draft) pairs(s *Step, to netip.Addr) error {
	clients, servers := d.members(s.Client), d.members(s.Server)
	if s.Client == s.Server {
		servers = slices.Concat(servers[1:], servers[:1])
	}
	names, err := pairUp(clients, servers)
	if err != nil {
		return err
	}
	used := map[string]uint16{}
	for _, p := range names {
		if p[0] == p[1] {
			return fmt.Errorf("%s: server and client are two NICs", p[0])
		}
		a, b := d.Node(p[0]).personality(), d.Node(p[1]).personality()
		if a != b {
			return fmt.Errorf("%s has personality %v and %s has %v: only NICs of the same personality understand "+
				"each other", p[0], a, p[1], b)
		}
		if t := s.Job.Transport; t != "" && t != b.String() {
			return fmt.Errorf("transport: %s and %s have personality %v, not %s", p[0], p[1], b, t)
		}
		addrs := d.Node(p[1]).Addrs()
		remote := to
		if !to.IsValid() {
			remote = addrs[0].Addr()
		}
		if !slices.ContainsFunc(addrs, func(p netip.Prefix) bool { return p.Addr() == remote }) {
			return fmt.Errorf("to: %v is no address of %s", remote, p[1])
		}
		job := s.Job
		job.Remote = remote
		job = job.WithDefaults()
		if err := job.Validate(); err != nil {
			return err
		}
		job.Port += used[p[1]]
		used[p[1]]++
		s.Pairs = append(s.Pairs, Pair{p[0], p[1], job})
	}
	return nil
}
