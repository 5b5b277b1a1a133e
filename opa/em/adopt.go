package em

import (
	"cmp"
	"fmt"
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// vport is a virtual port as its agent last described it. One that does not
// exist is not kept.
type vport struct {
	num     uint8
	info    mad.VESWPortInfo
	known   bool       // info is the agent's word
	leaving bool       // it was told to leave its vESW
	poll    frame.Time // when to read it again
	member  *member    // what it is to be, nil: nothing

	lists [2]macList // unicast, multicast

	traffic traffic

	table     []mad.MACEntry // by place, as far as it was read
	tableRead bool           // whole
	digest    uint32         // that the table had when it was read or written

	refused mad.VESWPortInfo // what the agent would not take
	retry   frame.Time       // when to ask for that, or for another table, again
}

// macList is one of the two lists of an interface's MAC addresses.
type macList struct {
	macs  []ether.Addr
	gen   uint16
	read  bool
	parts []ether.Addr // of a list that is being read
	next  uint16       // its generation
}

// listAttrs are the attributes of the lists.
var listAttrs = [2]uint16{mad.AttrUnicastMACs, mad.AttrMulticastMACs}

// maxList bounds what is kept of a list.
const maxList = mad.MaxMACEntries

func (v *vport) gens() [2]*uint16 { return [...]*uint16{&v.info.UcastGen, &v.info.McastGen} }

// listed reports whether both lists are as the agent has them.
func (v *vport) listed() bool {
	return v.lists[0].read && v.lists[1].read
}

// exists reports whether there is anything at that number.
func exists(info *mad.VESWPortInfo) bool { return info.VESW != 0 || info.LinkStatus != 0 }

// stepAgent is the next request that reads what the agent of p has.
func (m *Manager) stepAgent(p *port) *request {
	if own := m.LID(); !p.classRead || m.now >= p.classPoll {
		return m.askClass(p)
	} else if p.class.TrapLID != own && own != 0 && !m.opt.Observe {
		return m.setClass(p, own)
	}
	m.by(p.classPoll)
	if p.scanned < len(p.vports) {
		return m.askVPort(p, uint8(p.scanned))
	}
	for _, v := range p.list {
		if m.now >= v.poll && v.known {
			return m.askVPort(p, v.num)
		}
		if v.known {
			m.by(v.poll)
		}
		if v.info.VESW == 0 || v.member == nil {
			continue
		}
		for i := range v.lists {
			if l := &v.lists[i]; !l.read || l.gen != *v.gens()[i] {
				return m.askList(p, v, i)
			}
		}
	}
	return nil
}

// askClass and setClass look after the way that traps take.
func (m *Manager) askClass(p *port) *request {
	return m.askAgent(p, request{what: "class port info", attr: mad.AttrClassPortInfo,
		took: func(data []byte) { m.tookClass(p, data) }})
}

func (m *Manager) setClass(p *port, own opa.LID) *request {
	c := p.class
	c.TrapLID = own
	return m.askAgent(p, request{what: "class port info", set: true, attr: mad.AttrClassPortInfo,
		n: mad.ClassPortInfoLen, put: c.Put, took: func(data []byte) { m.tookClass(p, data) }})
}

func (m *Manager) tookClass(p *port, data []byte) {
	p.class, p.classRead, p.classPoll = mad.ParseClassPortInfo(data), true, m.now.Add(m.t.Poll)
}

func (m *Manager) askVPort(p *port, num uint8) *request {
	took := func(data []byte) {
		if int(num) == p.scanned {
			p.scanned++
			m.stale = m.stale || p.scanned == len(p.vports)
		}
		v, info := p.vports[num], mad.ParseVESWPortInfo(data)
		if v != nil && v.known && !v.leaving && (v.info.VESW != 0 && info.VESW == 0 ||
			v.digest != 0 && info.Digest == 0) && p.scanned == len(p.vports) {
			m.count.Restarts++
			m.note("port %v: vport %d has lost what it was told: the agent has restarted", p, num)
			m.readopt(p)
		}
		m.tookVPort(p, num, info)
	}
	return m.askAgent(p, request{what: fmt.Sprintf("vport %d", num), attr: mad.AttrVESWPortInfo,
		modifier: uint32(num), took: took})
}

// tookVPort takes what the agent tells of a virtual port.
func (m *Manager) tookVPort(p *port, num uint8, info mad.VESWPortInfo) {
	v := p.vports[num]
	if v == nil {
		if !exists(&info) {
			return
		}
		v = p.add(num)
		m.stale = true
	}
	if v.info.VESW != info.VESW {
		m.stale = true
		v.lists, v.traffic = [2]macList{}, traffic{}
	}
	if info.VESW == 0 {
		v.table, v.tableRead = nil, true // an agent empties the table with the vESW
	} else if info.Digest != v.digest {
		v.table, v.tableRead = nil, false
	}
	v.info, v.known, v.leaving, v.digest = info, true, false, info.Digest
	v.poll = m.now.Add(m.t.Poll)
	if !exists(&info) && v.member == nil {
		p.remove(v)
	}
}

// add begins to keep a virtual port.
func (p *port) add(num uint8) *vport {
	v := &vport{num: num, info: mad.PowerOn(), tableRead: true}
	p.vports[num] = v
	i, _ := slices.BinarySearchFunc(p.list, num, func(v *vport, n uint8) int { return cmp.Compare(v.num, n) })
	p.list = slices.Insert(p.list, i, v)
	return v
}

func (p *port) remove(v *vport) {
	p.vports[v.num] = nil
	p.list = slices.DeleteFunc(p.list, func(o *vport) bool { return o == v })
}

// askList reads the next part of a list.
func (m *Manager) askList(p *port, v *vport, which int) *request {
	l := &v.lists[which]
	start := len(l.parts)
	took := func(data []byte) {
		part := mad.IfaceMACs(data)
		h := part.Head()
		if start > 0 && h.Gen != l.next {
			l.parts = nil // it has changed meanwhile
			return
		}
		l.next = h.Gen
		for i := range min(int(h.Num), mad.MaxMACsIn) {
			l.parts = append(l.parts, part.MAC(i))
		}
		if h.Num == 0 || len(l.parts) >= min(int(h.Total), maxList) {
			m.tookList(v, which)
		}
	}
	return m.askAgent(p, request{what: fmt.Sprintf("MAC list of vport %d", v.num), attr: listAttrs[which],
		modifier: uint32(v.num), n: mad.IfaceMACsLen(0),
		put:  func(b []byte) { mad.IfaceMACs(b).PutHead(mad.IfaceHead{Start: uint16(start)}) },
		took: took, refused: func() { l.parts, v.poll = nil, m.now }})
}

func (m *Manager) tookList(v *vport, which int) {
	l := &v.lists[which]
	slices.SortFunc(l.parts, compareMAC)
	if !slices.Equal(l.parts, l.macs) && v.member != nil {
		v.member.vesw.dirty = true
	}
	l.macs, l.parts, l.read, l.gen = l.parts, nil, true, l.next
	*v.gens()[which] = l.gen
}

// trap takes note that a virtual port has changed, and tells its agent so.
func (m *Manager) trap(h *mad.Header, n mad.Notice, from mad.Address, send mad.Send) {
	if !m.master() || m.opt.Observe {
		return
	}
	m.count.Traps++
	p := m.byLID(from.LID)
	if p == nil || p.vports[n.VPort] == nil {
		m.count.UnknownTraps++
		return
	}
	p.seen = m.now
	p.vports[n.VPort].poll = m.now
	m.wake = 0
	var b [mad.TrapLen]byte
	mad.PutVEMA(b[:], mad.MethodTrapRepress, h.TID, mad.AttrNotice, 0)
	n.Put(b[mad.VEMAHeaderLen:])
	m.transmit(mad.Address{LID: from.LID, QP: opa.QPGeneral, SL: from.SL}, b[:], send)
}
