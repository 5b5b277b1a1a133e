package opa

import "fmt"

// LID is a local identifier in its 24-bit form, that of 16B packets.
type LID uint32

// The spaces of 24-bit LIDs; 0 is no LID.
const (
	FirstUnicast    LID = 0x000001
	LastUnicast     LID = 0xefffff
	FirstMulticast  LID = 0xf00000
	LastMulticast   LID = 0xf7ffff
	FirstCollective LID = 0xf80000
	LastCollective  LID = 0xfffffe
	Permissive      LID = 0xffffff // whoever receives it
)

// The spaces of 16-bit LIDs, those of 9B packets: unicast below
// firstMulticast9B, then multicast.
const (
	firstMulticast9B = 0xc000
	permissive9B     = 0xffff
)

// Kind is the space that a LID lies in.
type Kind uint8

const (
	KindInvalid Kind = iota
	KindUnicast
	KindMulticast
	KindCollective
	KindPermissive
)

var kindNames = [...]string{"invalid", "unicast", "multicast", "collective", "permissive"}

func (k Kind) String() string { return kindNames[k] }

// Kind returns the space that l lies in; a LID of more than 24 bits is
// invalid.
func (l LID) Kind() Kind {
	switch {
	case l == 0 || l > Permissive:
		return KindInvalid
	case l <= LastUnicast:
		return KindUnicast
	case l <= LastMulticast:
		return KindMulticast
	case l <= LastCollective:
		return KindCollective
	}
	return KindPermissive
}

// IsUnicast reports whether l names one port.
func (l LID) IsUnicast() bool { return l-1 < LastUnicast }

// IsMulticast reports whether l names a multicast group.
func (l LID) IsMulticast() bool { return l >= FirstMulticast && l <= LastMulticast }

// String is the LID as 0x and six hexadecimal digits.
func (l LID) String() string { return fmt.Sprintf("0x%06x", uint32(l)) }

// To9B is the 16-bit form of l, at the same offset in its space, and false if
// it has none: beyond the smaller space, collective or invalid.
func (l LID) To9B() (uint16, bool) {
	switch {
	case l.IsUnicast() && l < firstMulticast9B:
		return uint16(l), true
	case l.IsMulticast() && l-FirstMulticast < permissive9B-firstMulticast9B:
		return uint16(l - FirstMulticast + firstMulticast9B), true
	case l == Permissive:
		return permissive9B, true
	}
	return 0, false
}

// From9B is the 24-bit form of a 16-bit LID.
func From9B(l uint16) LID {
	switch {
	case l == permissive9B:
		return Permissive
	case l >= firstMulticast9B:
		return FirstMulticast + LID(l-firstMulticast9B)
	}
	return LID(l)
}
