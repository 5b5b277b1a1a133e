package vnic

import (
	"net/netip"
	"slices"
	"time"

	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/igmp"
	"tapir/wire/ip"
)

const (
	// membership is how long a group is wanted after a report, and a querier
	// believed after a query: twice the usual interval and a response time
	// (RFC 3376 sections 8.4 and 8.5).
	membership = 260 * time.Second
	// lastMember is how long others behind this vport have to contradict who
	// left (RFC 3376 section 8.8).
	lastMember = 2 * time.Second
	maxGroups  = 1024
)

// groups are those that stations on the host's side joined, and the multicast
// LIDs that concern the vport.
type groups struct {
	list   []group    // by address
	router frame.Time // until when a multicast router is on the host's side; 0: none
	mlids  []opa.LID
}

type group struct {
	mac   ether.Addr
	until frame.Time
}

func (g *groups) clear() { g.list, g.router = nil, 0 }

func (g *groups) search(a ether.Addr) (int, bool) {
	return slices.BinarySearchFunc(g.list, a, func(x group, a ether.Addr) int { return slices.Compare(x.mac[:], a[:]) })
}

// appendTo appends the groups that list has not.
func (g *groups) appendTo(list []ether.Addr) []ether.Addr {
	had := len(list)
	for _, x := range g.list {
		if !slices.Contains(list[:had], x.mac) {
			list = append(list, x.mac)
		}
	}
	return list
}

// snoop follows the IGMP and MLD messages of the host's side.
func (n *Netdev) snoop(in *inner, now frame.Time) {
	m, ok := parseGroups(in)
	if !ok {
		return
	}
	changed := false
	if m.Query {
		changed = n.groups.router == 0
		n.groups.router = now.Add(membership)
		n.port.forgetBy(n.groups.router)
	}
	for c, more := m.Next(); more; c, more = m.Next() {
		if !n.toAllStations(c.Group) && n.report(c, now) {
			changed = true
		}
	}
	if changed {
		n.relist()
		n.listen()
	}
}

// parseGroups reads the frame if it is an IGMP or MLD message.
func parseGroups(in *inner) (m igmp.Message, ok bool) {
	switch {
	case in.typ == ether.TypeIPv4 && len(in.payload) > 9 && in.payload[9] == protoIGMP:
		h, b, err := ip.Parse(in.payload)
		if err != nil || h.IsFragment() {
			return m, false
		}
		m, err = igmp.Parse4(b)
		return m, err == nil
	case in.typ == ether.TypeIPv6 && len(in.payload) > 6 && in.payload[6] == ip.ProtoHopByHop: // MLD has a router alert
		h, b, err := ip.Parse(in.payload)
		if err != nil || h.Proto != ip.ProtoICMPv6 || h.IsFragment() || h.TTL != 1 {
			return m, false
		}
		m, err = igmp.Parse6(h.Src, h.Dst, b)
		return m, err == nil
	}
	return m, false
}

const protoIGMP = 2

// toAllStations reports whether a group is one that every station receives
// (RFC 4541 section 2.1.2, RFC 4291 section 2.7.1): it has no members.
func (n *Netdev) toAllStations(group netip.Addr) bool {
	if group.Is4() {
		a := group.As4()
		return a[0] == 224 && a[1] == 0 && a[2] == 0
	}
	return group.IsInterfaceLocalMulticast() || group == allNodes
}

var allNodes = netip.MustParseAddr("ff02::1")

// report notes what a station says about a group, and reports whether that
// makes it a new one.
func (n *Netdev) report(c igmp.Change, now frame.Time) bool {
	g := &n.groups
	mac := icmp.MulticastMAC(c.Group)
	if c.Group.Is4() {
		mac = multicastMAC4(c.Group)
	}
	i, there := g.search(mac)
	switch {
	case c.Join && there:
		g.list[i].until = now.Add(membership)
	case c.Join && len(g.list) < maxGroups:
		n.stats.Joins++
		g.list = slices.Insert(g.list, i, group{mac, now.Add(membership)})
		n.port.forgetBy(now.Add(membership))
		return true
	case !c.Join && there:
		n.stats.Leaves++
		g.list[i].until = min(g.list[i].until, now.Add(lastMember))
		n.port.forgetBy(g.list[i].until)
	}
	return false
}

// multicastMAC4 is the group address for an IPv4 group (RFC 1112 section 6.4).
func multicastMAC4(a netip.Addr) ether.Addr {
	v := a.As4()
	return ether.Addr{0x01, 0x00, 0x5e, v[1] & 0x7f, v[2], v[3]}
}

// expire forgets groups and the router after their time, and reports whether
// there were any.
func (g *groups) expire(now frame.Time) bool {
	had := len(g.list)
	g.list = slices.DeleteFunc(g.list, func(x group) bool { return now >= x.until })
	gone := len(g.list) < had
	if g.router != 0 && now >= g.router {
		g.router, gone = 0, true
	}
	return gone
}

// next is when expire has something to do, frame.Never if there is nothing.
func (g *groups) next() frame.Time {
	at := frame.Never
	for _, x := range g.list {
		at = min(at, x.until)
	}
	if g.router != 0 {
		at = min(at, g.router)
	}
	return at
}

// expire forgets all that is too old and says when there may be more.
func (n *Netdev) expire(now frame.Time) {
	changed := n.stations.expire(now) && n.policy.Report
	n.known.expire(now)
	if n.groups.expire(now) {
		n.listen()
		changed = true
	}
	if changed {
		n.relist()
	}
	next := n.groups.next()
	if n.stations.n > 0 || len(n.known.byIP) > 0 {
		next = min(next, now.Add(n.policy.Age/4+1))
	}
	n.port.forgetBy(next)
}
