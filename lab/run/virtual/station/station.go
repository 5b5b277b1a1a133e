// Package station is the operating system's side of a host in virtual time: it
// answers ARP, neighbor discovery and echo requests on its interfaces, and runs
// ping. It is a pure state machine: Receive and Poll are all that happens.
//
// Packets are not fragmented, nor are fragments put together; there are no
// routers.
package station

import (
	"net/netip"
	"slices"

	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// Host is a host. It belongs to one goroutine.
type Host struct {
	pool   frame.Pool
	ifaces []*Iface
	pings  []*Ping // that run
	pingID uint16
	own    [][]byte // packets to the host itself
	drops  frame.Drops
}

// Config is what an interface has.
type Config struct {
	MAC   ether.Addr
	Addrs []netip.Prefix
	MTU   int // octets of IP
}

// Iface is an interface of a host.
type Iface struct {
	Config
	host      *Host
	link      frame.Link
	neighbors map[netip.Addr]*neighbor
	asked     []*neighbor // that have not answered, in the order in which they were asked
	toSend    frame.Queue
	ipID      uint16
}

// New returns a host without interfaces, whose frames are of pool.
func New(pool frame.Pool) *Host { return &Host{pool: pool} }

// Add gives the host an interface that sends on link whenever that takes frames.
func (h *Host) Add(c Config, link frame.Link) *Iface {
	i := &Iface{Config: c, host: h, link: link, neighbors: map[netip.Addr]*neighbor{}}
	h.ifaces = append(h.ifaces, i)
	return i
}

// Remove takes an interface away, with what waits in it.
func (h *Host) Remove(i *Iface) {
	h.drops[drop.Link] += uint64(i.toSend.Discard())
	h.ifaces = slices.DeleteFunc(h.ifaces, func(x *Iface) bool { return x == i })
}

// Drops are the packets that came to nothing, by reason.
func (h *Host) Drops() frame.Drops { return h.drops }

// Groups are the multicast addresses that the interface receives.
func (i *Iface) Groups() []ether.Addr {
	list := []ether.Addr{{0x01, 0x00, 0x5e, 0, 0, 1}}
	for _, p := range i.Addrs {
		if a := p.Addr(); a.Is6() {
			list = append(list, icmp.MulticastMAC(icmp.SolicitedNode(a)))
		}
	}
	slices.SortFunc(list, func(a, b ether.Addr) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(list)
}

// has tells whether the address is the interface's.
func (i *Iface) has(a netip.Addr) bool {
	return slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == a })
}

// route is the interface by which the host reaches an address, and the source
// of what it sends there: of the longest prefix that covers it.
func (h *Host) route(to netip.Addr) (out *Iface, from netip.Addr) {
	longest := -1
	for _, i := range h.ifaces {
		for _, p := range i.Addrs {
			if p.Contains(to) && p.Bits() > longest {
				out, from, longest = i, p.Addr(), p.Bits()
			}
		}
	}
	return out, from
}

// mine tells whether the address is the host's.
func (h *Host) mine(a netip.Addr) bool {
	return slices.ContainsFunc(h.ifaces, func(i *Iface) bool { return i.has(a) })
}

// Receive takes frames that came in on the interface.
func (i *Iface) Receive(frames []*frame.Frame, now frame.Time) {
	for _, f := range frames {
		if why := i.receive(f.Bytes(), now); why != frame.DropNone {
			i.host.drops.Count(why)
		}
		f.Release()
	}
}

func (i *Iface) receive(b []byte, now frame.Time) frame.DropReason {
	h, n, err := ether.Parse(b)
	switch {
	case err != nil:
		return drop.Truncated
	case h.NTags > 0:
		return drop.WrongVLAN
	case h.Dst != i.MAC && !h.Dst.IsMulticast():
		return drop.NotOurMAC
	}
	switch h.Type {
	case ether.TypeARP:
		return i.receiveARP(b[n:], now)
	case ether.TypeIPv4, ether.TypeIPv6:
		return i.receiveIP(b[n:], now)
	}
	return drop.EtherType
}

