// Package sa is subnet administration: the agent at a fabric manager's port that
// tells programs such as saquery which nodes, ports and paths there are
// (InfiniBand Architecture 1.3, chapter 15), and sminfo who manages the fabric. It answers datagrams of
// InfiniBand's base version 1, and of Omni-Path's 0x80, by what the manager knows, tables by RMPP.
package sa

import (
	"encoding/binary"
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/opa/rmpp"
	"tapir/opa/sma"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// Node is an HFI with its port, as the manager knows it.
type Node struct {
	sma.Info
	PKeys []uint16 // of the whole table
}

// Fabric is what the manager knows. Ready is false while it is not in charge.
type Fabric interface {
	Nodes() (list []Node, ready bool)
	// SMInfo describes the manager itself.
	SMInfo() mad.SMInfo
	// Partitions are the virtual fabrics.
	Partitions() []Partition
}

// Partition is a virtual fabric.
type Partition struct {
	Name string
	PKey uint16 // without the bit of full members
}

// maxSenders bounds the tables under way.
const maxSenders = 64

// Agent answers queries.
type Agent struct {
	fabric  Fabric
	senders []sending
	count   Counters
}

// sending is a table on its way.
type sending struct {
	to mad.Address
	s  *rmpp.Sender
	id uint64 // transaction
}

// Counters are the agent's.
type Counters struct {
	Queries, Tables uint64
	Refused         uint64 // answered with a status other than 0
	Lost            uint64 // tables that nobody took to the end, or for which there was no room
}

// New returns the agent of a manager (kept).
func New(f Fabric) *Agent { return &Agent{fabric: f} }

// Counters returns the counters so far.
func (a *Agent) Counters() Counters { return a.count }

// Receive answers queries and takes the acknowledgements of tables.
func (a *Agent) Receive(b []byte, from mad.Address, now frame.Time, send mad.Send) {
	if len(b) > 0 && b[0] == ib.BaseVersionOPA { // zeros at the end may be missing
		b = append(slices.Clone(b), make([]byte, max(0, mad.MaxLen-len(b)))...)
	}
	h, _, err := ib.Parse(b[:min(len(b), ib.Len(1))])
	if err != nil || h.BaseVersion == 1 && len(b) != ib.MADLen {
		return
	}
	version := ib.SAVersion
	if h.BaseVersion == ib.BaseVersionOPA {
		version = mad.BaseVersion
	} else if h.Class == ib.ClassSubnLID && h.Attr == ib.AttrSMInfo && h.Method == ib.MethodGet &&
		from.QP == opa.QPSubnet {
		r := a.manager(nil)
		send(from, ib.Response(nil, b, ib.StatusOK, r.Info()))
		return
	}
	if h.Class != ib.ClassSA || h.ClassVersion != version || from.QP != opa.QPGeneral {
		return
	}
	if ib.ParseRMPP(b).Flags&ib.RMPPActive != 0 {
		for i := range a.senders {
			if s := &a.senders[i]; s.id == h.TID && s.to.LID == from.LID {
				s.s.Take(b)
			}
		}
		a.Poll(now, send)
		return
	}
	nodes, ready := a.fabric.Nodes()
	if ib.IsResponse(b) || !ready {
		return
	}
	records, status := a.answer(&h, ib.ParseSA(b), nodes)
	a.count.Queries++
	if status != ib.StatusOK {
		a.count.Refused++
	}
	if h.Method == ib.MethodGetTable && status == ib.StatusOK {
		a.table(b, from, records, now, send)
		return
	}
	m := ib.AppendSA(nil, b, ib.MethodGetResp, status, records)
	send(from, append(m, make([]byte, ib.Len(h.BaseVersion)-len(m))...))
}

// table begins to send records.
func (a *Agent) table(query []byte, to mad.Address, records [][]byte, now frame.Time, send mad.Send) {
	a.count.Tables++
	if len(a.senders) == maxSenders {
		a.count.Lost++
		return
	}
	m := ib.AppendSA(nil, query, ib.MethodGetTableResp, ib.StatusOK, records)
	a.senders = append(a.senders, sending{to, rmpp.NewSender(m), rmpp.TID(query)})
	a.Poll(now, send)
}

// Poll sends segments that are due.
func (a *Agent) Poll(now frame.Time, send mad.Send) frame.Time {
	next := frame.Never
	for _, s := range a.senders {
		next = min(next, s.s.Poll(now, func(b []byte) { send(s.to, b) }))
	}
	a.senders = slices.DeleteFunc(a.senders, func(s sending) bool {
		if s.s.Done() && !s.s.Delivered() {
			a.count.Lost++
		}
		return s.s.Done()
	})
	return next
}

// record is one of any kind.
type record interface {
	Append(dst []byte) []byte
	Meets(q ib.SAQuery) (ok, known bool)
}

// answer finds the records of a query.
func (a *Agent) answer(h *ib.Header, q ib.SAQuery, nodes []Node) (found [][]byte, status uint16) {
	table := h.Method == ib.MethodGetTable
	if h.Method != ib.MethodGet && !table {
		return nil, ib.StatusBadMethod
	}
	if h.Attr == ib.AttrClassPortInfo && !table {
		return [][]byte{classPortInfo(h.BaseVersion)}, ib.StatusOK
	}
	all, ok := a.records(h.Attr, nodes)
	if h.BaseVersion == ib.BaseVersionOPA {
		all, ok = a.opaRecords(h.Attr, nodes)
	}
	if !ok {
		return nil, ib.StatusBadAttr
	}
	for _, r := range all {
		meets, known := r.Meets(q)
		if !known {
			return nil, ib.StatusSAInvalid
		}
		if meets {
			found = append(found, r.Append(nil))
		}
	}
	switch {
	case table:
	case len(found) == 0:
		return nil, ib.StatusNoRecords
	case h.Attr == ib.AttrPathRecord:
		found = found[:1]
	case len(found) > 1:
		return nil, ib.StatusTooMany
	}
	return found, ib.StatusOK
}

// records are all of an attribute.
func (a *Agent) records(attr uint16, nodes []Node) (list []record, ok bool) {
	switch attr {
	case ib.AttrNodeRecord:
		for i := range nodes {
			n := &nodes[i]
			list = append(list, &ib.NodeRecord{LID: sma.LID(n.LID), Node: sma.NodeInfo(n.GUID, len(n.PKeys)),
				Description: sma.Description + n.Name})
		}
	case ib.AttrPortInfoRecord:
		for i := range nodes {
			n := &nodes[i]
			list = append(list, &ib.PortInfoRecord{LID: sma.LID(n.LID), Num: 1, Info: sma.PortInfo(&n.Info)})
		}
	case ib.AttrPathRecord:
		for i := range nodes {
			for k := range nodes {
				if p, ok := path(&nodes[i], &nodes[k]); ok {
					list = append(list, &p)
				}
			}
		}
	case ib.AttrSMInfoRecord:
		r := a.manager(nodes)
		list = append(list, &r)
	default:
		return nil, false
	}
	return list, true
}

// manager describes the manager, with its LID if it is among nodes.
func (a *Agent) manager(nodes []Node) ib.SMInfoRecord {
	m := a.fabric.SMInfo()
	r := ib.SMInfoRecord{ActCount: m.ActCount, Priority: m.Priority, State: uint8(m.State)}
	binary.BigEndian.PutUint64(r.PortGUID[:], m.PortGUID)
	for i := range nodes {
		if nodes[i].GUID == m.PortGUID {
			r.LID = sma.LID(nodes[i].LID)
		}
	}
	return r
}

// rate100G is the code of a path's rate, of 100 Gbit/s.
const rate100G = 16

// path is that between two ports, if a partition has both and one of them fully.
func path(src, dst *Node) (p ib.PathRecord, ok bool) {
	for _, k := range src.PKeys {
		better := p.PKey == 0 || p.PKey&^opa.PKeyFull == opa.PKeyManagement
		if better && k&^opa.PKeyFull != 0 && opa.PKeyAllowed(dst.PKeys, k, 0) {
			p.PKey = k
		}
	}
	p.SLID, p.DLID = sma.LID(src.LID), sma.LID(dst.LID)
	p.SGID, p.DGID = GID(src.GUID), GID(dst.GUID)
	p.MTU, p.Rate = ib.MTUCode(min(src.MTU, dst.MTU)), rate100G
	return p, p.PKey != 0 && src.State == mad.PortActive && dst.State == mad.PortActive
}

// GID is the link local GID of a port.
func GID(guid uint64) (g [16]byte) {
	g[0], g[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(g[8:], guid)
	return g
}
