package netview

import (
	"bytes"
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
)

// Stamping is what a netdev can stamp, and by which clock.
type Stamping struct {
	Clock                 uint32 // N of /dev/ptpN
	Flags, Types, Filters uint32 // bits of SOF_TIMESTAMPING, HWTSTAMP_TX and HWTSTAMP_FILTER
}

// Stamps shows the time stamping of netdevs, by name, to ethtool(8).
func Stamps(p *netlink.Proxy, of map[string]Stamping) {
	p.RegisterFamily(unix.ETHTOOL_GENL_NAME, func(q *netlink.Request) ([]netlink.Message, error) {
		name, err := namedNetdev(q.Body[unix.GENL_HDRLEN:])
		s, ok := of[name]
		switch {
		case err != nil:
			return nil, err
		case ok && !q.Dump():
			return []netlink.Message{s.message(q.Type, name)}, nil
		}
		return q.Kernel()
	}, unix.ETHTOOL_MSG_TSINFO_GET)
}

// namedNetdev is the netdev that a request names in its header attribute, empty if it
// names none.
func namedNetdev(b []byte) (string, error) {
	attrs, err := netlink.ParseAttributes(b)
	if err != nil {
		return "", err
	}
	header, err := netlink.ParseAttributes(attrs[unix.ETHTOOL_A_TSINFO_HEADER])
	if err != nil {
		return "", err
	}
	if n := header[unix.ETHTOOL_A_HEADER_DEV_INDEX]; len(n) == 4 {
		if netdev, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(n))); err == nil {
			return netdev.Name, nil
		}
	}
	return string(bytes.TrimRight(header[unix.ETHTOOL_A_HEADER_DEV_NAME], "\x00")), nil
}

// message is an ETHTOOL_MSG_TSINFO_GET_REPLY.
func (s *Stamping) message(family uint16, name string) netlink.Message {
	var a netlink.Attributes
	a.Nest(unix.NLA_F_NESTED|unix.ETHTOOL_A_TSINFO_HEADER, func(a *netlink.Attributes) {
		if netdev, err := net.InterfaceByName(name); err == nil {
			a.Uint32(unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(netdev.Index))
		}
		a.String(unix.ETHTOOL_A_HEADER_DEV_NAME, name)
	})
	for attr, bits := range map[uint16]uint32{unix.ETHTOOL_A_TSINFO_TIMESTAMPING: s.Flags,
		unix.ETHTOOL_A_TSINFO_TX_TYPES: s.Types, unix.ETHTOOL_A_TSINFO_RX_FILTERS: s.Filters} {
		a.Nest(unix.NLA_F_NESTED|attr, func(a *netlink.Attributes) { // a bit set in compact form
			a.Put(unix.ETHTOOL_A_BITSET_NOMASK, nil)
			a.Uint32(unix.ETHTOOL_A_BITSET_SIZE, 16)
			a.Uint32(unix.ETHTOOL_A_BITSET_VALUE, bits)
		})
	}
	a.Uint32(unix.ETHTOOL_A_TSINFO_PHC_INDEX, s.Clock)
	return netlink.Message{Type: family, Body: append([]byte{unix.ETHTOOL_MSG_TSINFO_GET_REPLY, 1, 0, 0}, a...)}
}
