package vnic

import (
	"encoding/binary"

	"tapir/opa"
	"tapir/wire/ether"
)

// opaMinPayload is the payload of the shortest Ethernet frame without tag.
const opaMinPayload = opa.MinFrame - ether.HeaderLen

// inner is the Ethernet frame in hand, as far as a vport looks into it.
type inner struct {
	frame    []byte // borrowed
	dst, src ether.Addr
	flow     opa.Flow
	vid      uint16 // of the outer tag, 0 without
	typ      uint16
	at       int    // where the payload begins
	payload  []byte // behind up to two tags
}

// parse reads b, of at least 14 octets.
func (in *inner) parse(b []byte) {
	in.frame = b
	in.dst, in.src = ether.Addr(b), ether.Addr(b[6:])
	in.flow = opa.ParseFlow(b)
	in.vid, in.typ, in.at = 0, binary.BigEndian.Uint16(b[12:]), ether.HeaderLen
	for tags := 0; tags < 2 && (in.typ == ether.TypeVLAN || in.typ == ether.TypeQinQ) && len(b) >= in.at+ether.TagLen; tags++ {
		if tags == 0 {
			in.vid = binary.BigEndian.Uint16(b[in.at:]) & 0xfff
		}
		in.typ = binary.BigEndian.Uint16(b[in.at+2:])
		in.at += ether.TagLen
	}
	in.payload = b[in.at:]
}

// tagLen is what the tags take.
func (in *inner) tagLen() int { return in.at - ether.HeaderLen }
