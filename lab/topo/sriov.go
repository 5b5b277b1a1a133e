package topo

import (
	"strings"

	"github.com/goccy/go-yaml"

	"tapir/lab/conf"
)

// keyVFs is the setting of a NIC that has its virtual functions.
const keyVFs = "sriov"

// finishVFs checks the virtual functions of a NIC: their host TAPs are in its own namespace
// or in that of a host, whose links may then be none.
func (d *draft) finishVFs(n *Node, key conf.Node) {
	if n.NIC.SRIOV == nil {
		return
	}
	d.limits = append(d.limits, limit{Virtual, key.Errorf("%s: sriov: VFs have host TAPs, of the real clock alone",
		n.Name)})
	d.later(func() error {
		for i, v := range n.NIC.SRIOV.VFs {
			host := d.Lab.Node(v.NetNS)
			switch {
			case v.NetNS == "":
			case host == nil || host.Kind != Host:
				return key.Errorf("%s: sriov: netns %s of VF %d: expected a host of the lab", n.Name, v.NetNS, i)
			case n.Card != "":
				return key.Errorf("%s: sriov: netns of VF %d: those of a card's function stay in the card's namespace",
					n.Name, i)
			}
		}
		return nil
	})
}

// VFFlags are the flags of `tapir nic` about virtual functions; netns is the path of the
// namespace of a host.
func (n *Node) VFFlags(netns func(host string) string) ([]string, error) {
	for _, m := range n.settings {
		if m.Key != keyVFs {
			continue
		}
		text, err := yaml.MarshalWithOptions(inSpaces(m.Value, netns), yaml.Flow(true))
		return []string{"--sriov=" + strings.TrimSpace(string(text))}, err
	}
	return nil, nil
}

// inSpaces replaces the namespaces of VFs in the settings.
func inSpaces(v any, netns func(string) string) any {
	switch v := v.(type) {
	case yaml.MapSlice:
		var out yaml.MapSlice
		for _, m := range v {
			if host, ok := m.Value.(string); ok && m.Key == "netns" && host != "" {
				m.Value = netns(host)
			} else {
				m.Value = inSpaces(m.Value, netns)
			}
			out = append(out, m)
		}
		return out
	case []any:
		var out []any
		for _, e := range v {
			out = append(out, inSpaces(e, netns))
		}
		return out
	}
	return v
}
