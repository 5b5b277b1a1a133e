package ip

import (
	"net/netip"
	"slices"
	"time"

	"tapir/nic/port"
	"tapir/nic/secret"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/igmp"
	"tapir/wire/ip"
)

// Where hosts report the groups that they want, and IGMP's queries go.
var (
	reports4   = netip.MustParseAddr("224.0.0.22")
	reports6   = netip.MustParseAddr("ff02::16")
	allSystems = netip.MustParseAddr("224.0.0.1")
)

// A change is told twice, within a second (RFC 3376 sections 8.1 and 8.11, RFC 3810
// sections 9.1 and 9.11).
const (
	changeReports = 2
	changeWithin  = time.Second
)

// The header of reports: they stay on the link, and routers look at each (RFC 3376
// section 4, RFC 3810 section 5).
var (
	routerAlert4 = []byte{0x94, 4, 0, 0}
	routerAlert6 = []byte{ip.ProtoICMPv6, 0, 5, 2, 0, 0, 1, 0}
)

const (
	reportTOS = 0xc0
	reportTTL = 1
	hopByHop  = 0
)

// members are the groups whose membership is reported.
type members struct {
	list []member
	next frame.Time // when something is due
	sent uint64
}

// member is a group that a protocol wants, or did until a moment ago.
type member struct {
	group netip.Addr
	left  bool
	tell  int        // reports of the change that are still to come
	due   frame.Time // of the next report; frame.Never: none is
}

// Join is Listen for groups of which routers and switches are to know: they are told by
// IGMP version 3 and MLD version 2, and their queries are answered. Only one protocol joins.
func (l *Layer) Join(protocol any, groups ...Group) {
	heard := slices.Clone(groups)
	if slices.ContainsFunc(groups, func(g Group) bool { return g.IP.Is4() }) {
		heard = append(heard, Group{IP: allSystems, MAC: MulticastMAC(allSystems)}) // where queries go
	}
	l.Listen(protocol, heard...)
	m := &l.members
	wanted := func(a netip.Addr) bool {
		return slices.ContainsFunc(groups, func(g Group) bool { return g.IP == a })
	}
	for i := range m.list {
		if g := &m.list[i]; g.left == wanted(g.group) {
			*g = member{group: g.group, left: !g.left, tell: changeReports}
		}
	}
	for _, g := range groups {
		known := slices.ContainsFunc(m.list, func(o member) bool { return o.group == g.IP })
		if !known && g.IP.IsMulticast() && g.IP != allSystems && !g.IP.IsInterfaceLocalMulticast() && g.IP != AllNodes {
			m.list = append(m.list, member{group: g.IP, tell: changeReports})
		}
	}
	m.next = 0
}

// pollMembers sends the reports that are due.
func (l *Layer) pollMembers(now frame.Time) {
	m := &l.members
	m.next = frame.Never
	m.list = slices.DeleteFunc(m.list, func(g member) bool { return g.left && g.tell == 0 })
	for i := range m.list {
		g := &m.list[i]
		if g.due <= now {
			l.report(g, now)
		}
		m.next = min(m.next, g.due)
	}
}

// report tells of a group once.
func (l *Layer) report(g *member, now frame.Time) {
	r := igmp.Wants
	if g.tell > 0 {
		g.tell--
		if r = igmp.Joins; g.left {
			r = igmp.Left
		}
	}
	if g.due = frame.Never; g.tell > 0 || g.left {
		g.due = now.Add(soon(l.env.IDs, changeWithin))
	}
	h := ip.Header{Version: 4, TOS: reportTOS, TTL: reportTTL, Proto: ip.ProtoIGMP, Options: routerAlert4,
		Src: l.Source(g.group), Dst: reports4, DF: true}
	body := []byte(nil)
	if g.group.Is4() {
		body = igmp.Report4(r, g.group)
	} else {
		h = ip.Header{Version: 6, TTL: reportTTL, Proto: ip.ProtoICMPv6, ExtFirst: hopByHop, Ext: routerAlert6,
			Src: l.linkLocal(), Dst: reports6}
		body = igmp.Report6(r, g.group)
		icmp.SetChecksum6(h.Src, h.Dst, body)
	}
	if !h.Src.IsValid() {
		return // no address of that family
	}
	h.PayloadLen = len(body)
	f := l.get(h.HeaderLen() + len(body))
	if f == nil {
		return
	}
	h.Put(f.Extend(h.HeaderLen()))
	f.Append(body)
	l.members.sent++
	l.toStation(port.Out{Frame: f}, MulticastMAC(h.Dst), now)
}

// soon is a random time up to d.
func soon(random secret.Source, d time.Duration) time.Duration {
	return time.Duration(random.Uint64() % uint64(max(d, 1)))
}

// linkLocal is our link-local address, or the unspecified one.
func (l *routes) linkLocal() netip.Addr {
	for _, p := range l.addrs {
		if p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	return netip.IPv6Unspecified()
}

// queryIn has a query of a router answered within the time that it gives (RFC 3376 section
// 5.2, RFC 3810 section 6.2). Reports of others are of no interest.
func (l *Layer) queryIn(p *Packet, m igmp.Message, err error) Verdict {
	switch {
	case err != nil:
		return p.Refuse(drop.Malformed)
	case !m.Query:
		return p.Refuse(drop.Unused)
	}
	for i := range l.members.list {
		g := &l.members.list[i]
		if !g.left && g.group.Is4() == p.IP.Src.Is4() && (!m.Group.IsValid() || m.Group == g.group) {
			g.due = min(g.due, p.Now.Add(soon(l.env.IDs, m.Within)))
			l.members.next = min(l.members.next, g.due)
		}
	}
	return p.keep()
}
