package em

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"tapir/opa/mad"
)

// changes says in words what is different between two states of a virtual
// port, as far as it is the Ethernet Manager's to say.
func changes(a, b *mad.VESWPortInfo) string {
	var list []string
	field := func(name string, format string, from, to any) {
		if from != to {
			list = append(list, fmt.Sprintf("%s "+format+" -> "+format, name, from, to))
		}
	}
	field("vESW", "%d", a.VESW, b.VESW)
	field("fabric", "%#x", a.Fabric, b.Fabric)
	field("P_Key", "%#04x", a.PKey, b.PKey)
	field("MTU", "%d", a.EthMTU, b.EthMTU)
	field("MAC", "%v", a.BaseMAC, b.BaseMAC)
	field("SLID", "%v", a.EncapSLID, b.EncapSLID)
	field("multicast DLID", "%v", a.McastDLID, b.McastDLID)
	field("default ports", "%s", defaultsString(a), defaultsString(b))
	field("RC", "%#x", uint32(a.RC), uint32(b.RC))
	field("port number", "%#x", a.PortNum, b.PortNum)
	field("state", "%v", a.ConfigState, b.ConfigState)
	if a.QoS != b.QoS {
		list = append(list, "service channels and lanes")
	}
	return cmp.Or(strings.Join(list, ", "), "no change")
}

func defaultsString(p *mad.VESWPortInfo) string {
	var list []string
	for i, lid := range p.UcastDLID {
		if p.DefPortMask>>i&1 != 0 {
			list = append(list, lid.String())
		}
	}
	return cmp.Or(strings.Join(list, "+"), "none")
}

func keysString(keys []uint16) string {
	var list []string
	for _, k := range keys {
		if k != 0 {
			list = append(list, fmt.Sprintf("%#04x", k))
		}
	}
	return strings.Join(list, " ")
}

// diff says in words what is different between two configurations.
func diff(a, b *Config) (list []string) {
	if !slices.Equal(a.Nodes, b.Nodes) {
		list = append(list, "nodes changed")
	}
	if a.lids() != b.lids() {
		list = append(list, fmt.Sprintf("LIDs %v -> %v", a.lids(), b.lids()))
	}
	if !reflect.DeepEqual(a.Congestion, b.Congestion) {
		list = append(list, "congestion control changed")
	}
	byID := func(x, y VESW) int { return cmp.Compare(x.ID, y.ID) }
	old, now := slices.SortedFunc(slices.Values(a.VESWs), byID), slices.SortedFunc(slices.Values(b.VESWs), byID)
	for _, v := range old {
		if _, stays := slices.BinarySearchFunc(now, v, byID); !stays {
			list = append(list, fmt.Sprintf("- vESW %d %s", v.ID, v.Name))
		}
	}
	for _, v := range now {
		if i, there := slices.BinarySearchFunc(old, v, byID); !there {
			list = append(list, fmt.Sprintf("+ vESW %d %s: %s", v.ID, v.Name, plural(len(v.Members), "member")))
		} else if what := veswChanges(&old[i], &v); what != "" {
			list = append(list, fmt.Sprintf("~ vESW %d %s: %s", v.ID, v.Name, what))
		}
	}
	return list
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, strings.Replace(what, "ry", "rie", 1))
}

