package ib

import (
	"bytes"
	"testing"
)

// Records have the lengths of the architecture, and are compared by the components
// that a query names.
func TestRecords(t *testing.T) {
	node := NodeRecord{LID: 0x20, Node: NodeInfo{Type: NodeCA, Ports: 1, NodeGUID: [8]byte{7}}, Description: "h2"}
	port := PortInfoRecord{LID: 0x20, Num: 1, Info: make([]byte, DataLen)}
	path := PathRecord{DLID: 2, SLID: 1, DGID: [16]byte{0xfe}}
	sm := SMInfoRecord{LID: 2, Priority: 5, State: 3}
	type record interface {
		Append([]byte) []byte
		Meets(SAQuery) (bool, bool)
	}
	for _, c := range []struct {
		r      record
		octets int
		mask   uint64
		at     int // an octet of the component
	}{{&node, 108, NodeLID, 1}, {&node, 108, NodeGUID, 16}, {&node, 108, NodeDesc, 45}, {&port, 68, PortInfoLID, 0},
		{&path, 64, PathDLID | PathReversible | PathNumb, 41}, {&path, 64, PathDGID, 8}} {
		b := c.r.Append(nil)
		if len(b) != c.octets {
			t.Errorf("%T: %d octets", c.r, len(b))
		}
		data := make([]byte, 200)
		copy(data, b)
		if ok, known := c.r.Meets(SAQuery{c.mask, data}); !ok || !known {
			t.Errorf("%T, mask %#x: %v %v", c.r, c.mask, ok, known)
		}
		data[c.at]++
		if ok, known := c.r.Meets(SAQuery{c.mask, data}); ok || !known {
			t.Errorf("%T with another octet %d, mask %#x: %v %v", c.r, c.at, c.mask, ok, known)
		}
		if _, known := c.r.Meets(SAQuery{1 << 40, data}); known {
			t.Errorf("%T: a component that nobody knows", c.r)
		}
	}
	if b := sm.Append(nil); len(b) != 25 || b[24] != 0x53 || len(sm.Info()) != 21 {
		t.Errorf("% x", b)
	}
	query := make([]byte, MADLen)
	query[1], query[8] = ClassSA, 9
	m := AppendSA(nil, query, MethodGetTableResp, StatusOK, [][]byte{node.Append(nil), node.Append(nil)})
	if len(m) != 56+2*112 || m[3] != MethodGetTableResp || m[45] != 14 || m[8] != 9 || !bytes.Equal(m[56:56+108], node.Append(nil)) {
		t.Errorf("answer of %d octets: % x", len(m), m[:56])
	}
}
