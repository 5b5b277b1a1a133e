package netview

import (
	"bytes"
	"net/netip"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
)

// arpEther is the type of Ethernet interfaces, ARPHRD_ETHER.
const arpEther = 1

// addresses adds the NICs' addresses.
func (s *server) addresses(q *netlink.Request) ([]netlink.Message, error) {
	only := indexAt(q, 4, unix.SizeofIfAddrmsg)
	list, err := ofKernel(q, only)
	if err != nil || !q.Dump() {
		return list, err
	}
	for _, v := range s.look() {
		if only != 0 && only != v.index {
			continue
		}
		for _, p := range v.addrs {
			if wants(q, p.Addr()) {
				list = append(list, v.address(p))
			}
		}
	}
	return list, nil
}

// address is an RTM_NEWADDR.
func (v *shown) address(p netip.Prefix) netlink.Message {
	h := unix.IfAddrmsg{Family: family(p.Addr()), Prefixlen: uint8(p.Bits()), Flags: unix.IFA_F_PERMANENT,
		Index: uint32(v.index)}
	switch {
	case p.Addr().IsLoopback():
		h.Scope = unix.RT_SCOPE_HOST
	case p.Addr().IsLinkLocalUnicast():
		h.Scope = unix.RT_SCOPE_LINK
	}
	var a netlink.Attributes
	a.Put(unix.IFA_ADDRESS, p.Addr().AsSlice())
	if p.Addr().Is4() {
		a.Put(unix.IFA_LOCAL, p.Addr().AsSlice())
		a.String(unix.IFA_LABEL, v.name)
	}
	a.Uint32(unix.IFA_FLAGS, unix.IFA_F_PERMANENT)
	return made(unix.RTM_NEWADDR, &h, a)
}

// links adds netdevs that have the addresses where there are none, as in a container
// beside the NIC: libraries look the one up by the other.
func (s *server) links(q *netlink.Request) ([]netlink.Message, error) {
	views := s.look()
	if !q.Dump() {
		var name []byte
		if len(q.Body) >= unix.SizeofIfInfomsg {
			attrs, err := netlink.ParseAttributes(q.Body[unix.SizeofIfInfomsg:])
			if err != nil {
				return nil, err
			}
			name = bytes.TrimRight(attrs[unix.IFLA_IFNAME], "\x00")
		}
		for _, v := range views {
			if v.missing && (indexAt(q, 4, unix.SizeofIfInfomsg) == v.index || string(name) == v.name) {
				return []netlink.Message{v.link()}, nil
			}
		}
		return q.Kernel()
	}
	list, err := q.Kernel()
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		if v.missing {
			list = append(list, v.link())
		}
	}
	return list, nil
}

// link is an RTM_NEWLINK.
func (v *shown) link() netlink.Message {
	h := unix.IfInfomsg{Type: arpEther, Index: v.index,
		Flags: unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_BROADCAST | unix.IFF_MULTICAST | unix.IFF_LOWER_UP}
	var a netlink.Attributes
	a.String(unix.IFLA_IFNAME, v.name)
	a.Uint32(unix.IFLA_MTU, v.MTU)
	a.Uint8(unix.IFLA_OPERSTATE, 6) // IF_OPER_UP
	a.Put(unix.IFLA_ADDRESS, v.MAC)
	a.Put(unix.IFLA_BROADCAST, bytes.Repeat([]byte{0xff}, len(v.MAC)))
	return made(unix.RTM_NEWLINK, &h, a)
}
