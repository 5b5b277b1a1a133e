// Package link makes the links of a lab: TAPs, bridges, veth pairs and their
// addresses, in a network namespace, through rtnetlink.
package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	own "tapir/lab/host/netns"
)

// Net is one network namespace as seen through rtnetlink.
type Net struct {
	ns *own.NS
	h  *netlink.Handle
}

// In opens ns. The namespace stays the caller's and must outlive the Net.
func In(ns *own.NS) (*Net, error) {
	var h *netlink.Handle
	var err error
	if ns.IsCurrent() { // needs no right to enter it
		h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
	} else {
		h, err = netlink.NewHandleAt(netns.NsHandle(ns.Fd()), unix.NETLINK_ROUTE)
	}
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	return &Net{ns: ns, h: h}, nil
}

// Close closes the rtnetlink socket; the links stay.
func (n *Net) Close() { n.h.Close() }

func wrap(verb, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s %s: %w: CAP_NET_ADMIN is needed", verb, name, err)
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}

// AddTAP makes a TAP that stays until it is deleted or the namespace goes.
// With vnet its frames carry a virtio-net header, and only a process that
// asks for the same can attach.
func (n *Net) AddTAP(name string, vnet bool) error {
	if len(name) >= unix.IFNAMSIZ { // the kernel would cut it
		return fmt.Errorf("make TAP %s: a link's name has at most %d characters", name, unix.IFNAMSIZ-1)
	}
	flags := netlink.TUNTAP_NO_PI
	if vnet {
		flags |= netlink.TUNTAP_VNET_HDR
	}
	// The TAP is made by an ioctl, which acts in the thread's namespace.
	err := n.ns.Do(func() error {
		return netlink.LinkAdd(&netlink.Tuntap{
			LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP, Flags: flags,
			Owner: uint32(os.Getuid()), Group: uint32(os.Getgid()), // 0 need not exist in a user namespace
		})
	})
	return wrap("make TAP", name, err)
}

// AddBridge makes a bridge that is up, learns and never snoops multicast.
func (n *Net) AddBridge(name string) error { return n.addBridge(name, 0) }

// AddCable makes a bridge that stands for a cable: the groups of links pass it, such as that
// of LLDP. With those that the kernel lets no bridge pass, PassPause helps.
func (n *Net) AddCable(name string) error { return n.addBridge(name, 0xfff8) }

func (n *Net) addBridge(name string, groups uint16) error {
	snoop := false
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}, MulticastSnooping: &snoop, GroupFwdMask: &groups}
	if err := n.h.LinkAdd(br); err != nil {
		return wrap("make bridge", name, err)
	}
	return n.Up(name)
}

// AddVeth makes a veth pair between n and peer.
func (n *Net) AddVeth(name string, peer *Net, peerName string) error {
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peerName,
		PeerNamespace: netlink.NsFd(peer.ns.Fd()),
	}
	return wrap("make veth", name, n.h.LinkAdd(veth))
}

func (n *Net) with(verb, name string, fn func(netlink.Link) error) error {
	l, err := n.h.LinkByName(name)
	if err == nil {
		err = fn(l)
	}
	return wrap(verb, name, err)
}

// Exists tells whether a link of that name is there.
func (n *Net) Exists(name string) bool {
	_, err := n.h.LinkByName(name)
	return err == nil
}

// Up brings a link up.
func (n *Net) Up(name string) error { return n.with("set up", name, n.h.LinkSetUp) }

// Down takes a link down.
func (n *Net) Down(name string) error { return n.with("set down", name, n.h.LinkSetDown) }

// Delete removes a link.
func (n *Net) Delete(name string) error { return n.with("delete", name, n.h.LinkDel) }

// look reads something of a link.
func look[T any](n *Net, name string, what func(*netlink.LinkAttrs) T) (v T, err error) {
	err = n.with("look at", name, func(l netlink.Link) error {
		v = what(l.Attrs())
		return nil
	})
	return v, err
}

// IsUp tells whether a link is administratively up.
func (n *Net) IsUp(name string) (bool, error) {
	return look(n, name, func(a *netlink.LinkAttrs) bool { return a.Flags&net.FlagUp != 0 })
}

// MTU returns a link's MTU in octets.
func (n *Net) MTU(name string) (int, error) {
	return look(n, name, func(a *netlink.LinkAttrs) int { return a.MTU })
}

// SetMTU sets a link's MTU in octets.
func (n *Net) SetMTU(name string, mtu int) error {
	return n.with("set the MTU of", name, func(l netlink.Link) error { return n.h.LinkSetMTU(l, mtu) })
}

// MAC returns a link's hardware address.
func (n *Net) MAC(name string) (net.HardwareAddr, error) {
	return look(n, name, func(a *netlink.LinkAttrs) net.HardwareAddr { return a.HardwareAddr })
}

// SetMAC sets a link's hardware address.
func (n *Net) SetMAC(name string, mac net.HardwareAddr) error {
	return n.with("set the MAC of", name, func(l netlink.Link) error { return n.h.LinkSetHardwareAddr(l, mac) })
}

// Join makes a link a port of a bridge.
func (n *Net) Join(name, bridge string) error {
	return n.with("attach", name, func(l netlink.Link) error {
		br, err := n.h.LinkByName(bridge)
		if err != nil {
			return err
		}
		return n.h.LinkSetMaster(l, br)
	})
}

// AddAddr gives a link an address. An IPv6 address is usable at once:
// duplicate address detection is left out.
func (n *Net) AddAddr(name string, p netip.Prefix) error {
	return n.with("add "+p.String()+" to", name, func(l netlink.Link) error {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		return n.h.AddrAdd(l, a)
	})
}

// DelAddr takes an address away from a link.
func (n *Net) DelAddr(name string, p netip.Prefix) error {
	return n.with("remove "+p.String()+" from", name, func(l netlink.Link) error {
		return n.h.AddrDel(l, &netlink.Addr{IPNet: ipNet(p)})
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Addrs lists a link's addresses.
func (n *Net) Addrs(name string) ([]netip.Prefix, error) {
	i, err := n.Get(name)
	return i.Addrs, err
}

// Names lists the links of the namespace.
func (n *Net) Names() ([]string, error) {
	links, err := n.linkList()
	if err != nil {
		return nil, wrap("list", "links", err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return names, nil
}
