// Package netview shows programs under a supervisor (nic/uapi/trap) the addresses of
// NICs as those of netdevs, with the routes and neighbors that belong to them, where
// the kernel does not know them: what getaddrinfo(3) with AI_ADDRCONFIG, getifaddrs(3)
// and libraries over netlink look at before they use a NIC. They are added to the
// kernel's own answers (rtnetlink(7)):
//
//	RTM_GETADDR    addresses                                address.go
//	RTM_GETLINK    the netdev, where the program has none   address.go
//	RTM_GETROUTE   networks of the link, gateways           route.go
//	RTM_GETNEIGH   stations of the link                     route.go
//	ethtool        TSINFO_GET: time stamping                stamps.go
//
// It is a view: the kernel's own sockets cannot use these addresses.
package netview

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
)

// NIC is one whose addresses are shown.
type NIC struct {
	Netdev string // that has them
	// Network asks for what changes. Error: an errno.
	Network func() (Network, error)
}

// Network is how a NIC is connected.
type Network struct {
	MAC       net.HardwareAddr
	MTU       uint32 // octets of IP
	Addrs     []netip.Prefix
	Gateways  []netip.Addr
	Neighbors []Neighbor
}

// Neighbor is a station of the link.
type Neighbor struct {
	IP    netip.Addr
	MAC   net.HardwareAddr
	State string // as ip-neighbour(8) has it
}

// firstIndex is the first of interface indexes that no kernel gives.
const firstIndex = 1 << 30

// server answers for its NICs.
type server struct{ nics []NIC }

// Register has p show these NICs.
func Register(p *netlink.Proxy, nics ...NIC) {
	s := &server{nics}
	for kind, serve := range map[uint16]netlink.Service{unix.RTM_GETADDR: s.addresses, unix.RTM_GETLINK: s.links,
		unix.RTM_GETROUTE: s.routes, unix.RTM_GETNEIGH: s.neighbors} {
		p.Register(unix.NETLINK_ROUTE, serve, kind)
	}
}

// shown is what of a NIC the kernel does not show by itself.
type shown struct {
	Network
	name    string
	index   int32
	missing bool // there is no such netdev
	addrs   []netip.Prefix
}

// look finds out what the kernel does not show.
func (s *server) look() (list []shown) {
	known := map[netip.Addr]bool{}
	of, _ := net.InterfaceAddrs() // none where it fails
	for _, a := range of {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			known[p.Addr()] = true
		}
	}
	for i, nic := range s.nics {
		n, err := nic.Network()
		if err != nil {
			continue // it is gone, and so are its addresses
		}
		v := shown{Network: n, name: nic.Netdev, index: int32(firstIndex + i), missing: true}
		if netdev, err := net.InterfaceByName(nic.Netdev); err == nil {
			v.index, v.missing = int32(netdev.Index), false
		}
		for _, p := range n.Addrs {
			if !known[p.Addr()] {
				v.addrs = append(v.addrs, p)
				known[p.Addr()] = true
			}
		}
		if len(v.addrs) > 0 {
			list = append(list, v)
		}
	}
	return list
}

// family is the number of an address's.
func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// wants tells whether a list of one family, 0 for all, has addresses of a's.
func wants(q *netlink.Request, a netip.Addr) bool {
	return len(q.Body) == 0 || q.Body[0] == unix.AF_UNSPEC || q.Body[0] == family(a)
}

// indexAt is the interface that a list is limited to, 0 for all: the word at an offset
// of a complete header.
func indexAt(q *netlink.Request, at, headerLen int) int32 {
	if len(q.Body) < headerLen {
		return 0
	}
	return int32(binary.NativeEndian.Uint32(q.Body[at:]))
}

// ofKernel is what the kernel lists of an interface, 0 for all: nothing of one that it
// has not.
func ofKernel(q *netlink.Request, index int32) ([]netlink.Message, error) {
	if index >= firstIndex {
		return nil, nil
	}
	return q.Kernel()
}

// made is a message of a header and attributes.
func made(kind uint16, header any, attrs netlink.Attributes) netlink.Message {
	b, _ := binary.Append(nil, binary.NativeEndian, header) // it is of fixed size
	return netlink.Message{Type: kind, Body: append(b, attrs...)}
}

// hopsTo are the gateways of an address's family.
func (v *shown) hopsTo(a netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(v.Gateways), func(g netip.Addr) bool { return g.Is4() != a.Is4() })
}
