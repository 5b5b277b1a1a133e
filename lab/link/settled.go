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
		addrs, err := n.h.AddrList(l, netlink.FAMILY_ALL)
		for _, a := range addrs {
			ip, ok := netip.AddrFromSlice(a.IP)
			if !ok || a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0 {
				continue
			}
			ones, _ := a.Mask.Size()
			list = append(list, netip.PrefixFrom(ip.Unmap(), ones))
		}
		return err
	})
	return list, err
}

// FollowAddrs calls change, from a goroutine of its own, after each change of
// any address of the namespace. stop ends that and waits for the goroutine.
func (n *Net) FollowAddrs(change func()) (stop func(), err error) {
	updates, done := make(chan netlink.AddrUpdate), make(chan struct{})
	var options netlink.AddrSubscribeOptions
	if !n.ns.IsCurrent() {
		at := netns.NsHandle(n.ns.Fd())
		options.Namespace = &at
	}
	if err := netlink.AddrSubscribeWithOptions(updates, done, options); err != nil {
		return nil, wrap("follow", "addresses", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range updates {
			change()
		}
	}()
	return func() { close(done); <-ended }, nil
}
