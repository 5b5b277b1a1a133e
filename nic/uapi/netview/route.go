package netview

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
)

// Metrics of the kernel's own routes for IPv6: of a link's network, and of a gateway.
const (
	metricLink    = 256
	metricGateway = 1024
)

// routes adds those of the NICs; a question for one destination is answered if it is
// in a network of a NIC's, or the kernel knows no way and a NIC has a gateway.
func (s *server) routes(q *netlink.Request) ([]netlink.Message, error) {
	if !q.Dump() {
		return s.route(q)
	}
	list, err := q.Kernel()
	if err != nil {
		return nil, err
	}
	if len(q.Body) >= unix.SizeofRtMsg && q.Body[4] != unix.RT_TABLE_UNSPEC && q.Body[4] != unix.RT_TABLE_MAIN {
		return list, nil
	}
	for _, v := range s.look() {
		for _, p := range v.addrs {
			if !wants(q, p.Addr()) {
				continue
			}
			list = append(list, v.way(p.Masked(), p.Addr(), netip.Addr{}))
			if p.Addr().IsLinkLocalUnicast() {
				continue
			}
			for _, hop := range v.hopsTo(p.Addr()) {
				if p.Contains(hop) {
					list = append(list, v.way(anywhere(hop), p.Addr(), hop))
				}
			}
		}
	}
	return list, nil
}

// anywhere is the network of all addresses of a family.
func anywhere(a netip.Addr) netip.Prefix {
	p, _ := a.Prefix(0) // valid
	return p
}

// route answers for one destination.
func (s *server) route(q *netlink.Request) ([]netlink.Message, error) {
	if len(q.Body) < unix.SizeofRtMsg {
		return q.Kernel()
	}
	attrs, err := netlink.ParseAttributes(q.Body[unix.SizeofRtMsg:])
	if err != nil {
		return nil, err
	}
	to, ok := netip.AddrFromSlice(attrs[unix.RTA_DST])
	if !ok {
		return q.Kernel()
	}
	views := s.look()
	for _, v := range views {
		for _, p := range v.addrs {
			if p.Contains(to) && to != p.Addr() && !to.IsLinkLocalUnicast() {
				return []netlink.Message{v.way(netip.PrefixFrom(to, to.BitLen()), p.Addr(), netip.Addr{})}, nil
			}
		}
	}
	list, err := q.Kernel()
	if err != unix.ENETUNREACH {
		return list, err
	}
	for _, v := range views {
		for _, p := range v.addrs {
			for _, hop := range v.hopsTo(to) {
				if p.Contains(hop) {
					return []netlink.Message{v.way(netip.PrefixFrom(to, to.BitLen()), p.Addr(), hop)}, nil
				}
			}
		}
	}
	return nil, err
}

// way is an RTM_NEWROUTE, over a gateway if hop is valid.
func (v *shown) way(to netip.Prefix, from, hop netip.Addr) netlink.Message {
	h := unix.RtMsg{Family: family(from), Dst_len: uint8(to.Bits()), Table: unix.RT_TABLE_MAIN,
		Protocol: unix.RTPROT_KERNEL, Scope: unix.RT_SCOPE_LINK, Type: unix.RTN_UNICAST}
	metric := uint32(metricLink)
	if hop.IsValid() {
		h.Protocol, h.Scope, metric = unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, metricGateway
	}
	var a netlink.Attributes
	a.Uint32(unix.RTA_TABLE, unix.RT_TABLE_MAIN)
	if to.Bits() > 0 {
		a.Put(unix.RTA_DST, to.Addr().AsSlice())
	}
	if hop.IsValid() {
		a.Put(unix.RTA_GATEWAY, hop.AsSlice())
	}
	a.Uint32(unix.RTA_OIF, uint32(v.index))
	if from.Is4() {
		a.Put(unix.RTA_PREFSRC, from.AsSlice())
	} else {
		h.Scope = unix.RT_SCOPE_UNIVERSE
		a.Uint32(unix.RTA_PRIORITY, metric)
	}
	return made(unix.RTM_NEWROUTE, &h, a)
}

// neighborMessage is struct ndmsg.
type neighborMessage struct {
	Family uint8
	_      [3]uint8
	Index  int32
	State  uint16
	Flags  uint8
	Type   uint8
}

const neighborMessageLen = 12

var neighborStates = map[string]uint16{"INCOMPLETE": unix.NUD_INCOMPLETE, "REACHABLE": unix.NUD_REACHABLE,
	"DELAY": unix.NUD_DELAY, "PROBE": unix.NUD_PROBE}

// neighbors adds those of the NICs.
func (s *server) neighbors(q *netlink.Request) ([]netlink.Message, error) {
	only := indexAt(q, 4, neighborMessageLen)
	if len(q.Body) > neighborMessageLen {
		if attrs, err := netlink.ParseAttributes(q.Body[neighborMessageLen:]); err == nil {
			if v := attrs[unix.NDA_IFINDEX]; len(v) == 4 {
				only = int32(binary.NativeEndian.Uint32(v))
			}
		}
	}
	list, err := ofKernel(q, only)
	if err != nil || !q.Dump() {
		return list, err
	}
	for _, v := range s.look() {
		if only != 0 && only != v.index {
			continue
		}
		for _, n := range v.Neighbors {
			if !wants(q, n.IP) {
				continue
			}
			h := neighborMessage{Family: family(n.IP), Index: v.index, State: neighborStates[n.State],
				Type: unix.RTN_UNICAST}
			var a netlink.Attributes
			a.Put(unix.NDA_DST, n.IP.AsSlice())
			if n.State != "INCOMPLETE" {
				a.Put(unix.NDA_LLADDR, n.MAC)
			}
			list = append(list, made(unix.RTM_NEWNEIGH, &h, a))
		}
	}
	return list, nil
}
