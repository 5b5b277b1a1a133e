package em

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/ether"
)

// vesw is a vESW of the configuration with what follows from it and from the
// fabric.
type vesw struct {
	cfg     *VESW
	members []*member
	dirty   bool // what follows is to be computed anew

	defaults []*port        // default ports by their place, nil: not there
	table    []mad.MACEntry // of each member's MAC table: stations by MAC, then groups
	owners   []*port        // of table's unicast entries, nil of groups
	digest   uint32         // of table, never 0
	problems []string
}

// member is a port of a vESW, as declared.
type member struct {
	vesw      *vesw
	cfg       *Member
	port      *port  // nil: not there
	vport     *vport // nil: not known yet which
	duplicate bool   // the port is a member already, under another name
}

// incomplete reports whether v is at work while a member of it has not been
// found. Its other members would be told to forget the stations behind that
// port, which may just be slow to answer.
func (v *vesw) incomplete() bool {
	return slices.ContainsFunc(v.members, func(b *member) bool {
		return b.vport != nil && b.vport.info.VESW == v.cfg.ID
	}) &&
		slices.ContainsFunc(v.members, func(b *member) bool { return b.port == nil })
}

// active reports whether the member's port is, and is no other member.
func (v *member) active() bool { return v.port != nil && !v.duplicate && v.port.active() }

// pkey is the member's P_Key.
func (v *member) pkey() uint16 {
	if v.cfg.Limited {
		return v.vesw.cfg.PKey
	}
	return v.vesw.cfg.PKey | opa.PKeyFull
}

// MLIDs are functions of the vESW: one for all its frames to groups, and a
// range for the groups that not all members listen to, in which a group has
// its place by its address. Two groups of one vESW may have to share a place.
const (
	groupMLIDs  = 127 // of each vESW
	firstGroups = opa.FirstMulticast + opa.MaxVESW + 1
)

// MLID is the multicast LID for all members of a vESW.
func MLID(id uint16) opa.LID { return opa.FirstMulticast + opa.LID(id) }

// GroupMLID is the multicast LID of a group of a vESW.
func GroupMLID(id uint16, group ether.Addr) opa.LID {
	return firstGroups + opa.LID(id-1)*groupMLIDs + opa.LID(crc32.ChecksumIEEE(group[:])%groupMLIDs)
}

func compareMAC(a, b ether.Addr) int { return bytes.Compare(a[:], b[:]) }

// refresh brings what is desired up to date.
func (m *Manager) refresh() {
	if m.relid && m.assigning() {
		m.relid = false
		m.assignLIDs()
	}
	if m.stale {
		m.stale = false
		m.resolve()
	}
	for _, v := range m.vesws {
		if v.dirty {
			v.dirty = false
			before := v.problems
			m.derive(v)
			for _, what := range v.problems {
				if !slices.Contains(before, what) {
					m.note("vESW %s: %s", v.cfg.Name, what)
				}
			}
		}
	}
}

// resolve finds the ports of all members and their virtual ports.
func (m *Manager) resolve() {
	old := m.vesws
	m.vesws = nil
	for _, p := range m.ports {
		p.members = nil
		for _, v := range p.list {
			v.member = nil
		}
	}
	for i := range m.cfg.VESWs {
		c := &m.cfg.VESWs[i]
		v := &vesw{cfg: c, dirty: true}
		if k := slices.IndexFunc(old, func(o *vesw) bool { return o.cfg.ID == c.ID }); k >= 0 {
			v.problems = old[k].problems
		}
		for j := range c.Members {
			v.members = append(v.members, m.member(v, &c.Members[j]))
		}
		m.vesws = append(m.vesws, v)
	}
	slices.SortFunc(m.vesws, func(a, b *vesw) int { return cmp.Compare(a.cfg.ID, b.cfg.ID) })
	for _, v := range m.vesws {
		for _, b := range v.members {
			if b.port != nil && !b.duplicate {
				b.port.members = append(b.port.members, b)
			}
		}
	}
	for _, p := range m.ports {
		m.bind(p)
		if n := len(m.wantPKeys(p)); p.up && n > p.capacity {
			m.note("port %v: %d P_Keys for a table of %d: the last ones are left out", p, n, p.capacity)
		}
	}
}

func (m *Manager) member(v *vesw, c *Member) *member {
	b := &member{vesw: v, cfg: c}
	for _, p := range m.ports {
		if m.is(p, c.Node) {
			b.port = p
		}
	}
	b.duplicate = b.port != nil && slices.ContainsFunc(v.members, func(o *member) bool { return o.port == b.port })
	return b
}

// bind gives each membership of p its virtual port: the one that is in the
// vESW already, else the lowest number, from 1, at which there is nothing.
func (m *Manager) bind(p *port) {
	if p.scanned < len(p.vports) && !(m.opt.Observe && !p.active()) {
		return
	}
	for _, b := range p.members {
		for _, v := range p.list {
			if v.info.VESW == b.vesw.cfg.ID {
				b.vport, v.member = v, b
			}
		}
	}
	num := 1
	for _, b := range p.members {
		if b.vport != nil {
			continue
		}
		for num < len(p.vports) && p.vports[num] != nil && (exists(&p.vports[num].info) ||
			p.vports[num].member != nil) {
			num++
		}
		if num == len(p.vports) {
			m.note("port %v: no virtual port is left for vESW %s", p, b.vesw.cfg.Name)
			break
		}
		v := p.vports[num]
		if v == nil {
			v = p.add(uint8(num))
		}
		b.vport, v.member = v, b
	}
	for _, v := range slices.Clone(p.list) {
		if v.member == nil && !exists(&v.info) {
			p.remove(v)
		}
	}
}

