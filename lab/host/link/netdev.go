package link

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Netdev is what the driver of a network interface is told about it.
type Netdev struct {
	Index int
	Name  string
	MAC   net.HardwareAddr
	MTU   int  // octets
	Up    bool // administratively
	Gone  bool // the interface has been removed
	// Promisc and AllMulti: somebody wants the frames of all stations, or of all groups.
	Promisc, AllMulti bool
}

func netdev(a *netlink.LinkAttrs) Netdev {
	return Netdev{Index: a.Index, Name: a.Name, MAC: slices.Clone(a.HardwareAddr), MTU: a.MTU,
		Up: a.Flags&net.FlagUp != 0, Promisc: a.RawFlags&unix.IFF_PROMISC != 0,
		AllMulti: a.RawFlags&unix.IFF_ALLMULTI != 0}
}

// Netdev describes the link called name.
func (n *Net) Netdev(name string) (Netdev, error) { return look(n, name, netdev) }

// NetdevAt describes the link of that index.
func (n *Net) NetdevAt(index int) (Netdev, error) {
	l, err := n.h.LinkByIndex(index)
	if err != nil {
		return Netdev{}, wrap("look at", fmt.Sprint("link ", index), err)
	}
	return netdev(l.Attrs()), nil
}

// Netdevs describes all links of the namespace, by index.
func (n *Net) Netdevs() (map[int]Netdev, error) {
	links, err := n.linkList()
	if err != nil {
		return nil, wrap("list", "links", err)
	}
	all := make(map[int]Netdev, len(links))
	for _, l := range links {
		all[l.Attrs().Index] = netdev(l.Attrs())
	}
	return all, nil
}

// Follow calls change, from a goroutine of its own, with each change of any
// link of the namespace; with every link after changes were lost. stop ends
// that and waits for the goroutine.
func (n *Net) Follow(change func(Netdev)) (stop func(), err error) {
	f := follower[netlink.LinkUpdate]{open: openLinks}
	f.change = func(u netlink.LinkUpdate) {
		d := netdev(u.Attrs())
		d.Gone = u.Header.Type == unix.RTM_DELLINK
		change(d)
	}
	f.missed = func() {
		all, _ := n.Netdevs() // as good as none
		for _, d := range all {
			change(d)
		}
	}
	stop, err = f.follow(n)
	return stop, wrap("follow", "links", err)
}

// openLinks asks for the changes of links until done is closed.
func openLinks(updates chan<- netlink.LinkUpdate, done <-chan struct{}, at *netns.NsHandle) error {
	// ListExisting would need CAP_NET_ADMIN: its request goes to the group.
	return netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{Namespace: at})
}

// HardwareLists returns, by index of the link, the secondary unicast and the
// multicast addresses that the kernel wants it to receive, in ascending
// order.
func (n *Net) HardwareLists() (lists map[int][]net.HardwareAddr, err error) {
	entries, err := whole(func() ([]netlink.Neigh, error) { return n.h.NeighList(0, unix.AF_BRIDGE) })
	if err != nil {
		return nil, wrap("list", "hardware addresses", err)
	}
	lists = map[int][]net.HardwareAddr{}
	for _, e := range entries {
		if e.Flags&netlink.NTF_SELF != 0 && len(e.HardwareAddr) == 6 {
			lists[e.LinkIndex] = append(lists[e.LinkIndex], e.HardwareAddr)
		}
	}
	for _, l := range lists {
		slices.SortFunc(l, func(a, b net.HardwareAddr) int { return bytes.Compare(a, b) })
	}
	return lists, nil
}

// AddHardwareAddr makes a link receive a secondary unicast or a multicast
// address, as `bridge fdb add MAC dev NAME self` does.
func (n *Net) AddHardwareAddr(name string, mac net.HardwareAddr) error {
	return n.with("add "+mac.String()+" to", name, func(l netlink.Link) error {
		return n.h.NeighAdd(&netlink.Neigh{LinkIndex: l.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
			State: netlink.NUD_PERMANENT, HardwareAddr: mac})
	})
}

// AddNeighbor tells a link where to find an address, for good.
func (n *Net) AddNeighbor(name string, ip netip.Addr, mac net.HardwareAddr) error {
	return n.with("add a neighbor to", name, func(l netlink.Link) error {
		return n.h.NeighAdd(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip.AsSlice(),
			HardwareAddr: mac})
	})
}

// The values of IFLA_LINKMODE, and those of IFLA_OPERSTATE that user space may
// set (Documentation/networking/operstates.rst).
const (
	linkModeDefault = 0
	linkModeDormant = 1
	operDormant     = 5
	operUp          = 6
)

// SetDormant makes a link with a carrier dormant, so that it counts as not yet
// usable, or ends that.
func (n *Net) SetDormant(name string, dormant bool) error {
	mode, state := byte(linkModeDefault), byte(operUp)
	if dormant {
		mode, state = linkModeDormant, operDormant
	}
	return n.with("set the state of", name, func(l netlink.Link) error {
		msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
		msg.Index = int32(l.Attrs().Index)
		req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
		req.AddData(msg)
		req.AddData(nl.NewRtAttr(unix.IFLA_LINKMODE, []byte{mode}))
		req.AddData(nl.NewRtAttr(unix.IFLA_OPERSTATE, []byte{state}))
		return n.ns.Do(func() error {
			_, err := req.Execute(unix.NETLINK_ROUTE, 0)
			return err
		})
	})
}

// Operstate is a link's operational state as RFC 2863 names it: up, down,
// dormant, lower-layer-down, unknown.
func (n *Net) Operstate(name string) (string, error) {
	return look(n, name, func(a *netlink.LinkAttrs) string { return a.OperState.String() })
}

// SetLearning says whether a bridge learns addresses from its port name.
func (n *Net) SetLearning(name string, on bool) error {
	return n.with("set learning of", name, func(l netlink.Link) error { return n.h.LinkSetLearning(l, on) })
}

// Ports lists the ports of a bridge.
func (n *Net) Ports(bridge string) (names []string, err error) {
	err = n.with("look at", bridge, func(br netlink.Link) error {
		links, err := n.linkList()
		for _, l := range links {
			if l.Attrs().MasterIndex == br.Attrs().Index {
				names = append(names, l.Attrs().Name)
			}
		}
		return err
	})
	return names, err
}

// SetAlias gives a link a text for people, which Alias returns.
func (n *Net) SetAlias(name, text string) error {
	return n.with("name", name, func(l netlink.Link) error { return n.h.LinkSetAlias(l, text) })
}

// Alias is a link's text for people.
func (n *Net) Alias(name string) (string, error) {
	return look(n, name, func(a *netlink.LinkAttrs) string { return a.Alias })
}

// Leave takes a link out of its bridge.
func (n *Net) Leave(name string) error { return n.with("detach", name, n.h.LinkSetNoMaster) }
