package sa

import (
	"encoding/binary"
	"testing"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/opa/rmpp"
	"tapir/opa/sma"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// plain is a fabric of ports with LIDs 1 to its value, of which the last is a manager.
type plain int

func (n plain) Nodes() (list []Node, ready bool) {
	for i := range int(n) {
		list = append(list, Node{Info: sma.Info{GUID: uint64(i + 1), Name: "h", LID: opa.LID(i + 1), State: mad.PortActive, MTU: 4096},
			PKeys: []uint16{0x7fff, 0x8012}})
	}
	return list, n > 0
}

func (n plain) SMInfo() mad.SMInfo {
	return mad.SMInfo{PortGUID: uint64(n), Priority: 4, State: mad.SMMaster}
}

func (n plain) Partitions() []Partition { return []Partition{{"blue", 0x12}, {"green", 0x13}} }

func query(method uint8, attr uint16, mask uint64, data ...byte) []byte {
	b := make([]byte, ib.MADLen)
	b[0], b[1], b[2], b[3], b[15] = 1, ib.ClassSA, ib.SAVersion, method, 5
	binary.BigEndian.PutUint16(b[16:], attr)
	binary.BigEndian.PutUint64(b[48:], mask)
	copy(b[56:], data)
	return b
}

func TestGet(t *testing.T) {
	lid := []byte{0, 2}
	for name, c := range map[string]struct {
		fabric plain
		query  []byte
		status int // -1: no answer
	}{
		"the node of a LID":        {3, query(ib.MethodGet, ib.AttrNodeRecord, ib.NodeLID, lid...), 0},
		"the port of a LID":        {3, query(ib.MethodGet, ib.AttrPortInfoRecord, ib.PortInfoLID, lid...), 0},
		"a path":                   {3, query(ib.MethodGet, ib.AttrPathRecord, 0), 0},
		"the manager":              {3, query(ib.MethodGet, ib.AttrSMInfoRecord, 0), 0},
		"what the agent can":       {3, query(ib.MethodGet, ib.AttrClassPortInfo, 0), 0},
		"any node":                 {3, query(ib.MethodGet, ib.AttrNodeRecord, 0), int(ib.StatusTooMany)},
		"a node that is not there": {1, query(ib.MethodGet, ib.AttrNodeRecord, ib.NodeLID, lid...), int(ib.StatusNoRecords)},
		"an unknown component":     {3, query(ib.MethodGet, ib.AttrNodeRecord, 1<<30), int(ib.StatusSAInvalid)},
		"multicast members":        {3, query(ib.MethodGet, 0x38, 0), int(ib.StatusBadAttr)},
		"a change":                 {3, query(ib.MethodSet, ib.AttrNodeRecord, 0), int(ib.StatusBadMethod)},
		"a standby manager":        {0, query(ib.MethodGet, ib.AttrNodeRecord, 0), -1},
		"a response":               {3, query(ib.MethodGetResp, ib.AttrNodeRecord, 0), -1},
		"half a datagram":          {3, query(ib.MethodGet, ib.AttrNodeRecord, 0)[:100], -1},
	} {
		status := -1
		New(c.fabric).Receive(c.query, mad.Address{LID: 9, QP: opa.QPGeneral}, 1, func(to mad.Address, b []byte) bool {
			if to.LID != 9 || len(b) != ib.MADLen {
				t.Errorf("%s: %d octets to %v", name, len(b), to.LID)
			}
			status = int(binary.BigEndian.Uint16(b[4:]))
			return true
		})
		if status != c.status {
			t.Errorf("%s: status %#x, want %#x", name, status, c.status)
		}
	}
}

// A table is sent in segments until it is acknowledged; a requester that is gone
// costs a bounded time, and tables under way are bounded.
func TestTable(t *testing.T) {
	a, from := New(plain(7)), mad.Address{LID: 9, QP: opa.QPGeneral}
	r := new(rmpp.Receiver)
	var acks [][]byte
	send := func(_ mad.Address, b []byte) bool {
		if ack, _ := r.Take(b); ack != nil {
			acks = append(acks, ack)
		}
		return true
	}
	a.Receive(query(ib.MethodGetTable, ib.AttrNodeRecord, 0), from, 1, send)
	for len(acks) > 0 {
		ack := acks[0]
		acks = acks[1:]
		a.Receive(ack, from, 2, send)
	}
	if got := r.Message(); len(got) != 56+7*112 || got[45] != 14 || a.Poll(3, send) != frame.Never || a.Counters().Lost != 0 {
		t.Errorf("%d octets, counters %+v", len(got), a.Counters())
	}
	silent := func(mad.Address, []byte) bool { return false }
	for range maxSenders + 3 {
		a.Receive(query(ib.MethodGetTable, ib.AttrNodeRecord, 0), from, 4, silent)
	}
	for now := frame.Time(4); now != frame.Never; {
		now = a.Poll(now, silent)
	}
	if c := a.Counters(); c.Tables != maxSenders+4 || c.Lost != maxSenders+3 {
		t.Errorf("counters %+v", c)
	}
}

// Datagrams of Omni-Path: the records of its tools, in segments of 2048 octets.
func TestOmniPath(t *testing.T) {
	for name, c := range map[string]struct {
		method uint8
		attr   uint16
		mask   uint64
		data   []byte
		status uint16
		len    int // of the message, from the headers on
	}{
		"what the agent can":   {ib.MethodGet, ib.AttrClassPortInfo, 0, nil, 0, mad.MaxLen},
		"all nodes":            {ib.MethodGetTable, ib.AttrNodeRecord, 0, nil, 0, 56 + 70*120},
		"the node of a LID":    {ib.MethodGetTable, ib.AttrNodeRecord, 1, []byte{0, 0, 0, 2}, 0, 56 + 120},
		"ports":                {ib.MethodGetTable, ib.AttrPortInfoRecord, 0, nil, 0, 56 + 70*384},
		"keys":                 {ib.MethodGetTable, attrPKeyRecord, 1, []byte{0, 0, 0, 2}, 0, 56 + 72},
		"managers":             {ib.MethodGetTable, ib.AttrSMInfoRecord, 0, nil, 0, 56 + 40},
		"a virtual fabric":     {ib.MethodGetTable, attrVFInfoRecord, 2, []byte{0, 0, 0, 0x13}, 0, 56 + 128},
		"the fabric":           {ib.MethodGet, attrFabricInfo, 0, nil, 0, mad.MaxLen},
		"links":                {ib.MethodGetTable, 0x20, 0, nil, ib.StatusBadAttr, mad.MaxLen},
		"an unknown component": {ib.MethodGetTable, ib.AttrNodeRecord, 1 << 40, nil, ib.StatusSAInvalid, mad.MaxLen},
	} {
		q := query(c.method, c.attr, c.mask, c.data...)
		q[0], q[2] = ib.BaseVersionOPA, mad.BaseVersion
		a, from, r := New(plain(70)), mad.Address{LID: 9, QP: opa.QPGeneral}, new(rmpp.Receiver)
		var acks [][]byte
		var got []byte
		send := func(_ mad.Address, b []byte) bool {
			if len(b) != mad.MaxLen {
				t.Errorf("%s: a datagram of %d octets", name, len(b))
			}
			if got = b; ib.ParseRMPP(b).Type == ib.RMPPData {
				ack, _ := r.Take(b)
				acks, got = append(acks, ack), r.Message()
			}
			return true
		}
		a.Receive(q[:60], from, 1, send) // zeros at the end left out
		for len(acks) > 0 {
			ack := acks[0]
			acks = acks[1:]
			a.Receive(ack, from, 2, send)
		}
		if status := binary.BigEndian.Uint16(got[4:]); status != c.status || len(got) != c.len {
			t.Errorf("%s: status %#x, %d octets; want %#x, %d", name, status, len(got), c.status, c.len)
		}
	}
}
