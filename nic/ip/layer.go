// Package ip is the internet layer of a NIC: addresses, neighbors, routes,
// ICMP, fragments and multicast groups, over one wire port. Protocols above it,
// such as TCP, register with Layer.Register; it knows none of them.
//
// receive.go holds the way in, transmit.go the way out, in packet order.
package ip

import (
	"net/netip"
	"slices"

	"tapir/nic/port"
	"tapir/nic/secret"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
)

// Env is what a Layer needs.
type Env struct {
	Wire *port.Port
	Pool frame.Pool
	// IDs are random packet identifiers: IPv4 begins with one, each fragmented IPv6
	// packet takes one (RFC 7739).
	IDs secret.Source
	// Host takes a frame that is the operating system's, which shares the
	// addresses; nil: they are the NIC's alone.
	Host func(f *frame.Frame, now frame.Time)
	// Enqueue has r run by the NIC's next Dispatch.
	Enqueue func(r Runner)
}

// Runner is queued for the next Dispatch.
type Runner interface{ Run(now frame.Time) }

// Handler is a protocol above Ethernet or IP.
type Handler interface {
	// Receive borrows p. Unmatched leaves it to the layer.
	Receive(p *Packet) Verdict
}

// Transport is a protocol above IP with ports at the start of its header, which
// wants to hear of packets that cannot be delivered.
type Transport interface {
	Handler
	// Owns tells whether packets between the two ends are the transport's.
	Owns(local, remote netip.AddrPort) bool
	// Unreachable reports an ICMP error about a packet of the transport's.
	Unreachable(n *Notice)
	// Lost reports that a packet of the transport's with the payload given,
	// which is borrowed, cannot leave. It may be called inside of Send.
	Lost(local, remote netip.AddrPort, payload []byte)
}

// Notice is an ICMP error about a packet that was sent from Local to Remote.
type Notice struct {
	Local, Remote netip.AddrPort
	Payload       []byte // at least its first 8 octets, borrowed
	Hard          bool   // the way is not only closed for a while
	MTU           int    // of the path; 0: the error is not about that
	Now           frame.Time
}

// protocol is one that has registered.
type protocol struct {
	number    uint16 // EtherType, or IP protocol
	handler   Handler
	transport Transport // nil: only a Handler
}

// Group is a multicast group with its station address. IP is not valid for one
// of Ethernet alone, which may be a further station of the NIC.
type Group struct {
	IP   netip.Addr
	MAC  ether.Addr
	VLAN uint16 // in which frames for it come, besides the NIC's own; 0: in no other
}

// routes are the addresses of a NIC and the ways to others.
type routes struct {
	Settings
	addrs     []netip.Prefix // configured and link-local
	groups    []Group        // that we listen to: those of our addresses, then extra
	extra     []joined
	allNodes  ether.Addr
	header    ether.Header // of our frames: source and tag
	redirects []redirect
	moved     func()
}

// OnMoved has moved called when Station of some address may have changed.
func (l *routes) OnMoved(moved func()) { l.moved = moved }

func (l *routes) haveMoved() {
	if l.moved != nil {
		l.moved()
	}
}

// station is a NIC that sends to others on its link.
type station struct {
	routes
	env Env
}

// registry are the protocols above Ethernet and IP.
type registry struct {
	ethernet  []protocol // by EtherType
	protocols []protocol // by IP protocol
	in        Packet     // the frame that they are offered
}

// Layer is the internet layer of one wire port, or of one VLAN on it.
type Layer struct {
	station
	registry
	looped    port.Loop // packets to our own addresses
	neighbors neighbors
	resolving resolutions
	members   members
	fragments reassembler
	limiter   limiter
	ipID      uint16
	scratch   []byte

	icmpIn, icmpOut uint64
	neighborsLost   uint64 // did not answer
	conflicts       uint64
}

// AllNodes is the group of all IPv6 stations on the link.
var AllNodes = netip.MustParseAddr("ff02::1")

// New returns the layer with settings that are valid.
func New(s Settings, env Env) *Layer {
	l := &Layer{
		station:   station{env: env, routes: routes{allNodes: icmp.MulticastMAC(AllNodes)}},
		neighbors: neighbors{byIP: map[netip.Addr]*neighbor{}, next: frame.Never},
		members:   members{next: frame.Never},
		ipID:      uint16(env.IDs.Uint64()),
	}
	if s.VLAN != 0 {
		l.header.NTags, l.header.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: s.VLAN}
	}
	l.Set(s)
	return l
}

// HeaderLen is the length of the Ethernet header of what the layer sends, in octets.
func (l *routes) HeaderLen() int { return l.header.Len() }

// Set changes all settings but the VLAN.
func (l *routes) Set(s Settings) {
	l.Settings, l.header.Src = s, s.MAC
	l.addrs = s.addresses()
	l.setGroups()
	l.haveMoved()
}

// Listen joins the groups given for a protocol, beside those of the addresses and of
// other protocols, in place of those of its last call.
func (l *routes) Listen(protocol any, groups ...Group) {
	l.extra = slices.DeleteFunc(l.extra, func(j joined) bool { return j.protocol == protocol })
	l.extra = append(l.extra, joined{protocol, groups})
	l.setGroups()
}

