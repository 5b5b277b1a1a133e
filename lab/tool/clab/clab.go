// Package clab turns labs into topology files of containerlab, which runs their nodes in
// containers, on one host or on several that VXLAN links join.
package clab

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"tapir/lab/host/fault"
	"tapir/lab/topo"
)

// Host is a machine that runs some of the lab's nodes.
type Host struct {
	Name  string
	Addr  netip.Addr // that the VXLAN links of the other hosts send to
	Nodes []string
}

// Export says what to make of a lab.
type Export struct {
	Lab   *topo.Lab
	Image string // of the containers: with tapir, ip and sh
	Hosts []Host // empty: one host runs all nodes
}

// File is a file of the export.
type File struct {
	Name string // relative to the directory of the export
	Data []byte
}

// Numbers of the links between hosts. containerlab's own default port keeps clear of
// other overlays on 4789.
const (
	firstVNI  = 100
	vxlanPort = 14789
	// vxlanMTU is what VXLAN over IPv4 leaves of 1,500 octets (RFC 7348 section 5).
	vxlanMTU = 1450
)

// sockets is the directory of control sockets: containers share that of their host, so
// that `tapir show` and `tapir lab test --attach` find the nodes there.
const sockets = "/run/tapir"

// settings is where a container has the files of its node.
const settings = "/etc/tapir"

// The topology file of containerlab, as far as an export needs it
// (https://containerlab.dev/manual/topo-def-file/).
type (
	topology struct {
		Name     string `yaml:"name"`
		Topology struct {
			Defaults node          `yaml:"defaults"`
			Nodes    yaml.MapSlice `yaml:"nodes"`
			Links    []link        `yaml:"links,omitempty"`
		} `yaml:"topology"`
	}
	node struct {
		Kind  string   `yaml:"kind,omitempty"`
		Image string   `yaml:"image,omitempty"`
		Cmd   string   `yaml:"cmd,omitempty"`
		Binds []string `yaml:"binds,omitempty"`
		Exec  []string `yaml:"exec,omitempty"`
	}
	link struct {
		Type      string    `yaml:"type,omitempty"`
		Endpoints []string  `yaml:"endpoints,omitempty"`
		Endpoint  *endpoint `yaml:"endpoint,omitempty"`
		Remote    string    `yaml:"remote,omitempty"`
		VNI       int       `yaml:"vni,omitempty"`
		DstPort   int       `yaml:"dst-port,omitempty"`
	}
	endpoint struct {
		Node      string `yaml:"node"`
		Interface string `yaml:"interface"`
	}
)

// Files are the topology file of each host, called HOST.clab.yml, or NAME.clab.yml of
// the only one, and the settings of nodes that read a file. notes tell what a topology
// file has no place for. Error: a node that no container can be, or hosts that do not
// have each node once.
func (e *Export) Files() (files []File, notes []string, err error) {
	hosts := e.Hosts
	if len(hosts) == 0 {
		hosts = []Host{{Name: e.Lab.Name}}
		for i := range e.Lab.Nodes {
			if e.Lab.Nodes[i].Card == "" {
				hosts[0].Nodes = append(hosts[0].Nodes, e.Lab.Nodes[i].Name)
			}
		}
	}
	x := exporter{Export: e, at: map[string]*Host{}, mtu: 0}
	if err := x.place(hosts); err != nil {
		return nil, nil, err
	}
	for i := range hosts {
		text, err := x.topology(&hosts[i])
		if err != nil {
			return nil, nil, err
		}
		x.files = append(x.files, File{hosts[i].Name + ".clab.yml", text})
	}
	return x.files, x.noted(), nil
}

type exporter struct {
	*Export
	at    map[string]*Host // the host of each node
	mtu   int              // of all links; 0: what the nodes say
	files []File
}

