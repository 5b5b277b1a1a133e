package em

import (
	"fmt"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/ether"
)

// step is the next request to port p, nil if there is nothing to ask.
func (m *Manager) step(p *port) *request {
	if p.sw != nil {
		return m.stepSwitch(p)
	}
	if p.duplicate {
		return nil
	}
	if r := m.stepSubnet(p); r != nil {
		return r
	}
	if !p.active() || !p.ethernet() || !m.ready() {
		return nil
	}
	if r := m.stepAgent(p); r != nil {
		return r
	}
	if !m.settled || m.opt.Observe {
		return nil
	}
	if r := m.stepVPorts(p); r != nil {
		return r
	}
	return m.stepTraffic(p)
}

// ready reports whether the manager can talk to agents: its own port is active
// and, as they are limited members of the management partition, a full one.
func (m *Manager) ready() bool {
	p := m.port(m.opt.GUID)
	return p != nil && p.active() && (m.opt.Observe || len(p.pkeys) > 0 && p.pkeys[0] ==
		opa.PKeyManagement|opa.PKeyFull)
}

// stepVPorts is the next request that changes a virtual port: those that have
// to go first, as a port can be in a vESW only once.
func (m *Manager) stepVPorts(p *port) *request {
	for _, v := range p.list {
		if v.member == nil && v.info.VESW != 0 {
			return m.deleteVPort(p, v)
		}
	}
	for _, v := range p.list {
		b := v.member
		if b == nil || b.vesw.dirty {
			continue
		}
		want := m.want(b)
		if m.now < v.retry {
			m.by(v.retry)
			if want == v.refused {
				continue
			}
		}
		if want != v.info {
			return m.setVPort(p, v, want)
		}
		if r := m.stepTable(p, v); r != nil {
			return r
		}
	}
	return nil
}

func (m *Manager) deleteVPort(p *port, v *vport) *request {
	v.leaving = true
	id := v.info.VESW
	took := func(data []byte) {
		m.note("port %v: vport %d leaves vESW %d", p, v.num, id)
		m.tookVPort(p, v.num, mad.ParseVESWPortInfo(data))
	}
	return m.askAgent(p, request{what: fmt.Sprintf("delete vport %d of vESW %d", v.num, id), set: true,
		attr: mad.AttrDeleteVESW, modifier: uint32(v.num), took: took,
		refused: func() { v.poll = m.now }}) // an earlier attempt may have done it
}

// refusal is the time, in polls, after which a port is asked again for what
// it refused.
const refusal = 5

func (m *Manager) refuse(v *vport, want mad.VESWPortInfo) {
	v.refused, v.retry = want, m.now.Add(refusal*m.t.Poll)
}

func (m *Manager) setVPort(p *port, v *vport, want mad.VESWPortInfo) *request {
	before := v.info
	took := func(data []byte) {
		info := mad.ParseVESWPortInfo(data)
		if before.VESW == 0 {
			v.digest = info.Digest // its table is new
		}
		m.tookVPort(p, v.num, info)
		m.note("port %v: vport %d in vESW %d: %s", p, v.num, want.VESW, changes(&before, &want))
		if v.member != nil && m.want(v.member) == want && differs(&info, &want) {
			m.note("port %v: vport %d is not as it was told: %s", p, v.num, changes(&info, &want))
			m.refuse(v, m.want(v.member))
		}
	}
	return m.askAgent(p, request{what: fmt.Sprintf("vport %d in vESW %d", v.num, want.VESW), set: true,
		attr: mad.AttrVESWPortInfo, modifier: uint32(v.num), n: mad.VESWPortInfoLen, put: want.Put, took: took,
		refused: func() {
			m.refuse(v, want)
			p.scanned = 0 // what there is may not be what it was
		}})
}

// differs reports whether an agent did not take what it was told.
func differs(got, want *mad.VESWPortInfo) bool {
	w := *want
	w.OperState, w.LinkStatus, w.MaxMACs, w.MaxSourceMAC = got.OperState, got.LinkStatus, got.MaxMACs, got.MaxSourceMAC
	w.Digest, w.UcastGen, w.McastGen = got.Digest, got.UcastGen, got.McastGen
	return w != *got
}

