package opa

import "tapir/wire/ether"

// Widths of the ids in a locally administered MAC address.
const (
	MaxFabric = 1<<10 - 1
	MaxVESW   = 1<<12 - 1
)

// LMAC is what a locally administered MAC address tells that the Ethernet
// Manager generates: where its station is. In the first three octets, read
// little-endian, bit 0 is the group bit, bit 1 is set, bits 2-11 are the
// fabric id and 12-23 the vESW id; the other three are the LID, least
// significant octet first.
type LMAC struct {
	Fabric uint16 // 10 bits
	VESW   uint16 // 12 bits
	LID    LID    // 24 bits
	Group  bool
}

// Addr is the MAC address. What does not fit is cut off.
func (m LMAC) Addr() ether.Addr {
	v := uint32(2) | uint32(m.Fabric&MaxFabric)<<2 | uint32(m.VESW&MaxVESW)<<12
	if m.Group {
		v |= 1
	}
	return ether.Addr{byte(v), byte(v >> 8), byte(v >> 16), byte(m.LID), byte(m.LID >> 8), byte(m.LID >> 16)}
}

// ParseLMAC reads a, and reports false if it is globally administered. Any
// other address can be read: Names tells whether it is meant.
func ParseLMAC(a ether.Addr) (m LMAC, local bool) {
	v := uint32(a[0]) | uint32(a[1])<<8 | uint32(a[2])<<16
	return LMAC{
		Fabric: uint16(v >> 2 & MaxFabric),
		VESW:   uint16(v >> 12 & MaxVESW),
		LID:    LID(a[3]) | LID(a[4])<<8 | LID(a[5])<<16,
		Group:  v&1 != 0,
	}, v&2 != 0
}

// Names reports whether m names a port of this vESW of this fabric: the ids
// are those and the LID is unicast, of one station. Bridges, containers and
// virtual machines have random locally administered addresses, which do not.
func (m LMAC) Names(fabric, vesw uint16) bool {
	return m.Fabric == fabric && m.VESW == vesw && m.LID.IsUnicast() && !m.Group
}
