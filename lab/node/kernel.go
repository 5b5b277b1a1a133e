package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/nic/tap"
	"tapir/wire/ether"
)

// kernelSide is what a node did to the kernel's links, and how to undo it.
type kernelSide struct {
	ns    *netns.NS
	owned bool // ns is ours to close
	links *link.Net
	undo  []func()
	rest  func() // ends the following of the host TAP
	hints []string
}

func openKernelSide(ns *netns.NS) (*kernelSide, error) {
	k := &kernelSide{ns: ns, rest: func() {}}
	if ns == nil {
		current, err := netns.Current()
		if err != nil {
			return nil, err
		}
		k.ns, k.owned = current, true
	}
	links, err := link.In(k.ns)
	if err != nil {
		k.close()
		return nil, err
	}
	k.links = links
	return k, nil
}

// close undoes what was done, latest first.
func (k *kernelSide) close() {
	for len(k.undo) > 0 {
		last := len(k.undo) - 1
		k.undo[last]()
		k.undo = k.undo[:last]
	}
	if k.links != nil {
		k.links.Close()
	}
	if k.owned {
		k.ns.Close()
	}
}

func (k *kernelSide) hint(format string, args ...any) {
	k.hints = append(k.hints, fmt.Sprintf(format, args...))
}

// readyWire prepares the TAP that stands for the cable. A ready descriptor
// may belong to another namespace, whose links are out of reach.
func (k *kernelSide) readyWire(c *Config, t *tap.TAP) (mtu int, err error) {
	info, err := k.links.Get(t.Name())
	if err != nil {
		if c.TAPFD != 0 && len(c.TAPIP) == 0 {
			return c.MTU, nil
		}
		return 0, err
	}
	if err := k.checkClash(c); err != nil {
		return 0, err
	}
	if mtu, err = k.fitMTU(c, t, info.MTU); err != nil {
		return 0, err
	}
	for _, p := range c.TAPIP {
		if err := k.address(t, p); err != nil {
			return 0, err
		}
	}
	if err := k.bringUp(c, t, info.Up); err != nil {
		return 0, err
	}
	if len(c.TAPIP) == 0 && c.HostTAP == "" && !info.Bridge {
		k.hintAddresses(c, t.Name(), info.Addrs)
	}
	return mtu, nil
}

// checkClash looks for the NIC's addresses among those of the kernel: two
// owners of one address would both answer for it.
func (k *kernelSide) checkClash(c *Config) error {
	all, err := k.links.All()
	if err != nil {
		return err
	}
	for _, l := range all {
		for _, has := range l.Addrs {
			for _, p := range c.Addrs() {
				if has.Addr() == p.Addr() && l.Name != c.HostTAP {
					return fmt.Errorf("%s: address %v is the kernel's own on %s: choose another one, or run `ip addr del %v dev %s`",
						c.Name, p.Addr(), l.Name, has, l.Name)
				}
			}
		}
	}
	return nil
}

// fitMTU sets the MTU of a TAP that we made; another one must be large
// enough.
func (k *kernelSide) fitMTU(c *Config, t *tap.TAP, has int) (int, error) {
	if has == c.MTU {
		return has, nil
	}
	if t.Created() {
		return c.MTU, k.links.SetMTU(t.Name(), c.MTU)
	}
	if has < c.MTU {
		return 0, fmt.Errorf("%s: MTU %d is more than the %d of %s: run `ip link set dev %s mtu %d`, or use `mtu: %d`",
			c.Name, c.MTU, has, t.Name(), t.Name(), c.MTU, has)
	}
	return has, nil
}

// address gives the kernel's side of t an address and takes it back in the
// end, unless it was there already.
func (k *kernelSide) address(t *tap.TAP, p netip.Prefix) error {
	if p.Addr().Is6() {
		if err := k.ns.Sysctl("ipv6/conf/"+t.Name()+"/disable_ipv6", "0"); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	err := k.links.AddAddr(t.Name(), p)
	switch {
	case err == nil:
		k.undo = append(k.undo, func() { k.links.DelAddr(t.Name(), p) }) // gone already with a TAP that we made
	case errors.Is(err, fs.ErrExist):
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; as root run `ip addr add %v dev %s`", err, p, t.Name())
	default:
		return err
	}
	return nil
}

// bringUp brings the TAP up where that is permitted, and down again in the
// end if it was found down.
func (k *kernelSide) bringUp(c *Config, t *tap.TAP, isUp bool) error {
	if isUp {
		return nil
	}
	err := k.links.Up(t.Name())
	switch {
	case err == nil && !t.Created():
		k.undo = append(k.undo, func() { k.links.Down(t.Name()) })
	case errors.Is(err, fs.ErrPermission):
		k.hint("ip link set dev %s up", t.Name())
		return nil
	}
	return err
}

// hintAddresses proposes the commands that give the kernel's side an address.
func (k *kernelSide) hintAddresses(c *Config, name string, has []netip.Prefix) {
	if c.VLAN != 0 {
		tagged := fmt.Sprintf("%s.%d", name, c.VLAN)
		k.hint("ip link add link %s name %s type vlan id %d", name, tagged, c.VLAN)
		k.hint("ip link set dev %s up", tagged)
		name, has = tagged, nil
	}
	for _, p := range c.Addrs() {
		reached := false
		for _, h := range has {
			reached = reached || p.Contains(h.Addr())
		}
		switch {
		case reached:
		case p.Addr().Is6(): // usable at once
			k.hint("ip addr add %v dev %s nodad", neighbourOf(p), name)
		default:
			k.hint("ip addr add %v dev %s", neighbourOf(p), name)
		}
	}
}

// readyHost gives the host TAP the NIC's MAC and addresses.
func (k *kernelSide) readyHost(c *Config, t *tap.TAP, mac ether.Addr) error {
	name := t.Name()
	was, err := k.links.MAC(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(was, mac[:]) {
		if err := k.links.SetMAC(name, net.HardwareAddr(mac[:])); err != nil {
			return err
		}
		if !t.Created() {
			k.undo = append(k.undo, func() { k.links.SetMAC(name, was) })
		}
	}
	info, err := k.links.Get(name)
	if err != nil {
		return err
	}
	if _, err := k.fitMTU(c, t, info.MTU); err != nil {
		return err
	}
	if c.IPFromHost {
		return k.bringUp(c, t, info.Up)
	}
	for _, p := range c.Addrs() {
		if err := k.address(t, p); err != nil {
			return err
		}
	}
	return k.bringUp(c, t, info.Up)
}