// derive computes what the members of a vESW are to be told.
func (m *Manager) derive(v *vesw) {
	v.problems, v.defaults = nil, nil
	for _, n := range slices.Concat(v.cfg.DefaultPorts, v.cfg.Gateways) {
		i := slices.IndexFunc(v.cfg.Members, func(c Member) bool { return c.Node == n })
		v.defaults = append(v.defaults, nil)
		if b := v.members[i]; b.active() {
			v.defaults[len(v.defaults)-1] = b.port
		}
	}
	for _, b := range v.members {
		if b.duplicate {
			v.problems = append(v.problems, fmt.Sprintf("%v is a member twice: it is %v", b.cfg.Node, b.port))
		}
	}
	v.table, v.owners = nil, nil
	m.unicastEntries(v)
	m.groupEntries(v)
	if len(v.table) > mad.MaxMACEntries {
		v.problems = append(v.problems, fmt.Sprintf("%d MAC addresses; %d fit in a MAC table", len(v.table),
			mad.MaxMACEntries))
		m.count.TableOverflows++
		v.table, v.owners = v.table[:mad.MaxMACEntries], v.owners[:mad.MaxMACEntries]
	}
	v.digest = digest(v.table)
}

// reporting are the members whose lists count.
func (v *vesw) reporting() (all []*member) {
	for _, b := range v.members {
		if b.active() && b.vport != nil {
			all = append(all, b)
		}
	}
	return all
}

// unicastEntries says where the stations are that have no address of the
// Ethernet Manager's making. Of two ports that claim one the lower GUID has it.
func (m *Manager) unicastEntries(v *vesw) {
	owner := map[ether.Addr]*member{}
	var list []ether.Addr
	for _, b := range v.reporting() {
		for _, mac := range b.vport.lists[0].macs {
			if !usable(v.cfg, mac) {
				v.problems = append(v.problems, fmt.Sprintf("%v claims %v, which it must not", b.port, mac))
				m.count.RefusedMACs++
				continue
			}
			o := owner[mac]
			if o == nil {
				list = append(list, mac)
			} else if o != b {
				v.problems = append(v.problems, fmt.Sprintf("%v is claimed by %v and %v", mac, o.port, b.port))
				m.count.DuplicateMACs++
			}
			if o == nil || b.port.guid < o.port.guid {
				owner[mac] = b
			}
		}
	}
	slices.SortFunc(list, compareMAC)
	for _, mac := range list {
		p := owner[mac].port
		v.table = append(v.table, mad.MACEntry{MAC: mac, Mask: ether.Broadcast, DLID: p.lid})
		v.owners = append(v.owners, p)
	}
}

// usable reports whether a port may claim a station: an address that names
// another port of the vESW by its LID is not to be had.
func usable(c *VESW, mac ether.Addr) bool {
	l, local := opa.ParseLMAC(mac)
	return !mac.IsMulticast() && !mac.IsZero() && !(local && l.Names(c.Fabric, c.ID))
}

// groupEntries gives the groups that not all members listen to a LID each.
func (m *Manager) groupEntries(v *vesw) {
	all := v.reporting()
	listeners := map[ether.Addr]int{}
	var list []ether.Addr
	for _, b := range all {
		for _, mac := range b.vport.lists[1].macs {
			if !mac.IsMulticast() || mac == ether.Broadcast {
				continue
			}
			if listeners[mac]++; listeners[mac] == 1 {
				list = append(list, mac)
			}
		}
	}
	slices.SortFunc(list, compareMAC)
	for _, mac := range list {
		if listeners[mac] < len(all) {
			v.table = append(v.table, mad.MACEntry{MAC: mac, Mask: ether.Broadcast, DLID: GroupMLID(v.cfg.ID, mac)})
			v.owners = append(v.owners, nil)
		}
	}
}

// digest tells tables apart, whatever the places of their entries.
func digest(table []mad.MACEntry) uint32 {
	section := make(mad.MACEntries, mad.MACEntriesLen(len(table)))
	for i, e := range table {
		section.SetEntry(i, e)
	}
	return max(1, crc32.ChecksumIEEE(section[mad.MACEntriesLen(0):]))
}

// want is what the agent is to be told of a member's virtual port. What is
// not the Ethernet Manager's to say is as it is.
func (m *Manager) want(b *member) mad.VESWPortInfo {
	c, p, now := b.vesw.cfg, b.port, &b.vport.info
	w := *now
	w.Fabric, w.VESW, w.PKey, w.McastDLID = c.Fabric, c.ID, b.pkey(), MLID(c.ID)
	w.RC, w.EthMTU, w.QoS, w.ConfigState = c.RC, c.MTU, c.QoS, mad.Forwarding
	w.PortNum = uint32(p.lid)<<8 | uint32(b.vport.num)
	w.BaseMAC = opa.LMAC{Fabric: c.Fabric, VESW: c.ID, LID: p.lid}.Addr()
	w.EncapSLID = p.lid
	w.DefPortMask, w.UcastDLID = 0, defPorts{}
	for i, d := range b.vesw.defaults {
		if d != nil && d != p {
			w.DefPortMask |= 1 << i
			w.UcastDLID[i] = d.lid
		}
	}
	return w
}
