package opa

import "tapir/wire/enum"

// ICRC says what happens to the invariant CRC of packets.
type ICRC uint8

const (
	// ICRCv1 is generated and checked: version 1, see the package comment.
	ICRCv1 ICRC = iota
	// ICRCNone sends zero and checks nothing.
	ICRCNone
	// ICRCBad sends the complement of version 1, as an HFI can be told to, and
	// checks version 1.
	ICRCBad
)

var icrcNames = [...]string{"v1", "none", "bad"}

func (m ICRC) String() string { return icrcNames[m] }

// ParseICRC reads v1, none or bad.
func ParseICRC(s string) (ICRC, error) {
	return enum.Parse[ICRC](icrcNames[:], s, "opa: ICRC %q; expected v1, none or bad")
}

// value is what a packet carries whose version 1 is computed by sum over b.
func (m ICRC) value(b []byte, sum func([]byte) uint32) uint32 {
	switch m {
	case ICRCNone:
		return 0
	case ICRCBad:
		return ^sum(b)
	}
	return sum(b)
}
