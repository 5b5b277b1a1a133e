package topo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"

	"tapir/lab/conf"
	"tapir/lab/conf/hficonf"
	"tapir/nic/tap/wires"
	"tapir/opa"
)

// firstGUID is that of a lab's first node; the others count on.
const firstGUID = 0x0011750101000001

// GatewayBridge joins the host TAPs of a gateway with its Ethernet links.
const GatewayBridge = "lan"

// FabricTAP is the link of an HFI or manager.
const FabricTAP = "fab0"

// hfiFields are the settings of an HFI but for those that the lab decides.
func (n *Node) hfiFields() []conf.Field {
	return append(conf.Without(n.HFI.Fields(), "name", "fabric_tap", "wire", "fabric_tap_fd", "bridge",
		"netns"), n.ptpField())
}

// gatewayFields are those of an HFI whose VNICs are ports of a bridge.
func (n *Node) gatewayFields() []conf.Field {
	vnic := func() hficonf.VNIC { return hficonf.VNIC{Gateway: &hficonf.Gateway{Bridge: GatewayBridge}} }
	return append(conf.Without(n.hfiFields(), "vnics"),
		conf.Field{Name: "vnics", Schema: conf.ListOf(conf.Object(gatewayVNIC(new(vnic())), "vesw")),
			Node: func(list conf.Node) (err error) {
				n.HFI.VNICs, err = hficonf.DecodeVNICs(list, vnic, gatewayVNIC)
				return err
			}})
}

// gatewayVNIC are the settings of a VNIC of a gateway.
func gatewayVNIC(v *hficonf.VNIC) []conf.Field {
	return append(conf.Without(v.Fields(), "ip", "gateway"), conf.Field{Name: "vlan",
		Expect: "the VLAN id of the vESW's frames on Ethernet, from 0 (untagged, the default) to 4094",
		Set:    conf.Int(&v.Gateway.VLAN, 0, 4094)})
}

// managerFields are the settings of an Ethernet Manager and of its fabric.
func (n *Node) managerFields() []conf.Field {
	return append(conf.Without(n.em.Fields(), "name", "fabric_tap", "wire", "bridge", "audit"),
		conf.Truth("standby", "true: it is master only while no other manager is there", &n.EM.Standby))
}

// finishHFI gives an HFI or gateway what it needs besides its settings, and
// checks it.
func (d *draft) finishHFI(n *Node, key conf.Node) error {
	c := &n.HFI
	c.GUID = cmp.Or(c.GUID, d.guid(n))
	if c.LID == 0 && !c.Managed && !n.has("managed") {
		c.Managed = slices.ContainsFunc(d.Nodes, func(o Node) bool { return o.Kind == Manager })
		if !c.Managed {
			c.LID = d.freeLID()
		}
	}
	return cmp.Or(key.Place(c.Validate()), d.ownGUID(n, c.GUID, key))
}

// guid is that of a node that has none: by its place in the file.
func (d *draft) guid(n *Node) uint64 {
	return firstGUID + uint64(slices.IndexFunc(d.Nodes, func(o Node) bool { return o.Name == n.Name }))
}

// freeLID is the lowest that no HFI has.
func (d *draft) freeLID() opa.LID {
	for lid := opa.LID(1); ; lid++ {
		if !slices.ContainsFunc(d.Nodes, func(o Node) bool { return o.HFI.LID == lid }) {
			return lid
		}
	}
}

// ownGUID checks that no node before n has its GUID.
func (d *draft) ownGUID(n *Node, guid uint64, key conf.Node) error {
	for i := range d.Nodes {
		o := &d.Nodes[i]
		if o.Name == n.Name {
			break
		}
		if o.HFI.GUID == guid || o.EM.Port.GUID == guid {
			return key.Errorf("%s: %s has the GUID %#016x, too", n.Name, o.Name, guid)
		}
	}
	return nil
}

// finishManager completes a manager and looks for the members of its vESWs.
func (d *draft) finishManager(n *Node, key conf.Node) (err error) {
	standby := n.EM.Standby
	if n.EM, err = n.em.Finish(key, n.Name, d.guid(n)); err != nil {
		return err
	}
	n.EM.Standby = standby
	for i, v := range n.EM.Fabric.VESWs {
		for k, m := range v.Members {
			if name := m.Node.Name; name != "" && !d.isMember(n, name) {
				return n.em.At(key, fmt.Sprintf("vesws[%d].members[%d]", i, k), fmt.Sprintf("there is no HFI %s", name))
			}
		}
	}
	return d.ownGUID(n, n.EM.Port.GUID, key)
}

// isMember tells whether a name is that of an HFI, or one that the manager's
// file gives to a GUID.
func (d *draft) isMember(n *Node, name string) bool {
	for _, e := range n.EM.Fabric.Nodes {
		if e.Name == name {
			return true
		}
	}
	o := d.Node(name)
	return o != nil && (o.Kind == HFI || o.Kind == Gateway)
}

// HostTAP is the interface of a card's function in the card's namespace.
func HostTAP(function int) string { return fmt.Sprint("eth", function) }

