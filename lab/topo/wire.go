package topo

import (
	"cmp"

	"tapir/lab/conf"
	"tapir/nic/tap/wires"
)

// TAP is the default kind of wires, and Stream what guests know, too.
const TAP, Stream = "tap", "stream"

// wireField is the kind of wires of a link, or of those of a lab.
func (d *draft) wireField(kind *string) conf.Field {
	all := append([]string{TAP}, wires.All...)
	f := conf.Field{Name: "wire", Expect: "tap (default), " + wires.Names, Set: conf.Word(kind, all...)}
	return conf.Field{Name: f.Name, Schema: conf.Choice(all...), Node: func(n conf.Node) error {
		err := f.Take(n)
		if err == nil && *kind != TAP {
			d.limits = append(d.limits, limit{Virtual, n.Errorf("wire: %s is of the real clock alone", *kind)})
		}
		return err
	}}
}

// WireOf is the kind of the wire that a node has at a link. The operating system's own ends are
// TAPs: those of hosts, gateways on Ethernet, and guests, but on a stream of QEMU.
func (l *Lab) WireOf(k *Link, n *Node) string {
	kind := cmp.Or(k.Wire, l.Wire, TAP)
	if n.Kind == Host || n.Kind == Peer && kind != Stream || n.Kind == Gateway && !k.Fabric {
		return TAP
	}
	return kind
}

// checkWire finds a wire that is of no end.
func (d *draft) checkWire(k *Link, key conf.Node) error {
	tap := func(name string) bool { return d.WireOf(k, d.Node(d.members(name)[0])) == TAP }
	return key.ErrorIf(k.Wire != "" && k.Wire != TAP && tap(k.Ends[0]) && tap(k.Ends[1]),
		"wire: %s: %s and %s are of the kernel, which has TAPs: leave it out", k.Wire, k.Ends[0], k.Ends[1])
}
