package link

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/vishvananda/netlink"
)

// AddMacvtap makes a macvtap interface on another one and brings it up, and returns the path of
// its device file. It passes multicast frames, and with passthru those to all addresses.
func (n *Net) AddMacvtap(name, on string, passthru bool) (path string, err error) {
	mode := netlink.MACVLAN_MODE_BRIDGE
	if passthru {
		mode = netlink.MACVLAN_MODE_PASSTHRU
	}
	// All namespaces have their device files in one directory, under the indices of the interfaces.
	index := 1_000_000 + rand.IntN(1<<30)
	path = fmt.Sprint("/dev/tap", index)
	err = n.with("make a macvtap on", on, func(l netlink.Link) error {
		m := &netlink.Macvtap{Macvlan: netlink.Macvlan{LinkAttrs: netlink.NewLinkAttrs(), Mode: mode}}
		m.Name, m.Index, m.ParentIndex = name, index, l.Attrs().Index
		return errors.Join(n.h.LinkAdd(m), n.h.LinkSetAllmulticastOn(m), n.h.LinkSetUp(m))
	})
	if err == nil {
		_, err = os.Stat(path) // made by the kernel, in a devtmpfs
	}
	return path, err
}

// AddWire makes a wire of one of the kinds wires.Kernel, and returns the texts of its ends, for
// which names become interfaces, when frames pass. The MTU is in octets.
func (n *Net) AddWire(kind string, names [2]string, mtu int) (ends [2]string, err error) {
	under := names
	if kind == "tapdev" {
		under = [2]string{names[0] + "-u", names[1] + "-u"}
	}
	if err := n.AddVeth(under[0], n, under[1]); err != nil {
		return ends, err
	}
	for i, name := range under {
		if err := errors.Join(n.SetMTU(name, mtu), n.Up(name)); err != nil {
			return ends, err
		}
		ends[i] = "dev:" + name
		if kind == "tapdev" {
			path, err := n.AddMacvtap(names[i], name, true)
			if err != nil {
				return ends, err
			}
			ends[i] = "tapdev:" + path
		}
	}
	return ends, errors.Join(n.AwaitLive(names[0]), n.AwaitLive(names[1]))
}