// cardFile is the file of a card, with a host TAP for each function.
func (n *Node) cardFile(ports []string) ([]byte, error) {
	own := yaml.MapSlice{{Key: "name", Value: n.Name}, {Key: "ports", Value: ports}}
	for _, m := range n.settings {
		if list, ok := m.Value.([]any); ok && m.Key == "functions" {
			var all []any
			for i, f := range list {
				settings, _ := f.(yaml.MapSlice)
				all = append(all, append(yaml.MapSlice{{Key: "host_tap", Value: HostTAP(i)}}, settings...))
			}
			m.Value = all
		}
		own = append(own, m)
	}
	return yaml.Marshal(map[string]any{"nics": []any{own}})
}

// ConfigFile is the YAML file that `tapir nic -c` (of a card), `tapir sw -c`, `tapir vnic -c` or `tapir em
// -c` runs such a node from; ports are the names of TAPs, or wires. An HFI or manager without is on
// FabricTAP.
func (n *Node) ConfigFile(ports ...string) ([]byte, error) {
	if n.Kind == Card {
		return n.cardFile(ports)
	}
	if n.Kind == Switch {
		own := append(yaml.MapSlice{{Key: "name", Value: n.Name}, {Key: "ports", Value: ports}}, n.settings...)
		return yaml.Marshal(map[string]any{"switches": []any{own}})
	}
	own := yaml.MapSlice{{Key: "name", Value: n.Name}, {Key: "fabric_tap", Value: FabricTAP}}
	if len(ports) > 0 && wires.Is(ports[0]) {
		own[1] = yaml.MapItem{Key: "wire", Value: ports[0]}
	}
	add := func(name string, value any) {
		if !n.has(name) {
			own = append(own, yaml.MapItem{Key: name, Value: value})
		}
	}
	if n.Kind == Manager {
		add("guid", n.EM.Port.GUID)
		file := yaml.MapSlice{}
		for _, m := range n.settings {
			switch m.Key {
			case "nodes", "vesws", "lids", "congestion":
				file = append(file, m)
			case "standby":
			default:
				own = append(own, m)
			}
		}
		return yaml.Marshal(append(file, yaml.MapItem{Key: "manager", Value: own}))
	}
	add("guid", n.HFI.GUID)
	if n.HFI.Managed {
		add("managed", true)
	} else {
		add("lid", int(n.HFI.LID))
	}
	for _, m := range n.settings {
		if list, ok := m.Value.([]any); ok && m.Key == "vnics" && n.Kind == Gateway {
			m.Value = gatewayParts(list)
		}
		own = append(own, m)
	}
	return yaml.Marshal(map[string]any{"hfis": []any{own}})
}

// gatewayParts gives the VNICs of a gateway their bridge.
func gatewayParts(vnics []any) (all []any) {
	for _, v := range vnics {
		gateway := yaml.MapSlice{{Key: "bridge", Value: GatewayBridge}}
		out := yaml.MapSlice{}
		for _, m := range v.(yaml.MapSlice) {
			if m.Key == "vlan" {
				gateway = append(gateway, m)
			} else {
				out = append(out, m)
			}
		}
		all = append(all, append(out, yaml.MapItem{Key: "gateway", Value: gateway}))
	}
	return all
}

// FabricMTU is what an HFI or manager needs of its link, in octets behind the
// Ethernet header.
func (n *Node) FabricMTU() int {
	if n.Kind == Manager {
		return n.EM.Port.WireMTU()
	}
	return n.HFI.WireMTU()
}

// findFabrics marks the links that carry Omni-Path: those that lead to an HFI
// or a manager, by switches if need be.
func (d *draft) findFabrics() {
	for {
		changed := false
		for i := range d.Links {
			l := &d.Links[i]
			if !l.Fabric && (d.onFabric(l.Ends[0]) || d.onFabric(l.Ends[1])) {
				l.Fabric, changed = true, true
			}
		}
		if !changed {
			return
		}
	}
}

// onFabric tells whether all links of a node carry Omni-Path.
func (d *draft) onFabric(name string) bool {
	switch n := d.Node(name); {
	case n == nil:
		return false
	case n.Kind == HFI || n.Kind == Manager:
		return true
	case n.Kind == Switch:
		return slices.ContainsFunc(d.Links, func(l Link) bool { return l.Fabric && slices.Contains(l.Ends[:], name) })
	}
	return false
}

// checkFabric checks that HFIs and Ethernet meet at gateways only.
func (d *draft) checkFabric(n *Node, key conf.Node) error {
	count := 0
	for _, l := range d.Links {
		if !slices.Contains(l.Ends[:], n.Name) || !l.Fabric {
			continue
		}
		count++
		switch n.Kind {
		case NIC, Host, Peer:
			return key.Errorf("%s: a %s on a link with HFIs, %s: put a gateway between", n.Name, n.Kind, l.Name)
		case HFI, Gateway, Manager:
			if need := n.FabricMTU(); l.MTU != 0 && l.MTU < need {
				return key.Errorf("%s: link %s carries %d octets, it needs %d: leave out mtu", n.Name, l.Name, l.MTU,
					need)
			}
		}
	}
	return key.ErrorIf(n.Kind == Gateway && (count != 1 || d.countLinks(n.Name) < 2),
		"%s: a gateway has one link that leads to HFIs, not %d, and another one to Ethernet", n.Name, count)
}
