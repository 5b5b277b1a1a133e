// Package tlv has the values that the management firmware pulls from drivers:
// their types, in four groups, and the buffer of a request, which is also that
// of the answer. A TLV is type, length in words of four octets, reserved,
// flags, and the value, little-endian.
package tlv

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
)

// Type numbers a TLV.
type Type uint8

// NumTypes is how many types there are.
const NumTypes = Type(len(types))

// String is the name of the guide's constant, without its prefix.
func (t Type) String() string {
	if t < NumTypes {
		return types[t].name
	}
	return fmt.Sprintf("TLV %d", uint8(t))
}

// Group is what a TLV is about; as a set it is a sum.
type Group uint8

// The groups.
const (
	Generic Group = 1 << iota
	Eth
	FCoE
	ISCSI
)

// Groups lists them all.
var Groups = [...]Group{Generic, Eth, FCoE, ISCSI}

func (g Group) String() string {
	return cmp.Or(enum.Bits([]string{"GENERIC", "ETH", "FCOE", "ISCSI"}, g), "none")
}

// Group is the group of a type, 0 if nobody fills it.
func (t Type) Group() Group {
	if t < NumTypes {
		return types[t].group
	}
	return 0
}

// Width is how many octets the value has at most, 0 if nobody fills it.
func (t Type) Width() int {
	if t < NumTypes {
		return int(types[t].width)
	}
	return 0
}

// Changed is the flag of a TLV whose value was filled.
const Changed = 0x01

const headerLen = 4

// MaxBuffer is the longest buffer, in octets.
const MaxBuffer = 4096

// TLV is one of a buffer; its parts are borrowed from there.
type TLV struct {
	Type  Type
	Value []byte // its length is the room: a multiple of 4
	flags *byte
}

// Filled tells whether the value was filled.
func (t *TLV) Filled() bool { return *t.flags&Changed != 0 }

// Parse takes a buffer apart. INVAL: a TLV does not end in it.
func Parse(b []byte) (list []TLV, err error) {
	if len(b) > MaxBuffer {
		return nil, status.Inval.Errorf("TLV buffer of %d octets, %d are the most", len(b), MaxBuffer)
	}
	for at := 0; at < len(b); {
		if len(b)-at < headerLen {
			return nil, status.Inval.Errorf("TLV buffer, offset %d: %d octets are no header", at, len(b)-at)
		}
		end := at + headerLen + 4*int(b[at+1])
		if end > len(b) {
			return nil, status.Inval.Errorf("TLV buffer, offset %d: %v of %d words does not end", at, Type(b[at]),
				b[at+1])
		}
		list = append(list, TLV{Type: Type(b[at]), Value: b[at+headerLen : end : end], flags: &b[at+3]})
		at = end
	}
	return list, nil
}

// Request makes a buffer that asks for types, with room for their values.
func Request(list ...Type) []byte {
	var b []byte
	for _, t := range list {
		words := (t.Width() + 3) / 4
		b = append(b, byte(t), byte(words), 0, 0)
		b = append(b, make([]byte, 4*words)...)
	}
	return b
}

// Values are those that a driver fills. What is not set is not told: each
// value has its own set flag.
type Values struct {
	set   [NumTypes]bool
	value [NumTypes][]byte
}

// Set sets the value of a type.
func (v *Values) Set(t Type, n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	v.SetBytes(t, b[:min(t.Width(), 8)])
}

// SetBytes sets the value of a type as octets: addresses, names, identifiers.
func (v *Values) SetBytes(t Type, b []byte) {
	if t < NumTypes {
		v.set[t], v.value[t] = true, append([]byte(nil), b...)
	}
}

// SetText sets a string.
func (v *Values) SetText(t Type, s string) { v.SetBytes(t, []byte(s)) }

// Get is a value that was set.
func (v *Values) Get(t Type) (b []byte, set bool) {
	if t >= NumTypes {
		return nil, false
	}
	return v.value[t], v.set[t]
}

// Asked is the groups of the TLVs in a list.
func Asked(list []TLV) (g Group) {
	for _, t := range list {
		g |= t.Type.Group()
	}
	return g
}

// Fill writes the values of group g into a parsed buffer, as much of each as
// there is room for, and flags those that were set.
func Fill(list []TLV, g Group, v *Values) (filled int) {
	for _, t := range list {
		if t.Type.Group() != g {
			continue
		}
		if b, set := v.Get(t.Type); set {
			clear(t.Value)
			copy(t.Value, b[:min(len(b), t.Type.Width())])
			*t.flags |= Changed
			filled++
		}
	}
	return filled
}

// Uint is a value as a number; of one longer than eight octets, the first
// eight.
func (t *TLV) Uint() uint64 {
	var b [8]byte
	copy(b[:], t.Value[:min(len(t.Value), t.Type.Width(), 8)])
	return binary.LittleEndian.Uint64(b[:])
}
