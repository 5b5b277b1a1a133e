package sriov

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
	"tapir/wire/ether"
)

// Bits of IFLA_EXT_MASK (linux/rtnetlink.h).
const (
	filterVF        = 1 << 0
	filterSkipStats = 1 << 3
)

var native = binary.NativeEndian

func (s *server) registerLinks(p *netlink.Proxy) {
	p.Register(unix.NETLINK_ROUTE, s.links, unix.RTM_GETLINK)
	p.Register(unix.NETLINK_ROUTE, s.change, unix.RTM_NEWLINK, unix.RTM_SETLINK)
}

// attributes are those of a message about a link. A wrong one is the kernel's to refuse.
func attributes(body []byte) map[uint16][]byte {
	if len(body) < unix.SizeofIfInfomsg {
		return nil
	}
	attrs, _ := netlink.ParseAttributes(body[unix.SizeofIfInfomsg:])
	return attrs
}

// about is the PF that a message about a link names, nil: it is about another link.
func (s *server) about(body []byte, attrs map[uint16][]byte) *PF {
	if len(body) < unix.SizeofIfInfomsg {
		return nil
	}
	name := attrs[unix.IFLA_IFNAME]
	if name == nil {
		name = attrs[unix.IFLA_ALT_IFNAME]
	}
	return s.pf(int32(native.Uint32(body[4:])), unix.ByteSliceToString(name))
}

// links adds the VFs to the links that are PFs.
func (s *server) links(q *netlink.Request) ([]netlink.Message, error) {
	list, err := q.Kernel()
	mask := attributes(q.Body)[unix.IFLA_EXT_MASK]
	if err != nil || len(mask) != 4 {
		return list, err
	}
	filter := native.Uint32(mask)
	for i := range list {
		attrs := attributes(list[i].Body)
		p := s.about(list[i].Body, attrs)
		if p == nil || list[i].Type != unix.RTM_NEWLINK {
			continue
		}
		a := netlink.Attributes(slices.Clone(list[i].Body))
		a.String(unix.IFLA_PARENT_DEV_NAME, p.address(0))
		a.String(unix.IFLA_PARENT_DEV_BUS_NAME, bus)
		if filter&filterVF != 0 {
			if err := p.list(&a, filter&filterSkipStats == 0); err != nil {
				continue // the NIC does not answer: the link is there without
			}
		}
		list[i].Body = a
	}
	return list, nil
}

// list adds the VFs of a PF to its link, as rtnl_fill_vf does.
func (p *PF) list(a *netlink.Attributes, statistics bool) error {
	vfs, err := p.VFs()
	if err != nil {
		return err
	}
	var stats []Stats
	if statistics {
		if stats, err = p.Stats(); err != nil {
			return err
		}
	}
	a.Uint32(unix.IFLA_NUM_VF, uint32(len(vfs)))
	a.Nest(unix.IFLA_VFINFO_LIST, func(a *netlink.Attributes) {
		for i := range vfs {
			a.Nest(unix.IFLA_VF_INFO, func(a *netlink.Attributes) {
				vfs[i].put(a)
				if i < len(stats) {
					a.Nest(unix.IFLA_VF_STATS, stats[i].put)
				}
			})
		}
	})
	return nil
}

// States of a link in the order of their numbers (IFLA_VF_LINK_STATE).
var linkStates = []string{"auto", "enable", "disable"}

// put appends a VF as rtnl_fill_vfinfo does.
func (v *VF) put(a *netlink.Attributes) {
	add := func(kind uint16, words ...uint32) {
		b := native.AppendUint32(nil, uint32(v.VF))
		for _, w := range words {
			b = native.AppendUint32(b, w)
		}
		a.Put(kind, b)
	}
	flag := func(kind uint16, on bool) {
		if on {
			add(kind, 1)
		} else {
			add(kind, 0)
		}
	}
	mac := native.AppendUint32(nil, uint32(v.VF))
	mac = append(mac, v.MAC[:]...)
	a.Put(unix.IFLA_VF_MAC, append(mac, make([]byte, macRoom-len(v.MAC))...))
	a.Put(unix.IFLA_VF_BROADCAST, append(bytes.Repeat([]byte{0xff}, len(v.MAC)), make([]byte, macRoom-len(v.MAC))...))
	add(unix.IFLA_VF_VLAN, v.VLAN, v.QoS)
	add(unix.IFLA_VF_RATE, v.MinTxRate, v.MaxTxRate)
	add(unix.IFLA_VF_TX_RATE, v.MaxTxRate)
	flag(unix.IFLA_VF_SPOOFCHK, v.SpoofChk)
	add(unix.IFLA_VF_LINK_STATE, uint32(max(0, slices.Index(linkStates, v.State))))
	flag(unix.IFLA_VF_RSS_QUERY_EN, v.QueryRSS)
	flag(unix.IFLA_VF_TRUST, v.Trust)
	a.Nest(unix.IFLA_VF_VLAN_LIST, func(a *netlink.Attributes) {
		b := native.AppendUint32(nil, uint32(v.VF))
		b = native.AppendUint32(b, v.VLAN)
		b = native.AppendUint32(b, v.QoS)
		b = binary.BigEndian.AppendUint16(b, ether.TypeVLAN)
		a.Put(unix.IFLA_VF_VLAN_INFO, append(b, 0, 0))
	})
}

// macRoom is that of an address in struct ifla_vf_mac.
const macRoom = 32