// receiveARP follows RFC 826: who asks is known from now on.
func (i *Iface) receiveARP(b []byte, now frame.Time) frame.DropReason {
	p, err := arp.Parse(b)
	switch {
	case err != nil:
		return drop.Malformed
	case !i.has(p.TargetIP):
		return drop.NotOurIP
	case p.SenderIP.IsUnspecified() || p.SenderMAC.IsMulticast():
		return drop.Source
	}
	i.learn(p.SenderIP, p.SenderMAC)
	if p.Op == arp.Request {
		i.sendTo(p.SenderMAC, ether.TypeARP, arp.Packet{Op: arp.Reply, SenderMAC: i.MAC, SenderIP: p.TargetIP,
			TargetMAC: p.SenderMAC, TargetIP: p.SenderIP}.AppendTo(nil))
	}
	return frame.DropNone
}

func (i *Iface) receiveIP(b []byte, now frame.Time) frame.DropReason {
	h, body, err := ip.Parse(b)
	switch {
	case err == ip.ErrChecksum:
		return drop.IPChecksum
	case err != nil:
		return drop.Malformed
	case h.IsFragment():
		return drop.Fragment
	case !i.has(h.Dst) && !h.Dst.IsMulticast():
		return drop.NotOurIP
	}
	return i.host.receiveICMP(i, &h, body, now)
}

// receiveICMP takes a packet for the host; i is nil if it never left it.
func (h *Host) receiveICMP(i *Iface, from *ip.Header, b []byte, now frame.Time) frame.DropReason {
	m, err := icmp.Parse(b)
	switch {
	case from.Proto != ip.ProtoICMP && from.Proto != ip.ProtoICMPv6:
		return drop.IPProtocol
	case err != nil:
		return drop.Truncated
	case from.Version == 4 && !icmp.Verify4(b), from.Version == 6 && !icmp.Verify6(from.Src, from.Dst, b):
		return drop.L4Checksum
	}
	echo, reply := echoTypes(from.Version)
	switch {
	case m.Type == echo && !from.Dst.IsMulticast():
		h.send(from.Dst, from.Src, from.TTL, icmp.Echo(reply, m.EchoID(), m.EchoSeq(), m.Body), now)
	case m.Type == reply:
		return h.replied(from, &m, now)
	case from.Version == 6 && i != nil && (m.Type == icmp.NeighborSolicitation || m.Type == icmp.NeighborAdvertisement):
		return i.receiveND(from, &m, now)
	default:
		return drop.Unused
	}
	return frame.DropNone
}

// echoTypes are those of echo requests and replies of an IP version.
func echoTypes(version uint8) (echo, reply uint8) {
	if version == 4 {
		return icmp.Echo4, icmp.EchoReply4
	}
	return icmp.Echo6, icmp.EchoReply6
}

// receiveND takes in a message of RFC 4861.
func (i *Iface) receiveND(from *ip.Header, m *icmp.Message, now frame.Time) frame.DropReason {
	n, err := m.Neighbor()
	switch {
	case err != nil || from.TTL != icmp.NDHopLimit:
		return drop.Malformed
	case m.Type == icmp.NeighborAdvertisement:
		if _, asked := i.neighbors[n.Target]; asked && !n.Options.TargetMAC.IsZero() {
			i.learn(n.Target, n.Options.TargetMAC)
		}
		return frame.DropNone
	case !i.has(n.Target):
		return drop.NotOurIP
	case from.Src.IsUnspecified() || n.Options.SourceMAC.IsZero():
		return drop.Unused // somebody looks whether an address is free
	}
	i.learn(from.Src, n.Options.SourceMAC)
	answer := icmp.Neighbor{Target: n.Target, Solicited: true, Override: true, Options: icmp.Options{TargetMAC: i.MAC}}
	i.host.send(n.Target, from.Src, icmp.NDHopLimit, answer.Message(icmp.NeighborAdvertisement, nil), now)
	return frame.DropNone
}
