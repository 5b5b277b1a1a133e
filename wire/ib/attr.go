package ib

import (
	"cmp"
	"encoding/binary"
)

// NodeCA is the node type of a channel adapter.
const NodeCA uint8 = 1

// NodeInfo is the attribute of section 14.2.5.3.
type NodeInfo struct {
	Version      uint8 // base and class version that the node has; 0: 1
	Type         uint8
	Ports        uint8
	SystemGUID   [8]byte
	NodeGUID     [8]byte
	PortGUID     [8]byte
	PartitionCap uint16 // entries of the partition key table
	DeviceID     uint16
	Revision     uint32
	LocalPort    uint8
	VendorID     uint32 // 24 bits
}

// Append appends the 40 octets of the attribute.
func (n *NodeInfo) Append(dst []byte) []byte {
	v := cmp.Or(n.Version, 1)
	dst = append(dst, v, v, n.Type, n.Ports)
	dst = append(dst, n.SystemGUID[:]...)
	dst = append(dst, n.NodeGUID[:]...)
	dst = append(dst, n.PortGUID[:]...)
	dst = binary.BigEndian.AppendUint16(dst, n.PartitionCap)
	dst = binary.BigEndian.AppendUint16(dst, n.DeviceID)
	dst = binary.BigEndian.AppendUint32(dst, n.Revision)
	return binary.BigEndian.AppendUint32(dst, uint32(n.LocalPort)<<24|n.VendorID&0xffffff)
}

// ParseNodeInfo reads the attribute; data is DataLen long.
func ParseNodeInfo(data []byte) (n NodeInfo) {
	n.Type, n.Ports = data[2], data[3]
	copy(n.SystemGUID[:], data[4:])
	copy(n.NodeGUID[:], data[12:])
	copy(n.PortGUID[:], data[20:])
	n.PartitionCap = binary.BigEndian.Uint16(data[28:])
	n.DeviceID = binary.BigEndian.Uint16(data[30:])
	n.Revision = binary.BigEndian.Uint32(data[32:])
	last := binary.BigEndian.Uint32(data[36:])
	n.LocalPort, n.VendorID = uint8(last>>24), last&0xffffff
	return n
}

// PortInfo is the attribute of section 14.2.5.6, without virtual lanes, which
// are all zero but for one lane.
type PortInfo struct {
	MKey          uint64
	GIDPrefix     uint64
	LID           uint16
	MasterSMLID   uint16
	CapMask       uint32
	LocalPort     uint8
	State         uint8 // 0 in a Set: no change
	PhysState     uint8 // 0 in a Set: no change
	LMC           uint8
	NeighborMTU   uint8 // code of MTUCode
	MTUCap        uint8 // likewise
	MKeyErrors    uint16
	GUIDCap       uint8 // GUIDs of the port
	Reregister    bool  // of a Set
	SubnetTimeout uint8
}

// CapReregister is the bit of CapMask for clients that can register anew.
const CapReregister uint32 = 1 << 25

const (
	width4X     = 2
	speed25G    = 1 // 2.5 Gbit/s per lane, the base rate
	linkPolling = 2 // default when the link goes down
)

// Append appends the 56 octets of the attribute.
func (p *PortInfo) Append(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint64(dst, p.MKey)
	dst = be.AppendUint64(dst, p.GIDPrefix)
	dst = be.AppendUint16(dst, p.LID)
	dst = be.AppendUint16(dst, p.MasterSMLID)
	dst = be.AppendUint32(dst, p.CapMask)
	dst = append(dst, 0, 0, 0, 0) // diagnostics, M_Key lease
	dst = append(dst, p.LocalPort, width4X, width4X, width4X,
		speed25G<<4|p.State&15, p.PhysState<<4|linkPolling, p.LMC&7, speed25G<<4|speed25G,
		p.NeighborMTU<<4, 1<<4, 0, 0, 0, p.MTUCap&15, 0, 1<<4)
	dst = be.AppendUint16(dst, p.MKeyErrors)
	dst = append(dst, 0, 0, 0, 0) // P_Key and Q_Key violations: none without such keys on the wire
	flags := p.SubnetTimeout & 31
	if p.Reregister {
		flags |= 0x80
	}
	return append(dst, p.GUIDCap, flags, 0, 0, 0, 0)
}

// ParsePortInfo reads the attribute; data is DataLen long.
func ParsePortInfo(data []byte) PortInfo {
	be := binary.BigEndian
	return PortInfo{
		MKey: be.Uint64(data), GIDPrefix: be.Uint64(data[8:]), LID: be.Uint16(data[16:]),
		MasterSMLID: be.Uint16(data[18:]), CapMask: be.Uint32(data[20:]), LocalPort: data[28],
		State: data[32] & 15, PhysState: data[33] >> 4, LMC: data[34] & 7, NeighborMTU: data[36] >> 4,
		MTUCap: data[41] & 15, MKeyErrors: be.Uint16(data[44:]), GUIDCap: data[50],
		Reregister: data[51]&0x80 != 0, SubnetTimeout: data[51] & 31,
	}
}

// MTUCode is the code, 1 for 256 to 5 for 4096 octets, of the largest MTU
// that is not above the given number of octets.
func MTUCode(octets int) uint8 {
	code := uint8(1)
	for code < 5 && 256<<code <= octets {
		code++
	}
	return code
}

// Entries of one block of a table.
const (
	GUIDsPerBlock = 8
	PKeysPerBlock = 32
)

// AppendGUIDs appends one block of the GUIDInfo attribute (section 14.2.5.5).
func AppendGUIDs(dst []byte, guids [GUIDsPerBlock][8]byte) []byte {
	for _, g := range guids {
		dst = append(dst, g[:]...)
	}
	return dst
}

// ParseGUIDs reads one block; data is DataLen long.
func ParseGUIDs(data []byte) (guids [GUIDsPerBlock][8]byte) {
	for i := range guids {
		copy(guids[i][:], data[8*i:])
	}
	return guids
}

// AppendPKeys appends one block of the P_KeyTable attribute (section
// 14.2.5.7).
func AppendPKeys(dst []byte, keys [PKeysPerBlock]uint16) []byte {
	for _, k := range keys {
		dst = binary.BigEndian.AppendUint16(dst, k)
	}
	return dst
}

// ParsePKeys reads one block; data is DataLen long.
func ParsePKeys(data []byte) (keys [PKeysPerBlock]uint16) {
	for i := range keys {
		keys[i] = binary.BigEndian.Uint16(data[2*i:])
	}
	return keys
}