func veswChanges(a, b *VESW) string {
	var list []string
	add := func(different bool, format string, args ...any) {
		if different {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(a.Name != b.Name, "name %s -> %s", a.Name, b.Name)
	add(a.Fabric != b.Fabric, "fabric %#x -> %#x", a.Fabric, b.Fabric)
	add(a.PKey != b.PKey, "P_Key %#04x -> %#04x", a.PKey, b.PKey)
	add(a.MTU != b.MTU, "MTU %d -> %d", a.MTU, b.MTU)
	for _, m := range a.Members {
		add(!slices.Contains(b.Members, m), "-%v", memberString(m))
	}
	for _, m := range b.Members {
		add(!slices.Contains(a.Members, m), "+%v", memberString(m))
	}
	add(!slices.Equal(a.DefaultPorts, b.DefaultPorts) || !slices.Equal(a.Gateways, b.Gateways), "default ports")
	add(a.RC != b.RC || a.QoS != b.QoS, "routing control or lanes")
	return strings.Join(list, ", ")
}

func memberString(m Member) string {
	if m.Limited {
		return m.Node.String() + " (limited)"
	}
	return m.Node.String()
}

// Plan says in words what the manager would change on the fabric now, a line
// each in the form of a diff: "+" for what is to be made, "-" for what is to
// go, "~" for what is to be different. It is whole once ready is true; until
// then the fabric is still being read.
func (m *Manager) Plan() (lines []string, ready bool) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, p := range m.ports {
		if !p.up || p.duplicate {
			continue
		}
		if p.lid != 0 && p.infoRead && p.info.LID != p.lid {
			add("~ port %v: LID %v -> %v", p, p.info.LID, p.lid)
		}
		if want := m.pkeyTable(p); p.pkeysRead == p.capacity && !slices.Equal(want, p.pkeys) {
			add("~ port %v: P_Keys %s -> %s", p, keysString(p.pkeys), keysString(want))
		}
		if p.congestion.read && !p.congestion.has(m.cfg.Congestion) {
			add("~ port %v: congestion control of service levels %s -> %s", p,
				slsString(p.congestion.settings.ControlMap), slsString(m.cfg.Congestion.settings().ControlMap))
		}
		if p.infoRead && p.info.State < mad.PortActive {
			add("~ port %v: %v -> active", p, p.info.State)
		}
		if p.unanswered || p.active() && p.ethernet() && p.scanned < len(p.vports) {
			add("! port %v: its agent does not answer, so what it has is not known", p)
			continue
		}
		for _, v := range p.list {
			m.planVPort(p, v, add)
		}
	}
	for _, p := range m.switches {
		if p.sw.read && !m.marks(p) {
			add("~ switch %v: when it marks congestion", p)
		}
	}
	for _, v := range m.vesws {
		for _, b := range v.members {
			if b.port == nil || !b.port.up {
				add("! vESW %d %s: %v is not there", v.cfg.ID, v.cfg.Name, b.cfg.Node)
			}
		}
		for _, what := range v.problems {
			add("! vESW %d %s: %s", v.cfg.ID, v.cfg.Name, what)
		}
	}
	return lines, m.settled
}

func (m *Manager) planVPort(p *port, v *vport, add func(string, ...any)) {
	b := v.member
	if b == nil {
		if v.info.VESW != 0 {
			add("- port %v: vport %d of vESW %d", p, v.num, v.info.VESW)
		}
		return
	}
	c := b.vesw.cfg
	power := mad.PowerOn()
	switch want := m.want(b); {
	case v.info.VESW == 0:
		add("+ port %v: vport %d in vESW %d %s: %s", p, v.num, c.ID, c.Name, changes(&power, &want))
	case differs(&v.info, &want):
		add("~ port %v: vport %d in vESW %d %s: %s", p, v.num, c.ID, c.Name, changes(&v.info, &want))
	}
	if n := len(b.vesw.table); v.digest != b.vesw.digest && (n > 0 || v.info.VESW != 0) {
		add("~ port %v: vport %d in vESW %d %s: MAC table of %s", p, v.num, c.ID, c.Name, plural(n, "entry"))
	}
}

// inSync reports whether a virtual port is as it is to be.
func (m *Manager) inSync(v *vport) bool {
	if v.member == nil {
		return v.info.VESW == 0
	}
	want := m.want(v.member)
	return v.known && !differs(&v.info, &want) && v.digest == v.member.vesw.digest
}

// InSync reports whether the fabric is as the configuration has it, as far as
// its ports are there.
func (m *Manager) InSync() bool {
	if !m.settled || m.stale || m.relid {
		return false
	}
	if slices.ContainsFunc(m.switches, func(p *port) bool { return !m.marks(p) }) {
		return false
	}
	for _, p := range m.ports {
		if !p.up || p.duplicate || p.infoRead && !p.ethernet() {
			continue
		}
		if !p.active() || p.scanned < len(p.vports) || p.class.TrapLID != m.LID() ||
			!slices.Equal(p.pkeys, m.pkeyTable(p)) || !p.congestion.has(m.cfg.Congestion) {
			return false
		}
		for _, b := range p.members {
			if b.vesw.dirty || b.vport == nil || !b.vport.listed() {
				return false
			}
		}
		if slices.ContainsFunc(p.list, func(v *vport) bool { return !m.inSync(v) }) {
			return false
		}
	}
	return true
}