// place finds the host of each node.
func (x *exporter) place(hosts []Host) error {
	for i := range hosts {
		for _, name := range hosts[i].Nodes {
			switch n := x.Lab.Node(name); {
			case n == nil:
				return fmt.Errorf("host %s: there is no node %s", hosts[i].Name, name)
			case x.at[name] != nil:
				return fmt.Errorf("node %s is on host %s and on host %s", name, x.at[name].Name, hosts[i].Name)
			case !slices.Contains(containers, n.Kind) || n.Card != "":
				return fmt.Errorf("node %s: a %s is not exported: kinds are nic, host, switch, hfi and manager", name,
					n.Kind)
			}
			x.at[name] = &hosts[i]
		}
	}
	for i := range x.Lab.Nodes {
		n := &x.Lab.Nodes[i]
		if x.at[n.Name] == nil {
			return fmt.Errorf("node %s is on no host", n.Name)
		}
		if more, err := n.VFFlags(func(host string) string { return host }); err != nil || more != nil {
			return fmt.Errorf("node %s: sriov is not exported", n.Name)
		}
	}
	for i := range x.Lab.Links {
		if ends := x.Lab.Links[i].Ends; x.at[ends[0]] != x.at[ends[1]] {
			x.mtu = vxlanMTU
		}
	}
	return nil
}

// containers are the kinds of nodes that a container can be.
var containers = []topo.Kind{topo.NIC, topo.Host, topo.Switch, topo.HFI, topo.Manager}

// topology is the file of a host.
func (x *exporter) topology(h *Host) ([]byte, error) {
	var t topology
	t.Name = h.Name
	t.Topology.Defaults = node{Kind: "linux", Image: x.Image, Cmd: "sleep infinity"}
	for _, name := range h.Nodes {
		n, err := x.node(x.Lab.Node(name))
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		t.Topology.Nodes = append(t.Topology.Nodes, yaml.MapItem{Key: name, Value: n})
	}
	for i := range x.Lab.Links {
		k := &x.Lab.Links[i]
		here := [2]bool{x.at[k.Ends[0]] == h, x.at[k.Ends[1]] == h}
		switch {
		case here[0] && here[1]:
			t.Topology.Links = append(t.Topology.Links, link{Endpoints: []string{
				k.Ends[0] + ":" + x.iface(k.Ends[0], k), k.Ends[1] + ":" + x.iface(k.Ends[1], k)}})
		case here[0] || here[1]:
			own, far := k.Ends[0], k.Ends[1]
			if here[1] {
				own, far = far, own
			}
			t.Topology.Links = append(t.Topology.Links, link{Type: "vxlan",
				Endpoint: &endpoint{own, x.iface(own, k)}, Remote: x.at[far].Addr.String(), VNI: firstVNI + i,
				DstPort: vxlanPort})
		}
	}
	text, err := yaml.MarshalWithOptions(&t, yaml.IndentSequence(true))
	return append([]byte(fmt.Sprintf("# Lab %s, by tapir lab export --containerlab. Deploy it on its host with\n"+
		"#   sudo mkdir -p -m 700 %s && sudo containerlab deploy -t %s.clab.yml\n", x.Lab.Name, sockets, h.Name)),
		text...), err
}

// iface is the interface of a node at a link: eth1, eth2 and so on, as containerlab has
// eth0 for itself.
func (x *exporter) iface(node string, at *topo.Link) string {
	n := 0
	for i := range x.Lab.Links {
		k := &x.Lab.Links[i]
		if slices.Contains(k.Ends[:], node) {
			n++
		}
		if k.Name == at.Name {
			break
		}
	}
	return fmt.Sprint("eth", n)
}

// linksOf are the links of a node, in the order of the file.
func (x *exporter) linksOf(node string) (list []*topo.Link) {
	for i := range x.Lab.Links {
		if k := &x.Lab.Links[i]; slices.Contains(k.Ends[:], node) {
			list = append(list, k)
		}
	}
	return list
}

// noted tells what the files have no place for.
func (x *exporter) noted() (notes []string) {
	for i := range x.Lab.Links {
		k := x.Lab.Links[i]
		k.Fault[0].All, k.Fault[1].All = false, false
		if k.Fault != [2]fault.Impairment{} || len(k.Rules) > 0 {
			notes = append(notes, fmt.Sprintf("link %s: its faults are left out: containerlab tools netem sets delay, "+
				"jitter, loss and rate", k.Name))
		}
	}
	if x.mtu != 0 {
		notes = append(notes, fmt.Sprintf("links between hosts are VXLAN: the MTU of the NICs is %d octets, which "+
			"needs 1500 between the hosts", x.mtu))
	}
	return notes
}

// quote makes a word that a POSIX shell and containerlab's exec take as it is.
func quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
}

func command(words ...string) string {
	var all []string
	for _, w := range words {
		all = append(all, quote(w))
	}
	return strings.Join(all, " ")
}
