package nicnode

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"

	"tapir/lab/conf/nicconf"
	"tapir/lab/node"
	"tapir/wire/ether"
)

// hint proposes a command to the administrator.
func (n *Node) hint(format string, args ...any) {
	n.hints = append(n.hints, fmt.Sprintf(format, args...))
}

// readyWire prepares the TAP that stands for the cable. A ready descriptor
// may belong to another namespace, whose links are out of reach.
func (n *Node) readyWire(t *node.TAP) (mtu int, err error) {
	info, err := n.Space.Links.Get(t.Name())
	if err != nil {
		if n.cfg.TAPFD != 0 && len(n.cfg.TAPIP) == 0 {
			return n.cfg.MTU, nil
		}
		return 0, err
	}
	if err := n.checkClash(); err != nil {
		return 0, err
	}
	if mtu, err = n.fitMTU(t, info.MTU); err != nil {
		return 0, err
	}
	if err = t.AddAddresses(n.cfg.TAPIP); err == nil {
		err = n.bringUp(t, info.Up)
	}
	if err != nil {
		return 0, err
	}
	if len(n.cfg.TAPIP) == 0 && n.cfg.HostTAP == "" && !info.Bridge {
		n.hintAddresses(t.Name(), info.Addrs)
	}
	return mtu, nil
}

// checkClash looks for the NIC's addresses among those of the kernel: two
// owners of one address would both answer for it.
func (n *Node) checkClash() error {
	all, err := n.Space.Links.All()
	if err != nil {
		return err
	}
	for _, l := range all {
		for _, has := range l.Addrs {
			for _, p := range n.cfg.Addrs() {
				if has.Addr() == p.Addr() && l.Name != n.cfg.HostTAP {
					return fmt.Errorf("%s: address %v is the kernel's own on %s: choose another one, or run `ip "+
						"addr del %v dev %s`", n.cfg.Name, p.Addr(), l.Name, has, l.Name)
				}
			}
		}
	}
	return nil
}

// fitMTU sets the MTU of a TAP that we made; another one must be large
// enough.
func (n *Node) fitMTU(t *node.TAP, has int) (int, error) {
	if has == n.cfg.MTU {
		return has, nil
	}
	if t.Created() {
		return n.cfg.MTU, n.Space.Links.SetMTU(t.Name(), n.cfg.MTU)
	}
	if has < n.cfg.MTU {
		return 0, fmt.Errorf("%s: MTU %d is more than the %d of %s: run `ip link set dev %s mtu %d`, or use `mtu: %d`",
			n.cfg.Name, n.cfg.MTU, has, t.Name(), t.Name(), n.cfg.MTU, has)
	}
	return has, nil
}

// bringUp brings the TAP up where that is permitted.
func (n *Node) bringUp(t *node.TAP, isUp bool) error {
	err := t.BringUp(isUp)
	if errors.Is(err, fs.ErrPermission) {
		n.hint("ip link set dev %s up", t.Name())
		return nil
	}
	return err
}

// hintAddresses proposes the commands that give the kernel's side an address.
func (n *Node) hintAddresses(name string, has []netip.Prefix) {
	if n.cfg.VLAN != 0 {
		tagged := fmt.Sprintf("%s.%d", name, n.cfg.VLAN)
		n.hint("ip link add link %s name %s type vlan id %d", name, tagged, n.cfg.VLAN)
		n.hint("ip link set dev %s up", tagged)
		name, has = tagged, nil
	}
	for _, p := range n.cfg.Addrs() {
		switch {
		case slices.ContainsFunc(has, func(h netip.Prefix) bool { return p.Contains(h.Addr()) }):
		case p.Addr().Is6(): // usable at once
			n.hint("ip addr add %v dev %s nodad", nicconf.Neighbour(p), name)
		default:
			n.hint("ip addr add %v dev %s", nicconf.Neighbour(p), name)
		}
	}
}

// readyHost gives the host TAP the NIC's MAC and addresses.
func (n *Node) readyHost(t *node.TAP, mac ether.Addr) error {
	name := t.Name()
	was, err := n.Space.Links.MAC(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(was, mac[:]) {
		if err := n.Space.Links.SetMAC(name, net.HardwareAddr(mac[:])); err != nil {
			return err
		}
		if !t.Created() {
			n.Undo.Add(func() { n.Space.Links.SetMAC(name, was) })
		}
	}
	info, err := n.Space.Links.Get(name)
	if err != nil {
		return err
	}
	if _, err := n.fitMTU(t, info.MTU); err != nil {
		return err
	}
	if !n.cfg.IPFromHost {
		if err := t.AddAddresses(n.cfg.Addrs()); err != nil {
			return err
		}
	}
	return n.bringUp(t, info.Up)
}