// joined are the groups of a protocol.
type joined struct {
	protocol any
	groups   []Group
}

func (l *routes) setGroups() {
	l.groups = nil
	for _, p := range l.addrs {
		if p.Addr().Is6() {
			g := icmp.SolicitedNode(p.Addr())
			l.groups = append(l.groups, Group{IP: g, MAC: icmp.MulticastMAC(g)})
		}
	}
	for _, j := range l.extra {
		l.groups = append(l.groups, j.groups...)
	}
}

// RegisterEtherType hands frames of an EtherType to h.
func (l *registry) RegisterEtherType(typ uint16, h Handler) {
	l.ethernet = append(l.ethernet, protocol{number: typ, handler: h})
}

// Register hands packets of an IP protocol to h, which may be a Transport.
func (l *registry) Register(proto uint8, h Handler) {
	t, _ := h.(Transport)
	l.protocols = append(l.protocols, protocol{uint16(proto), h, t})
}

// Unregister ends all that was registered for h.
func (l *registry) Unregister(h Handler) {
	mine := func(p protocol) bool { return p.handler == h }
	l.ethernet, l.protocols = slices.DeleteFunc(l.ethernet, mine), slices.DeleteFunc(l.protocols, mine)
}

// transport is the one registered for a protocol, or nil.
func (l *registry) transport(proto uint8) Transport {
	for i := range l.protocols {
		if r := &l.protocols[i]; r.number == uint16(proto) {
			return r.transport
		}
	}
	return nil
}

// registered tells whether somebody wants packets of a protocol.
func (l *registry) registered(proto uint8) bool {
	return slices.ContainsFunc(l.protocols, func(r protocol) bool { return r.number == uint16(proto) })
}

// Header is the Ethernet header of the NIC's frames, without destination and
// type.
func (l *routes) Header() ether.Header { return l.header }

// Addrs returns the addresses in use, the link-local one included, borrowed.
func (l *routes) Addrs() []netip.Prefix { return l.addrs }

// IsLocal reports whether a is one of the NIC's own addresses.
func (l *routes) IsLocal(a netip.Addr) bool { return holds(l.addrs, a) }

// shared tells whether an operating system has the same addresses. It answers
// for them, and judges what no protocol of the NIC wants.
func (l *station) shared() bool { return l.env.Host != nil }

// Counters are those of what no port and no transport does.
func (l *Layer) Counters() []port.Counter {
	return []port.Counter{
		{Name: "icmp_in", Value: l.icmpIn}, {Name: "icmp_out", Value: l.icmpOut},
		{Name: "group_reports", Value: l.members.sent},
		{Name: "neighbors", Value: uint64(len(l.neighbors.list))}, {Name: "neighbors_lost", Value: l.neighborsLost},
		{Name: "neighbor_conflicts", Value: l.neighbors.moves},
		{Name: "address_conflicts", Value: l.conflicts}, {Name: "loopback_packets", Value: l.looped.Passed},
	}
}

// Conflicts is the number of messages of stations that use our addresses.
func (l *Layer) Conflicts() uint64 { return l.conflicts }

// Poll runs the timers.
func (l *Layer) Poll(now frame.Time) {
	if len(l.redirects) > 0 {
		l.forgetRedirects(func(r redirect) bool { return r.until <= now })
	}
	if len(l.fragments.list) > 0 {
		l.fragments.expire(l, now)
	}
	if l.neighbors.next <= now {
		l.pollNeighbors(now)
	}
	if l.members.next <= now {
		l.pollMembers(now)
	}
}

// Deadline is when Poll has to be called again.
func (l *Layer) Deadline() frame.Time {
	return min(l.fragments.next(), l.neighbors.next, l.members.next)
}

// TurnBack receives the packets that the NIC has sent to itself, and tells
// whether there were any. They never reach the wire, as on an operating system's
// loopback interface.
func (l *Layer) TurnBack(now frame.Time) bool {
	return l.looped.Drain(func(f *frame.Frame) { l.receiveLooped(f, now) })
}

func (l *Layer) receiveLooped(f *frame.Frame, now frame.Time) {
	b := f.Bytes()
	p := l.Take(f, now)
	p.Ether = l.header
	p.Ether.Dst, p.Ether.Type = l.MAC, etherType(b)
	p.Verdict = l.ipIn(p, b)
	l.env.Wire.Notes.Take()
	if p.Verdict == ToHost { // which has a loopback interface of its own
		p.Verdict = p.Discard(drop.NoListener)
	}
	if p.Verdict == Dropped {
		l.env.Wire.Drops.Count(p.Reason)
	}
	l.Done(p)
}

// etherType is that of a frame with an IP packet.
func etherType(packet []byte) uint16 {
	if packet[0]>>4 == 6 {
		return ether.TypeIPv6
	}
	return ether.TypeIPv4
}

// get returns a frame for size octets, or nil after counting the failure.
func (l *station) get(size int) *frame.Frame {
	f := l.env.Pool.Get(size)
	if f == nil {
		l.env.Wire.Drops.Count(drop.NoBuffer)
	}
	return f
}
