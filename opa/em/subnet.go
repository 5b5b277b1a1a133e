package em

import (
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
)

// assignLIDs gives each port its LID: the one declared, else the one that it
// has, if no other has it, else the lowest of the range that is free.
func (m *Manager) assignLIDs() {
	taken := map[opa.LID]uint64{} // by GUID; 0: declared, for a port that is not there
	for _, n := range m.cfg.Nodes {
		if n.LID != 0 {
			taken[n.LID] = 0
		}
	}
	var rest []*port
	for _, p := range m.ports {
		if lid := m.declaredLID(p); lid != 0 {
			m.setLID(p, lid)
			taken[lid] = p.guid
		} else {
			rest = append(rest, p)
		}
	}
	// Whoever has had its LID from this manager keeps it before anybody else.
	for _, mine := range []bool{true, false} {
		rest = slices.DeleteFunc(rest, func(p *port) bool {
			lid := p.lid
			if !mine {
				lid = p.info.LID
			}
			if lid == 0 || !p.infoRead && !mine || !m.cfg.lids().Contains(lid) {
				return false
			}
			if other, ok := taken[lid]; ok {
				m.count.DuplicateLIDs++
				m.note("port %v has LID %v, which belongs to %s: it gets another one", p, lid, m.ownerName(other, lid))
				p.lid = 0
				return false
			}
			taken[lid] = p.guid
			m.setLID(p, lid)
			return true
		})
	}
	lids := m.cfg.lids()
	next := lids.First
	for _, p := range rest {
		if !p.infoRead {
			continue // it may turn out to have one
		}
		for _, ok := taken[next]; ok; _, ok = taken[next] {
			next++
		}
		if next > lids.Last {
			m.note("no LID is left for port %v", p)
			return
		}
		taken[next] = p.guid
		m.setLID(p, next)
	}
}

func (m *Manager) ownerName(guid uint64, lid opa.LID) string {
	if p := m.port(guid); p != nil {
		return p.String()
	}
	if i := slices.IndexFunc(m.cfg.Nodes, func(n NodeEntry) bool { return n.LID == lid }); i >= 0 {
		return m.cfg.Nodes[i].node().String()
	}
	return "another port"
}

// declaredLID is the LID that the configuration gives p, 0 if none.
func (m *Manager) declaredLID(p *port) opa.LID {
	for _, n := range m.cfg.Nodes {
		if n.LID != 0 && m.is(p, n.node()) {
			return n.LID
		}
	}
	return 0
}

// is reports whether a node of the configuration is port p.
func (m *Manager) is(p *port, n Node) bool {
	if g := m.cfg.guid(n); g != 0 {
		return g == p.guid
	}
	return n.Name != "" && p.name == n.Name && m.unique(p)
}

// unique reports whether no other port has the name of p.
func (m *Manager) unique(p *port) bool {
	return !slices.ContainsFunc(m.ports, func(o *port) bool { return o != p && o.up && o.name == p.name })
}

func (m *Manager) setLID(p *port, lid opa.LID) {
	m.stale = m.stale || p.lid != lid
	p.lid = lid
}

// pkeyTable is the P_Key table that p is to have.
func (m *Manager) pkeyTable(p *port) []uint16 {
	table := make([]uint16, p.capacity)
	copy(table, m.wantPKeys(p))
	return table
}

// wantPKeys are the P_Keys that p is to have: management, then the partitions of its vESWs.
// The port of the manager is a full member of management, and a limited one as well, as
// that of a fabric manager of Omni-Path is: by 0x7fff its tools know a port.
func (m *Manager) wantPKeys(p *port) []uint16 {
	keys := []uint16{opa.PKeyManagement}
	if p.guid == m.opt.GUID {
		keys = []uint16{opa.PKeyManagement | opa.PKeyFull, opa.PKeyManagement}
	}
	for _, v := range p.members { // none is a duplicate
		key := v.pkey()
		i := slices.IndexFunc(keys, func(k uint16) bool { return (k^key)&^opa.PKeyFull == 0 })
		if i < 0 {
			keys = append(keys, key)
		} else {
			keys[i] |= key
		}
	}
	slices.SortFunc(keys[1:], func(a, b uint16) int { return int(a&^opa.PKeyFull) - int(b&^opa.PKeyFull) })
	return keys
}

// longPolls is the time, in polls, after which a port's name and P_Keys, which
// change only by a hand other than the manager's, are read again.
const longPolls = 5

