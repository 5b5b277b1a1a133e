package hfinode

import (
	"encoding/binary"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// addresses is what comes before a frame's first tag: both MAC addresses.
const addresses = 12

// pushTag puts a VLAN tag around what is in f, if f has room in front.
func pushTag(f *frame.Frame, vid uint16) bool {
	if f.Headroom() < ether.TagLen || f.Len() < ether.HeaderLen {
		return false
	}
	f.Prepend(ether.TagLen)
	b := f.Bytes()
	copy(b, b[ether.TagLen:ether.TagLen+addresses])
	binary.BigEndian.PutUint16(b[addresses:], ether.TypeVLAN)
	binary.BigEndian.PutUint16(b[addresses+2:], vid)
	return true
}

// popTag removes the outer tag of a frame of that VLAN; false, and f as it
// was, if it has none.
func popTag(f *frame.Frame, vid uint16) bool {
	b := f.Bytes()
	if len(b) < ether.HeaderLen+ether.TagLen || binary.BigEndian.Uint16(b[addresses:]) != ether.TypeVLAN ||
		binary.BigEndian.Uint16(b[addresses+2:])&0xfff != vid {
		return false
	}
	copy(b[ether.TagLen:], b[:addresses])
	f.TrimFront(ether.TagLen)
	return true
}