// put appends the counters.
func (s *Stats) put(a *netlink.Attributes) {
	for kind, n := range map[uint16]uint64{unix.IFLA_VF_STATS_RX_PACKETS: s.RxPackets,
		unix.IFLA_VF_STATS_TX_PACKETS: s.TxPackets, unix.IFLA_VF_STATS_RX_BYTES: s.RxBytes,
		unix.IFLA_VF_STATS_TX_BYTES: s.TxBytes, unix.IFLA_VF_STATS_BROADCAST: s.Broadcast,
		unix.IFLA_VF_STATS_MULTICAST: s.Multicast, unix.IFLA_VF_STATS_RX_DROPPED: s.RxDropped,
		unix.IFLA_VF_STATS_TX_DROPPED: s.TxDropped} {
		a.Uint64(kind, n)
	}
}

// change takes what is to change of VFs, after the kernel's part of the request.
func (s *server) change(q *netlink.Request) ([]netlink.Message, error) {
	if !q.Admin {
		return nil, unix.EPERM
	}
	attrs := attributes(q.Body)
	p := s.about(q.Body, attrs)
	wanted, ok := attrs[unix.IFLA_VFINFO_LIST]
	if p == nil || !ok {
		return q.Kernel()
	}
	const header = unix.SizeofIfInfomsg
	q.Body = append(bytes.Clone(q.Body[:header]),
		netlink.Attributes(q.Body[header:]).Without(unix.IFLA_VFINFO_LIST)...)
	list, err := q.Kernel()
	for _, info := range netlink.Attributes(wanted).All() {
		if err != nil {
			break
		}
		err = p.change(info)
	}
	return list, err
}

// setters are the changes of a VF, in the order in which do_setvfinfo makes them. Each has
// the words behind the number of the VF, at least so many, and returns those of ip link.
var setters = []struct {
	kind  uint16
	words int
	set   func(w []uint32, b []byte) ([]string, error)
}{
	{unix.IFLA_VF_MAC, 8, func(_ []uint32, b []byte) ([]string, error) {
		return []string{"mac", ether.Addr(b[:6]).String()}, nil
	}},
	{unix.IFLA_VF_VLAN, 2, func(w []uint32, _ []byte) ([]string, error) { return tag(w, "802.1q"), nil }},
	{unix.IFLA_VF_VLAN_LIST, 0, nil}, // see change
	{unix.IFLA_VF_TX_RATE, 1, func(w []uint32, _ []byte) ([]string, error) { return []string{"rate", num(w[0])}, nil }},
	{unix.IFLA_VF_RATE, 2, func(w []uint32, _ []byte) ([]string, error) {
		return []string{"min_tx_rate", num(w[0]), "max_tx_rate", num(w[1])}, nil
	}},
	{unix.IFLA_VF_SPOOFCHK, 1, onOff("spoofchk")},
	{unix.IFLA_VF_LINK_STATE, 1, func(w []uint32, _ []byte) ([]string, error) {
		if int(w[0]) >= len(linkStates) {
			return nil, unix.EINVAL
		}
		return []string{"state", linkStates[w[0]]}, nil
	}},
	{unix.IFLA_VF_RSS_QUERY_EN, 1, onOff("query_rss")},
	{unix.IFLA_VF_TRUST, 1, onOff("trust")},
}

func num(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func tag(w []uint32, proto string) []string {
	return []string{"vlan", num(w[0]), "qos", num(w[1]), "proto", proto}
}

func onOff(name string) func([]uint32, []byte) ([]string, error) {
	return func(w []uint32, _ []byte) ([]string, error) {
		if w[0] != 0 {
			return []string{name, "on"}, nil
		}
		return []string{name, "off"}, nil
	}
}

// change makes the changes of one IFLA_VF_INFO. What went before one that is refused stays.
func (p *PF) change(info []byte) error {
	attrs, err := netlink.ParseAttributes(info)
	if err != nil {
		return err
	}
	done := false
	for _, s := range setters {
		b, ok := attrs[s.kind]
		switch {
		case !ok:
			continue
		case s.kind == unix.IFLA_VF_VLAN_LIST:
			err = p.setTags(b)
		default:
			err = p.set(b, s.words, s.set)
		}
		if err != nil {
			return err
		}
		done = true
	}
	if !done { // GUIDs are of InfiniBand
		return unix.EOPNOTSUPP
	}
	return nil
}

// set makes one change.
func (p *PF) set(b []byte, words int, say func([]uint32, []byte) ([]string, error)) error {
	if len(b) < 4*(1+words) {
		return unix.EINVAL
	}
	vf := native.Uint32(b)
	if vf >= math.MaxInt32 {
		return unix.EINVAL
	}
	w := make([]uint32, words)
	for i := range w {
		w[i] = native.Uint32(b[4*(1+i):])
	}
	said, err := say(w, b[4:])
	if err != nil {
		return err
	}
	return p.Set(int(vf), said...)
}

// setTags sets the VLAN of an IFLA_VF_VLAN_LIST, which has one.
func (p *PF) setTags(list []byte) error {
	var one []byte
	for _, b := range netlink.Attributes(list).All() {
		if one != nil {
			return unix.EOPNOTSUPP // more than MAX_VLAN_LIST_LEN
		}
		one = b
	}
	return p.set(one, 3, func(w []uint32, b []byte) ([]string, error) {
		switch binary.BigEndian.Uint16(b[8:]) {
		case ether.TypeVLAN:
			return tag(w, "802.1q"), nil
		case ether.TypeQinQ:
			return tag(w, "802.1ad"), nil
		}
		return nil, unix.EPROTONOSUPPORT
	})
}
