package link

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Settled lists a link's addresses that may be used: not those that duplicate
// address detection still tries or has found to be another station's.
func (n *Net) Settled(name string) (list []netip.Prefix, err error) {
	err = n.with("look at", name, func(l netlink.Link) error {
		addrs, err := n.addrList(l)
		for _, a := range addrs {
			if a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0 || a.Flags&unix.IFA_F_OPTIMISTIC != 0 {
				list = append(list, prefixOf(a))
			}
		}
		return err
	})
	return list, err
}

// FollowAddrs calls change, from a goroutine of its own, after each change of
// any address of the namespace. stop ends that and waits for the goroutine.
func (n *Net) FollowAddrs(change func()) (stop func(), err error) {
	f := follower[netlink.AddrUpdate]{change: func(netlink.AddrUpdate) { change() }, missed: change}
	f.open = func(updates chan<- netlink.AddrUpdate, done <-chan struct{}, at *netns.NsHandle) error {
		return netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{Namespace: at})
	}
	stop, err = f.follow(n)
	return stop, wrap("follow", "addresses", err)
}
