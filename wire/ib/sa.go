package ib

import (
	"bytes"
	"encoding/binary"
)

// ClassSA is the class of subnet administration (section 15.2), of version
// SAVersion, whose datagrams go to queue pair 1 of the subnet manager's port.
const (
	ClassSA   uint8 = 0x03
	SAVersion uint8 = 2
)

// Methods of subnet administration.
const (
	MethodGetTable     uint8 = 0x12
	MethodGetTableResp uint8 = 0x92
)

// Status values of subnet administration (section 15.2.4).
const (
	StatusSAInvalid uint16 = 0x0200
	StatusNoRecords uint16 = 0x0300
	StatusTooMany   uint16 = 0x0400
)

// Attributes of subnet administration, beside AttrClassPortInfo.
const (
	AttrNodeRecord     uint16 = 0x0011
	AttrPortInfoRecord uint16 = 0x0012
	AttrSMInfoRecord   uint16 = 0x0018
	AttrPathRecord     uint16 = 0x0035
)

// Components of the records that a query may name (section 15.2.5).
const (
	NodeLID      uint64 = 1 << 0
	NodeType     uint64 = 1 << 4
	NodeGUID     uint64 = 1 << 7
	NodePortGUID uint64 = 1 << 8
	NodeDesc     uint64 = 1 << 14

	PortInfoLID  uint64 = 1 << 0
	PortInfoPort uint64 = 1 << 1

	PathDGID uint64 = 1 << 2
	PathSGID uint64 = 1 << 3
	PathDLID uint64 = 1 << 4
	PathSLID uint64 = 1 << 5

	// How many paths are wanted says nothing about them, and all are reversible.
	PathReversible uint64 = 1 << 11
	PathNumb       uint64 = 1 << 12
)

const (
	offAttrOffset = 44
	offCompMask   = 48
)

// SAQuery is what a query of subnet administration asks for.
type SAQuery struct {
	Mask uint64 // components that must be equal
	Data []byte // the record that they are compared with, borrowed
}

// ParseSA reads a query, at least MADLen long.
func ParseSA(mad []byte) SAQuery {
	return SAQuery{binary.BigEndian.Uint64(mad[offCompMask:]), mad[offSAData:]}
}

// AppendSA appends the answer to a query, at least MADLen long: its headers, and
// records of equal length, each padded to 8 octets.
func AppendSA(dst, query []byte, method uint8, status uint16, records [][]byte) []byte {
	at := len(dst)
	dst = append(dst, query[:offSAData]...)
	b, be := dst[at:], binary.BigEndian
	b[3] = method
	be.PutUint16(b[4:], status)
	clear(b[offRMPP:offRMPPClass])
	be.PutUint16(b[offAttrOffset:], 0)
	if len(records) > 0 {
		be.PutUint16(b[offAttrOffset:], uint16((len(records[0])+7)/8))
	}
	for _, r := range records {
		dst = append(dst, r...)
		dst = append(dst, make([]byte, -len(r)&7)...)
	}
	return dst
}

// NodeRecord is an entry of the table of nodes.
type NodeRecord struct {
	LID         uint16
	Node        NodeInfo
	Description string // up to 64 octets
}

const descriptionLen = 64

// Append appends the 108 octets of the record.
func (r *NodeRecord) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, r.LID)
	dst = append(dst, 0, 0)
	dst = r.Node.Append(dst)
	var text [descriptionLen]byte
	copy(text[:descriptionLen-1], r.Description)
	return append(dst, text[:]...)
}

// Meets tells whether the record is one of those that a query wants; known is false
// if it names a component that is not compared.
func (r *NodeRecord) Meets(q SAQuery) (ok, known bool) {
	b := r.Append(nil)
	return q.Equal(b, map[uint64][2]int{NodeLID: {0, 2}, NodeType: {6, 1}, NodeGUID: {16, 8}, NodePortGUID: {24, 8},
		NodeDesc: {44, descriptionLen}})
}