// stepTable is the next request that reads or changes the MAC table.
func (m *Manager) stepTable(p *port, v *vport) *request {
	want := v.member.vesw
	if v.digest == want.digest || m.now < v.retry {
		return nil
	}
	size := min(int(v.info.MaxMACs), mad.MaxMACEntries)
	if !v.tableRead {
		return m.askTable(p, v, size)
	}
	next := place(v.table, want.table)
	next = next[:min(len(next), size)]
	from, to, last := section(v.table, next)
	sum := uint32(0) // not whole yet
	if last {
		sum = want.digest
	}
	return m.setTable(p, v, from, next[from:to], sum)
}

// place puts the entries wanted where they are already, and the others where
// there is room, so that none disappears on the way.
func place(have, want []mad.MACEntry) []mad.MACEntry {
	byMAC := make(map[ether.Addr]int, len(want))
	for i, e := range want {
		byMAC[e.MAC] = i
	}
	placed := make([]bool, len(want))
	next := make([]mad.MACEntry, len(have), max(len(have), len(want)))
	for i, e := range have {
		if j, ok := byMAC[e.MAC]; ok && !placed[j] {
			next[i], placed[j] = want[j], true
		}
	}
	free := 0
	for j, e := range want {
		if placed[j] {
			continue
		}
		for free < len(next) && !next[free].MAC.IsZero() {
			free++
		}
		if free == len(next) {
			next = append(next, e)
		} else {
			next[free] = e
		}
	}
	return next
}

// section is the next part of the table to be sent, and whether it is the
// last. There is always one, if only to bring the digest.
func section(have, next []mad.MACEntry) (from, to int, last bool) {
	at := func(i int) mad.MACEntry {
		if i < len(have) {
			return have[i]
		}
		return mad.MACEntry{}
	}
	for from < len(next) && at(from) == next[from] {
		from++
	}
	to = min(from+mad.MaxMACEntriesIn, len(next))
	for i := to; i < len(next); i++ {
		if at(i) != next[i] {
			return from, to, false
		}
	}
	for to > from && at(to-1) == next[to-1] {
		to--
	}
	return from, to, true
}

func (m *Manager) askTable(p *port, v *vport, size int) *request {
	from := len(v.table)
	num := min(mad.MaxMACEntriesIn, size-from)
	return m.askAgent(p, request{what: fmt.Sprintf("MAC table of vport %d from %d", v.num, from),
		attr: mad.AttrMACEntries, modifier: uint32(v.num), n: mad.MACEntriesLen(0),
		put: func(b []byte) { mad.MACEntries(b).PutHead(uint16(from), uint16(num), 0) },
		took: func(data []byte) {
			m.tookTable(v, data, from, num)
			v.tableRead = len(v.table) >= size
		},
		refused: func() { v.poll, v.retry = m.now, m.now.Add(m.t.Poll) }})
}

func (m *Manager) setTable(p *port, v *vport, from int, entries []mad.MACEntry, sum uint32) *request {
	what := fmt.Sprintf("MAC table of vport %d, %s from %d", v.num, plural(len(entries), "entry"), from)
	put := func(b []byte) {
		t := mad.MACEntries(b)
		t.PutHead(uint16(from), uint16(len(entries)), sum)
		for i, e := range entries {
			t.SetEntry(i, e)
		}
	}
	return m.askAgent(p, request{what: what, set: true, attr: mad.AttrMACEntries, modifier: uint32(v.num),
		n: mad.MACEntriesLen(len(entries)), put: put,
		took: func(data []byte) {
			m.tookTable(v, data, from, len(entries))
			m.note("port %v: %s, digest %#08x", p, what, sum)
		},
		refused: func() {
			v.table, v.tableRead, v.poll, v.retry = nil, false, m.now, m.now.Add(refusal*m.t.Poll)
		}})
}

// tookTable takes a part of the table as the agent has it.
func (m *Manager) tookTable(v *vport, data []byte, from, num int) {
	t := mad.MACEntries(data)
	_, _, sum := t.Head()
	if from > len(v.table) {
		return
	}
	v.table = append(v.table, make([]mad.MACEntry, max(0, from+num-len(v.table)))...)
	for i := range num {
		v.table[from+i] = t.Entry(i)
	}
	v.digest, v.info.Digest = sum, sum
}