// stepSubnet is the next request that brings the port itself forward: first
// what it is, then, when LIDs can be given out, what it is to be.
func (m *Manager) stepSubnet(p *port) *request {
	if m.now >= p.longPoll {
		p.longPoll = m.now.Add(longPolls * m.t.Poll)
		p.named, p.pkeysRead = false, 0
		p.congestion.forget()
	}
	block := p.pkeysRead / mad.PKeysPerBlock
	switch {
	case !p.named:
		return m.askName(p)
	case !p.infoRead || m.now >= p.infoPoll:
		return m.askPortInfo(p)
	case p.pkeysRead < p.capacity:
		return m.askPKeys(p, block)
	}
	m.by(min(p.infoPoll, p.longPoll))
	if m.opt.Observe {
		return m.readCongestion(p)
	}
	if !m.assigning() || p.lid == 0 || p.info.State < mad.PortInit {
		return nil
	}
	if sm := m.ownLID(); p.info.LID != p.lid || p.info.SMLID != sm {
		return m.setPortInfo(p, "LID", mad.PortInfo{LID: p.lid, SMLID: sm, Reregister: true})
	}
	want := m.pkeyTable(p)
	for at := 0; at < p.capacity; at += mad.PKeysPerBlock {
		end := min(at+mad.PKeysPerBlock, p.capacity)
		if !slices.Equal(p.pkeys[at:end], want[at:end]) {
			return m.setPKeys(p, at/mad.PKeysPerBlock, want[at:end])
		}
	}
	if p.info.State < mad.PortActive {
		return m.setPortInfo(p, (p.info.State + 1).String(), mad.PortInfo{State: p.info.State + 1})
	}
	if r := m.readCongestion(p); r != nil {
		return r
	}
	return m.setCongestion(p)
}

// ownLID is the LID that the manager's port has or will have.
func (m *Manager) ownLID() opa.LID {
	if p := m.port(m.opt.GUID); p != nil {
		return p.lid
	}
	return 0
}

func (m *Manager) askName(p *port) *request {
	named := func(name string) {
		if p.named = true; name != p.name {
			p.name = name
			m.note("port %v is called %q", GUID(p.guid), name)
		}
		m.stale, m.relid = true, true
		if name != "" && !m.unique(p) {
			m.note("several ports are called %q: the configuration can name none of them so", name)
		}
	}
	return m.askSubnet(p, request{what: "node description", attr: mad.AttrNodeDescription,
		took: func(data []byte) { named(mad.ParseNodeDescription(data)) }, refused: func() { named("") }})
}

func (m *Manager) askPortInfo(p *port) *request {
	return m.askSubnet(p, request{what: "port info", attr: mad.AttrPortInfo, modifier: mad.OnePort,
		took: func(data []byte) { m.tookPortInfo(p, data) }})
}

func (m *Manager) setPortInfo(p *port, what string, info mad.PortInfo) *request {
	return m.askSubnet(p, request{what: what, set: true, attr: mad.AttrPortInfo, modifier: mad.OnePort,
		n: mad.PortInfoLen, put: info.Put, took: func(data []byte) {
			m.tookPortInfo(p, data)
			m.note("port %v: LID %v, %v", p, p.info.LID, p.info.State)
		}})
}

func (m *Manager) tookPortInfo(p *port, data []byte) {
	was, old := p.active(), p.info
	first := !p.infoRead
	p.info, p.infoRead = mad.ParsePortInfo(data), true
	p.infoPoll = m.now.Add(m.t.Poll)
	if first {
		m.relid = true
	} else if p.info.State < old.State {
		m.readopt(p) // it lost more than its state
	}
	m.stale = m.stale || p.active() != was
}

func (m *Manager) askPKeys(p *port, block int) *request {
	return m.askSubnet(p, request{what: "P_Key table", attr: mad.AttrPKeyTable, modifier: mad.PKeyBlock(block),
		took: func(data []byte) { m.tookPKeys(p, block, data) }})
}

func (m *Manager) setPKeys(p *port, block int, keys []uint16) *request {
	var table [mad.PKeysPerBlock]uint16
	copy(table[:], keys)
	return m.askSubnet(p, request{what: "P_Key table", set: true, attr: mad.AttrPKeyTable,
		modifier: mad.PKeyBlock(block), n: mad.PKeyBlockLen, put: func(b []byte) { mad.PutPKeys(b, table) },
		took: func(data []byte) {
			m.tookPKeys(p, block, data)
			m.note("port %v: P_Keys %s", p, keysString(p.pkeys))
		}})
}

func (m *Manager) tookPKeys(p *port, block int, data []byte) {
	keys, at := mad.ParsePKeys(data), block*mad.PKeysPerBlock
	if at > len(p.pkeys) {
		return
	}
	p.pkeys = append(p.pkeys, make([]uint16, max(0, min(p.capacity, at+len(keys))-len(p.pkeys)))...)
	copy(p.pkeys[at:], keys[:])
	p.pkeysRead = max(p.pkeysRead, min(p.capacity, at+len(keys)))
}