// Equal compares the components of a record that a query names: their places and
// lengths. known is false if it names one that has no place.
func (q SAQuery) Equal(record []byte, at map[uint64][2]int) (ok, known bool) {
	rest := q.Mask
	ok = true
	for bit, p := range at {
		if q.Mask&bit == 0 {
			continue
		}
		rest &^= bit
		ok = ok && bytes.Equal(record[p[0]:p[0]+p[1]], q.Data[p[0]:p[0]+p[1]])
	}
	return ok, rest == 0
}

// PortInfoRecord is an entry of the table of ports.
type PortInfoRecord struct {
	LID  uint16
	Num  uint8
	Info []byte // the attribute PortInfo, up to DataLen octets
}

// Append appends the 68 octets of the record.
func (r *PortInfoRecord) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, r.LID)
	dst = append(dst, r.Num, 0)
	var info [DataLen]byte
	copy(info[:], r.Info)
	return append(dst, info[:]...)
}

// Meets is that of NodeRecord.
func (r *PortInfoRecord) Meets(q SAQuery) (ok, known bool) {
	return q.Equal(r.Append(nil), map[uint64][2]int{PortInfoLID: {0, 2}, PortInfoPort: {2, 1}})
}

// PathRecord is a path between two ports, as long as the fabric has one service
// level: 0.
type PathRecord struct {
	DGID, SGID [16]byte
	DLID, SLID uint16
	PKey       uint16
	MTU        uint8 // code of MTUCode
	Rate       uint8 // code: 16 is 100 Gbit/s
}

const (
	exactly    = 2 << 6 // selector of MTU, rate and life time
	lifeTime   = 16     // 4.096 us times 2 to this power
	reversible = 0x80
)

// Append appends the 64 octets of the record.
func (r *PathRecord) Append(dst []byte) []byte {
	be := binary.BigEndian
	dst = append(dst, make([]byte, 8)...) // service
	dst = append(dst, r.DGID[:]...)
	dst = append(dst, r.SGID[:]...)
	dst = be.AppendUint16(dst, r.DLID)
	dst = be.AppendUint16(dst, r.SLID)
	dst = append(dst, 0, 0, 0, 0, 0, reversible|1) // flow, hops, traffic class, number of paths
	dst = be.AppendUint16(dst, r.PKey)
	dst = append(dst, 0, 0, exactly|r.MTU, exactly|r.Rate, exactly|lifeTime, 0)
	return append(dst, make([]byte, 6)...)
}

// Meets is that of NodeRecord.
func (r *PathRecord) Meets(q SAQuery) (ok, known bool) {
	q.Mask &^= PathReversible | PathNumb
	return q.Equal(r.Append(nil), map[uint64][2]int{PathDGID: {8, 16}, PathSGID: {24, 16}, PathDLID: {40, 2},
		PathSLID: {42, 2}})
}

// SMInfoRecord is an entry of the table of subnet managers.
type SMInfoRecord struct {
	LID      uint16
	PortGUID [8]byte
	ActCount uint32 // counts what the manager does
	Priority uint8  // 4 bits
	State    uint8  // 3: master
}

// Append appends the 25 octets of the record, without its key.
func (r *SMInfoRecord) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, r.LID)
	dst = append(dst, 0, 0)
	dst = append(dst, r.PortGUID[:]...)
	dst = append(dst, make([]byte, 8)...)
	dst = binary.BigEndian.AppendUint32(dst, r.ActCount)
	return append(dst, r.Priority<<4|r.State&15)
}

// Info is the attribute SMInfo of the manager.
func (r *SMInfoRecord) Info() []byte { return r.Append(nil)[4:] }

// Meets is that of NodeRecord; queries name no components.
func (r *SMInfoRecord) Meets(q SAQuery) (ok, known bool) { return true, q.Mask == 0 }
