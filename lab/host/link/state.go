package link

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tapir/nic/tap"
)

// Info describes a link.
type Info struct {
	Name   string
	Kind   string // tuntap, bridge, veth, device, ...
	MTU    int    // octets
	Up     bool   // someone brought it up
	Live   bool   // up, and frames can pass
	Bridge bool   // it is a port of a bridge or of another link
	Addrs  []netip.Prefix
}

// Get describes the link called name.
func (n *Net) Get(name string) (i Info, err error) {
	err = n.with("look at", name, func(l netlink.Link) error {
		i, err = n.describe(l)
		return err
	})
	return i, err
}

// All describes every link of the namespace, in the kernel's order.
func (n *Net) All() ([]Info, error) {
	links, err := n.linkList()
	if err != nil {
		return nil, wrap("list", "links", err)
	}
	var all []Info
	for _, l := range links {
		i, err := n.describe(l)
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

func (n *Net) describe(l netlink.Link) (Info, error) {
	a := l.Attrs()
	i := Info{Name: a.Name, Kind: l.Type(), MTU: a.MTU, Bridge: a.MasterIndex != 0, Live: live(l),
		Up: a.Flags&net.FlagUp != 0}
	addrs, err := n.addrList(l)
	if err != nil {
		return i, wrap("list addresses of", a.Name, err)
	}
	for _, a := range addrs {
		i.Addrs = append(i.Addrs, prefixOf(a))
	}
	return i, nil
}

// prefixOf is an address as the rest of this program has it.
func prefixOf(a netlink.Addr) netip.Prefix {
	ones, _ := a.Mask.Size()
	ip, _ := netip.AddrFromSlice(a.IP) // the kernel's are of 4 or 16 octets
	return netip.PrefixFrom(ip.Unmap(), ones)
}

func live(l netlink.Link) bool { return l.Attrs().RawFlags&unix.IFF_RUNNING != 0 }

// AddRoute routes dst through a link, by way of via unless that is zero.
func (n *Net) AddRoute(name string, dst netip.Prefix, via netip.Addr) error {
	return n.with("route "+dst.String()+" through", name, func(l netlink.Link) error {
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(dst)}
		if via.IsValid() {
			r.Gw = via.AsSlice()
		}
		return n.h.RouteAdd(r)
	})
}

// OpenTAP opens a TAP queue in the namespace.
func (n *Net) OpenTAP(cfg tap.Config) (t *tap.TAP, err error) {
	err = n.ns.Do(func() error {
		t, err = tap.Open(cfg)
		return err
	})
	return t, err
}

// AddQueue opens one more queue of a TAP in the namespace.
func (n *Net) AddQueue(t *tap.TAP) (q *tap.TAP, err error) {
	err = n.ns.Do(func() error {
		q, err = t.AddQueue()
		return err
	})
	return q, err
}

// EphemeralPorts is the range of TCP ports, both included, that the kernel of
// this namespace gives out itself.
func (n *Net) EphemeralPorts() (low, high uint16, err error) {
	err = n.ns.Do(func() error {
		b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(strings.TrimSpace(string(b)), &low, &high)
		return err
	})
	return low, high, err
}

// Watch calls change, from a goroutine of its own, with whether the link is
// alive (brought up, with a carrier), and again each time that changes, and when the
// link is removed. The link
// may be renamed: renamed, unless nil, is told. stop ends the watch and waits for
// its goroutine.
func (n *Net) Watch(name string, change func(live bool), renamed func(name string)) (stop func(), err error) {
	existing, err := n.Get(name)
	if err != nil {
		return nil, err
	}
	d, err := n.Netdev(name)
	if err != nil {
		return nil, err
	}
	was, called := existing.Live, name
	is := func(now bool) {
		if now != was {
			change(now)
		}
		was = now
	}
	call := func(name string) {
		if name != called && renamed != nil {
			renamed(name)
		}
		called = name
	}
	look := func() {
		now, err := n.NetdevAt(d.Index)
		if err != nil {
			is(false)
			return
		}
		call(now.Name)
		state, err := n.Get(called)
		is(err == nil && state.Live)
	}
	f := follower[netlink.LinkUpdate]{open: openLinks, missed: look}
	f.begin = func() { change(was); look() }
	f.change = func(u netlink.LinkUpdate) {
		if u.Attrs().Index == d.Index {
			call(u.Attrs().Name)
			gone := u.Header.Type == unix.RTM_DELLINK
			was = was || gone
			is(live(u.Link) && !gone)
		}
	}
	stop, err = f.follow(n)
	return stop, wrap("watch", name, err)
}
