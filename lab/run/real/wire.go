package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"tapir/lab/topo"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
)

// firstWirePort is the first UDP port of a node's wires, each of which takes two.
const firstWirePort = 47920

// plugWire makes a port that is no TAP. Both ends of the wire lie in the node's namespace: the
// node has one, and the cable the other.
func (b *bed) plugWire(n *node, kind, port string, mtu int, vnet bool) (name string, far tap.Queue, err error) {
	i := len(n.ports)
	b.wires++
	var ends [2]string
	if slices.Contains(wires.Kernel, kind) {
		name = port
		ends, err = n.net.AddWire(kind, [2]string{port, farEnd(i)}, mtu)
	} else {
		path := filepath.Join(b.dir, fmt.Sprint("wire", b.wires))
		ends[0], ends[1], err = wires.Ends(kind, path, firstWirePort+2*uint16(i))
		name = ends[0]
	}
	if err != nil {
		return "", nil, err
	}
	n.ports, n.names = append(n.ports, ends[0]), append(n.names, name)
	err = n.ns.Do(func() (err error) {
		far, err = wires.Open(ends[1], vnet)
		return err
	})
	return name, far, err
}

// portFlag tells a NIC where its frames pass.
func (n *node) portFlag() string {
	if port := n.ports[0]; wires.Is(port) {
		return "--wire=" + port
	}
	return "--tap=" + n.ports[0]
}

// hasKernelSide tells whether the operating system gets its interface of a NIC: one on a wire
// can do without where there are no TAPs.
func (n *node) hasKernelSide() bool {
	if !wires.Is(n.ports[0]) {
		return true
	}
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// NeedsTAP tells whether a lab cannot do without TAPs: an end of a link is one, or a node has
// others that are more than a NIC's side of the operating system.
func NeedsTAP(l *topo.Lab) bool {
	return slices.ContainsFunc(l.Links, func(k topo.Link) bool {
		return slices.ContainsFunc(k.Ends[:], func(name string) bool {
			n := l.Node(name)
			return n.Kind == topo.HFI || n.Kind == topo.Gateway || n.Kind == topo.Card || n.NIC.SRIOV != nil ||
				l.WireOf(&k, n) == topo.TAP
		})
	})
}
