package sa

import (
	"encoding/binary"

	"tapir/opa/mad"
	"tapir/wire/ib"
)

// Omni-Path's subnet administration has records of its own for most attributes: their LIDs are 32
// bits wide and they hold the attributes of subnet management of package mad.

// Attributes beside those of InfiniBand.
const (
	attrPKeyRecord   uint16 = 0x0033
	attrVFInfoRecord uint16 = 0x0089
	attrFabricInfo   uint16 = 0x008d
)

// Octets of records and of their parts.
const (
	opaClassPortInfoLen = 80
	linkDownReasonsLen  = 128 // behind PortInfo, without a reason here
	vfInfoLen           = 128
	vfNameAt            = 8
	vfNameLen           = 64
	vfRoutingSLsAt      = 103
	fabricInfoLen       = 408
)

// opaRecord is a record, and the places and lengths of its components that queries name.
type opaRecord struct {
	b  []byte
	at map[uint64][2]int
}

// Append implements record.
func (r *opaRecord) Append(dst []byte) []byte { return append(dst, r.b...) }

// Meets implements record.
func (r *opaRecord) Meets(q ib.SAQuery) (ok, known bool) { return q.Equal(r.b, r.at) }

// The components of each attribute.
var (
	opaNodeParts = map[uint64][2]int{1 << 0: {0, 4}, 1 << 4: {10, 1}, 1 << 7: {16, 8}, 1 << 8: {24, 8}, 1 << 9: {32, 8},
		1 << 15: {8 + mad.NodeInfoLen, mad.NodeDescriptionLen}}
	opaPortParts = map[uint64][2]int{1 << 0: {0, 4}, 1 << 1: {4, 1}}
	opaPKeyParts = map[uint64][2]int{1 << 0: {0, 4}, 1 << 1: {4, 2}, 1 << 2: {6, 1}}
	vfParts      = map[uint64][2]int{1 << 0: {0, 2}, 1 << 1: {2, 2}, 1 << 3: {vfNameAt, vfNameLen}}
)

// classPortInfo is the attribute in the form of a base version.
func classPortInfo(version uint8) []byte {
	b := ib.AppendClassPortInfo(nil, 0)
	if version == ib.BaseVersionOPA {
		b = append(b, make([]byte, opaClassPortInfoLen-len(b))...)
		b[0], b[1] = mad.BaseVersion, mad.BaseVersion
	}
	return b
}

// opaRecords is records for datagrams of Omni-Path.
func (a *Agent) opaRecords(attr uint16, nodes []Node) (list []record, ok bool) {
	be := binary.BigEndian
	switch attr {
	case ib.AttrNodeRecord:
		for i := range nodes {
			n := &nodes[i]
			b := make([]byte, 8+mad.NodeInfoLen+mad.NodeDescriptionLen)
			be.PutUint32(b, uint32(n.LID))
			info := n.Node(len(n.PKeys))
			info.Put(b[8:])
			mad.PutNodeDescription(b[8+mad.NodeInfoLen:], n.Name)
			list = append(list, &opaRecord{b, opaNodeParts})
		}
	case ib.AttrPortInfoRecord:
		for i := range nodes {
			n := &nodes[i]
			b := make([]byte, 8+mad.PortInfoLen+linkDownReasonsLen)
			be.PutUint32(b, uint32(n.LID))
			b[4] = 1
			info := n.Port()
			info.Put(b[8:])
			list = append(list, &opaRecord{b, opaPortParts})
		}
	case ib.AttrSMInfoRecord:
		m := a.fabric.SMInfo()
		b := make([]byte, 8+mad.SMInfoLen)
		for i := range nodes {
			if nodes[i].GUID == m.PortGUID {
				be.PutUint32(b, uint32(nodes[i].LID))
			}
		}
		m.Key = 0 // which is nobody's business
		m.Put(b[8:])
		list = append(list, &opaRecord{b, nil})
	case attrPKeyRecord:
		for i := range nodes {
			list = append(list, opaPKeys(&nodes[i])...)
		}
	case attrVFInfoRecord:
		for i, p := range a.fabric.Partitions() {
			b := make([]byte, vfInfoLen)
			be.PutUint16(b, uint16(i))
			be.PutUint16(b[2:], p.PKey)
			copy(b[vfNameAt:vfNameAt+vfNameLen-1], p.Name)
			b[vfRoutingSLsAt] = 1
			list = append(list, &opaRecord{b, vfParts})
		}
	case attrFabricInfo:
		b := make([]byte, fabricInfoLen)
		be.PutUint32(b, uint32(len(nodes)))
		list = append(list, &opaRecord{b, nil})
	default:
		return nil, false
	}
	return list, true
}

// opaPKeys are the blocks of a port's P_Key table.
func opaPKeys(n *Node) (list []record) {
	for at := 0; at < len(n.PKeys); at += mad.PKeysPerBlock {
		b := make([]byte, 8+mad.PKeyBlockLen)
		binary.BigEndian.PutUint32(b, uint32(n.LID))
		binary.BigEndian.PutUint16(b[4:], uint16(at/mad.PKeysPerBlock))
		b[6] = 1
		var keys [mad.PKeysPerBlock]uint16
		copy(keys[:], n.PKeys[at:])
		mad.PutPKeys(b[8:], keys)
		list = append(list, &opaRecord{b, opaPKeyParts})
	}
	return list
}
