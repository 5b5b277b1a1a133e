package topo

import (
	"tapir/lab/conf"
	"tapir/lab/conf/targetconf"
)

// targetFields are the settings of a NIC and of what it serves.
func (n *Node) targetFields() []conf.Field {
	n.Kind, n.Target = NIC, new(targetconf.Config)
	return append(n.nicFields(), n.Target.Fields()...)
}

// finishTarget checks what a NIC serves.
func (d *draft) finishTarget(n *Node, key conf.Node) error {
	if n.Target == nil {
		return nil
	}
	for _, l := range n.Target.LUNs {
		if l.Kind == targetconf.File {
			d.limits = append(d.limits, limit{Virtual, key.Errorf("%s: luns: file:%s: a file is of the real clock "+
				"alone: take sparse:PATH:SIZE", n.Name, l.Path)})
		}
	}
	return key.Place(n.Target.Validate(n.personality()))
}
